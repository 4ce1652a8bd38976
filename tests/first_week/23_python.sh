#!/bin/sh
# 23_python.sh - the example of actors in Python runs against the library, and
# prints what the guide shows.
set -eu
example="$TR_SOURCE_DIR/examples/41_python"
case $TR_BUILD_DIR in
*asan* | *tsan* | *fuzz*) exit 77 ;; # python itself has no sanitizer
esac
command -v python3 >/dev/null || {
    echo "no python3: run tools/deps.sh test"
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

TROUPE_LIBRARY="$TR_BUILD_DIR/libtroupe.so.0" python3 -W error "$example.py" \
    >"$work/said" 2>"$work/log" || {
    echo "it ended with $?:"
    cat "$work/said" "$work/log"
    exit 1
}
cmp "$example.expected" "$work/said" || {
    cat "$work/said" "$work/log"
    exit 1
}
# The exception of the handler is the text of the failure in the log.
grep -q 'failed with TR_EFAILED: a guest needs a name, while handling Greet' \
    "$work/log"
