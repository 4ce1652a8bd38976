#!/usr/bin/env python3
"""check_references.py - files that comments and documents name exist.

usage: check_references.py [DIR]

Looks at comments of C sources, scripts and build files, at texts of Python
modules and at all of the Markdown pages, but not at CHANGELOG.md and
docs/coverage.md, which are of their day, for names like
`map.c`, `base/map.h`, `map_test.c`, `docs/semantics.md`, `docs/design/0001`
and `tests/model`. A name without folders may be that of a
file anywhere in the tree; one with folders is the end of a path.
tools/references_allowed.txt lists names that are no files of the tree.

Exit status 1 if a file is not there.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

import layers

SKIPPED = ("CHANGELOG.md", "docs/coverage.md", "build/",
           "tests/fuzz/corpus/", "tests/planted/",
           "tests/mutations/", "tools/references_allowed.txt")
FILE = re.compile(r"(?<![\w./*<>{}$%-])((?:[\w.-]+/)*[\w-][\w.-]*\."
                  r"(?:c|h|S|py|sh|md|txt|cmake))(?![\w*(<{]|\.\w)")
FOLDER = re.compile(r"(?<![\w./<>{}$-])((?:docs|src|tests|tools|include|bench)"
                    r"/[\w./-]*\w)(?![\w.*<{$/(-])")
C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
HASH_COMMENT = re.compile(r"^[ \t]*#(?!include|define|if|endif).*$", re.M)
DOCSTRING = re.compile(r'"""(.*?)"""', re.S)


def files_of(root):
    """Paths of all files, as git knows them if it does."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-co",
                           "--exclude-standard"],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return [name for name in done.stdout.splitlines()
                if (root / name).is_file()]
    return [path.relative_to(root).as_posix() for path in root.rglob("*")
            if path.is_file()]


def texts_of(name, text):
    """[(position, text)] of what a reader of the file reads."""
    if name.endswith(".md"):
        return [(0, text)]
    if name.endswith((".c", ".h", ".S")):
        return [(m.start(), m.group(0)) for m in C_COMMENT.finditer(text)
                if m.group(0)[0] == "/"]
    found = []
    if name.endswith(".py"):
        found = [(m.start(1), m.group(1)) for m in DOCSTRING.finditer(text)]
    if (name.endswith((".py", ".sh", ".cmake", ".txt"))
            or name.rsplit("/", 1)[-1] in ("Makefile", "run", ".clang-tidy")):
        found += [(m.start(), m.group(0))
                  for m in HASH_COMMENT.finditer(text)]
    return found


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = files_of(root)
        self.ends = set()
        for name in self.files:
            parts = name.split("/")
            for i in range(len(parts)):
                self.ends.add("/".join(parts[i:]))
        self.folders = {"/".join(name.split("/")[:i])
                        for name in self.files
                        for i in range(1, name.count("/") + 1)}
        allowed = root / "tools" / "references_allowed.txt"
        self.allowed = [words[0] for words in layers.words_of(allowed)] \
            if allowed.exists() else []
        self.used = set()

    def has(self, name, where):
        name = re.sub(r"^(\.\./|\./)+", "", name)
        if name in self.ends or name in self.folders:
            return True
        near = where.rsplit("/", 1)[0] + "/" + name
        if near in self.ends or near in self.folders:
            return True
        # The number of a page, the beginning of a name.
        if any(file.startswith(name) for file in self.files):
            return True
        for pattern in self.allowed:
            if fnmatch.fnmatch(name, pattern):
                self.used.add(pattern)
                return True
        return False


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else layers.ROOT
    tree, wrong, count = Tree(root), [], 0
    for name in sorted(tree.files):
        if name.startswith(SKIPPED):
            continue
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        seen = set()
        for start, piece in texts_of(name, text):
            for match in [*FILE.finditer(piece), *FOLDER.finditer(piece)]:
                at = text.count("\n", 0, start + match.start()) + 1
                if (at, match.group(1)) in seen:
                    continue
                seen.add((at, match.group(1)))
                count += 1
                if not tree.has(match.group(1), name):
                    wrong.append(f"{name}:{at}: there is no {match.group(1)}")
    for pattern in tree.allowed:
        if pattern not in tree.used:
            wrong.append(f"tools/references_allowed.txt: nothing names "
                         f"{pattern}")
    print("\n".join(wrong + [f"references: {count} looked up, {len(wrong)} "
                             f"wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
