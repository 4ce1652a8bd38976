#!/usr/bin/env python3
"""lint.py - runs clang-tidy over the sources of the library, in parallel.

usage: lint.py [--jobs N] BUILD_DIR [SOURCE...]

The checks are in .clang-tidy; BUILD_DIR was configured with clang. What was
found is kept in BUILD_DIR/tidy.json: the next call reads only sources that
have changed, themselves or in a header.

Exit status 1 if there is a finding.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import sources
from sources import ROOT

TIDY = "clang-tidy-19"


def tidy(folder, source):
    """What it found; empty if nothing."""
    done = subprocess.run([TIDY, "--quiet", "-p", folder, source], cwd=ROOT,
                          check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    return done.stdout.replace(f"{ROOT}/", "") or done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()

    began = time.monotonic()
    commands = sources.commands_of(options.build)
    chosen = options.sources or sorted(  # long ones first
        commands, key=lambda source: -(ROOT / source).stat().st_size)
    folder = options.build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(
        [{"directory": where, "file": words[-1], "arguments": words}
         for where, words in commands.values()]))
    results = sources.Results(options.build / "tidy.json",
                              (ROOT / ".clang-tidy").read_bytes())

    def look(source):
        return results.get(commands[source], lambda: tidy(folder, source))

    found = 0
    for _, text in sources.in_parallel(options.jobs, look, chosen):
        if text:
            print(text, flush=True)
            found += 1
    if not options.sources:
        results.save()
    print(f"tidy: {len(chosen)} sources, {found} with findings, "
          f"{time.monotonic() - began:.0f} s")
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
