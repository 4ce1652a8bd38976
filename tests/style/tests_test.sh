#!/bin/sh
# tests_test.sh - a unit test is found by the name of what it tests.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_tests.py

mkdir -p "$work/src/core/mail" "$work/tests/unit/core/mail"
touch "$work/src/core/mail/mailbox.c" "$work/src/core/mail/drain.c"
make_test() {  # PATH
    name=$(basename "$1")
    printf '/*\n * %s - what is tested.\n */\n' "$name" \
        >"$work/tests/unit/core/$1"
}
make_test mail/mailbox_test.c
make_test mail/mailbox_limits_test.c
reports 0 check_tests.py --without "$work"
says 'tests: 2 unit tests, 1 of 2 sources have one of their name, 0 wrong'
says 'src/core/mail/drain.c: no test of its name'

make_test fairness_test.c
reports 1 check_tests.py "$work"
says 'fairness_test.c: src/core has no fairness.c, and tests/behaviours.txt no'
echo 'core fairness # why' >"$work/tests/behaviours.txt"
reports 0 check_tests.py "$work"
make_test mail/mailbox_corner_test.c
reports 1 check_tests.py "$work"
says 'mailbox_corner_test.c: the name does not say what is tested'
rm "$work/tests/unit/core/mail/mailbox_corner_test.c"
echo 'int a;' >"$work/tests/unit/core/mail/drain_test.c"
reports 1 check_tests.py "$work"
says 'its comment does not begin with `drain_test.c - `'
rm "$work/tests/unit/core/mail/drain_test.c" \
    "$work/tests/unit/core/fairness_test.c"
reports 1 check_tests.py "$work"
says 'tests/behaviours.txt: there is no test core fairness'
