#!/usr/bin/env bash
# replay_test.sh - a seed is the same run in every process and build.
#
# Each scenario runs some seeds in one process, and then each seed in a process
# of its own. The sums of their trace hashes must be equal, which shows that
# nothing leaks from one run into the next. They must also be equal when the
# invariants are checked less often. In the dev build some scenarios are built
# again with the other compiler, which must not change a single step. A
# scenario that prints no trace hash fails the test.
#
# TR_TEST_SCALE scales the seeds: 1 means 10 seeds of each scenario, 10 means
# 100. TR_REPLAYS is how often all seeds are repeated beside that, and
# TR_SCENARIOS names the scenarios to run (default: all); `make replays` sets
# them.
set -u

programs="$TR_BUILD_DIR/tests/sim"
seeds=$(awk -v scale="${TR_TEST_SCALE:-0.3}" \
    'BEGIN { n = int(10 * scale); print n < 2 ? 2 : n }')
replays=${TR_REPLAYS:-1}
only=${TR_SCENARIOS:-}
failed=0
count=0

# trace <program> <first seed> <seeds> [option...]: prints the hash, or nothing.
trace() {
    "$1" --seed "$2" --seeds "$3" "${@:4}" 2>&1 </dev/null |
        sed -n 's/.* simulated s, .* trace \([0-9a-f]*\)$/\1/p'
}

# fail <program> <text>: reports a failure and counts it.
fail() {
    echo "$(basename "$1"): $2"
    failed=$((failed + 1))
}

for program in "$programs"/sim_*; do
    if [ -n "$only" ]; then
        case " $only " in *" ${program##*/sim_} "*) ;; *) continue ;; esac
    fi
    together=$(trace "$program" 1 "$seeds")
    count=$((count + 1))
    if [ -z "$together" ]; then
        fail "$program" "seeds 1 to $seeds print no trace hash"
        continue
    fi
    sum=0
    for seed in $(seq 1 "$seeds"); do
        alone=$(trace "$program" "$seed" 1)
        if [ -z "$alone" ]; then
            fail "$program" "seed $seed alone prints no trace hash"
            alone=0
        fi
        sum=$((sum + 16#$alone))
    done
    if [ "$together" != "$(printf '%016x' "$sum")" ]; then
        fail "$program" "seeds 1 to $seeds differ when repeated"
    fi
    for again in $(seq 2 "$replays"); do
        if [ "$together" != "$(trace "$program" 1 "$seeds")" ]; then
            fail "$program" "replay $again differs"
        fi
    done
    if [ "$together" != "$(trace "$program" 1 "$seeds" --check-every 50)" ]
    then
        fail "$program" "the built-in checks change the run"
    fi
done

# other_compiler: builds some scenarios with the other compiler and compares
# their hashes.
other_compiler() {
    local other work sources name theirs
    other=clang
    case "$TR_CC" in *clang*) other=gcc ;; esac
    command -v "$other" >/dev/null || return 0
    work=$(mktemp -d)
    sources=$(cd "$TR_SOURCE_DIR" &&
        find src -name '*.c' -o -name '*.S' | LC_ALL=C sort |
            grep -Ev 'sqlite|postgres')
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
        theirs=$(trace "$work/$name" 1 "$seeds")
        if [ -z "$theirs" ]; then
            fail "$name" "built with $other it prints no trace hash"
        elif [ "$theirs" != "$(trace "$programs/sim_$name" 1 "$seeds")" ]; then
            fail "$name" "$other and $TR_CC make different runs of it"
        fi
        count=$((count + 1))
    done
    rm -rf "$work"
}

case "$TR_BUILD_DIR" in
*/dev) other_compiler || failed=$((failed + 1)) ;;
esac

echo "replays: $count scenarios, $seeds seeds each, $replays times," \
    "$failed failures"
[ "$failed" -eq 0 ] && [ "$count" -ge "$([ -n "$only" ] && echo 1 || echo 8)" ]
