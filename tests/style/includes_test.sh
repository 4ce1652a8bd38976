#!/bin/sh
# includes_test.sh - no source includes more than it uses, and the script that
# checks this finds what is planted.
. "$TR_SOURCE_DIR/tests/style/tree.sh"
command -v include-what-you-use >/dev/null || {
    echo 'no include-what-you-use: run tools/deps.sh lint'
    exit 77
}

tree_passes check_includes.py "$TR_BUILD_DIR"

mkdir -p "$work/src/base" "$work/tools" "$work/build"

header() {  # NAME: declares a type and a function of that name
    printf '#ifndef TRI_%s\n#define TRI_%s\ntypedef int tri_%s;\n' "$1" "$1" "$1"
    printf 'int tri_do_%s(void);\n%s\n#endif\n' "$1" "${2-}"
}
header a >"$work/src/base/a.h"
header b >"$work/src/base/b.h"
header c '#include "base/b.h"
tri_b tri_c_b(void);' >"$work/src/base/c.h"
cat >"$work/src/base/a.c" <<'C'
#include "base/a.h"

#include <string.h>

#include "base/b.h"
#include "base/c.h"

int tri_do_a(void) { return (int)strlen("a") + tri_c_b(); }
C
entry() {
    printf '{"directory": "%s", "file": "%s", "command": ' "$work" "$1"
    printf '"cc -I%s/src -o troupe_objects.dir/a.o -c %s"}' "$work" "$1"
}
printf '[%s]\n' "$(entry "$work/src/base/a.c")" \
    >"$work/build/compile_commands.json"

finds() {  # STATUS ARGUMENT...
    wanted_status=$1
    shift
    reports "$wanted_status" check_includes.py --root "$work" "$@"
}

finds 1 "$work/build"
says 'src/base/a.c: does not use "base/b.h"'
says 'includes: 3 files, 0 used but not included, 1 wrong'
finds 1 --fix "$work/build"
finds 0 "$work/build"
cat >"$work/wanted" <<'C'
#include "base/a.h"

#include <string.h>

#include "base/c.h"

int tri_do_a(void) { return (int)strlen("a") + tri_c_b(); }
C
cmp "$work/wanted" "$work/src/base/a.c"

# What is used must be included, not only reached.
sed -i 's/tri_c_b()/tri_c_b() + tri_do_b()/' "$work/src/base/a.c"
finds 0 "$work/build"
finds 1 --missing "$work/build"
says 'src/base/a.c: uses "base/b.h" without including it'
finds 1 --missing --fix "$work/build"
finds 0 --missing "$work/build"
grep -qx '#include "base/b.h"' "$work/src/base/a.c"

# Another configuration may need it.
sed -i 's/ + tri_do_b()//; s/b\.h"/b.h"  \/\/ IWYU pragma: keep/' \
    "$work/src/base/a.c"
finds 0 "$work/build"

# A header of which many know, unless it is a noun.
for i in 1 2 3 4 5 6; do
    echo '#include "base/b.h"' >"$work/src/base/user$i.c"
done
finds 1 --spread
says 'src/base/b.h: included by 7 of 7 sources of its layer'
echo 'base/b.h  # why' >"$work/tools/nouns.txt"
finds 0 --spread
echo 'base/gone.h' >>"$work/tools/nouns.txt"
finds 1 --spread
says 'tools/nouns.txt: there is no src/base/gone.h'
