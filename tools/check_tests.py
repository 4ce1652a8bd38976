#!/usr/bin/env python3
"""check_tests.py - a unit test is found by the name of what it tests.

usage: check_tests.py [DIR]

tests/unit/<layer>/**/X_test.c tests the source X of the layer, or a part of
it: X is `source` or `source_part`. A test of a behaviour that has no file of
its own is listed in tests/behaviours.txt as `layer X`. The file's comment
begins with `X_test.c - ` and the subject. Names that do not say what is
tested (`corner`, `seldom`, `edges`, ...) are refused.

Ends with the number of sources that have a test of their name; with --without
the others are printed. Exit status 1 if a test is wrong.
"""
import argparse
import pathlib
import re
import sys

import layers

VAGUE = set("""
    chance corner corners cut edge edges misc more other others plain rest
    seldom several stuff things various
""".split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without", action="store_true")
    parser.add_argument("root", type=pathlib.Path, nargs="?",
                        default=layers.ROOT)
    options = parser.parse_args()
    root = options.root

    sources = {}
    for file in root.glob("src/**/*.[chS]"):
        layer = file.relative_to(root).parts[1]
        sources.setdefault(layer, set()).add(file.stem)
    listed = root / "tests" / "behaviours.txt"
    behaviours = {tuple(words) for words in layers.words_of(listed)} \
        if listed.exists() else set()
    unused, wrong, tested = set(behaviours), [], set()
    tests = sorted(root.glob("tests/unit/**/*_test.c"))
    for file in tests:
        name = file.relative_to(root).as_posix()
        layer, subject = name.split("/")[2], file.stem.removesuffix("_test")
        unused.discard((layer, subject))
        parts = subject.split("_")
        if VAGUE & set(parts):
            wrong.append(f"{name}: the name does not say what is tested")
        stems = {"_".join(parts[:i]) for i in range(1, len(parts) + 1)}
        found = stems & sources.get(layer, set())
        tested |= {(layer, stem) for stem in found}
        if not found and (layer, subject) not in behaviours:
            wrong.append(f"{name}: src/{layer} has no {subject}.c, and "
                         f"tests/behaviours.txt no `{layer} {subject}`")
        if not re.match(r"/\*\n \* " + re.escape(file.name) + r" - \S",
                        file.read_text(encoding="utf-8")):
            wrong.append(f"{name}: its comment does not begin with "
                         f"`{file.name} - `")
    for layer, subject in sorted(unused):
        wrong.append(f"tests/behaviours.txt: there is no test {layer} "
                     f"{subject}")
    own = sorted((layer, file.stem, file.relative_to(root).as_posix())
                 for file in root.glob("src/**/*.c")
                 for layer in [file.relative_to(root).parts[1]])
    without = [name for layer, stem, name in own
               if (layer, stem) not in tested]
    if options.without:
        print("\n".join(f"{name}: no test of its name" for name in without))
    print("\n".join(wrong + [
        f"tests: {len(tests)} unit tests, {len(own) - len(without)} of "
        f"{len(own)} sources have one of their name, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
