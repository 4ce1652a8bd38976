#!/usr/bin/env python3
"""check_titles.py - titles of commits: `area: what it does`, imperative.

usage: check_titles.py [--root DIR] [BASE]

Looks at the commits after BASE, by default the first word of
tools/titles_base.txt; the other words there are commits that are let pass.
A title
  - has at most 60 characters,
  - begins with an area, the folder or file, and a colon,
  - goes on with a verb in its base form. Verbs are not known: a word that is
    an article, a pronoun or the like is none, and neither is one that ends
    as `adds`, `added` or `adding` do.
Exit status 1 if a title is wrong, 77 if the history is not there.
"""
import argparse
import pathlib
import re
import subprocess
import sys

import layers

LENGTH_MAX = 60
AREA = re.compile(r"^[\w.][\w./*+-]*(,? [\w.][\w./*+-]*)*: ")
NO_VERB = set("""
    a an the of no not one two half both all every each some any what that
    which who where when how if it its this these those there here now then
    more most less few many other another such same own new old
    in on at by for from to with without after before between under over
    and or but as so also only even
""".split())
BASE_FORM = re.compile(r"(ss|us|eed|bring|ring|sing|string|ping|king)$"
                       r"|^(embed|shed|bleed|alias|bias|wed)$")
INFLECTED = re.compile(r"(s|ed|ing)$")


def wrong_with(title):
    """None, or what is wrong."""
    if len(title) > LENGTH_MAX:
        return f"{len(title)} characters, {LENGTH_MAX} are allowed"
    area = AREA.match(title)
    if not area:
        return "no `area: ` in front"
    words = title[area.end():].split()
    word = words[0].lower().strip(",.") if words else ""
    if word in NO_VERB or (INFLECTED.search(word)
                           and not BASE_FORM.search(word)):
        return f"`{word}` is not a verb in its base form"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=layers.ROOT)
    parser.add_argument("base", nargs="?")
    options = parser.parse_args()
    file = options.root / "tools" / "titles_base.txt"
    known = [word for words in layers.words_of(file) for word in words] \
        if file.exists() else []
    base = options.base or known[0]

    done = subprocess.run(
        ["git", "-C", options.root, "log", "--no-merges", "--format=%H %s",
         f"{base}..HEAD"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"titles: no history since {base}: {done.stderr.strip()}")
        return 77
    wrong, lines = 0, done.stdout.splitlines()
    for line in lines:
        commit, _, title = line.partition(" ")
        why = wrong_with(title)
        if why and not any(commit.startswith(word) for word in known[1:]):
            print(f"{commit[:8]} {title}: {why}")
            wrong += 1
    print(f"titles: {len(lines)} since {base}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
