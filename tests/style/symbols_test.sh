#!/bin/sh
# symbols_test.sh - the libraries export what the headers declare, need only
# pure libc outside the seam, and keep no writable globals; and the script
# that says so finds what is planted.
set -eu
check="$TR_SOURCE_DIR/tools/check_symbols.py"

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cat >"$planted/planted.c" <<'C'
#include <time.h>
long counter;
static _Thread_local long per_thread;
static const char *const names[] = {"a", "b"};
__attribute__((visibility("default"))) long visible(int i)
{
    static int calls;
    calls++;
    return time(0) + counter + per_thread++ + names[i % 2][0] + calls;
}
C
(
    cd "$planted"
    "$TR_CC" -fPIC -fvisibility=hidden -c planted.c -o planted.c.o
    "$TR_CC" -shared planted.c.o -o libtroupe.so
    ar rc libtroupe.a planted.c.o
)
if "$check" "$planted" >"$planted/out"; then
    echo "nothing found in the planted library"
    exit 1
fi
for wanted in 'exports visible, which is not tr_*' \
    'planted.c: counter is a writable global' \
    'planted.c: calls is a writable global' \
    'planted.c: needs time, which is not in'; do
    grep -qF "$wanted" "$planted/out" || {
        echo "not found: $wanted"
        exit 1
    }
done
if grep -E 'per_thread|names' "$planted/out"; then
    exit 1
fi

"$check" "$TR_BUILD_DIR"
