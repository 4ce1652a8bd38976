#!/usr/bin/env python3
"""coverage.py - which branches of the runtime the tests take.

Reads what a build with TROUPE_COVERAGE has counted (the preset `coverage`,
after its tests) and prints, for each function of src/core and src/system, how
many of its branches were taken at least once. Branches inside checks
(TRI_CHECK and the like) and log lines do not count: those of a check are
never all taken, and those of a log line choose words.

Usage: coverage.py [--build DIR] [--layers core,system] [--open] [--all]
                   [--markdown FILE] [--least PERCENT] [--against FILE]

  --open       print each branch that was never taken, with its line
  --all        print fully covered functions as well
  --markdown   write the functions with open branches into this file, and
               what kind of branches these are
  --least      the end is 1 if less than this share is covered
  --against    the end is 1 if a function has more open branches than the
               table in this file says, or has some and is not in it

Where docs/coverage-reasons.txt has a line for a function, somebody has looked:
its words stand in the table instead of those chosen by shape.
"""
import argparse
import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys

# What a statement begins with whose branches do not count.
SPARED = re.compile(r"\b(TRI_CHECK|TRI_CHECK_SLOW|tri_logf|tri_log_write)\s*\(")
# Why a branch is open, by its line; the first that fits.
REASONS = (
    (re.compile(r"compare_exchange"), "lost race"),
    (re.compile(r"tag\b|\bforeign\b"), "ref"),
    (re.compile(r"(==|!=) NULL|NULL\)|\bfits\b|should_fail"), "absent"),
    (re.compile(r"TR_TRY|\berr\b|TR_OK|can_park|cancel"), "error below"),
    (re.compile(r"\bid\b|is_stale|_id\b"), "stale"),
)
OTHER = "untested"

HEAD = """# Branches that no test takes

Written by `make coverage` (tools/coverage.py --markdown); not edited by hand.
It counts the branches of src/core and src/system, without those of checks and
log lines. A sentence in the last column is from docs/coverage-reasons.txt:
somebody has looked. The words are chosen by the shape of the line; they say
where to begin to look, not that somebody has looked:

- *absent*: memory that could not be had, or a part that is looked for with
  care and always there. Allocations of the runtime's own memory are failed one
  by one in tests/unit/core/nomem_test.c and tests/unit/system/edges_test.c,
  those of the C library, threads and pollers in starve_test.c.
- *error below*: passing on an error that the call below gives only then.
- *lost race*: another thread was faster in the same instant; the stress tests
  come by here now and then.
- *ref*: a ref of another system or of no cell, seen again behind the place
  that has refused it.
- *stale*: mail for a former owner of a cell, likewise.
- *untested*: a test is missing. These are the ones to look at.

"""


def counted(build):
    """The counter files of the static library, which all tests link."""
    return sorted(build.glob("CMakeFiles/troupe_static.dir/src/**/*.gcda"))


def read(path, scratch):
    """gcov's own report of one counter file."""
    out = subprocess.run(
        ["gcov", "--json-format", "--stdout", "--branch-probabilities",
         str(path)], cwd=scratch, check=True, capture_output=True).stdout
    if out[:2] == b"\x1f\x8b":
        out = gzip.decompress(out)
    return [json.loads(line) for line in out.splitlines() if line.strip()]


def spared_lines(text):
    """Numbers of the lines that belong to a check or a log call."""
    lines = set()
    for match in SPARED.finditer(text):
        at, depth = match.end(), 1
        while depth > 0 and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        first = text.count("\n", 0, match.start()) + 1
        lines.update(range(first, text.count("\n", 0, at) + 2))
    return lines


class Source:
    """The branches of one file: (function, line) -> counts, in order."""

    def __init__(self, path):
        text = path.read_text()
        self.lines = text.splitlines()
        self.spared = spared_lines(text)
        self.branches = collections.defaultdict(list)

    def add(self, line):
        number = line["line_number"]
        if number in self.spared or not line["branches"]:
            return
        have = self.branches[line.get("function_name", "?"), number]
        for i, branch in enumerate(line["branches"]):
            if i == len(have):
                have.append(0)
            have[i] += branch["count"]


def gather(root, build, layers):
    """path in the tree -> Source."""
    found = {}
    for path in counted(build):
        for report in read(path, build):
            base = pathlib.Path(report["current_working_directory"])
            for file in report["files"]:
                full = (base / file["file"]).resolve()
                try:
                    name = str(full.relative_to(root))
                except ValueError:
                    continue
                if not any(name.startswith(f"src/{layer}/")
                           for layer in layers):
                    continue
                source = found.setdefault(name, Source(full))
                for line in file["lines"]:
                    source.add(line)
    return found


def functions(source):
    """function -> [taken, all, [(line, which, of)]]."""
    table = {}
    for (name, number), counts in sorted(source.branches.items(),
                                         key=lambda item: item[0][1]):
        row = table.setdefault(name, [0, 0, []])
        for i, count in enumerate(counts):
            row[0] += count > 0
            row[1] += 1
            if count == 0:
                row[2].append((number, i, len(counts)))
    return table


def report(found, args):
    """Prints; returns how many branches were taken, and how many there are."""
    taken = total = 0
    for name in sorted(found):
        source = found[name]
        table = functions(source)
        a = sum(row[0] for row in table.values())
        b = sum(row[1] for row in table.values())
        if b == 0:
            continue
        taken, total = taken + a, total + b
        print(f"{name:40} {a:5} of {b:5} {100 * a / b:6.1f} %")
        for function, (got, of, missing) in table.items():
            if missing or args.all:
                print(f"    {function:36} {got:5} of {of:5}")
            if args.open:
                for number, which, ways in missing:
                    text = source.lines[number - 1].strip()
                    print(f"        {number}: way {which + 1} of {ways}: "
                          f"{text}")
    return taken, total


def reason_of(text):
    return next((word for shape, word in REASONS if shape.search(text)), OTHER)


def written_reasons(path):
    """(file, function) -> why, from lines `core/api.c tr_keep: why`."""
    reasons = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.strip() and not line.startswith("#"):
            where, why = line.split(": ", 1)
            file, function = where.split()
            reasons[file, function] = why.strip()
    return reasons


def open_branches(found):
    """(file, function) -> number of branches that were never taken."""
    return {(name.removeprefix("src/"), function): len(missing)
            for name, source in found.items()
            for function, (_, _, missing) in functions(source).items()
            if missing}


def listed(path):
    """The same from the table that an earlier run has written."""
    row = re.compile(r"\| (\S+) \| `(\w+)` \| (\d+) \|")
    return {(m[1], m[2]): int(m[3]) for m in row.finditer(path.read_text())}


def compare(now, before, reasons):
    """Prints what is worse than it was, and reasons for nothing."""
    worse = 0
    for (file, function), count in sorted(now.items()):
        allowed = before.get((file, function), 0)
        if count > allowed:
            worse += 1
            print(f"coverage: {file}: {function}: {count} open branches, "
                  f"{allowed} in the list")
    for file, function in sorted(reasons.keys() - now.keys()):
        print(f"coverage: {file}: {function}: has a reason, but no open branch")
    return worse


def markdown(found, share, reasons):
    """The table of open branches, most wanted first within a file."""
    out = [HEAD + f"Covered: {share:.1f} %.\n\n"
           "| file | function | open | of | why |\n|---|---|---|---|---|\n"]
    for name in sorted(found):
        source = found[name]
        for function, (_, of, missing) in functions(source).items():
            words = collections.Counter(
                reason_of(source.lines[number - 1]) for number, _, _ in missing)
            if words:
                why = reasons.get((name.removeprefix("src/"), function)) or (
                    ", ".join(f"{word} {count}"
                              for word, count in sorted(words.items())))
                out.append(f"| {name.removeprefix('src/')} | `{function}` | "
                           f"{len(missing)} | {of} | {why} |\n")
    return "".join(out)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=root / "build/coverage")
    parser.add_argument("--layers", default="core,system")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--against", type=pathlib.Path)
    args = parser.parse_args()

    build = args.build.resolve()
    if not counted(build):
        print(f"coverage: nothing was counted in {build}: make coverage")
        return 1
    found = gather(root, build, args.layers.split(","))
    taken, total = report(found, args)
    share = 100 * taken / total
    print(f"coverage: {taken} of {total} branches, {share:.1f} %")
    status = 0
    if share < args.least:
        print(f"coverage: at least {args.least:g} % are wanted")
        status = 1
    reasons = written_reasons(root / "docs/coverage-reasons.txt")
    if args.against:
        status |= compare(open_branches(found), listed(args.against),
                          reasons) > 0
    if args.markdown:
        args.markdown.write_text(markdown(found, share, reasons))
    return status


if __name__ == "__main__":
    sys.exit(main())
