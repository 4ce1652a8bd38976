#!/bin/sh
# install.sh - installs what was built, and says how a program finds it.
#
# usage: tools/install.sh BUILD_DIR PREFIX [DESTDIR]
#
# With DESTDIR it only puts the files there, as a package is made. Without it
# the cache of the dynamic linker is renewed where that is possible and of
# use. If the linker does not search the folder by itself, the last lines print
# what to set. tools/uninstall.sh removes the files.
set -eu
build=$1
prefix=$2
destdir=${3:-}

DESTDIR="$destdir" cmake --install "$build" --prefix "$prefix" \
    >"$build/install.log" || {
    cat "$build/install.log"
    exit 1
}
echo "installed in $destdir$prefix"
[ -z "$destdir" ] || exit 0

packages=$(dirname "$(grep '/troupe\.pc$' "$build/install_manifest.txt")")
libraries=$(dirname "$packages")
PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" = 0 ] && ldconfig -v -N 2>/dev/null |
    grep -q "^$libraries:"; then
    ldconfig
fi
found() {
    case $(ldconfig -p 2>/dev/null) in
    *"=> $libraries/libtroupe.so"*) return 0 ;;
    *) return 1 ;;
    esac
}
found || {
    echo "the compiler and the programs find it with"
    echo "  export PKG_CONFIG_PATH=$packages LD_LIBRARY_PATH=$libraries"
}
