#!/bin/sh
# 23_cplusplus.sh - the flags of pkg-config work with C++ compilers, troupe.hpp
# keeps its promises (cplusplus/program.cc, with a part in C), and the example
# prints what the guide shows. With g++ and clang++, without a warning.
set -eu
here="$TR_SOURCE_DIR/tests/first_week/cplusplus"
example="$TR_SOURCE_DIR/examples/40_cplusplus"
case $TR_BUILD_DIR in
*asan* | *tsan* | *fuzz*) exit 77 ;; # the sanitizers of C++ differ
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH="$TR_BUILD_DIR"
built=0

flags=$(sed -n 's/^Cflags: *-I[^ ]*//p' "$TR_BUILD_DIR/troupe.pc")
[ -n "$flags" ] || {
    echo "no Cflags in troupe.pc"
    exit 1
}
"${TR_CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -I"$TR_SOURCE_DIR/include" \
    -c "$here/part.c" -o "$work/part.o"

# builds COMPILER STANDARD SOURCE...: makes $work/program.
builds() {
    compiler=$1
    standard=$2
    shift 2
    # shellcheck disable=SC2086
    "$compiler" -std="$standard" -g -Wall -Wextra -Wshadow -Wpedantic -Werror \
        $flags -I"$TR_SOURCE_DIR/include" "$@" -o "$work/program" \
        -L"$TR_BUILD_DIR" -ltroupe
    built=$((built + 1))
}

for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || {
        echo "no $compiler: run tools/deps.sh test"
        exit 1
    }
    for standard in c++17 c++20; do
        builds "$compiler" "$standard" "$here/program.cc" "$work/part.o"
        said=$("$work/program")
        [ "$said" = passed ] || {
            echo "$compiler -std=$standard: $said"
            exit 1
        }
    done
    builds "$compiler" c++17 "$example.cc"
    "$work/program" >"$work/said"
    cmp "$example.expected" "$work/said" || {
        cat "$work/said"
        exit 1
    }
done
[ "$built" -eq 6 ]

# The list of the test has all messages of the headers.
for name in $(sed -n 's/^TR_MESSAGE(\(tr_[a-z_]*\).*/\1/p' \
    "$TR_SOURCE_DIR"/include/troupe/*.h); do
    grep -q "X($name)" "$here/shared.h" || {
        echo "cplusplus/shared.h does not have $name"
        exit 1
    }
done

# A mistake is reported in the words of C.
cat >"$work/wrong.cc" <<'C'
#include <troupe/troupe.hpp>
TR_MESSAGE(Tick, (int32_t, n));
#if CASE == 1
TR_MESSAGE(Say, (char *, text));
#elif CASE == 2
static tr_err on_tick(tr_ctx *, Tick *) { return TR_OK; }
TR_ACTOR(a, void, TR_ON(Tick, on_tick));
#elif CASE == 3
static tr_err start(tr_ctx *, void *) { return TR_OK; }
TR_ACTOR(a, void, TR_HOOK(preStart, start));
#elif CASE == 4
void ask(tr_system *sys, tr_ref to) { tr::ask(sys, to, Tick{1}); }
#elif CASE == 5
struct Other { int n; };
TR_ACTOR(a, Other);
tr_ref spawn(tr_system *sys) { return tr::spawn_with(sys, a, Tick{1}); }
#endif
C
# refuses CASE TEXT: both compilers refuse the case with this text.
refuses() {
    for compiler in g++ clang++; do
        said=$("$compiler" -std=c++17 -fsyntax-only -DCASE="$1" \
            -I"$TR_SOURCE_DIR/include" "$work/wrong.cc" 2>&1) && {
            echo "$compiler accepts case $1"
            exit 1
        }
        case $said in
        *"$2"*) ;;
        *)
            echo "$compiler, case $1, does not say: $2"
            printf '%s\n' "$said" | head -n 5
            exit 1
            ;;
        esac
    done
}
refuses 1 'Say.text: a message cannot hold a char *; a field is'
refuses 2 'wanted: tr_err on_tick(tr_ctx *, void *, const Tick *)'
refuses 3 'there is no hook preStart; the hooks are pre_start'
refuses 4 'tr_reply_type'
refuses 5 'spawn_with: the value is the state of the actor kind'
