#!/usr/bin/env python3
"""ci_summary.py - the closing lines of .ci/run.

usage: ci_summary.py STATUS LOG [BUILD_DIR...]

LOG is what the make targets printed. Adds up the summaries of CTest in it and
prints "N passed, N failed" as the last line. A target that failed without a
failed test, as a build that breaks or make lint, counts as one failure.

Before it come the skipped tests, which CTest counts as passed: programs that
ended with 77 as LOG names them, and single tests of a program as cmocka
printed them into the log of CTest in each BUILD_DIR.
"""
import collections
import pathlib
import re
import sys

SUMMARY = re.compile(
    r"^\d+% tests passed, (\d+) tests? failed out of (\d+)", re.M)
PROGRAM = re.compile(r"^\s*\d+/\d+ Test +#\d+: (\S+) \.*\*\*\*Skipped", re.M)
BEGIN = re.compile(r"^\d+/\d+ Test: (\S+)$")
SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test\(s\), listed below:$")


def skipped_in(build):
    """{test program: how many of its tests were skipped}"""
    found, name = collections.Counter(), "?"
    log = build / "Testing" / "Temporary" / "LastTest.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    for line in text.splitlines():
        begin, skipped = BEGIN.match(line), SKIPPED.match(line)
        if begin:
            name = begin.group(1)
        elif skipped:
            found[name] += int(skipped.group(1))
    return found


def main():
    if len(sys.argv) < 3:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    status, log, *builds = sys.argv[1:]
    text = pathlib.Path(log).read_text(errors="replace")
    failed = total = 0
    for match in SUMMARY.finditer(text):
        failed += int(match.group(1))
        total += int(match.group(2))
    programs = PROGRAM.findall(text)
    total -= len(programs)
    if status != "0" and failed == 0:
        failed = 1
        total += 1

    lines, count = [], len(programs)
    if programs:
        lines.append(f"  whole programs: {' '.join(programs)}")
    for build in map(pathlib.Path, builds):
        found = skipped_in(build)
        count += sum(found.values())
        if found:
            names = [f"{name} ({number})" if number > 1 else name
                     for name, number in sorted(found.items())]
            lines.append(f"  {build.name}: {' '.join(names)}")
    print("\n".join([f"{count} skipped", *lines]))
    print(f"{total - failed} passed, {failed} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
