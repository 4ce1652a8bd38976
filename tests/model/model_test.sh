#!/bin/sh
# model_test.sh - the models of mailbox and scheduler hold, and break when
# they should.
#
# usage: model_test.sh
#
# Each model here (not memory.pml, which they include) is searched to the end
# by spin and must show no error. Then each variant that its file comment
# names is searched, and spin must find the error in it: a model that cannot
# fail says nothing. With TR_MODEL_CYCLES=1 the models are also searched for
# runs that never end; that takes about a minute.
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
# Depth and memory are far beyond need: reaching either is a failure.
search() {
    rm -f pan pan.* ./*.trail out
    # shellcheck disable=SC2086
    spin -a ${2:+-D$2} "$here/$1.pml" >out 2>&1 &&
        $cc -w $3 -DMEMLIM=2000 -o pan pan.c >>out 2>&1 ||
        return 1
    # shellcheck disable=SC2086
    ./pan -m20000 ${4:-} >>out 2>&1
}

# The search ran to its end without an error.
no_error() {
    grep -q 'errors: 0' out &&
        ! grep -Eqi 'too small|not completed|out of memory|truncated' out
}

# The judge speaks when nothing can move any more; he must have been reached.
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
    if [ "${TR_MODEL_CYCLES:-0}" = 1 ] && [ "$model" != private ]; then
        ends "$model"
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
