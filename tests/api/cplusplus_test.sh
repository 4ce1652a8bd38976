#!/bin/sh
# cplusplus_test.sh - builds cplusplus.cc with the flags of the pkg-config file,
# which a C++ compiler must accept without a warning, and runs it.
set -eu

cxx=${CXX:-g++}
command -v "$cxx" >/dev/null || exit 77
case $TR_BUILD_DIR in
*asan* | *tsan* | *fuzz*) exit 77 ;; # the sanitizers of C++ differ
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags=$(sed -n 's/^Cflags: *-I[^ ]*//p' "$TR_BUILD_DIR/troupe.pc")
# shellcheck disable=SC2086
"$cxx" -std=c++17 -Wall -Wextra -Werror $flags \
    -I"$TR_SOURCE_DIR/include" "$TR_SOURCE_DIR/tests/api/cplusplus.cc" \
    -o "$work/program" -L"$TR_BUILD_DIR" -ltroupe
said=$(LD_LIBRARY_PATH="$TR_BUILD_DIR" "$work/program")
[ "$said" = "rethrown: 1 2" ] || {
    echo "it said: $said"
    exit 1
}
