#!/bin/sh
# print_test.sh - a printed random program is C that compiles without warnings.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for seed in 1 2 3 4 5 6; do
    "$TR_BUILD_DIR/tests/random/random_programs" --seed "$seed" \
        --mode threads --print >"$work/$seed.c"
    "$TR_CC" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only \
        -I"$TR_SOURCE_DIR/include" -I"$TR_SOURCE_DIR/tests/random" \
        "$work/$seed.c"
done
