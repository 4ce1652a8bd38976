#!/usr/bin/env bash
# replay_test.sh - a seed is the same run in every process and build.
#
# Each scenario runs some seeds in one process and then each in one of its
# own; the sums of their trace hashes must be equal, so nothing leaks from one
# run into the next; so must they with other looks at the invariants. In the
# dev build some scenarios are made once more with the other compiler, which
# must not change a single step.
#
# TR_TEST_SCALE scales the seeds: 1 stands for 10 seeds of each scenario, 10
# for 100. TR_REPLAYS is how often all seeds are repeated beside that, and
# TR_SCENARIOS names those that are looked at; `make replays` sets them.
set -u

programs="$TR_BUILD_DIR/tests/sim"
seeds=$(awk -v scale="${TR_TEST_SCALE:-0.3}" \
    'BEGIN { n = int(10 * scale); print n < 2 ? 2 : n }')
replays=${TR_REPLAYS:-1}
only=${TR_SCENARIOS:-}
failed=0
count=0

# trace <program> <first seed> <seeds> [option...]: the hash, or nothing.
trace() {
    "$1" --seed "$2" --seeds "$3" "${@:4}" 2>&1 </dev/null |
        sed -n 's/.* simulated s, .* trace \([0-9a-f]*\)$/\1/p'
}

for program in "$programs"/sim_*; do
    if [ -n "$only" ]; then
        case " $only " in *" ${program##*/sim_} "*) ;; *) continue ;; esac
    fi
    together=$(trace "$program" 1 "$seeds")
    [ -n "$together" ] || continue  # not made with tr_sim_main
    count=$((count + 1))
    sum=0
    for seed in $(seq 1 "$seeds"); do
        sum=$((sum + 16#$(trace "$program" "$seed" 1)))
    done
    if [ "$together" != "$(printf '%016x' "$sum")" ]; then
        echo "$(basename "$program"): seeds 1 to $seeds differ when repeated"
        failed=$((failed + 1))
    fi
    for again in $(seq 2 "$replays"); do
        if [ "$together" != "$(trace "$program" 1 "$seeds")" ]; then
            echo "$(basename "$program"): replay $again differs"
            failed=$((failed + 1))
        fi
    done
    # To look more seldom at the invariants must change nothing either.
    if [ "$together" != "$(trace "$program" 1 "$seeds" --check-every 50)" ]
    then
        echo "$(basename "$program"): the built-in checks change the run"
        failed=$((failed + 1))
    fi
done

# other_compiler: the same hashes from a build of the other one.
other_compiler() {
    local other work sources name
    other=clang
    case "$TR_CC" in *clang*) other=gcc ;; esac
    command -v "$other" >/dev/null || return 0
    work=$(mktemp -d)
    sources=$(cd "$TR_SOURCE_DIR" &&
        ls src/{base,core,system,schema,cluster,remote,sim}/*.{c,S} \
            src/storage/*.c 2>/dev/null | grep -Ev 'sqlite|postgres')
    # shellcheck disable=SC2086  # one word for each file
    (cd "$work" && printf '%s\n' $sources |
        sed "s,^,$TR_SOURCE_DIR/," |
        xargs -P2 -n12 "$other" -std=gnu11 -O2 -w -ffp-contract=off \
            -I"$TR_SOURCE_DIR/src" -I"$TR_SOURCE_DIR/include" -c) || return 1
    for name in bank virtual supervision_storm; do
        "$other" -std=gnu11 -O2 -w -ffp-contract=off \
            -I"$TR_SOURCE_DIR/src" -I"$TR_SOURCE_DIR/include" \
            -I"$TR_SOURCE_DIR/tests" -o "$work/$name" \
            "$TR_SOURCE_DIR/tests/sim/${name}_sim.c" "$work"/*.o \
            -lpthread -lm || return 1
        if [ "$(trace "$work/$name" 1 "$seeds")" != \
            "$(trace "$programs/sim_$name" 1 "$seeds")" ]; then
            echo "$name: $other and $TR_CC make different runs of it"
            failed=$((failed + 1))
        fi
        count=$((count + 1))
    done
    rm -rf "$work"
}

case "$TR_BUILD_DIR" in
*/dev) other_compiler || failed=$((failed + 1)) ;;
esac

echo "replays: $count scenarios, $seeds seeds each, $replays times," \
    "$failed differ"
[ "$failed" -eq 0 ] && [ "$count" -ge "$([ -n "$only" ] && echo 1 || echo 8)" ]
