#!/usr/bin/env bash
# fired_test.sh - every fault class, and every buggify site of the library,
# strikes in the scenarios and is counted in their report.
#
# A few scenarios, which together have all of them, run some fixed seeds. A
# class or site that never struck is not tested at all. `make sim` checks the
# same for its many seeds.
set -u

programs="$TR_BUILD_DIR/tests/sim"
seeds=12
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

for name in bank damage unknown handover virtual_bus engine streams; do
    "$programs/sim_$name" --seed 1 --seeds "$seeds" >"$work/$name" 2>&1 \
        </dev/null || { echo "sim_$name failed"; tail -5 "$work/$name"
                        failed=$((failed + 1)); }
done

# Lines: kind, name, how often it struck, over all of them.
cat "$work"/* | awk '
    / sim - (fault|buggify) / {
        for (i = 1; i <= NF && $i != "fault" && $i != "buggify"; i++) { }
        struck[$i " " $(i + 1)] += $(i + 2)
    }
    END { for (what in struck) print what, struck[what] }' |
    sort >"$work/sums"

classes=$(awk '$1 == "fault"' "$work/sums" | wc -l)
while read -r what name count; do
    case "$what $name" in
    "buggify "*/src/* | "buggify src/"* | "fault "*) ;;
    *) continue ;;  # sites of scenarios: make sim checks them
    esac
    if [ "$count" -eq 0 ]; then
        echo "$what $name: never struck in $seeds seeds of each scenario"
        failed=$((failed + 1))
    fi
done <"$work/sums"

# Sites that were never reached are in no report: find them in the sources.
sites=0
while IFS=: read -r file line _; do
    sites=$((sites + 1))
    found=0
    for at in "$line" $((line + 1)) $((line + 2)); do  # the line on which the call ends
        awk -v site="$file:$at" '$1 == "buggify" && $3 > 0 &&
            substr($2, length($2) - length(site) + 1) == site { found = 1 }
            END { exit !found }' "$work/sums" && found=1
    done
    if [ "$found" -eq 0 ]; then
        echo "buggify $file:$line: no scenario gets there"
        failed=$((failed + 1))
    fi
done < <(cd "$TR_SOURCE_DIR" && grep -rn 'TRI_BUGGIFY(' src --include='*.c')

echo "fired: $classes fault classes, $sites sites of the library," \
    "$failed never struck"
[ "$failed" -eq 0 ] && [ "$classes" -ge 32 ] && [ "$sites" -ge 5 ]
