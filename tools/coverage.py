#!/usr/bin/env python3
"""coverage.py - which branches of the runtime the tests take.

Reads what a build with TROUPE_COVERAGE has counted (the preset `coverage`,
after its tests) and prints, for each function of src/core and src/system, how
many of its branches were taken at least once. Branches inside checks
(TRI_CHECK and the like) and log lines do not count: those of a check are
never all taken, and those of a log line choose words.

Usage: coverage.py [--build DIR] [--layers core,system] [--open] [--all]
                   [--least PERCENT] [--reasons FILE] [--markdown FILE]

  --open       print each branch that was never taken, with its line
  --all        print fully covered functions as well
  --least      the end is 1 if less than this share of a layer is covered
  --reasons    the end is 1 if a function has open branches and no reason in
               this file, or more of them than the reason is for, or if a
               reason is for a function that is not there
  --markdown   write the functions with open branches into this file, each
               with its reason

A reason is a line `core/mail/tell.c tr_name 1: why`: as many branches of it may be
open. Those that only a race takes are open in some runs; the number is that of
the run with most. `@word` in a reason stands for a sentence that many have in
common, a line `@word: sentence`.
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
HEAD = """# Branches that no test takes

Written by `make coverage` (tools/coverage.py --markdown) from
docs/coverage-reasons.txt; not edited by hand. It counts the branches of
src/core and src/system, without those of checks and log lines; a branch of a
function that is built into several others counts once. A reason that many
functions have in common is a word here, and a sentence below the table.

"""
REASON = re.compile(r"(\S+) (\w+) (\d+): (.+)")
GROUP = re.compile(r"@(\w+): (.+)")


def counted(build):
    """The counter files of the static library, which all tests link."""
    return sorted(build.glob("CMakeFiles/troupe_objects.dir/src/**/*.gcda"))


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
        self.text = text
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
    """Prints; returns [taken, all] by layer."""
    layers = {}
    for name in sorted(found):
        source = found[name]
        table = functions(source)
        a = sum(row[0] for row in table.values())
        b = sum(row[1] for row in table.values())
        if b == 0:
            continue
        sums = layers.setdefault(name.split("/")[1], [0, 0])
        sums[0], sums[1] = sums[0] + a, sums[1] + b
        print(f"{name:40} {a:5} of {b:5} {100 * a / b:6.1f} %")
        for function, (got, of, missing) in table.items():
            if missing or args.all:
                print(f"    {function:36} {got:5} of {of:5}")
            if args.open:
                for number, which, ways in missing:
                    text = source.lines[number - 1].strip()
                    print(f"        {number}: way {which + 1} of {ways}: "
                          f"{text}")
    return layers


class Reasons:
    """What a file of reasons says."""

    def __init__(self, path):
        self.groups = {}     # word -> sentence
        self.functions = {}  # (file, function) -> (number, why)
        self.wrong = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if match := GROUP.fullmatch(line):
                self.groups[match[1]] = match[2]
            elif match := REASON.fullmatch(line):
                self.functions[match[1], match[2]] = int(match[3]), match[4]
            else:
                self.wrong.append(f"line {number} is no reason: {line}")
        for (file, function), (_, why) in self.functions.items():
            for word in re.findall(r"@(\w+)", why):
                if word not in self.groups:
                    self.wrong.append(f"{file}: {function}: no such word: "
                                      f"@{word}")

    def words(self, key):
        return re.sub(r"@(\w+)", r"*\1*", self.functions[key][1])


def open_branches(found):
    """(file, function) -> (number never taken, number of all)."""
    return {(name.removeprefix("src/"), function): (len(missing), of)
            for name, source in found.items()
            for function, (_, of, missing) in functions(source).items()
            if missing}


def unreasoned(found, reasons):
    """What is open without a reason, and reasons without a function."""
    out = list(reasons.wrong)
    for (file, function), (count, _) in sorted(open_branches(found).items()):
        known, _ = reasons.functions.get((file, function), (0, ""))
        if count > known:
            out.append(f"{file}: {function}: {count} branches are open, "
                       f"{known} have a reason")
    for file, function in sorted(reasons.functions):
        text = found["src/" + file].text if "src/" + file in found else ""
        if not re.search(rf"\b{function}\b", text):
            out.append(f"{file}: {function}: has a reason and is not there")
    return out


def markdown(found, shares, reasons):
    """The table of what is open, file by file, and the sentences."""
    table = open_branches(found)
    out = [HEAD, "Covered: ",
           ", ".join(f"{layer} {share:.1f} %" for layer, share in shares),
           f". {len(table)} functions have open branches.\n\n",
           "| file | function | open | of | why |\n|---|---|---|---|---|\n"]
    for (file, function), (count, of) in sorted(
            table.items(), key=lambda item: item[0][0]):
        if (file, function) in reasons.functions:
            out.append(f"| {file} | `{function}` | {count} | {of} | "
                       f"{reasons.words((file, function))} |\n")
    out.append("\n")
    for word, sentence in reasons.groups.items():
        out.append(f"- *{word}*: {sentence}\n")
    return "".join(out)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=root / "build/coverage")
    parser.add_argument("--layers", default="core,system")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--reasons", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    if args.markdown and not args.reasons:
        parser.error("--markdown needs --reasons")

    build = args.build.resolve()
    if not counted(build):
        print(f"coverage: nothing was counted in {build}: make coverage")
        return 1
    found = gather(root, build, args.layers.split(","))
    shares, status = [], 0
    for layer, (taken, total) in report(found, args).items():
        shares.append((layer, 100 * taken / total))
        print(f"coverage: {layer}: {taken} of {total} branches, "
              f"{shares[-1][1]:.1f} %")
        if shares[-1][1] < args.least:
            print(f"coverage: {layer}: at least {args.least:g} % are wanted")
            status = 1
    if args.reasons:
        reasons = Reasons(args.reasons)
        wrong = unreasoned(found, reasons)
        for line in wrong:
            print(f"coverage: {line}")
        status |= len(wrong) > 0
        if args.markdown:
            args.markdown.write_text(markdown(found, shares, reasons))
    return status


if __name__ == "__main__":
    sys.exit(main())
