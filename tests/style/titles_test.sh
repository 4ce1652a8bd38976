#!/bin/sh
# titles_test.sh - titles of commits are `area: verb ...` and short.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_titles.py

git init -q "$work/repo"
commit() {
    git -C "$work/repo" -c user.name=a -c user.email=a@b.c commit -q \
        --allow-empty -m "$1"
}
commit 'before'
base=$(git -C "$work/repo" rev-parse HEAD)
while read -r title; do
    commit "$title"
done <<'T'
core: tie placements to the incarnation
base, schema: pass the address of a field
storage tests: name files after what they test
src/core/mail: speed up the fast path
docs: discuss alternatives
.ci/run: lint first
T
reports 0 check_titles.py --root "$work/repo" "$base"
says 'titles: 6 since'

refused() {  # TITLE WHY
    commit "$1"
    reports 1 check_titles.py --root "$work/repo" HEAD~1
    says "$2"
}
refused 'core: a zombie forces nobody' '`a` is not a verb'
refused 'core: adds a check' '`adds` is not a verb'
refused 'core: renamed the worker' '`renamed` is not a verb'
refused 'core: renaming the worker' '`renaming` is not a verb'
refused 'core: half a greeting is none' '`half` is not a verb'
refused 'rename the worker' 'no `area: ` in front'
refused 'core: rename the worker and then all of the things around it!' \
    "61 characters, 60 are allowed"

# What is listed is let pass; without a history there is nothing to say.
mkdir "$work/repo/tools"
git -C "$work/repo" rev-parse HEAD~1 HEAD >"$work/repo/tools/titles_base.txt"
reports 0 check_titles.py --root "$work/repo"
reports 77 check_titles.py --root "$work/repo" 0123456789
