#!/bin/sh
# headers_test.sh - each public header compiles alone and twice, as strict C
# and as C++17, with both compilers; those for C++ (.hpp) only as that.
set -eu
common="-I$TR_SOURCE_DIR/include -fsyntax-only -Wall -Wextra -Wshadow
    -Wpedantic -Wconversion -Werror"
failed=0

# compiles HEADER COMPILER FLAGS...
compiles() {
    header=$1
    shift
    # shellcheck disable=SC2086
    printf '#include <troupe/%s>\n#include <troupe/%s>\n' \
        "$header" "$header" | "$@" $common - || {
        echo "FAILED: $* <troupe/$header>"
        failed=1
    }
}

for file in "$TR_SOURCE_DIR"/include/troupe/*.h*; do
    [ -e "$file" ] || continue
    header=$(basename "$file")
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        case $header in *.hpp) continue ;; esac
        compiles "$header" $compiler -std=gnu11 -Wstrict-prototypes -x c
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null || continue
        compiles "$header" $compiler -std=c++17 -x c++
    done
done
exit $failed
