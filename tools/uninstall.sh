#!/bin/sh
# uninstall.sh - removes the files that an installation would put there.
#
# usage: tools/uninstall.sh BUILD_DIR PREFIX [DESTDIR]
#
# The list is made by installing into an empty folder, so it needs no record
# of the installation that is being undone.
set -eu
build=$1
prefix=$2
destdir=${3:-}

list=$(mktemp -d)
trap 'rm -rf "$list"' EXIT
DESTDIR="$list" cmake --install "$build" --prefix "$prefix" >/dev/null

(cd "$list" && find . ! -type d) | while read -r file; do
    rm -f "$destdir/$file"
done
# Folders that are empty now, but for those that every prefix has.
(cd "$list" && find . -depth -type d) | while read -r folder; do
    case $folder in
    */troupe | */cmake | */pkgconfig | */man[37])
        [ ! -d "$destdir/$folder" ] ||
            rmdir --ignore-fail-on-non-empty "$destdir/$folder"
        ;;
    esac
done
echo "removed from $destdir$prefix"
