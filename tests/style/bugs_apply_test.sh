#!/bin/sh
# bugs_apply_test.sh - every bug of tests/planted and every mutation of
# tests/mutations still applies to the sources, and its test exists.
set -eu
"$TR_SOURCE_DIR/tools/planted.py" --check
"$TR_SOURCE_DIR/tools/mutations.py" --check
