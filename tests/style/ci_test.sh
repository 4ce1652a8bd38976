#!/bin/sh
# ci_test.sh - the closing lines of .ci/run count passed, failed and skipped
# tests, no tests at all are an error, and make lint comes first.
set -eu
summary="$TR_SOURCE_DIR/tools/ci_summary.py"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() {  # WANTED STATUS [BUILD...]: the log comes on standard input
    wanted=$1
    status=$2
    shift 2
    cat >"$work/log"
    "$summary" "$status" "$work/log" "$@" >"$work/out"
    printf '%s\n' "$wanted" | cmp -s - "$work/out" || {
        echo "wanted:"
        echo "$wanted"
        echo "printed:"
        cat "$work/out"
        exit 1
    }
}

expect '0 skipped
160 passed, 3 failed' 1 <<'L'
== asan
97% tests passed, 2 tests failed out of 64
99% tests passed, 1 test failed out of 99
L
expect '0 skipped
64 passed, 1 failed' 1 <<'L'
100% tests passed, 0 tests failed out of 64
make: *** [Makefile:1: lint] Error 1
L

# Tests that were skipped did not pass.
mkdir -p "$work/dev/Testing/Temporary" "$work/tsan/Testing/Temporary" \
    "$work/empty"
cat >"$work/dev/Testing/Temporary/LastTest.log" <<'L'
2/3 Test: unit.schema.number
[  SKIPPED ] test_a
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] test_a
3/3 Test: unit.core.nomem
[  SKIPPED ] 2 test(s), listed below:
L
cp "$work/dev/Testing/Temporary/LastTest.log" "$work/tsan/Testing/Temporary"
expect '7 skipped
  whole programs: unit.base.io
  dev: unit.core.nomem (2) unit.schema.number
  tsan: unit.core.nomem (2) unit.schema.number
2 passed, 0 failed' 0 "$work/dev/" "$work/tsan/" "$work/empty/" <<'L'
1/3 Test #1: unit.base.io .....................***Skipped   0.01 sec
2/3 Test #2: unit.core.nomem ..................   Passed    0.01 sec
100% tests passed, 0 tests failed out of 3
L

# A label or a preset without tests is a mistake.
if make -n -C "$TR_SOURCE_DIR" test | grep -q -e '--no-tests=ignore'; then
    echo 'no tests would pass'
    exit 1
fi
make -n -C "$TR_SOURCE_DIR" test | grep -q -e '--no-tests=error'
grep -q '^for target in lint test check ' "$TR_SOURCE_DIR/.ci/run"
