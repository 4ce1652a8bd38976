#!/bin/sh
# compiler_messages.sh - the compilers still print what the chapter on
# troubleshooting quotes; compiler_messages.c has the mistakes.
set -eu
here="$TR_SOURCE_DIR/tests/api"
page="$TR_SOURCE_DIR/docs/guide/08-troubleshooting.md"
failed=0
count=0

# words NUMBER KEY: prints the words behind `// KEY: ` in that case.
words() {
    awk -v number="$1" -v who="// $2: " '
        $0 == "#if CASE == " number { on = 1 }
        on && /^#endif/ { exit }
        on && (at = index($0, who)) { print substr($0, at + length(who)) }
    ' "$here/compiler_messages.c"
}

compile() {
    LC_ALL=C "$1" -std=gnu11 -Wall -Wextra -Wshadow -Werror -fsyntax-only \
        -I"$TR_SOURCE_DIR/include" -DCASE="$2" "$here/compiler_messages.c" 2>&1
}

for compiler in gcc clang; do
    compile "$compiler" 0
done
for number in $(sed -n 's/^#if CASE == \([0-9]*\)$/\1/p' "$here/compiler_messages.c"); do
    for compiler in gcc clang; do
        wanted=$(words "$number" "$compiler")
        said=$(compile "$compiler" "$number") && {
            echo "case $number: $compiler accepts it"
            failed=1
        }
        case $said in
        *"$wanted"*) count=$((count + 1)) ;;
        *)
            echo "case $number: $compiler does not say: $wanted"
            printf '%s\n' "$said" | grep error | head -n 3
            failed=1
            ;;
        esac
    done
    quoted=$(words "$number" page)
    [ -n "$quoted" ] || quoted=$(words "$number" gcc)
    grep -qF -- "$quoted" "$page" || {
        echo "case $number: not on the page: $quoted"
        failed=1
    }
done
[ "$count" -ge 30 ] || failed=1

# In C++ an actor needs the other header, and the message says so.
for compiler in g++ clang++; do
    said=$(printf '#include <troupe/troupe.h>\nTR_ACTOR(a, void);\n' |
        "$compiler" -std=c++17 -x c++ -fsyntax-only \
            -I"$TR_SOURCE_DIR/include" - 2>&1) && failed=1
    case $said in
    *'in C++, include <troupe/troupe.hpp>'*) ;;
    *)
        echo "$compiler does not say which header TR_ACTOR needs: $said"
        failed=1
        ;;
    esac
done
exit $failed
