#!/bin/sh
# 23_find_package.sh - what the guide says about building a program in C++ with
# the installed library, by CMake with a component and by pkg-config.
set -eu
page="$TR_SOURCE_DIR/docs/guide/other-languages.md"
case $TR_BUILD_DIR in
*asan* | *tsan* | *fuzz*) exit 77 ;; # the sanitizers of C++ differ
esac
[ -e "$TR_BUILD_DIR/troupe-sqlite.pc" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/prefix"
cmake --install "$TR_BUILD_DIR" --prefix "$prefix" >"$work/install.log"
[ -f "$prefix/include/troupe/troupe.hpp" ]

# block LANGUAGE: prints the first block of the page in that language.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next }
        on && /^```/ { exit } on' "$page"
}

mkdir "$work/bank"
cd "$work/bank"
cp "$TR_SOURCE_DIR/examples/40_cplusplus.cc" bank.cc
block cmake >CMakeLists.txt
grep -q 'find_package(troupe REQUIRED COMPONENTS sqlite)' CMakeLists.txt
for compiler in g++ clang++; do
    cmake -S . -B "build-$compiler" --log-level=WARNING \
        -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "build-$compiler" >build.log 2>&1 || {
        cat build.log
        exit 1
    }
    "build-$compiler/bank" >said
    cmp "$TR_SOURCE_DIR/examples/40_cplusplus.expected" said
done

block sh >commands
grep -q '^c++ .*pkg-config --cflags --libs troupe' commands
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name troupe.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
sh -eu commands >said
cmp "$TR_SOURCE_DIR/examples/40_cplusplus.expected" said
