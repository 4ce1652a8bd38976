#!/bin/sh
# planted_test.sh - every planted bug still matches its source, and
# tools/planted.py --check finds one that does not. `make planted` runs the bugs.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$TR_SOURCE_DIR/tools/planted.py" --check

mkdir -p "$work/tools" "$work/tests/planted" "$work/src"
cp "$TR_SOURCE_DIR/tools/planted.py" "$work/tools"
printf 'int a = 1;\nint b = 1;\n' >"$work/src/a.c"

# refuses SENTENCE: the planted bug on standard input is refused with it.
refuses() {
    cat >"$work/tests/planted/01_bug.txt"
    if "$work/tools/planted.py" --check >"$work/out"; then
        echo "not refused: $1"
        exit 1
    fi
    grep -qF "$1" "$work/out" || {
        echo "wanted: $1"
        cat "$work/out"
        exit 1
    }
}

refuses 'its text is 0 times in src/a.c' <<'T'
what it is

file: src/a.c
@@ old
int a = 2;
@@ new
int a = 3;
@@ end
T
refuses 'its text is 2 times in src/a.c' <<'T'
what it is

file: src/a.c
@@ old
 = 1;
@@ new
 = 2;
@@ end
T
refuses 'there is no src/b.c' <<'T'
what it is

file: src/b.c
@@ old
int a = 1;
@@ new
int a = 2;
@@ end
T
refuses '@@ end is missing' <<'T'
what it is

file: src/a.c
@@ old
int a = 1;
@@ new
int a = 2;
T
refuses 'what it is, file: and @@ old expected' <<'T'
file: src/a.c
@@ old
int a = 1;
@@ new
int a = 2;
@@ end
T
cat >"$work/tests/planted/01_bug.txt" <<'T'
what it is

file: src/a.c
@@ old
int a = 1;
@@ new
int a = 2;
@@ old
int b = 1;
@@ new
@@ end
T
"$work/tools/planted.py" --check
