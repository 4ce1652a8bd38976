#!/bin/sh
# bench_test.sh - every workload of troupe-bench runs, small, and its counts
# are right; nonsense is refused.
set -eu
bench="$TR_BUILD_DIR/bench/troupe-bench"
[ -x "$bench" ] || {
    echo "no $bench: configure with -DTROUPE_BENCH=ON"
    exit 1
}

count=0
for workload in $("$bench" --list); do
    # One workload runs for --seconds; one second is its minimum.
    line=$("$bench" "$workload" --workers 2 --scale 0.001 --seconds 1 \
        2>/dev/null) || {
        echo "$workload ended with $?: $line"
        exit 1
    }
    case $line in
    "$workload "[0-9]*" "?*) ;;
    *)
        echo "$workload printed: $line"
        exit 1
        ;;
    esac
    count=$((count + 1))
done
[ "$count" -ge 15 ]

"$bench" counting --workers 1 --count 1000 2>/dev/null | grep -q '^counting '

# What make bench-peers prints. The peers themselves are not for tests, and
# without them there is nothing to compare: status 1, and it says so.
status=0
table=$(python3 "$TR_SOURCE_DIR/bench/peers/run.py" --troupe "$bench" \
    --scale 0.001 --rounds 1 --workers 1 --workloads ping_pong --peers none \
    2>&1) || status=$?
[ "$status" = 1 ]
case $table in
*'| ping_pong | rt/s '*'no ratio: nothing to compare'*) ;;
*)
    echo "bench/peers/run.py printed: $table"
    exit 1
    ;;
esac

if "$bench" no_such_workload >/dev/null 2>&1; then
    echo "a workload that does not exist was run"
    exit 1
fi
