#!/usr/bin/env python3
"""check_includes.py - no source includes more than it uses.

usage: check_includes.py [--root DIR] [--missing] [--fix] [--jobs N]
                         BUILD_DIR [FILE...]
       check_includes.py [--root DIR] --spread

Reads every source and header of src/ with include-what-you-use and reports
  - an include that is not used,
  - with --missing, a header that is used but reached only through another,
  - a header that more than a quarter of the sources of its layer include and
    that is not one of the nouns in tools/nouns.txt.
--fix rewrites the includes; run `make format` and then this again, because
what one header no longer includes another file may need. --spread reports
only the last point and needs no build. FILE limits the first two.

An include that only another configuration needs is marked in the source:
`// IWYU pragma: keep`. Results are kept in BUILD_DIR/includes.json.
Exit status 1 if anything was reported.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import time

import layers
import sources
from sources import ROOT

TOOL = "include-what-you-use"
MAPPING = ROOT / "tools" / "includes.imp"
SHARE = 4  # a header that is no noun is included by one of so many sources
FEW = 5    # ... but so many may always include it: some layers are small

SAME = {"<syscall.h>": "<sys/syscall.h>"}  # two names of one header

HEAD = re.compile(r"^(/\S+) should (add|remove) these lines:$")
LINE = re.compile(r'^(?:- )?#include ([<"]\S+[>"])')
OUTPUT = re.compile(r"should add these lines:$|has correct #includes", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"][^>"]+[>"])', re.M)


def plain(include):
    """The form in which an include is compared."""
    if include.startswith("<troupe/"):
        return f'"{include[1:-1]}"'
    return SAME.get(include, include)


def run_tool(command):
    """{file: [[to add], [to remove]]} for a source and its own header."""
    folder, words = command
    options = ["--no_fwd_decls", "--max_line_length=200",
               f"--mapping_file={MAPPING}"]
    options = [word for option in options for word in ("-Xiwyu", option)]
    done = subprocess.run([TOOL, *options, *words[1:], "-w"], cwd=folder,
                          check=False, capture_output=True, text=True)
    if done.returncode not in (0, 2) or not OUTPUT.search(done.stderr):
        raise SystemExit(f"{TOOL}, {words[-1]}:\n{done.stderr}")
    found, here = {}, None
    for line in done.stderr.splitlines():
        head, entry = HEAD.match(line), LINE.match(line)
        if head:
            both = found.setdefault(head.group(1), [[], []])
            here = both[head.group(2) == "remove"]
        elif here is not None and entry:
            here.append(entry.group(1))
        else:
            here = None
    return found


def commands_of(build, root):
    """As sources.commands_of, and headers that no source is named after."""
    commands = sources.commands_of(build, root)
    for header in sorted(root.glob("src/**/*.h")):
        if header.with_suffix(".c").exists():
            continue
        layer = header.relative_to(root).parts[1]
        folder, words = next(command for name, command in commands.items()
                             if name.startswith(f"src/{layer}/"))
        commands[header.relative_to(root).as_posix()] = (
            folder, [*words[:-2], "-x", "c", "-c", str(header)])
    return commands


def findings(options):
    """{file: ({to add}, {to remove})} of files below src/, and a count."""
    commands = commands_of(options.build, options.root)
    config = MAPPING.read_bytes() + b"1"
    results = sources.Results(options.build / "includes.json", config)
    chosen = options.files or list(commands)

    def look(name):
        return results.get(commands[name], lambda: run_tool(commands[name]))

    found = {}
    for _, result in sources.in_parallel(options.jobs, look, chosen):
        for file, (add, remove) in result.items():
            file = pathlib.Path(file)
            if file.is_relative_to(options.root / "src"):
                add, remove = set(map(plain, add)), set(map(plain, remove))
                found[file] = (add - remove, remove - add)
    if not options.files:
        results.save()
    return found, len(chosen)


# ---- rewriting ----


def region(lines):
    """(first, end) of the includes at the top: nothing but blanks between."""
    first = next((i for i, line in enumerate(lines) if INCLUDE.match(line)),
                 None)
    if first is None:  # after the guard of a header
        guard = [i for i, line in enumerate(lines)
                 if line.startswith("#define TRI_")]
        at = guard[0] + 1 if guard else 0
        return at, at
    end = at = first
    while at < len(lines) and (INCLUDE.match(lines[at]) or not lines[at]):
        at += 1
        if INCLUDE.match(lines[at - 1]):
            end = at
    return first, end


def rewrite(file, add, remove):
    """The header that declares it, headers of libraries, headers of ours."""
    lines = file.read_text(encoding="utf-8").split("\n")
    first, end = region(lines)
    kept = [line for line in lines[first:end]
            if (match := INCLUDE.match(line))
            and plain(match.group(1)) not in remove]
    own = []
    if (file.suffix == ".c" and first + 1 < end and not lines[first + 1]
            and kept and kept[0].startswith('#include "')):
        own = kept[:1]
    kept = kept[len(own):] + [f"#include {include}" for include in add]
    blocks = [own, sorted(line for line in kept if "<" in line),
              sorted(line for line in kept if "<" not in line)]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    before, after = lines[:first], lines[end:]
    if first == end:
        before, after = before + [""], after
    file.write_text("\n".join([*before, text, *after]), encoding="utf-8")


# ---- headers that everybody includes ----


def spread(root):
    """[(header, sources that include it, sources of its layer)], most first."""
    count, total = collections.Counter(), collections.Counter()
    for source in root.glob("src/**/*.c"):
        layer = source.relative_to(root).parts[1]
        total[layer] += 1
        text = source.read_text(encoding="utf-8")
        for include in set(INCLUDE.findall(text)):
            name = include.strip('<">')
            if name.split("/")[0] == layer:
                count[name] += 1
    return [(name, number, total[name.split("/")[0]])
            for name, number in count.most_common()]


def check_spread(root, report):
    file = root / "tools" / "nouns.txt"
    nouns = {words[0] for words in layers.words_of(file)} if file.exists() \
        else set()
    for noun in sorted(nouns):
        if not (root / "src" / noun).exists():
            report(f"tools/nouns.txt: there is no src/{noun}")
    for name, number, total in spread(root):
        if number > max(total // SHARE, FEW) and name not in nouns:
            report(f"src/{name}: included by {number} of {total} sources of "
                   f"its layer: split it, or see tools/nouns.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    began, wrong = time.monotonic(), []
    options.root = options.root.resolve()
    if options.spread:
        check_spread(options.root, wrong.append)
        print("\n".join(wrong + [f"includes: {len(wrong)} headers are "
                                 "included too widely"]))
        return 1 if wrong else 0
    if options.build is None:
        parser.error("BUILD_DIR is missing")
    found, count = findings(options)
    missing = 0
    for file, (add, remove) in sorted(found.items()):
        name = file.relative_to(options.root).as_posix()
        for include in sorted(remove):
            wrong.append(f"{name}: does not use {include}")
        missing += len(add)
        if options.missing:
            wrong += [f"{name}: uses {include} without including it"
                      for include in sorted(add)]
        if options.fix:
            rewrite(file, add if options.missing else set(), remove)
    if not options.files:
        check_spread(options.root, wrong.append)
    print("\n".join(wrong + [
        f"includes: {count} files, {missing} used but not included, "
        f"{len(wrong)} wrong, {time.monotonic() - began:.0f} s"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
