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
# Folders of our own; shared ones (lib, include) are not ours to remove.
(cd "$list" && find . -depth -type d -name troupe) | while read -r folder; do
    [ ! -d "$destdir/$folder" ] || rmdir "$destdir/$folder"
done
echo "removed from $destdir$prefix"
