#!/usr/bin/env python3
"""bench_instructions.py - compares two builds of troupe-bench by instructions.

Counts with valgrind, one worker. Each workload runs with two sizes; the
difference of the two counts, divided by the difference of the sizes, is what
one item costs, without start and end of the program. The smallest of --rounds
runs counts: a thread that searches for work or waits for a lock adds
instructions, and none of the additions is the workload's own.

Usage: bench_instructions.py [--rounds N] OLD NEW [WORKLOAD ...]

OLD and NEW are two troupe-bench programs. "noise" is how much the rounds of OLD
differ from each other. Workloads whose figure is a time, a ratio or the memory
of the process (ask_slept, cpu_1us, sqlite_saves and others) are not in the
table SIZES; compare those by their own figures.
"""
import argparse
import re
import subprocess
import sys

# Workload: two counts, and the width if the usual one is too large.
SIZES = {
    "ping_pong": (20000, 60000, None),
    "counting": (50000, 150000, None),
    "fan_in": (500, 1500, None),
    "thread_ring": (50000, 150000, None),
    "big": (200, 600, None),
    "chameneos": (10000, 30000, None),
    "fork_join_create": (10000, 30000, None),
    "skynet": (1000, 10000, None),
    "spawn": (10000, 30000, None),
    "tree_stop": (5000, 15000, None),
    "ask": (3000, 9000, None),
    "ask_await": (100, 300, None),
    "ask_await_server": (100, 300, None),
    "timers": (20000, 60000, None),
    "timers_fire": (5000, 15000, None),
    "idle_mem": (10000, 30000, None),
    "random_1m": (20000, 60000, 1000),
    "codec_binary": (5000, 15000, None),
    "codec_json": (2000, 6000, None),
    "virtual_call": (1000, 3000, None),
    "virtual_ref": (20000, 60000, 1000),
    "virtual_ref_new": (5000, 15000, None),
    "virtual_by_name": (20000, 60000, 1000),
    "virtual_activate_memory": (2000, 6000, None),
    "virtual_activate_bare": (2000, 6000, None),
}


def instructions(bench, workload, count, width):
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no",
               "--cachegrind-out-file=/dev/null", bench, workload,
               "--workers", "1", "--count", str(count)]
    if width:
        command += ["--width", str(width)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    return int(found.group(1).replace(",", ""))


def measure(bench, workload, rounds):
    """Instructions for one item: of the best counts, and the spread."""
    few, many, width = SIZES[workload]
    low = [instructions(bench, workload, few, width) for _ in range(rounds)]
    high = [instructions(bench, workload, many, width) for _ in range(rounds)]
    each = (min(high) - min(low)) / (many - few)
    spread = (max(high) - min(high) + max(low) - min(low)) / (many - few)
    return each, spread


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("workload", nargs="*", default=list(SIZES))
    args = parser.parse_args()
    print("| workload | old | new | change | noise |\n|---|---|---|---|---|")
    for workload in args.workload:
        old, noise = measure(args.old, workload, args.rounds)
        new, _ = measure(args.new, workload, args.rounds)
        print(f"| {workload} | {old:.1f} | {new:.1f} | "
              f"{100 * (new - old) / old:+.1f} % | {100 * noise / old:.1f} % |",
              flush=True)


if __name__ == "__main__":
    main()
