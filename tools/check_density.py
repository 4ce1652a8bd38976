#!/usr/bin/env python3
"""check_density.py - how many checks a function has, layer by layer.

usage: check_density.py [--least LAYER=N]... [--files] [DIR]

Counts TRI_CHECK, TRI_CHECK_SLOW, the assertions of locks and the walkers
tri_*_check in the functions of src/, inline ones of headers included. --files
names the sources of core and cluster that have none. Exit status 1 if a layer
has fewer checks per function than --least asks for.
"""
import argparse
import collections
import pathlib
import re
import sys

import functions
import layers

CHECK = re.compile(r"\b(TRI_CHECK(_\w+)?|tri_lock_assert_held|tri_\w+_check)"
                   r"\s*\(")
HELD = ("core", "cluster")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", action="append", default=[],
                        metavar="LAYER=N")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("root", type=pathlib.Path, nargs="?",
                        default=layers.ROOT)
    options = parser.parse_args()
    least = dict(item.split("=") for item in options.least)

    checks, count = collections.Counter(), collections.Counter()
    for file in functions.sources_of(options.root):
        name = file.relative_to(options.root)
        layer, here = name.parts[1], 0
        found = functions.functions_of(file)
        for f in found:
            here += len(CHECK.findall(f.text))
        checks[layer] += here
        count[layer] += len(found)
        if options.files and found and not here and layer in HELD \
                and file.suffix == ".c":
            print(f"{name.as_posix()}: {len(found)} functions, no check")
    wrong = 0
    for layer in layers.read():
        if count[layer]:
            density = checks[layer] / count[layer]
            few = density < float(least.get(layer, 0))
            wrong += few
            print(f"{layer:<8} {checks[layer]:>5} checks in "
                  f"{count[layer]:>4} functions: {density:.2f} each"
                  + (f", at least {least[layer]} wanted" if few else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
