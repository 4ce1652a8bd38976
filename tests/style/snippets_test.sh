#!/bin/sh
# snippets_test.sh - the code in README and guide is that of the examples, and
# the script that says so finds what is planted.
set -eu
check="$TR_SOURCE_DIR/tools/snippets.py"

"$check" "$TR_SOURCE_DIR"

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/docs/guide" "$planted/examples"
cat >"$planted/examples/a.c" <<'C'
int a;
// [snippet: body]
    int b;
    // [end]
C
echo 'all:' >"$planted/Makefile"

# finds SENTENCE: the guide's text comes on standard input.
finds() {
    cat >"$planted/docs/guide/a.md"
    if "$check" "$planted" >"$planted/out"; then
        echo "not found: $1"
        exit 1
    fi
    grep -qF "$1" "$planted/out" || {
        echo "wanted: $1"
        cat "$planted/out"
        exit 1
    }
}

finds 'examples/a.c#body has changed' <<'M'
<!-- snippet: examples/a.c#body -->
```c
int c;
```
M
finds 'has no region tail' <<'M'
<!-- snippet: examples/a.c#tail -->
```c
```
M
finds 'examples/b.c is not there' <<'M'
<!-- snippet: examples/b.c -->
```c
```
M
finds 'docs/guide/a.md:1: C that is not from a source' <<'M'
```c
int a;
```
M
finds 'docs/guide/a.md:2: Python that is not from a source' <<'M'

```python
pass
```
M
finds 'without a block' <<'M'
<!-- snippet: examples/a.c -->
M
finds 'make fast does not exist' <<'M'
```sh
make fast V=1
```
M
finds 'link to b.md' <<'M'
[b](b.md#top)
M
finds 'link to #the-end, which has no such heading' <<'M'
# The beginning
[end](#the-end)
M

# --write mends what has changed, and then nothing is found.
cat >"$planted/docs/guide/a.md" <<'M'
<!-- snippet: examples/a.c#body -->
```c
int c;
```
<!-- snippet: examples/a.c -->
```c
```
M
"$check" --write "$planted"
"$check" "$planted"
cat >"$planted/wanted" <<'M'
<!-- snippet: examples/a.c#body -->
```c
int b;
```
<!-- snippet: examples/a.c -->
```c
int a;
    int b;
```
M
cmp "$planted/wanted" "$planted/docs/guide/a.md"
