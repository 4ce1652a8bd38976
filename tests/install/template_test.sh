#!/bin/sh
# template_test.sh - the template, copied out of the tree, builds against an
# installed library with make and with CMake, runs, and its test passes; the
# test fails when the actor is wrong.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/prefix"
cc=${TR_CC:-cc}
cmake --install "$TR_BUILD_DIR" --prefix "$prefix" >"$work/install.log"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name troupe.pc)")
export PKG_CONFIG_PATH

step() {
    echo "-- $*"
}

# copied NAME: makes a fresh copy of the template and enters it.
copied() {
    cp -r "$TR_SOURCE_DIR/template" "$work/$1"
    cd "$work/$1"
}

# runs PROGRAM: it greets two guests and refuses one without a name.
runs() {
    "$1" Ada Grace >said
    printf '%s\n' 'Welcome, Ada! You are the first.' \
        'Welcome, Grace! Before you came Ada.' | cmp - said
    if "$1" '' 2>complaint; then
        echo "a guest without a name was let in"
        exit 1
    fi
    grep -q 'a guest needs a name' complaint
}

step "make"
copied make
make -s CC="$cc" CFLAGS='-g -Wall -Wextra -Wshadow -Werror'
make -s test CC="$cc"
runs ./guestbook

step "make: a wrong actor fails the test"
sed 's/self->guests++;/self->guests += 2;/' guestbook.c >wrong.c
mv wrong.c guestbook.c
if make -s test CC="$cc" >failed 2>&1; then
    echo "the test of the template does not see the mistake"
    exit 1
fi
grep -q 'not so: thanks.guests == guests' failed

step "make clean"
make -s clean
[ ! -e guestbook ] && [ ! -e guestbook.o ]

step "make: without the library it says what to do"
if env PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR="$work/empty" make -s >no 2>&1; then
    echo "built without a library"
    exit 1
fi
grep -q 'set PKG_CONFIG_PATH' no

step "CMake"
copied cmake
cmake -B build --log-level=WARNING -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix"
cmake --build build >build.log || {
    cat build.log
    exit 1
}
ctest --test-dir build --output-on-failure --no-tests=error >test.log || {
    cat test.log
    exit 1
}
runs build/guestbook
