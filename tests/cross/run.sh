#!/bin/bash
# run.sh - builds the library and the unit tests of base and core for aarch64
# and runs them under qemu-user.
#
# usage: tests/cross/run.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1
build=$2

cmake -S "$source" -B "$build" -G Ninja --log-level=WARNING \
    -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DTROUPE_WERROR=ON \
    -DTROUPE_BENCH=OFF -DTROUPE_SCRIPTS=OFF
cmake --build "$build" -j 2 -- --quiet
# An emulated CPU is tens of times slower: fewer rounds of each test.
export TR_TEST_SCALE=0.02
# Indented, so that its summary is not taken for that of the outer ctest.
ctest --test-dir "$build" -j 2 --output-on-failure --no-tests=error |
    sed 's/^/    /'
