#!/bin/sh
# must_fail.sh - every case of must_fail.c must be refused by the compiler.
#
# Usage: must_fail.sh [compiler]. Case 0 must compile with all warnings as
# errors; each other case must fail with all warnings off (-w), so that it is
# an error in any program. Prints the cases that behave otherwise and a count;
# exits with 0 if there are none.

cc=${1:-cc}
here=$(cd "$(dirname "$0")" && pwd) || exit 2
source=$here/must_fail.c
include=$here/../../include
passed=0
failed=0

# $cc is split on purpose: it may have arguments, as in "ccache gcc".
compile() {
    number=$1
    shift
    $cc -std=gnu11 "$@" -fsyntax-only -I"$include" -DCASE="$number" "$source"
}

if compile 0 -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror; then
    passed=$((passed + 1))
else
    echo "case 0 does not compile"
    failed=$((failed + 1))
fi

for number in $(sed -n 's/^#if CASE == \([0-9]*\).*/\1/p' "$source"); do
    if compile "$number" -w 2>/dev/null; then
        sed -n "s/^#if CASE == $number \(.*\)/case $number compiles: \1/p" \
            "$source"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 1 ]
