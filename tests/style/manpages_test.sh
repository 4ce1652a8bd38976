#!/bin/sh
# manpages_test.sh - every public function has a contract in its header and a
# page of it, the pages are clean roff, and a missing contract is found.
set -eu
pages="$TR_SOURCE_DIR/tools/manpages.py"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in groff mandoc; do
    command -v $tool >/dev/null || {
        echo "no $tool: run tools/deps.sh test"
        exit 1
    }
done

"$pages" --out "$work/man"

# What the library exports and what the headers declare is counted without
# the script's own parser.
grep -ho '^TR_API.*\|^tr_[a-z_]*(' "$TR_SOURCE_DIR"/include/troupe/*.h |
    grep -o '\btr_[a-z0-9_]*(' | tr -d '(' | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 100 ]
while read -r name; do
    [ -s "$work/man/man3/$name.3" ] || {
        echo "$name has no page"
        exit 1
    }
done <"$work/declared"
for name in TR_MESSAGE TR_REQUEST TR_ACTOR TR_ON TR_HOOK TR_INIT TR_TRY; do
    [ -s "$work/man/man3/$name.3" ] || {
        echo "$name has no page"
        exit 1
    }
done

# Pages that share a contract are links; each is looked at once.
find "$work/man" -type f >"$work/files"
xargs groff -man -ww -z -Tutf8 <"$work/files" >"$work/groff" 2>&1 || :
[ ! -s "$work/groff" ] || {
    echo "groff complains:"
    head "$work/groff"
    exit 1
}
# No date: a page is as old as its version, which stands beside it.
xargs mandoc -Tlint -W warning <"$work/files" 2>&1 |
    grep -v 'missing date' >"$work/mandoc" || :
[ ! -s "$work/mandoc" ] || {
    echo "mandoc complains:"
    head "$work/mandoc"
    exit 1
}

# What declarations are made of has none: TR_MIX4_fixed and the like.
if find "$work/man" -name 'TR_*_[a-z]*.3' | grep .; then
    echo "pages of inner macros"
    exit 1
fi

# Each page has a purpose on one line, and what it says is in the header. Of a
# purpose there are some words beside the library's own names.
while read -r file; do
    grep -A 1 '^\.SH NAME' "$file" | grep -q ' \\- [^ ]' || {
        echo "$file: no purpose"
        exit 1
    }
    words=$(grep -A 1 '^\.SH NAME' "$file" | sed -n 's/.* \\- //p' |
        sed 's/[Tt][Rr]_[A-Za-z_]*//g' | wc -w)
    [ "$words" -ge 2 ] || {
        echo "$file: a purpose of $words words"
        exit 1
    }
done <"$work/files"
groff -man -Tascii -P-cbou "$work/man/man3/tr_ask.3" >"$work/shown"
for text in 'waits for its reply' 'TR_EDEADLOCK' 'troupe(7)'; do
    grep -qF "$text" "$work/shown" || {
        echo "tr_ask(3) does not say: $text"
        exit 1
    }
done

# A function without a contract is found, and so is one that hides behind
# another's remark.
mkdir -p "$work/planted/include"
cp -r "$TR_SOURCE_DIR/include/troupe" "$work/planted/include"
cat >>"$work/planted/include/troupe/test.h" <<'C'

TR_API void tr_planted(void);
TR_API void tr_remarked(void);  // has its own words
TR_API void tr_hidden(void);
C
if "$pages" --root "$work/planted" --check 2>"$work/found"; then
    echo "not found: a function without a contract"
    exit 1
fi
grep -q 'test.h:.*tr_planted has no contract' "$work/found"
grep -q 'test.h:.*tr_hidden has no contract' "$work/found"
if grep -q tr_remarked "$work/found"; then
    echo "a remark is a contract, too"
    exit 1
fi
