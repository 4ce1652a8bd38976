#!/bin/sh
# compare_traces_test.sh - tools/compare_traces.py calls a build the same as
# itself, and a run with another event, actor or end different.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs="$TR_BUILD_DIR/tests/sim"
compare="$TR_SOURCE_DIR/tools/compare_traces.py"
printf '# scenario, seed\nask_graph 6 why it is kept\n' >"$work/seeds"

"$compare" "$programs" "$programs" "$work/seeds" >"$work/out"
grep -q '^ask_graph 6: [1-9][0-9][0-9]* events, the same$' "$work/out"

# with SED STATUS [OPTION]: the status for a build whose log is edited.
with() {
    printf "#!/bin/sh\n'%s/sim_ask_graph' \"\$@\" 2>&1 | sed '%s'\n" \
        "$programs" "$1" >"$work/sim_ask_graph"
    chmod +x "$work/sim_ask_graph"
    status=0
    "$compare" ${3:+"$3"} "$programs" "$work" "$work/seeds" >"$work/out" ||
        status=$?
    [ "$status" = "$2" ] || {
        echo "edited with $1: status $status, wanted $2"
        cat "$work/out"
        exit 1
    }
}

with 's/^/ /' 0
with 's/handle /handled /' 1
with 's,/user/,/users/,' 1
with 's,/system  ,/temp    ,' 0
with '$d' 1
with 's/passed at step/ended at step/' 1
with 's/passed at step/ended at step/' 0 --until-close
