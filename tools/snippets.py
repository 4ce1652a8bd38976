#!/usr/bin/env python3
"""snippets.py - code in the documents is code that is compiled.

A document shows a part of a source like this; what stands between the marks
is taken from the source and never written by hand:

    <!-- snippet: examples/02_ask.c#handler -->
    ```c
    ...
    ```

`#handler` is the region between `// [snippet: handler]` and `// [end]` in the
source (`# [snippet: handler]` in Python); without it the whole file is shown,
without such lines.

Usage: snippets.py [--write] [root]. Reports what is not current and ends with
1, or with --write brings it up to date. Also reported, in README.md and
docs/guide: C, C++ and Python that come from no source, `make` commands that do not exist;
and, in every document, links to files or headings that are not there.
"""
import pathlib
import re
import sys

BLOCK = re.compile(
    r"(<!-- snippet: (?P<what>\S+) -->\n)"
    r"(?P<fence>```(?P<lang>\w*)\n(?P<body>.*?)```\n)", re.S)
MARK = re.compile(r"<!-- snippet: (\S+) -->\n")
FENCE = re.compile(r"^```(c|cpp|python)$", re.M)
LANGUAGES = {"c": "C", "cpp": "C++", "python": "Python"}
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
BEGIN = re.compile(r"^\s*(?://|#) \[snippet: ([\w-]+)\]$")
END = re.compile(r"^\s*(?://|#) \[end\]$")


class Wrong(Exception):
    pass


def regions(text):
    """Name -> lines of each marked region; None -> the whole file."""
    found, name, whole = {}, None, []
    for line in text.splitlines():
        begin = BEGIN.match(line)
        if begin:
            if name is not None:
                raise Wrong(f"region {name} is not ended")
            name = begin.group(1)
            if name in found:
                raise Wrong(f"region {name} is there twice")
            found[name] = []
        elif END.match(line):
            if name is None:
                raise Wrong("[end] without a region")
            name = None
        else:
            whole.append(line)
            if name is not None:
                found[name].append(line)
    if name is not None:
        raise Wrong(f"region {name} is not ended")
    found[None] = whole
    return found


def dedented(lines):
    depth = min((len(l) - len(l.lstrip()) for l in lines if l.strip()),
                default=0)
    return "".join(l[depth:].rstrip() + "\n" for l in lines)


def snippet(root, what):
    path, _, name = what.partition("#")
    source = root / path
    if not source.is_file():
        raise Wrong(f"{path} is not there")
    try:
        found = regions(source.read_text())
    except Wrong as wrong:
        raise Wrong(f"{path}: {wrong}") from None
    if (name or None) not in found:
        raise Wrong(f"{path} has no region {name}")
    return dedented(found[name or None])


def targets(root):
    makefile = root / "Makefile"
    if not makefile.is_file():
        return set()
    text = makefile.read_text()
    return set(re.findall(r"^([\w-]+):(?!=)", text, re.M))


def check_prose(root, document, text, report):
    known = targets(root)
    marked = {m.end() for m in MARK.finditer(text)}
    for fence in FENCE.finditer(text):
        if fence.start() not in marked:
            line = text.count("\n", 0, fence.start()) + 1
            report(f"{document}:{line}: {LANGUAGES[fence.group(1)]} that is not "
                   "from a source")
    for block in SHELL.finditer(text):
        for command in re.findall(r"\bmake ([^\n#]*)", block.group(1)):
            for word in command.split():
                if "=" not in word and word not in known:
                    report(f"{document}: make {word} does not exist")


def anchors(text):
    """The names of a document's headings, as a reader's browser makes them."""
    plain = re.sub(r"```.*?```", "", text, flags=re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(plain)}


def check_links(root, document, text, report):
    plain = re.sub(r"```.*?```", "", text, flags=re.S)
    for link, anchor in LINK.findall(plain):
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (root / document).parent.joinpath(link) if link else \
            root / document
        if not target.exists():
            report(f"{document}: link to {link}, which is not there")
        elif anchor and target.suffix == ".md" and \
                anchor not in anchors(target.read_text()):
            report(f"{document}: link to {link}#{anchor}, which has no such "
                   "heading")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    write = "--write" in sys.argv[1:]
    root = pathlib.Path(arguments[0] if arguments else ".")
    failed = False

    def report(text):
        nonlocal failed
        failed = True
        print(text)

    documents = sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md"))
    for path in documents:
        document = path.relative_to(root)
        text = path.read_text()

        def current(block):
            try:
                body = snippet(root, block.group("what"))
            except Wrong as wrong:
                report(f"{document}: {wrong}")
                return block.group(0)
            if body != block.group("body") and not write:
                report(f"{document}: {block.group('what')} has changed; "
                       "run tools/snippets.py --write")
            return (f"{block.group(1)}```{block.group('lang')}\n"
                    f"{body}```\n")

        new = BLOCK.sub(current, text)
        if len(MARK.findall(text)) != len(BLOCK.findall(text)):
            report(f"{document}: a snippet mark without a block below it")
        if write and new != text:
            path.write_text(new)
        if path.name == "README.md" or "guide" in document.parts:
            check_prose(root, document, new, report)
        check_links(root, document, new, report)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
