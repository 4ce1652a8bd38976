#!/bin/sh
# guide_test.sh - the guide names only what exists. Covers PA11 and TE12.
#
# Every name of the library in README and guide is one of the headers, every
# link between pages has a target, and the required pages exist:
# the page for readers who know Akka, good habits with pools and actors on demand, the
# example of death watch that they point to, and the recipes with their programs.
set -eu
cd "$TR_SOURCE_DIR"
status=0

complain() {
    echo "$*"
    status=1
}

# Errors and reasons of dead letters are lists of X(NAME, number, text).
names=$(cat include/troupe/*.h* | grep -oE '\b(tr|TR)_[A-Za-z0-9_]+'
    cat include/troupe/*.h | sed -nE 's/^ +X\((\w+),.*/TR_\1 TR_DEAD_\1/p' |
        tr ' ' '\n')
for page in README.md docs/guide/*.md; do
    for name in $(grep -oE '\b(tr|TR)_[A-Za-z0-9_]+' "$page" | sort -u); do
        case $name in
        *_) continue ;;  # the beginning of a name, as in TR_ON_*
        TR_TEST_SCALE | TR_TEST_* | TR_MODEL_*) continue ;;  # of the tests
        esac
        printf '%s\n' "$names" | grep -qx "$name" ||
            complain "$page: $name is in no header"
    done
    # A lambda of C++ looks like a link; code has none.
    for link in $(sed -e '/^```/,/^```/d' -e 's/`[^`]*`//g' "$page" |
        grep -oE '\]\([^)#: ]+' | cut -c3- | sort -u); do
        [ -e "$(dirname "$page")/$link" ] || complain "$page: no $link"
    done
done

wants() {  # FILE TEXT...
    file=$1
    shift
    for text; do
        grep -qF -- "$text" "$file" || complain "$file: nothing on $text"
    done
}

section() {  # FILE HEADING TEXT...: the section has at least 60 words
    file=$1 heading=$2
    shift 2
    body=$(sed -n "/^## $heading\$/,/^## /p" "$file" | sed '1d')
    [ "$(printf '%s' "$body" | wc -w)" -ge 60 ] ||
        complain "$file: no section on $heading, or next to nothing in it"
    for text; do
        printf '%s' "$body" | grep -qF -- "$text" ||
            complain "$file: nothing on $text under $heading"
    done
}

akka=docs/guide/from-akka.md habits=docs/guide/best-practices.md
section $akka Words tr_watch tr_spawn tr_ask tr_stash tr_become
section $akka 'What is different'
section $habits Pools tr_router tr_blocking .mailbox_limit
section $habits 'Actors on demand' tr_child tr_spawn tr_virtual \
    tr_receive_timeout
wants $habits 05_death_watch.c
wants examples/05_death_watch.c tr_watch tr_terminated
[ -s examples/05_death_watch.expected ] ||
    complain 'examples/05_death_watch.c: its output is not compared'
wants docs/guide/13-recipes.md 21_slow_clients.c 22_full_duplex.c \
    31_job_queue/main.c 23_drain.c 12-fan-out.md 24_periodic_work.c \
    25_blocking_library.c 09-simulation.md

# Whole programs stay short enough to be read at once.
for program in 30_chat_server 31_job_queue 32_iot; do
    [ "$(wc -l <"examples/$program/main.c")" -lt 250 ] ||
        complain "examples/$program/main.c: 250 lines or more"
    [ -x "tests/examples/$program.py" ] ||
        complain "examples/$program: no test talks to it"
done
exit $status
