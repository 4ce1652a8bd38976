#!/usr/bin/env python3
"""public_tests.py - which tests reach the library by its public headers only.

A test is public if neither its function, nor any function, macro or type of
the test sources that it uses, names something of src/. A source that includes
no header of src/ has public tests only; in a source that does, names with the
prefix tri_ or TRI_ and members of the opaque types tell the tests apart.
tools/requirements.py makes the column `public` of its table from this.

Usage: public_tests.py [--prove] [root]. Prints the numbers. With --prove each
source that has tests of both kinds is compiled again without the headers of
src/ and without what counts as internal; the end is 1 if that fails. CC is
the compiler.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
# Names of the library's internals, and of libpq, which headers of src/ include.
# The types of sys, ctx, sim and msg are opaque in the public headers, so a
# member of them is internal, too.
INTERNAL = re.compile(r"\b(?:tri_\w+|TRI_\w+|PQ\w+|PG(?:conn|result)|"
                      r"(?:sys|ctx|sim|msg)->\w+)")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
BRACES = re.compile(r"\{[^{}]*\}")
TEST = re.compile(r"\btest_\w+\b")
CONDITION = re.compile(r"#\s*(?:include|if|ifdef|ifndef|else|elif|endif)\b")
CALL = re.compile(r"\b(\w+)\(([^()]*\btest_\w+[^()]*)\)")
MACRO = re.compile(r"^#define (\w+)\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)", re.M)


class Item:
    """A definition at the outermost level: its lines and the names it uses."""

    def __init__(self, path, lines):
        self.path = path
        self.lines = lines
        code = COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"),
                           "\n".join(lines))
        self.code = STRING.sub('""', code)
        self.words = set(WORD.findall(self.code))
        self.names = defined(self.code.strip())
        self.is_main = "main" in self.names
        # A condition of the preprocessor belongs to what it encloses.
        self.internal = (not CONDITION.match(self.code.lstrip())
                         and bool(INTERNAL.search(self.code)))


def defined(code):
    """The names that an item of C defines."""
    if code.startswith("#"):
        found = re.match(r"#\s*define\s+(\w+)", code)
        return {found.group(1)} if found else set()
    if code.startswith(("enum", "typedef enum")):
        return set(WORD.findall(code))
    if re.match(r"[A-Z][A-Z0-9_]+\(", code):  # TR_MESSAGE(Name, ...)
        first = WORD.findall(code.split("(", 1)[1])[:1]
        return set(first) | {f"test_{name}" for name in first}
    head = code
    while BRACES.search(head):  # what is inside of braces defines nothing
        head = BRACES.sub(" ", head)
    if code.startswith("typedef"):
        return set(WORD.findall(head)[-1:])
    function = re.match(r"[^=(]*?\b(\w+)\s*\(", head)
    if function:
        return {function.group(1)}
    return set(WORD.findall(re.split(r"[=;]", head)[0])[-1:])


def items(path):
    """The items of a source, in order; every line belongs to one of them."""
    found, lines, depth, comment = [], [], 0, False
    text = path.read_text(errors="replace").split("\n")
    for line, after in zip(text, text[1:] + [""]):
        lines.append(line)
        comment = comment_goes_on(line, comment)
        code = STRING.sub('""', COMMENT.sub("", line))
        if not comment:
            depth += code.count("{") + code.count("(")
            depth -= code.count("}") + code.count(")")
        if ends_item(code, depth, comment, lines) and after != "{":
            found.append(Item(path, lines))
            lines = []
    found.append(Item(path, lines))
    return found


def comment_goes_on(line, comment):
    opened, closed = line.rfind("/*"), line.rfind("*/")
    return opened > closed if opened >= 0 or closed >= 0 else comment


def ends_item(code, depth, comment, lines):
    if comment or depth != 0 or code.endswith("\\"):
        return False
    text = COMMENT.sub("", "\n".join(lines)).lstrip()
    if text.startswith("#"):
        return True
    return code.rstrip().endswith((";", "}")) or (
        # A macro that defines something may do without a semicolon.
        code.rstrip().endswith(")") and
        re.match(r"[A-Z][A-Z0-9_]+\(", text) is not None)


def find_header(root, path, name):
    for folder in (path.parent, root / "tests", root / "src"):
        if (folder / name).is_file():
            return folder / name
    return None


def closure(root, path, seen=None):
    """The source and the test headers it includes; internal: one of src/."""
    seen = {} if seen is None else seen
    if path in seen:
        return seen, False
    seen[path] = items(path)
    internal = False
    for name in INCLUDE.findall(path.read_text(errors="replace")):
        header = find_header(root, path, name)
        if header is None:
            continue
        if root / "src" in header.parents:
            internal = True
        elif closure(root, header, seen)[1]:
            internal = True
    return seen, internal


def spread(all_items):
    """Marks as internal what uses something internal, until nothing changes."""
    where = {}
    for item in all_items:
        for name in item.names:
            where.setdefault(name, []).append(item)
    waiting = [item for item in all_items if item.internal]
    users = {}
    for item in all_items:
        for word in item.words:
            users.setdefault(word, []).append(item)
    while waiting:
        for name in waiting.pop().names:
            for user in users.get(name, ()):
                if not user.internal and not user.is_main:
                    user.internal = True
                    waiting.append(user)


def tests_of(root, path):
    """(names of the public tests, of the internal ones, sources or None)."""
    sources, internal = closure(root, path)
    own = sources[path]
    names = {name for item in own for name in TEST.findall(item.code)}
    if not internal:
        return names, set(), None
    everything = [item for part in sources.values() for item in part]
    spread(everything)
    inner = {name for item in everything if item.internal
             for name in item.names}
    for item in own:
        if item.is_main:
            inner |= prepared(item.code, inner)
    return names - inner, names & inner, sources


def prepared(code, inner):
    """The tests in main() that have an internal function to set them up."""
    macros = dict(MACRO.findall(code))
    return {name for callee, words in CALL.findall(code)
            for name in TEST.findall(words)
            if set(WORD.findall(words + " " + macros.get(callee, "")))
            & (inner - {name})}


def is_public(root, path):
    """True if the source includes no header of src/, not even indirectly."""
    return not closure(root, path)[1]


def prove(root, path, sources):
    """Compiles a source without what is internal; returns the errors."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for source, part in sources.items():
            copy = folder / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("\n".join(line for item in part
                                      for line in kept(root, item)))
        command = [os.environ.get("CC", "cc"), "-std=gnu11", "-fsyntax-only",
                   "-Werror=implicit-function-declaration", "-w",
                   "-D_GNU_SOURCE", f"-I{root}/include", f"-I{folder}/tests",
                   *public_headers(root),
                   str(folder / path.relative_to(root))]
        run = subprocess.run(command, capture_output=True, text=True,
                             check=False)
        return run.stderr if run.returncode != 0 else ""


def public_headers(root):
    """Options for what a removed header of src/ may have brought along."""
    names = ["stdbool.h", "stddef.h", "stdint.h", "stdarg.h", "string.h",
             "setjmp.h", "cmocka.h"]
    names += sorted(f"troupe/{header.name}"
                    for header in (root / "include/troupe").glob("*.h"))
    return [word for name in names for word in ("-include", name)]


def kept(root, item):
    if item.internal or item.is_main:
        return ["" for _ in item.lines]
    return ["" if names_src(root, item.path, line) else line
            for line in item.lines]


def names_src(root, path, line):
    found = INCLUDE.match(line)
    if not found:
        return False
    header = find_header(root, path, found.group(1))
    return header is not None and root / "src" in header.parents


def main():
    args = [a for a in sys.argv[1:] if a != "--prove"]
    root = pathlib.Path(args[0] if args else pathlib.Path(__file__)
                        .resolve().parent.parent).resolve()
    public, internal, wrong = 0, 0, 0
    for path in sorted((root / "tests").rglob("*.c")):
        outer, inner, sources = tests_of(root, path)
        public, internal = public + len(outer), internal + len(inner)
        if "--prove" in sys.argv[1:] and outer and sources is not None:
            errors = prove(root, path, sources)
            wrong += errors != ""
            if errors:
                print(f"{path.relative_to(root)}: its public tests need src/:"
                      f"\n{errors}")
    print(f"public_tests: {public} tests by public headers only, "
          f"{internal} with internals, {wrong} sources wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
