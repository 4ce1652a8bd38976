#!/bin/sh
# layers_test.sh - the order of the layers and the world seam hold, and the
# script that says so finds what is planted.
set -eu
check="$TR_SOURCE_DIR/tools/check_layers.py"

"$check" "$TR_SOURCE_DIR"

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/src/base" "$planted/src/core" "$planted/include/troupe"

# finds SENTENCE FILE: the file's text comes on standard input.
finds() {
    cat >"$planted/$2"
    if "$check" "$planted" >"$planted/out"; then
        echo "not found in $2: $1"
        exit 1
    fi
    grep -qF "$1" "$planted/out" || {
        echo "wanted: $1"
        cat "$planted/out"
        exit 1
    }
    rm "$planted/$2"
}

finds 'base may not include "core/cell.h"' src/base/a.c <<'C'
#include "core/cell.h"
C
finds 'without its layer' src/base/a.h <<'C'
#include "b.h"
C
finds '<pthread.h> belongs to' src/core/a.c <<'C'
#include <pthread.h>
C
finds 'src/core/a.c:3: clock_gettime() goes around' src/core/a.c <<'C'
/* open() in a comment is
   nothing; */ const char *a = "read(";
static long b(void) { return clock_gettime (0, 0); }
C
finds 'pthread_create() goes around' src/core/a.c <<'C'
int a(void) { return pthread_create(0, 0, 0, 0); }
C
finds 'mmap() goes around' src/core/a.c <<'C'
void *a(void) { return mmap(0, 1, 0, 0, -1, 0); }
C
finds 'read() goes around' src/base/log.c <<'C'
long a(void) { return read(0, 0, 0); }
C
finds 'may not include stdatomic.h' include/troupe/a.h <<'C'
#include <stdatomic.h>
C
finds 'macro LIMIT has no prefix' include/troupe/a.h <<'C'
#define LIMIT 3
C

# What is allowed where it stands.
cat >"$planted/src/base/world_posix.c" <<'C'
#include <pthread.h>
int a(void) { return pthread_create(0, 0, 0, 0); }
C
cat >"$planted/src/base/log.c" <<'C'
#include <unistd.h>
long b(void) { return write(2, "", 0); }
C
cat >"$planted/src/core/a.c" <<'C'
#include "base/world.h"
long c(struct w *world) { return world->read(0) + world->ops.open(1); }
C
"$check" "$planted"

# A page that shows the table of layers shows the whole and true one.
page="$planted/PAGE.md"
{
    printf 'Text.\n\n<!-- layers: tools/layers.txt -->\n\n'
    "$check" --table
    printf '\nMore text.\n'
} >"$page"
"$check" "$planted"
sed -i 's/^| core | base, schema |$/| core | base |/' "$page"
if "$check" "$planted" >"$planted/out"; then
    echo 'not found: a table of layers that differs'
    exit 1
fi
grep -qF 'PAGE.md:3: the table of layers has changed' "$planted/out"
