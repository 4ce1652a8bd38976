#!/usr/bin/env python3
"""check_sizes.py - no file and no function of src/ is too long.

usage: check_sizes.py [DIR]

A file has at most 600 lines, a function at most 60 with its signature. Ends
with the median length of a function. Exit status 1 if anything is longer.
"""
import pathlib
import statistics
import sys

import functions
from layers import ROOT

FILE_MAX = 600
FUNCTION_MAX = 60


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    wrong, lengths = [], []
    files = functions.sources_of(root)
    for file in files:
        name = file.relative_to(root).as_posix()
        count = len(file.read_text(encoding="utf-8").splitlines())
        if count > FILE_MAX:
            wrong.append(f"{name}: {count} lines, {FILE_MAX} are allowed")
        for f in functions.functions_of(file):
            lengths.append(f.length)
            if f.length > FUNCTION_MAX:
                wrong.append(f"{name}:{f.line}: {f.name} has {f.length} "
                             f"lines, {FUNCTION_MAX} are allowed")
    median = statistics.median(lengths) if lengths else 0
    print("\n".join(wrong + [f"sizes: {len(files)} files, {len(lengths)} "
                             f"functions, median {median:g} lines, "
                             f"{len(wrong)} too long"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
