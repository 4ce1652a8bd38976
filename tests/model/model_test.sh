#!/bin/sh
# model_test.sh - searches the models of mailbox, scheduler and run queue.
#
# usage: model_test.sh
#
# Spin searches each model in this folder to its end and must find no error;
# memory.pml is not a model, the others include it. Then it searches each
# variant that the file comment of the model names, and must find the error:
# a model that cannot fail proves nothing. With TR_MODEL_CYCLES=1 spin also
# looks for runs that never end; that takes about a minute.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 2
cc=${TR_CC:-cc}
passed=0
failed=0

if ! command -v spin >/dev/null 2>&1; then
    echo "model_test.sh: spin is missing; run tools/deps.sh test" >&2
    echo "0 passed, 1 failed"
    exit 1
fi

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 2

pass() {
    passed=$((passed + 1))
    echo "ok: $*"
}

fail() {
    failed=$((failed + 1))
    echo "FAILED: $*"
    cat out
}

# search MODEL VARIANT COMPILE-FLAGS [RUN-FLAG]: leaves the report in `out`.
# Limits of depth and memory are far above the need; reaching one is a failure.
search() {
    rm -f pan pan.* ./*.trail out
    # shellcheck disable=SC2086
    spin -a ${2:+-D$2} "$here/$1.pml" >out 2>&1 &&
        $cc -w $3 -DMEMLIM=2000 -o pan pan.c >>out 2>&1 ||
        return 1
    # shellcheck disable=SC2086
    ./pan -m20000 ${4:-} >>out 2>&1
}

# True if the search in `out` ran to its end without an error.
no_error() {
    grep -q 'errors: 0' out &&
        ! grep -Eqi 'too small|not completed|out of memory|truncated' out
}

# The process `judge` runs when no other process can move: the search must have
# reached all of its lines.
holds() {
    if search "$1" "" "-O2 -DSAFETY" && no_error &&
        grep -A1 'unreached in proctype judge' out | grep -q '(0 of'; then
        pass "$1: $(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' out)" \
            "states, no error"
    else
        fail "$1: the model does not hold or was not searched to its end"
    fi
}

ends() {
    if search "$1" "" "-O2 -DNP" -l && no_error; then
        pass "$1: every run ends"
    else
        fail "$1: a run that never ends, or not searched to its end"
    fi
}

breaks() {
    search "$1" "$2" "-O0 -DSAFETY"
    if grep -q 'assertion violated' out && grep -q 'errors: 1' out; then
        pass "$1 $2: found,$(sed -n \
            's/.*assertion violated\(.*\) (at depth.*/\1/p' out | cut -c1-40)"
    else
        fail "$1 $2: no error was found in the broken variant"
    fi
}

for path in "$here"/*.pml; do
    model=$(basename "$path" .pml)
    [ "$model" != memory ] || continue
    holds "$model"
    variants=$(sed -n 's/^ \* \([A-Z][A-Z]*_[A-Z_]*\)  .*/\1/p' "$path")
    if [ -z "$variants" ]; then
        : >out
        fail "$model: its comment names no variants"
    fi
    for variant in $variants; do
        breaks "$model" "$variant"
    done
    if [ "${TR_MODEL_CYCLES:-0}" = 1 ] && [ "$model" != run_queue ]; then
        ends "$model"
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
