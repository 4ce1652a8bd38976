#!/bin/sh
# install_test.sh - installs into a temporary prefix and builds a program
# outside the tree against it, with pkg-config and with CMake, shared and
# static; then uninstalls it.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/prefix"
program="$work/program"
cc=${TR_CC:-cc}

"$TR_SOURCE_DIR/tools/install.sh" "$TR_BUILD_DIR" "$prefix" \
    >"$work/install.log"
grep -q "^installed in $prefix\$" "$work/install.log"
grep -q "export PKG_CONFIG_PATH=$prefix/.* LD_LIBRARY_PATH=$prefix/lib" \
    "$work/install.log" || {
    echo "the log does not say how to find the library:"
    cat "$work/install.log"
    exit 1
}

mkdir "$program"
cp "$TR_SOURCE_DIR/tests/install/hello.c" \
    "$TR_SOURCE_DIR/tests/install/CMakeLists.txt" "$program"
cd "$program"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name troupe.pc)")
export PKG_CONFIG_PATH
lib=$(pkg-config --variable=libdir troupe)

step() {
    echo "-- $*"
}

# says PROGRAM: it starts, finds the library and prints its answer.
says() {
    said=$(LD_LIBRARY_PATH="$lib" "$1")
    [ "$said" = "no error" ] || {
        echo "$1 said: $said"
        exit 1
    }
}

step "pkg-config"
[ "$(pkg-config --modversion troupe)" = "$TR_VERSION" ]
# shellcheck disable=SC2046
"$cc" -std=gnu11 hello.c -o hello $(pkg-config --cflags --libs troupe)
says ./hello

step "pkg-config, static"
# shellcheck disable=SC2046
"$cc" -std=gnu11 hello.c -o hello-static $(pkg-config --cflags troupe) \
    "$lib/libtroupe.a" -pthread
says ./hello-static

step "the flags that make a wrong pointer an error"
cat >wrong.c <<'C'
#include <troupe/base.h>
int take(char *text);
int take(char *text) { return text != 0; }
int main(void) { double d = 0; return take(&d); }
C
# shellcheck disable=SC2046
if "$cc" -std=gnu11 -c wrong.c $(pkg-config --cflags troupe) 2>/dev/null; then
    echo "a double * was accepted as a char *"
    exit 1
fi

step "what the first page of the guide says"
mkdir "$work/home" "$work/home/mine"
"$TR_SOURCE_DIR/tools/install.sh" "$TR_BUILD_DIR" "$work/home/.local" >/dev/null
cp "$TR_SOURCE_DIR/examples/01_hello.c" "$work/home/mine/hello.c"
sed -n '/^## 5/,$p' "$TR_SOURCE_DIR/docs/guide/01-first-actor.md" |
    awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on && !/^make /' \
        >"$work/lines"
[ "$(wc -l <"$work/lines")" -ge 3 ]
said=$(cd "$work/home/mine" && env -u PKG_CONFIG_PATH HOME="$work/home" \
    sh -eu "$work/lines")
[ "$said" = "Hello, world!" ] || {
    echo "the guide's lines said: $said"
    exit 1
}
"$TR_SOURCE_DIR/tools/uninstall.sh" "$TR_BUILD_DIR" "$work/home/.local" \
    >/dev/null

step "for a package: only below DESTDIR"
"$TR_SOURCE_DIR/tools/install.sh" "$TR_BUILD_DIR" /opt/troupe "$work/package" \
    >"$work/install.log"
[ "$(cat "$work/install.log")" = "installed in $work/package/opt/troupe" ]
[ -f "$work/package/opt/troupe/include/troupe/troupe.h" ]
"$TR_SOURCE_DIR/tools/uninstall.sh" "$TR_BUILD_DIR" /opt/troupe \
    "$work/package" >/dev/null
left=$(find "$work/package" ! -type d)
[ -z "$left" ] || {
    echo "left behind: $left"
    exit 1
}

step "CMake package"
cmake -S . -B build -G Ninja --log-level=WARNING \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
    -DTROUPE_WANTED="$TR_VERSION"
cmake --build build -- --quiet
says build/hello
says build/hello_static
if cmake --build build --target wrong >/dev/null 2>&1; then
    echo "the CMake package lets a wrong pointer pass"
    exit 1
fi

for module in troupe-sqlite troupe-postgres; do
    [ -e "$PKG_CONFIG_PATH/$module.pc" ] || continue
    step "$module"
    # shellcheck disable=SC2046
    "$cc" -std=gnu11 hello.c -o "hello-$module" \
        $(pkg-config --cflags --libs "$module")
    says "./hello-$module"
    cmake -S . -B "build-$module" -G Ninja --log-level=WARNING \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
        -DTROUPE_WANTED="$TR_VERSION" \
        -DTROUPE_COMPONENT="${module#troupe-}"
    cmake --build "build-$module" -- --quiet
    says "build-$module/hello"
done

if [ -e "$PKG_CONFIG_PATH/troupe-sqlite.pc" ]; then
    step "three nodes, with the default engine"
    # shellcheck disable=SC2046
    "$cc" -std=gnu11 "$TR_SOURCE_DIR/examples/20_cluster.c" -o cluster \
        -Wl,--as-needed $(pkg-config --cflags --libs troupe-sqlite)
    LD_LIBRARY_PATH="$lib" "$TR_SOURCE_DIR/tests/examples/20_cluster.sh" \
        ./cluster
fi

step "man pages"
[ -s "$prefix/share/man/man7/troupe.7" ] && [ -s "$prefix/share/man/man3/tr_ask.3" ] || {
    echo "no man pages were installed"
    exit 1
}

step "uninstall"
touch "$prefix/lib/pkgconfig/other.pc"
"$TR_SOURCE_DIR/tools/uninstall.sh" "$TR_BUILD_DIR" "$prefix" >/dev/null
left=$(cd "$prefix" && find . -mindepth 1 | LC_ALL=C sort)
wanted=$(printf './%s\n' include lib lib/pkgconfig lib/pkgconfig/other.pc \
    share share/man)
[ "$left" = "$wanted" ] || {
    echo "left behind: $left"
    exit 1
}
