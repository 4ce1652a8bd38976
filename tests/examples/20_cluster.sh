#!/bin/sh
# 20_cluster.sh COMMAND... - runs the example as three terminals would.
#
# Three processes find each other through the default engine of a HOME of their
# own; the third one names it by TROUPE_ENGINE. Each number is counted once,
# whichever node counts it; one node leaves on Ctrl-C and the others go on; all
# end with status 0.
set -eu
[ $# -gt 0 ] || { echo 'usage: 20_cluster.sh COMMAND...'; exit 2; }
dir=$(cd "$(mktemp -d)" && pwd -P)
first='' second='' third=''

end() {
    for pid in $first $second $third; do
        kill -KILL "$pid" 2>/dev/null || :
    done
    rm -rf "$dir"
}
trap end EXIT
export HOME="$dir"
unset XDG_RUNTIME_DIR TROUPE_ENGINE TROUPE_LISTEN || :

complain() {
    echo "$1"
    tail -n 20 "$dir"/?
    exit 1
}

# The limit is long because a machine may be busy.
until_says() {  # FILE PATTERN PID
    for _ in $(seq 1000); do
        grep -q "$2" "$dir/$1" && return
        kill -0 "$3" 2>/dev/null || complain "terminal $1 has ended"
        sleep 0.1
    done
    complain "terminal $1 does not say: $2"
}

leaves() {  # PID
    kill -INT "$1"
    wait "$1" || complain "status $? after Ctrl-C"
}

"$@" >"$dir/1" 2>&1 &
first=$!
until_says 1 'of 1$' "$first"
"$@" >"$dir/2" 2>&1 &
second=$!
TROUPE_ENGINE="sqlite:$dir/.troupe-visits.engine" \
    "$@" >"$dir/3" 2>&1 &
third=$!
until_says 1 'of 3$' "$first"
until_says 2 'of 3$' "$second"
until_says 3 'of 3$' "$third"
leaves "$first"
first=
until_says 2 'of 2$' "$second"
until_says 3 'of 2$' "$third"
leaves "$second"
second=
until_says 3 'of 1$' "$third"
leaves "$third"
third=

# What the three were told, in order, is 1, 2, 3 and so on; a node that leaves
# may not hear of its last count.
sed -n 's/^\([0-9]*\), by node.*/\1/p' "$dir"/? | sort -n >"$dir/counts"
[ "$(uniq -d "$dir/counts")" = '' ] || complain 'a number was given twice'
given=$(wc -l <"$dir/counts")
last=$(tail -n 1 "$dir/counts")
[ "$given" -ge 7 ] || complain "only $given counts"
[ $((last - given)) -le 2 ] || complain "$given counts, but the last is $last"
