#!/usr/bin/env python3
"""compare_traces.py - compares the simulated runs of two builds, seed by seed.

A change of structure must not change what the library does: a scenario has the
same event log before and after it, for every seed. This runs the scenarios of
both builds with --trace and compares the logs. Three things differ between two
commits without any change of behaviour, and are left out:

  - places in the sources (the detail of `buggify` events, `file.c:12` in logs);
  - which of the guardians under / an event belongs to, because their order of
    spawning is the order in which a random choice finds them;
  - everything from the end of the workload on, with --until-close.

Usage: compare_traces.py [--until-close] OLD NEW SEEDS

OLD and NEW are folders with the programs sim_NAME; SEEDS is a file with lines
"NAME SEED ...", such as tests/sim/seeds.txt. Prints one line for each seed with
the first event that differs. Exit status 1 if any differs.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys

GUARDIANS = {"/user", "/system", "/temp", "/deadLetters"}
PLACE = re.compile(r"\S+\.[ch]:\d+")
EVENT = re.compile(r"\s*\d+\s+[\d.]+\s+\S+\s+(\S+)\s+(\S+)\s+\S+\s+(.*)$")
CLOSING = "closing the nodes"  # the thread that ends every run: sim_run.c


def events(folder, name, seed, until_close):
    """Yields the events of a run in the form that is compared."""
    done = subprocess.run([os.path.join(folder, f"sim_{name}"), "--seed", seed,
                           "--trace"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    for line in done.stdout.splitlines():
        found = EVENT.match(line)
        if found:
            actor, event, detail = found.groups()
            if until_close and event == "thread" and detail == CLOSING:
                return
            if event == "buggify":
                line = line[:found.start(3)]
            if actor in GUARDIANS:
                line = line.replace(actor, "(guardian)", 1)
        yield " ".join(PLACE.sub("(place)", line).split())


def seeds(path):
    with open(path) as file:
        for line in file:
            words = line.split()
            if words and not words[0].startswith("#"):
                yield words[0], words[1]


def compare(old, new, name, seed, until_close):
    """Returns the number of equal events, and the first two that differ."""
    runs = [events(folder, name, seed, until_close) for folder in (old, new)]
    count = 0
    for a, b in itertools.zip_longest(*runs):
        if a != b:
            return count, (a, b)
        count += 1
    return count, None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--until-close", action="store_true")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("seeds")
    args = parser.parse_args()
    differ = False
    for name, seed in seeds(args.seeds):
        count, first = compare(args.old, args.new, name, seed, args.until_close)
        print(f"{name} {seed}: {count} events", end="")
        print(f", then\n  old: {first[0]}\n  new: {first[1]}" if first
              else ", the same", flush=True)
        differ |= first is not None
    return differ


if __name__ == "__main__":
    sys.exit(main())
