#!/bin/sh
# density_test.sh - functions of core and cluster have half a check each.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_density.py --least core=0.5 --least cluster=0.5

mkdir -p "$work/src/core/run" "$work/src/base"
cat >"$work/src/core/run/a.c" <<'C'
/* TRI_CHECK(in a comment); */
static void a(tri_cell *cell)
{
    TRI_CHECK(cell != NULL);
    TRI_CHECK_SLOW(tri_owns(cell));
    tri_lock_assert_held(&cell->lock);
}
static void b(void)
{
}
C
printf 'static inline int c(void)\n{\n    return 1;\n}\n' >"$work/src/core/c.h"
cp "$work/src/core/c.h" "$work/src/core/run/d.c"
reports 0 check_density.py --least core=0.75 "$work"
says 'core         3 checks in    4 functions: 0.75 each'
reports 1 check_density.py --least core=0.8 --files "$work"
says '0.75 each, at least 0.8 wanted'
says 'src/core/run/d.c: 1 functions, no check'
