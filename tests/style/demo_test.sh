#!/bin/sh
# demo_test.sh - what the README says of the bank: it keeps its promises on
# real and on simulated time, a seed repeats itself, nonsense is refused.
set -eu
bank="$TR_BUILD_DIR/demo/bank"
[ -x "$bank" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$bank" 2 >"$dir/real" || { cat "$dir/real"; exit 1; }
grep -q 'yes  money is conserved' "$dir/real"

export BANK_SECONDS=5
SIM=1 SEED=7 "$bank" >"$dir/a" || { cat "$dir/a"; exit 1; }
SIM=1 SEED=7 "$bank" >"$dir/b"
SIM=1 SEED=8 "$bank" >"$dir/c"
cmp "$dir/a" "$dir/b"
if cmp -s "$dir/a" "$dir/c"; then
    echo 'two seeds, one run'
    exit 1
fi

if ACCOUNTS=1 "$bank" 2>"$dir/err"; then
    echo 'one account is too few'
    exit 1
fi
grep -q 'ACCOUNTS must be 2 to' "$dir/err"
