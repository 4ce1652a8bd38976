#!/bin/sh
# references_test.sh - files that comments and pages name are there.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes check_references.py

mkdir -p "$work/tree/src/core/mail" "$work/tree/docs/design" \
    "$work/tree/tools" "$work/tree/tests/unit/core"
cd "$work/tree"
echo '# A page' >docs/design/0005-simulation.md
cat >src/core/mail/box.c <<'C'
/*
 * box.c - see mail/box.c, src/core/mail/box.c, docs/design/0005, tests/unit
 * and gone.c, core/box.h, docs/gone.md, 0007-gone.md, box_test.c.
 */
#include "core/mail/missing.h"
static const char *text = "absent.c // absent.c";  // also: lost.h
int a = x.c + y.h;
C
cat >README.md <<'M'
`box.c`, [the page](docs/design/0005-simulation.md), `tests/unit/nowhere`,
https://example.org/index.md, files like `foo_*.c` and <layer>/x.c
M
printf '#!/bin/sh\n# in vanished.py\necho printed.py\n' >tools/do.sh
touch tests/unit/core/other_test.c
reports 1 check_references.py "$work/tree"
for name in gone.c core/box.h docs/gone.md 0007-gone.md box_test.c lost.h \
    tests/unit/nowhere vanished.py; do
    says "there is no $name"
done
says 'src/core/mail/box.c:3: there is no gone.c'
for name in missing.h absent.c printed.py index.md x.c y.h simulation; do
    silent "there is no $name"
done
says ', 8 wrong'

printf 'gone.c # why\n*gone.md\ncore/box.h\nbox_test.c\nlost.h\n*/nowhere\n' \
    >tools/references_allowed.txt
echo 'vanished.*' >>tools/references_allowed.txt
reports 0 check_references.py "$work/tree"
echo 'unneeded.c' >>tools/references_allowed.txt
reports 1 check_references.py "$work/tree"
says 'nothing names unneeded.c'
