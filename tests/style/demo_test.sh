#!/bin/sh
# demo_test.sh - what the README says of the bank: it keeps its promises when
# nodes are killed, leave and join again, and in simulation, a seed repeats
# itself, Ctrl-C ends it in peace, nothing is left behind, nonsense is refused.
set -eu
bank="$TR_BUILD_DIR/demo/bank"
[ -x "$bank" ] || {
    echo "no $bank: it needs SQLite and PostgreSQL, tools/deps.sh build"
    exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/tmp"
chmod 755 "$dir" "$dir/tmp"  # a server that may not be root gets there, too
export TMPDIR="$dir/tmp"
unset SECONDS KEEP SIM SEED SEEDS STORE BRANCHES TELLERS VERBOSE || :

must_say() {
    grep -q "$2" "$1" || { echo "not said: $2"; cat "$1"; exit 1; }
}

# Real processes, a real kill.
last='^takeover [0-9.]* s, leave [0-9.]* s, transfers [1-9][0-9]*, '
last="${last}unknown [0-9]*, conserved: yes\$"
ACCOUNTS=400 "$bank" 3 >"$dir/real" 2>&1 || { cat "$dir/real"; exit 1; }
must_say "$dir/real" ' s  member [0-9]* (127.0.0.1:[0-9]*) is up'
must_say "$dir/real" ' s  member [0-9]* (127.0.0.1:[0-9]*) is leaving'
must_say "$dir/real" ' s  member [0-9]* (127.0.0.1:[0-9]*) is gone'
must_say "$dir/real" 'yes  money is conserved to the cent'
must_say "$dir/real" 'yes  no acknowledged transfer is lost'
must_say "$dir/real" 'yes  1 killed by SIGKILL, its accounts taken over'
must_say "$dir/real" 'yes  1 left after SIGTERM, with status 0'
must_say "$dir/real" 'The bank has kept every promise'
tail -n 1 "$dir/real" >"$dir/last"
must_say "$dir/last" "$last"
[ -z "$(ls "$TMPDIR")" ] || { echo 'left behind:'; ls "$TMPDIR"; exit 1; }

# The same on PostgreSQL.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || {
    echo 'no PostgreSQL: tools/deps.sh test installs it'
    exit 1
}
STORE=postgres ACCOUNTS=200 "$bank" 4 >"$dir/pg" 2>&1 ||
    { cat "$dir/pg"; exit 1; }
must_say "$dir/pg" 'A bank on PostgreSQL'
must_say "$dir/pg" 'yes  1 killed by SIGKILL, its accounts taken over'
tail -n 1 "$dir/pg" >"$dir/last"
must_say "$dir/last" "$last"
[ -z "$(ls "$TMPDIR")" ] || { echo 'left behind:'; ls "$TMPDIR"; exit 1; }

# Until Ctrl-C.
KEEP=1 ACCOUNTS=100 "$bank" >"$dir/keep" &
pid=$!
for _ in $(seq 6000); do  # long: a machine may be busy
    grep -q 'transfers' "$dir/keep" && break
    sleep 0.1
done
kill -INT "$pid"
wait "$pid" || { cat "$dir/keep"; exit 1; }
must_say "$dir/keep" 'The bank has kept every promise'

# Simulated.
export ACCOUNTS=40
SECONDS=5 SIM=1 SEED=7 "$bank" >"$dir/a" || { cat "$dir/a"; exit 1; }
SECONDS=5 SIM=1 SEED=7 "$bank" >"$dir/b"
SECONDS=5 SIM=1 SEED=8 "$bank" >"$dir/c"
must_say "$dir/a" 'yes  . times killed, . times left, and no cent lost'
cmp "$dir/a" "$dir/b"
if [ "$(tail -n 1 "$dir/a")" = "$(tail -n 1 "$dir/c")" ]; then
    echo 'two seeds, one run'
    exit 1
fi

SECONDS=5 SIM=1 SEEDS=2 "$bank" >"$dir/seeds" || { cat "$dir/seeds"; exit 1; }
must_say "$dir/seeds" '^seeds 2, failed 0, .*, conserved: yes$'
unset ACCOUNTS

# Many times.
many="$TR_SOURCE_DIR/tools/run_many.sh"
export LOGS="$dir/logs"
N=2 SECONDS=2 STORE='sqlite sim' ACCOUNTS=100 "$many" "$bank" >"$dir/many" ||
    { cat "$dir/many" "$LOGS"/*; exit 1; }
must_say "$dir/many" 'sqlite    2 of 2 with exit 0'
must_say "$dir/many" 'sim       2 of 2 with exit 0'
printf '#!/bin/sh\necho "  no  money is conserved"\nexit 3\n' >"$dir/thief"
chmod +x "$dir/thief"
if N=2 STORE=sqlite "$many" "$dir/thief" >"$dir/many"; then
    echo 'runs that failed were not counted'
    exit 1
fi
must_say "$dir/many" 'sqlite    0 of 2 with exit 0; the others: 3 3'
must_say "$dir/many" 'no  money is conserved'
unset LOGS

# Nonsense.
refused() {
    if env "$1" "$bank" 2>"$dir/err"; then
        echo "not refused: $1"
        exit 1
    fi
    must_say "$dir/err" "$2"
}
refused ACCOUNTS=1 'ACCOUNTS must be 2 to'
refused SECONDS=soon 'SECONDS is not a number: soon'
refused SEEDS=0 'SEEDS must be 1 to'
refused STORE=paper 'STORE must be sqlite or postgres'
