#!/bin/sh
# layer_symbols_test.sh - no layer uses a symbol of a layer above it, and the
# script that checks this finds a call that is planted.
set -eu
check="$TR_SOURCE_DIR/tools/check_layer_symbols.py"

"$check" "$TR_BUILD_DIR"

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
objects="$planted/build/CMakeFiles/troupe_objects.dir"
parts="$planted/build/CMakeFiles/troupe_part_static.dir"

# source OBJECTS FOLDER FILE: makes a source from standard input and its object.
source() {
    mkdir -p "$planted/$2" "$1/$2"
    cat >"$planted/$2/$3"
    "$TR_CC" -c "$planted/$2/$3" -o "$1/$2/$3.o"
}

# reports STATUS: runs the script on the made-up tree.
reports() {
    status=0
    "$check" --root "$planted" --allowed "$planted/allowed" \
        "$planted/build" >"$planted/out" || status=$?
    [ "$status" = "$1" ] || {
        echo "status $status, not $1:"
        cat "$planted/out"
        exit 1
    }
}

says() {
    grep -qF "$1" "$planted/out" || {
        echo "wanted: $1"
        cat "$planted/out"
        exit 1
    }
}

source "$objects" src/base low.c <<'C'
int tri_low(void) { return 1; }
C
source "$objects" src/core/run middle.c <<'C'
int tri_low(void);
static int tri_high(void) { return 2; }  /* static: another function */
int tri_middle(void) { return tri_low() + tri_high(); }
C
source "$objects" src/system high.c <<'C'
int tri_middle(void);
int tri_count = 3;
int tri_high(void) { return tri_middle(); }
C
source "$parts" src/storage part.c <<'C'
int tri_low(void);
int tri_part(void) { return tri_low(); }
C
reports 0
says '4 objects, 3 uses between layers, 0 allowed for now, 0 wrong'

# A call, a variable and the address of a function, all upward; the last one
# in a component's library.
source "$objects" src/base up.c <<'C'
int tri_high(void);
int tri_up(void) { return tri_high(); }
C
source "$objects" src/core/run count.c <<'C'
extern int tri_count;
int tri_counted(void) { return tri_count; }
C
source "$parts" src/storage table.c <<'C'
int tri_middle(void);
int (*const tri_table[])(void) = {tri_middle};
C
reports 1
says 'base -> system: src/base/up.c uses tri_high of src/system/high.c'
says 'core -> system: src/core/run/count.c uses tri_count of src/system/high.c'
says 'storage -> core: src/storage/table.c uses tri_middle of src/core/run/middle'
says ', 3 wrong'

# What the list allows passes and is printed.
printf 'base system tri_high # why\ncore system tri_count\n' >"$planted/allowed"
echo 'storage core tri_middle' >>"$planted/allowed"
reports 0
says 'allowed for now: base -> system: src/base/up.c uses tri_high'
says '3 allowed for now, 0 wrong'

# An object whose source is gone does not count, and its line must go, too.
rm "$planted/src/base/up.c"
reports 1
says 'delete the line `base system tri_high`'
says ', 1 wrong'

# A source without an object would pass unseen.
rm "$objects/src/core/run/count.c.o"
reports 1
says 'src/core/run/count.c: not built'
