#!/bin/sh
# commands_test.sh - what README and guide tell a reader to type is run by a
# test; and the script that says so finds what is planted.
set -eu
check="$TR_SOURCE_DIR/tools/commands.py"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ctest --test-dir "$TR_BUILD_DIR" -N | sed -n 's/^ *Test *#[0-9]*: //p' \
    >"$work/tests"
"$check" --root "$TR_SOURCE_DIR" --tests "$work/tests"

# The rule of each make command is there, with all that it needs.
sed -n 's/^make \(.*\)  <-  .*/\1/p' "$TR_SOURCE_DIR/tests/style/commands.txt" \
    >"$work/makes"
while read -r words; do
    # shellcheck disable=SC2086
    make -n -C "$TR_SOURCE_DIR" $words >"$work/out" 2>&1 || {
        echo "make $words:"
        cat "$work/out"
        exit 1
    }
done <"$work/makes"
make -C "$TR_SOURCE_DIR" help >"$work/out"
grep -q 'make run' "$work/out"
(cd "$TR_SOURCE_DIR" && cmake --list-presets) >"$work/presets"
sed -n 's/^cmake --preset \(.*\)  <-  .*/\1/p' \
    "$TR_SOURCE_DIR/tests/style/commands.txt" | while read -r preset; do
    grep -q "\"$preset\"" "$work/presets" || {
        echo "there is no preset $preset"
        exit 1
    }
done

# What is not set is a tenth, never an empty text.
printf 'include Makefile\nprobe:\n\t@env | grep ^TR_TEST_SCALE || echo unset\n' \
    >"$work/probe.mk"
scale=$(env -u TR_TEST_SCALE make -s -C "$TR_SOURCE_DIR" -f "$work/probe.mk" \
    probe)
[ "$scale" = TR_TEST_SCALE=0.1 ] || { echo "make hands on: $scale"; exit 1; }
scale=$(make -s -C "$TR_SOURCE_DIR" -f "$work/probe.mk" probe TR_TEST_SCALE=3)
[ "$scale" = TR_TEST_SCALE=3 ] || { echo "make hands on: $scale"; exit 1; }

mkdir -p "$work/tree/docs/guide" "$work/tree/tests/style"
printf 'make a  <-  here\nmake b  <-  here\nmake c  <-  gone\n' \
    >"$work/tree/tests/style/commands.txt"
echo here >"$work/known"
printf '```sh\nmake a   # first\nmake d\n```\nor `make c`, `not this`\n' \
    >"$work/tree/README.md"
printf '```text\nbuild/program ran\nit said so\n```\n' >>"$work/tree/README.md"
if "$check" --root "$work/tree" --tests "$work/known" >"$work/found"; then
    echo "nothing was found"
    exit 1
fi
for text in 'no test runs `make d`' 'no document has `make b`' \
    'no test runs `build/program ran`' \
    'there is no test gone'; do
    grep -qF "$text" "$work/found" || {
        echo "not found: $text"
        cat "$work/found"
        exit 1
    }
done
[ "$(wc -l <"$work/found")" = 4 ]
