#!/bin/sh
# symbols_test.sh - the libraries export what the headers declare, need only
# pure libc outside the seam, and keep no writable globals.
set -eu
exec "$TR_SOURCE_DIR/tools/check_symbols.py" "$TR_BUILD_DIR"
