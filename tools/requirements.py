#!/usr/bin/env python3
"""requirements.py - which test covers which requirement.

Reads docs/requirements.ids and the names of all tests, and writes the table
docs/requirements.md. A test covers the ids that are words of its name, as in
test_L14_a_failing_start or test_DW7_DW8_twice_is_once; a scenario or script
covers those that its first comment names after `Covers`, up to the full stop.
An id is reached through public headers if one of its tests is public in the
sense of tools/public_tests.py, or is a script, which runs what a user runs.

Usage: requirements.py [--check] [root]. With --check nothing is written, and
the end is 1 if the table is not current. Ids that tests name and the list
does not know are reported in both cases. A line `inside MB7 why` of the list
says why no program can see a requirement.
"""
import collections
import pathlib
import re
import sys

import public_tests

GROUP = re.compile(r"^## (\w+) (.+)$")
LINE = re.compile(r"^([A-Z]+\d+) (.+)$")
INSIDE = re.compile(r"^inside ([A-Z]+\d+) (.+)$")  # no program can see it
# Tests are defined as functions or by a macro of their file; either way
# their names stand in the list that main() runs.
TEST = re.compile(r"\b(test_\w+)\b")
ID = re.compile(r"[A-Z]+\d+")
RULE = re.compile(r"(?<=_)rule_(?=\d)")  # test_rule_07_... is test_rule07_...
LEADING_ZEROS = re.compile(r"(?<=[A-Z])0+(?=\d)")
COVERS = re.compile(r"\bCovers\s+((?:[A-Z]+\d+|and|,|\s|\*|#)+)\.")
SUFFIX = re.compile(r"_(test|sim|stress|fuzz)$")

HEAD = """# Requirements and their tests

Made by `make requirements` from docs/requirements.ids and the names of the
tests; not edited by hand. An X in brackets is the resolution that decides
where requirements disagree, and its tests are those to look at.

The column *public* says whether one of the tests reaches the requirement as a
program does, through the installed headers only (tools/public_tests.py).

"""


def read_ids(path):
    """[(group, title, [(id, text)])] in the order of the file."""
    groups = []
    for line in path.read_text().splitlines():
        group, entry = GROUP.match(line), LINE.match(line)
        if group:
            groups.append((group.group(1), group.group(2), []))
        elif entry:
            groups[-1][2].append(entry.groups())
    return groups


def read_inside(path):
    """[(id, why only a test that sees internals can reach it)]."""
    return [found.groups() for line in path.read_text().splitlines()
            if (found := INSIDE.match(line))]


def test_name(root, path):
    """tests/unit/core/life/watch_test.c -> unit.core.watch, as CTest has it."""
    parts = path.relative_to(root / "tests").with_suffix("").parts
    folders = parts[:2] if parts[0] == "unit" else parts[:-1]
    return ".".join(folders + (SUFFIX.sub("", parts[-1]),))


def ids_of(name):
    """The ids in the name of a test."""
    for word in RULE.sub("rule", name).split("_")[1:]:
        word = LEADING_ZEROS.sub("", word.upper())
        if ID.fullmatch(word):
            yield word


def find_tests(root):
    """id -> names of its tests, and the ids that a public test covers."""
    covered, public = collections.defaultdict(set), set()
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in (".c", ".sh") or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        script = path.suffix == ".sh"
        outer = set() if script else public_tests.tests_of(root, path)[0]
        for name in TEST.findall(text):
            for word in ids_of(name):
                covered[word].add(name)
                if name in outer:
                    public.add(word)
        for words in COVERS.findall(text[:4000]):
            for word in ID.findall(words):
                covered[word].add(test_name(root, path))
                if script or outer or public_tests.is_public(root, path):
                    public.add(word)
    return covered, public


def cell(names):
    return "<br>".join(f"`{name}`" for name in sorted(names))


def table(groups, covered, public, inside):
    out, summary, opened, inner = [], [], [], []
    for group, title, entries in groups:
        names = [name for name, _ in entries]
        done = [name for name in names if covered.get(name)]
        outer = [name for name in done if name in public]
        summary.append(f"| {group} | {title} | {len(names)} | {len(done)} | "
                       f"{len(outer)} |")
        opened += [name for name in names if name not in done]
        inner += [name for name in done if name not in outer]
        out.append(f"\n## {group}: {title}\n\n| id | what | public | tests |\n"
                   "|---|---|---|---|")
        for name, text in entries:
            tests = covered.get(name)
            reached = "" if not tests else "yes" if name in public else "no"
            out.append(f"| {name} | {text} | {reached} | "
                       f"{cell(tests) if tests else '**open**'} |")
    total = sum(len(entries) for _, _, entries in groups)
    done = total - len(opened)
    summary.append(f"| **all** | | {total} | {done} | {done - len(inner)} |")
    return (HEAD + "| group | about | ids | with a test | public |\n"
            "|---|---|---|---|---|\n" + "\n".join(summary)
            + "\n\nOnly tests that see internals reach: "
            + (", ".join(inner) or "none") + ".\n"
            + "".join(f"\nNo program can see {name}: {why}\n"
                      for name, why in inside)
            + "\n".join(out) + "\n", opened, inner)


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    check = "--check" in sys.argv[1:]
    root = pathlib.Path(args[0] if args
                        else pathlib.Path(__file__).parent.parent).resolve()
    groups = read_ids(root / "docs/requirements.ids")
    known = {name for _, _, entries in groups for name, _ in entries}
    covered, public = find_tests(root)
    for word in sorted(set(covered) - known):
        print(f"requirements: {word} is unknown: "
              + ", ".join(sorted(covered[word])))
    inside = read_inside(root / "docs/requirements.ids")
    text, opened, inner = table(groups, covered, public, inside)
    path = root / "docs/requirements.md"
    if check:
        current = path.exists() and path.read_text() == text
        if not current:
            print("requirements: docs/requirements.md is old: "
                  "make requirements")
        return 0 if current else 1
    path.write_text(text)
    print(f"requirements: {len(known)} ids, {len(opened)} open, "
          f"{len(inner)} only by tests that see internals")
    return 0


if __name__ == "__main__":
    sys.exit(main())
