#!/usr/bin/env python3
"""check_words.py - words that have been replaced do not come back.

usage: check_words.py [DIR]

tools/words.txt has a word or phrase on each line, then ` -> ` and what to
write instead. Looks for them in the sources, tests, tools and pages, as words
of a text and as parts of a name: `lookout` is found in `tri_lookout_new`.
CHANGELOG.md and the glossary, which explain old words, are left out.

In the comments of src/ and include/ a rule of docs/semantics.md is named with
a phrase, as in `rule 22 (tr_stop)`, and ids of requirements (X15, DW9) are
not named at all: they belong to the names of tests.

Exit status 1 if anything is found.
"""
import pathlib
import re
import sys

import layers
from check_references import files_of, texts_of

SKIPPED = ("CHANGELOG.md", "docs/glossary", "tools/words.txt",
           "tools/check_words.py", "tests/style/words_test.sh",
           "tests/fuzz/corpus/")


ID = re.compile(r"\b(?:X|C|L|S|SP|MB|DP|T|K|OR|SV|DW|DL|DR|RG|GD|SH|EV|PA|BU"
                r"|TE)\d{1,2}\b")
RULE = re.compile(r"\brules? \d+(?:(?:, | and | to |-)\d+)*(?!\d)"
                  r"(?!,? (?:and |to )?\d)(?!(?:\s|\*|//)+\()", re.I)


def check_rules(name, text, wrong):
    for start, piece in texts_of(name, text):
        for match in [*ID.finditer(piece), *RULE.finditer(piece)]:
            line = text.count("\n", 0, start + match.start()) + 1
            why = "without a phrase" if match.re is RULE else \
                "is the id of a requirement"
            wrong.append(f"{name}:{line}: `{match.group(0)}` {why}")


def read_words(file):
    """[(pattern, word, what to write)]"""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line:
            word, _, instead = map(str.strip, line.partition(" -> "))
            # In a text it may go on in the next line of a comment.
            text = r"(?:\s|\*|//)+".join(map(re.escape, word.split()))
            found.append((re.compile(f"(?<![a-z0-9]){text}(?![a-z0-9])",
                                     re.I), word, instead))
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else layers.ROOT
    words = read_words(root / "tools" / "words.txt")
    wrong = []
    for name in sorted(files_of(root)):
        if name.startswith(SKIPPED):
            continue
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for pattern, word, instead in words:
            if pattern.search(name):
                wrong.append(f"{name}: its name has `{word}`; {instead}")
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{name}:{line}: `{word}`; write {instead}")
        if name.startswith(("src/", "include/")):
            check_rules(name, text, wrong)
    print("\n".join(wrong + [f"words: {len(words)} replaced ones, "
                             f"{len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
