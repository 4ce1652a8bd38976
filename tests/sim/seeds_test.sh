#!/bin/sh
# seeds_test.sh - every seed that has ever failed passes.
#
# Reads tests/sim/seeds.txt and runs the programs of the build.
set -u

list="$TR_SOURCE_DIR/tests/sim/seeds.txt"
programs="$TR_BUILD_DIR/tests/sim"
failed=0
count=0

while read -r scenario seed why; do
    case "$scenario" in
    '' | '#'*) continue ;;
    esac
    program="$programs/sim_$scenario"
    if [ ! -x "$program" ]; then
        echo "seeds.txt: $scenario: there is no such scenario"
        failed=$((failed + 1))
        continue
    fi
    count=$((count + 1))
    if ! "$program" --seed "$seed" --seeds 1 </dev/null; then
        echo "again: $program --seed $seed   # $why"
        failed=$((failed + 1))
    fi
done <"$list"

echo "seeds: $count run, $failed failed"
[ "$failed" -eq 0 ]
