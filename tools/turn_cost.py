#!/usr/bin/env python3
"""turn_cost.py - what supervision, watch and metrics cost for each message.

Builds troupe-bench twice, as it is and with TRI_BARE_TURNS, where a turn catches
no failure and counts nothing (src/core/run/context.h), and counts the
instructions of both with callgrind. Each workload runs with two numbers of
messages; the difference of the two, divided, is what one message takes from
its tr_tell to the end of its handler, without start and end of the program.

Usage: turn_cost.py [--most PERCENT] [--jobs N] [WORKLOAD ...]

The exit status is 1 if a workload needs more than --most (10) percent more; what was
measured, and the aim of 5, are in docs/design/0013-samples.md.
"""
import argparse
import pathlib
import re
import subprocess
import sys

COUNTS = (50000, 150000)
WORKLOADS = ("counting", "thread_ring", "ping_pong")


def build(root, name, flags, jobs):
    """The bench in build/NAME."""
    where = root / "build" / name
    subprocess.run(["cmake", "--preset", "release", "-B", str(where),
                    f"-DCMAKE_C_FLAGS={flags}"], cwd=root, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(where), "-j", str(jobs),
                    "--target", "troupe-bench"], cwd=root, check=True,
                   stdout=subprocess.DEVNULL)
    return where / "bench/troupe-bench"


def instructions(bench, workload, count):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         str(bench), workload, "--workers", "1", "--count", str(count)],
        check=True, capture_output=True, text=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def each(bench, workload):
    """Instructions for one item of the workload."""
    few, many = (instructions(bench, workload, n) for n in COUNTS)
    return (many - few) / (COUNTS[1] - COUNTS[0])


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("workload", nargs="*", default=WORKLOADS)
    args = parser.parse_args()

    whole = build(root, "release", "", args.jobs)
    bare = build(root, "bare", "-DTRI_BARE_TURNS", args.jobs)
    worst = 0
    for workload in args.workload:
        without, with_all = each(bare, workload), each(whole, workload)
        more = 100 * (with_all - without) / without
        worst = max(worst, more)
        print(f"{workload:12} bare {without:7.1f}  whole {with_all:7.1f}  "
              f"{more:+5.1f} %", flush=True)
    print(f"turn_cost: at most {worst:.1f} % more")
    return worst > args.most


if __name__ == "__main__":
    sys.exit(main())
