#!/bin/sh
# explore_test.sh - the program behind `make sim` and `make sim-fresh` runs new
# seeds of every scenario, continues where it ended, and keeps failed seeds.
set -eu
explore="$TR_SOURCE_DIR/tools/sim_explore.py"
programs="$TR_BUILD_DIR/tests/sim"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

must_say() {
    grep -qF -- "$2" "$1" || { echo "not said: $2"; cat "$1"; exit 1; }
}

for call in 1 2; do
    "$explore" --seeds 3 --jobs 1 --state "$work/state" "$programs/sim_hello" \
        "$programs/sim_timer" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
    must_say "$work/out" 'hello: 3 seeds'
    must_say "$work/out" "in all calls: $((call * 3)) seeds"
done

# As make sim-fresh: from a number, for a time.
"$explore" --seeds 100000 --jobs 1 --fresh --first 4711 --seconds 1 \
    --state "$work/fresh" "$programs/sim_hello" >"$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }
must_say "$work/out" 'hello: '

cat >"$work/sim_broken" <<'P'
#!/bin/sh
echo '2026-01-01T00:00:01.000000Z ERROR sim a.c:1 seed 1 failed at step 3, 0.001 s: planted' >&2
echo '2026-01-01T00:00:01.000000Z INFO  sim - in all 1.000 simulated s, 3 steps, trace 0' >&2
exit 1
P
chmod +x "$work/sim_broken"
if "$explore" --seeds 1 --jobs 1 --state "$work/broken" --keep "$work/kept" \
    "$work/sim_broken" >"$work/out" 2>&1; then
    echo 'a failing seed was not counted'
    exit 1
fi
must_say "$work/out" 'sim_broken --seed 1 --trace'
must_say "$work/kept" 'broken 1'
