#!/bin/sh
# words_test.sh - words that were replaced do not come back, and rules are
# named with a phrase.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_words.py

mkdir -p "$work/src/core" "$work/tools"
printf '# why\nlookout -> watchdog  # why\nsuch a one -> the thing\n' \
    >"$work/tools/words.txt"
cat >"$work/src/core/a.c" <<'C'
/* rule 22 (tr_stop), rules 4 and 5 (one message at a time), rule 7
 * (waiting), outlookouts, register X1024. */
int a;
C
reports 0 check_words.py "$work"
says 'words: 2 replaced ones, 0 wrong'
cat >"$work/src/core/a.c" <<'C'
/* Waits for such
 * a one. Rule 4; see rule 22, rules 4 and 5: of X15. */
int tri_lookout_new(void);
C
touch "$work/src/core/lookout.c"
reports 1 check_words.py "$work"
says 'src/core/a.c:1: `such a one`; write the thing'
says 'src/core/a.c:3: `lookout`; write watchdog'
says 'src/core/lookout.c: its name has `lookout`; watchdog'
says 'src/core/a.c:2: `Rule 4` without a phrase'
says 'src/core/a.c:2: `rule 22` without a phrase'
says 'src/core/a.c:2: `rules 4 and 5` without a phrase'
says 'src/core/a.c:2: `X15` is the id of a requirement'
says ', 7 wrong'
