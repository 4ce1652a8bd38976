#!/bin/sh
# 18_compile_errors.sh - a mistake in a declaration is one short report whose
# first error says what is wrong; mistakes/compile_errors.c has the mistakes.
#
# gcc begins the report of an error in a macro with the lines `In file included
# from`, which no header can prevent; the first error is the line after them.
set -eu
source="$TR_SOURCE_DIR/tests/first_week/mistakes/compile_errors.c"
failed=0
count=0

# One error takes 25 lines at most: its place and the seven steps of expansion
# that clang shows, each of three lines. clang 19 may add the value of the
# condition, with the last steps again; so the limit is 40. A case with the line
# `// more:` may have four errors more, because a name is missing then.
most_lines=40

# gcc names the header of a call in place of the program's line, which follows
# as a note: if calls were of a system header, gcc would not warn of a result
# that is not used. Such a case has the line `// call:`.

# words NUMBER KEY: prints the words behind `// KEY: ` in that case.
words() {
    awk -v number="$1" -v who="// $2: " '
        { sub(/^ +/, "") }
        $0 ~ "^#if CASE == " number "( |$)" { on = 1 }
        on && /^#endif/ { exit }
        on && index($0, who) == 1 { print substr($0, length(who) + 1) }
    ' "$source"
}

complain() {
    echo "$*"
    printf '%s\n' "$said" | head -n 8
    failed=1
}

compile() { # COMPILER CASE
    LC_ALL=C "$1" -std=gnu11 -fsyntax-only -I"$TR_SOURCE_DIR/include" \
        -DCASE="$2" "$source" 2>&1
}

# examines COMPILER KEY CASE: compares what the compiler says with the case.
examines() {
    wanted=$(words "$3" both)
    [ -n "$wanted" ] || wanted=$(words "$3" "$2")
    [ -n "$wanted" ] || complain "case $3 has no words for $2"
    said=$(compile "$1" "$3") && complain "$1 accepts case $3"
    first=$(printf '%s\n' "$said" |
        grep -v -e '^In file included from' -e '^  *from ' \
            -e ': In function ' | head -n 1)
    place=compile_errors.c
    [ -z "$(words "$3" call)" ] || place='.[ch]'
    case $first in
    *$place:*error:*"$wanted"*) count=$((count + 1)) ;;
    *) complain "case $3: the first line of $1 does not say: $wanted" ;;
    esac
    most=1
    [ -z "$(words "$3" more)" ] || most=5
    lines=$(printf '%s\n' "$said" | wc -l)
    [ "$lines" -le $((most * most_lines)) ] ||
        complain "case $3: $1 prints $lines lines"
    errors=$(printf '%s\n' "$said" | grep -c ' error: ')
    [ "$errors" -le "$most" ] ||
        complain "case $3: $1 reports $errors errors for one mistake"
}

cases=$(sed -n 's/^#if CASE == \([0-9]*\).*/\1/p' "$source")
for compiler in gcc clang clang-19; do
    command -v "$compiler" >/dev/null || continue
    said=$(compile "$compiler" 0) || complain "$compiler refuses case 0"
    for number in $cases; do
        examines "$compiler" "${compiler%-19}" "$number"
    done
done
[ "$count" -ge 44 ] || {
    echo "only $count cases were examined"
    failed=1
}
exit $failed
