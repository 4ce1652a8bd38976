#!/usr/bin/env python3
"""commands.py - every command that the documents tell a reader to type.

Finds them in README.md, template/README.md and docs/guide: lines of `sh`
blocks, lines of `text` blocks and words in backquotes that begin like a
command. Each must be in
tests/style/commands.txt, which says which test runs it, or the same thing
with other numbers:

    COMMAND  <-  TEST [TEST...]

Usage: commands.py --tests FILE [--root ROOT]. FILE has the names of all
tests, one per line. Reported, and the status is 1: a command without a line,
a line whose command no document has, a test that does not exist.
"""
import argparse
import pathlib
import re
import sys

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
TEXT = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)
# In a text block a line that begins so is no output.
TYPED = re.compile(r"(?:make|cmake|ctest|cc|gcc|valgrind|export|git|tools/\S+"
                   r"|build/\S+|\./\S+) \S")
INLINE = re.compile(r"(?<!`)`((?:make|cmake|ctest|cc|gcc|tools/\S+\.(?:sh|py)) "
                    r"[^`\n]+)`(?!`)")


def commands(text):
    """The commands of a document, without comments, in order."""
    for block in BLOCK.finditer(text):
        for line in block.group(1).splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            for command in line.split(" && "):
                if command.strip():
                    yield command.strip()
    for block in TEXT.finditer(text):
        for line in block.group(1).splitlines():
            if TYPED.match(line):
                yield line.strip()
    for match in INLINE.finditer(BLOCK.sub("", text)):
        yield match.group(1).strip()


def table(path):
    """Command -> tests, from the list."""
    found = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            command, _, tests = line.partition("  <-  ")
            found[command.strip()] = tests.split()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--tests", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    root = arguments.root
    known = table(root / "tests/style/commands.txt")
    tests = set(arguments.tests.read_text().split())
    documents = [root / "README.md", root / "template/README.md"]
    documents += sorted((root / "docs/guide").glob("*.md"))
    wrong, used = [], set()
    for document in documents:
        if not document.is_file():
            continue
        for command in commands(document.read_text()):
            used.add(command)
            if command not in known:
                wrong.append(f"{document.relative_to(root)}: no test runs "
                             f"`{command}`; write one, and name it in "
                             "tests/style/commands.txt")
    for command, names in known.items():
        if command not in used:
            wrong.append(f"tests/style/commands.txt: no document has "
                         f"`{command}`")
        if not names:
            wrong.append(f"tests/style/commands.txt: `{command}` names no "
                         "test")
        for name in names:
            if name not in tests:
                wrong.append(f"tests/style/commands.txt: there is no test "
                             f"{name}")
    print("\n".join(dict.fromkeys(wrong)), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
