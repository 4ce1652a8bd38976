#!/bin/sh
# sizes_test.sh - files of src/ have at most 600 lines, functions at most 60.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_sizes.py

mkdir -p "$work/src/core/run"
lines() {  # COUNT
    for _ in $(seq "$1"); do echo '    a++;'; done
}
{
    printf 'static int\nfits(int a)\n{\n'
    lines 56
    printf '}\n\n/* A table is no function. */\nstatic int t[] = {\n'
    for _ in $(seq 70); do echo '    1,'; done
    printf '};\n\ntr_err(tr_long)(int a)\n{\n'
    lines 58
    printf '}\n'
} >"$work/src/core/run/a.c"
reports 1 check_sizes.py "$work"
says 'src/core/run/a.c:136: tr_long has 61 lines, 60 are allowed'
says 'sizes: 1 files, 2 functions, median 60.5 lines, 1 too long'

for _ in $(seq 601); do echo; done >"$work/src/core/run/a.c"
reports 1 check_sizes.py "$work"
says 'src/core/run/a.c: 601 lines, 600 are allowed'
sed -i 1d "$work/src/core/run/a.c"
reports 0 check_sizes.py "$work"
