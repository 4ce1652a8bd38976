#!/bin/sh
# run_many.sh - runs the demo many times and counts the exit statuses.
#
# usage: tools/run_many.sh BANK
#
# From the environment, all of them with a default:
#
#   N        how often, with each store; 20
#   STORE    sqlite, postgres or sim, or several with spaces; all three
#   SECONDS  how long each run is; what the demo takes by itself
#   SEED     of the first simulated run, the next one has the next; 1
#   LOGS     the folder for what failed runs printed; build/run-many
#
# Prints a line for each run and a table at the end. The exit status is 0 only
# if every run ended with 0.
set -u

bank=${1:?usage: run_many.sh BANK}
n=${N:-20}
seed=${SEED:-1}
logs=${LOGS:-build/run-many}
stores=${STORE:-sqlite postgres sim}
unset KEEP SIM SEEDS || :
case $n in
'' | *[!0-9]* | 0)
    echo "run_many.sh: N is no number of runs: $n" >&2
    exit 2
    ;;
esac
for store in $stores; do
    case $store in
    sqlite | postgres | sim) ;;
    *)
        echo "run_many.sh: STORE is sqlite, postgres or sim, not $store" >&2
        exit 2
        ;;
    esac
done
[ -x "$bank" ] || {
    echo "run_many.sh: no program $bank" >&2
    exit 2
}
mkdir -p "$logs"

failed=0
table=
for store in $stores; do
    good=0
    codes=
    run=0
    while [ "$run" -lt "$n" ]; do
        run=$((run + 1))
        log=$logs/$store-$run.log
        begin=$(date +%s)
        status=0
        case $store in
        sim) env -u STORE SIM=1 SEED=$((seed + run - 1)) "$bank" ;;
        *) STORE=$store "$bank" ;;
        esac >"$log" 2>&1 </dev/null || status=$?
        took=$(($(date +%s) - begin))
        if [ "$status" = 0 ]; then
            good=$((good + 1))
            rm -f "$log"
            echo "$store $run of $n: exit 0, $took s"
        else
            failed=1
            codes="$codes $status"
            echo "$store $run of $n: exit $status, $took s: $log"
            grep -E '^ +no  |ERROR' "$log" | head -n 5
        fi
    done
    table="$table
$(printf '%-9s %s of %s with exit 0%s' "$store" "$good" "$n" \
        "${codes:+; the others:$codes}")"
done
printf '%s\n' "${table#?}"
exit $failed
