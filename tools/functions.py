"""functions.py - finds the functions of C sources by their layout.

clang-format puts the brace that opens a function alone on its line, in the
first column, and the one that closes it likewise; no other brace is there.
"""
import collections
import re

Function = collections.namedtuple("Function", "name line length text")

# A function with a macro of its name is defined as tr_err(tr_host)(...).
NAME = re.compile(r"\((\w+)\)\s*\(|(\w+)\s*\((?!\w+\)\s*\()")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def without_comments(text):
    """Comments as spaces, so that line numbers stay right."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def head_of(lines, brace):
    """The first line of the signature that ends above the brace."""
    at = brace
    while at > 0 and lines[at - 1].strip() \
            and not lines[at - 1].startswith(("#", "}")) \
            and not lines[at - 1].rstrip().endswith((";", "\\")):
        at -= 1
    return at


def functions_of(file):
    """[Function]; line is where the signature begins, length counts it."""
    lines = without_comments(file.read_text(encoding="utf-8")).split("\n")
    found, brace = [], None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            brace = i
        elif line.rstrip() == "}" and brace is not None:
            first = head_of(lines, brace)
            name = NAME.search("\n".join(lines[first:brace]))
            if name:
                found.append(Function(name.group(1) or name.group(2),
                                      first + 1, i - first + 1,
                                      "\n".join(lines[brace:i + 1])))
            brace = None
    return found


def sources_of(root):
    return sorted(root.glob("src/**/*.[ch]"))
