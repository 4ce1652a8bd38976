#!/usr/bin/env python3
"""Runs troupe-bench beside its peers and prints a table of ratios.

Every round of a workload runs troupe, each peer, and troupe again, so that a
drift of the machine meets all of them alike. A figure is the median over the
rounds. `ratio` is troupe against the best peer (above 1: troupe is better),
`noise` is what the two runs of the same troupe binary in one round differ by.

The last line counts the ten workloads that every actor benchmark has; the
line before it counts all that were run.
"""
import argparse
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "peers")

# name: (count, width, lower is better); the same defaults as troupe-bench.
CORE = {
    "ping_pong": (1000000, 1, False),
    "counting": (10000000, 1, False),
    "fan_in": (100000, 100, False),
    "thread_ring": (10000000, 100, False),
    "fork_join_create": (1000000, 1, False),
    "big": (20000, 120, False),
    "chameneos": (2000000, 100, False),
    "skynet": (1000000, 1, True),
    "idle_mem": (1000000, 1, True),
    "ask": (200000, 1, True),
}
MORE = {
    "ask_slept": (2000, 1, True),
    "ask_await": (20000, 100, True),
    "ask_await_server": (20000, 100, True),
    "spawn": (1000000, 1, False),
    "timers": (5000000, 100, False),
    "timers_fire": (1000000, 100, False),
}
ALL = {**CORE, **MORE}
ERLANG_PROCESSES_MIN = 262144


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


class Peer:
    """One peer: how it is built, how it is run, what it cannot run."""

    def __init__(self, name, build, command, lacks=()):
        self.name = name
        self.build = build
        self.command = command
        self.lacks = set(lacks)


def build_caf():
    source = os.path.join(HERE, "caf", "bench.cpp")
    return ["g++", "-std=c++17", "-O3", "-march=native", "-DNDEBUG", source,
            "-o", os.path.join(BUILD, "caf"), "-lcaf_core", "-lpthread"], {}


def build_erlang():
    source = os.path.join(HERE, "erlang", "bench.erl")
    return ["erlc", "-o", BUILD, source], {}


def build_go():
    source = os.path.join(HERE, "go", "bench.go")
    return (["go", "build", "-o", os.path.join(BUILD, "go"), source],
            {"GO111MODULE": "off", "GOCACHE": os.path.join(BUILD, "gocache")})


def build_tokio():
    # A copy, because cargo writes a lock file beside the sources.
    copy = os.path.join(BUILD, "tokio")
    shutil.copytree(os.path.join(HERE, "tokio"), copy, dirs_exist_ok=True)
    return (["cargo", "build", "--release", "--offline", "--quiet",
             "--manifest-path", os.path.join(copy, "Cargo.toml"),
             "--target-dir", os.path.join(copy, "target"),
             "--config", 'source.crates-io.replace-with="debian"',
             "--config",
             'source.debian.directory="/usr/share/cargo/registry"'],
            {"CARGO_HOME": os.path.join(BUILD, "cargo")})


def run_erlang(workload, workers, count):
    processes = max(ERLANG_PROCESSES_MIN, 2 * count)
    return ["erl", "-noshell", "-noinput", "+S", "%d:%d" % (workers, workers),
            "+P", str(processes), "-pa", BUILD, "-s", "bench", "main",
            workload]


def run_binary(*path):
    binary = os.path.join(BUILD, *path)
    return lambda workload, workers, count: [binary, workload, str(workers)]


PEERS = [
    Peer("caf", build_caf, run_binary("caf"),
         lacks=["timers", "timers_fire"]),
    Peer("erlang", build_erlang, run_erlang, lacks=["ask", "ask_slept"]),
    Peer("go", build_go, run_binary("go")),
    Peer("tokio", build_tokio,
         run_binary("tokio", "target", "release", "bench")),
]


def build(peer):
    """True if the peer can take part; its absence is noted, not hidden."""
    command, more = peer.build()
    try:
        done = subprocess.run(command, env={**os.environ, **more}, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        note("%s: not built: %s" % (peer.name, error))
        return False
    if done.returncode != 0:
        note("%s: not built:\n%s" % (peer.name, done.stdout))
    return done.returncode == 0


def measure(command, workload, more, timeout):
    """Runs one program; returns its value and unit, or None and why not."""
    try:
        done = subprocess.run(command, env={**os.environ, **more}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None, "no result within %d s" % timeout
    words = done.stdout.split()
    if done.returncode == 0 and len(words) == 3 and words[0] == workload:
        return float(words[1]), words[2]
    return None, "status %d: %s" % (done.returncode, done.stderr.strip())


def sizes(workload, options, dice):
    count, width, _ = ALL[workload]
    count, width = count * options.scale, float(width)
    if options.seed:
        count *= dice.uniform(0.5, 1.5)
        width = width * dice.uniform(0.5, 1.5) if width > 1 else width
    return max(1, round(count)), max(1, round(width))


def short(value):
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return "%.4g%s" % (value / limit, letter)
    return "%.4g" % value


class Row:
    """The figures of one workload with one number of workers."""

    def __init__(self, workload, workers):
        self.workload = workload
        self.workers = workers
        self.lower = ALL[workload][2]
        self.unit = ""
        self.samples = {}
        self.noise = []

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def median(self, name):
        found = self.samples.get(name)
        return statistics.median(found) if found else None

    def best(self, peers):
        figures = [(self.median(p.name), p.name) for p in peers
                   if self.median(p.name) is not None]
        if not figures:
            return None
        return (min(figures) if self.lower else max(figures))[1]

    def ratio(self, peers):
        ours, best = self.median("troupe"), self.best(peers)
        if ours is None or best is None:
            return None
        theirs = self.median(best)
        return theirs / ours if self.lower else ours / theirs

    def cells(self, peers):
        best, ratio = self.best(peers), self.ratio(peers)
        ours = self.median("troupe")
        cells = [self.workload, self.unit + (" (lower)" if self.lower else ""),
                 str(self.workers), "failed" if ours is None else short(ours)]
        for peer in peers:
            value = self.median(peer.name)
            cells.append("-" if value is None else short(value) +
                         (" *" if peer.name == best else ""))
        cells.append("-" if ratio is None else "%.2fx" % ratio)
        cells.append("%.2fx" % statistics.median(self.noise)
                     if self.noise else "-")
        return cells


def run_row(row, peers, options, count, width):
    limit = 60 + 240 * max(1.0, options.scale)
    ours = [options.troupe, row.workload, "--workers", str(row.workers),
            "--count", str(count), "--width", str(width)]
    env = {"N": str(count), "W": str(width)}

    def sample(name, command):
        value, text = measure(command, row.workload, env, limit)
        if value is None:
            note("%s %s, %d workers: %s" % (name, row.workload, row.workers,
                                            text))
            return None
        row.unit = text
        row.add(name, value)
        return value

    for _ in range(options.rounds):
        first = sample("troupe", ours)
        for peer in peers:
            if row.workload not in peer.lacks:
                sample(peer.name,
                       peer.command(row.workload, row.workers, count))
        again = sample("troupe", ours)
        if first and again:
            row.noise.append(max(first, again) / min(first, again))


def print_table(rows, peers):
    head = (["workload", "unit", "workers", "troupe"] +
            [p.name for p in peers] + ["ratio", "noise"])
    lines = [head] + [row.cells(peers) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        padded = [c.ljust(widths[i]) for i, c in enumerate(line)]
        print("| " + " | ".join(padded) + " |")
    print("\n* the best peer")


def summary(rows, peers):
    ratios = [r for r in (row.ratio(peers) for row in rows) if r]
    if not ratios:
        return None
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    return "worst %.2fx geomean %.2fx" % (min(ratios), mean)


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0,
                        help="multiplies every count (default 1)")
    parser.add_argument("--rounds", type=int, default=3,
                        help="rounds per row (default 3)")
    parser.add_argument("--seed", type=int, default=0,
                        help="draws counts and widths, 0.5 to 1.5 times")
    parser.add_argument("--workers", default="1,2",
                        help="numbers of workers (default 1,2)")
    parser.add_argument("--workloads", default=",".join(ALL),
                        help="names, with commas (default: all)")
    parser.add_argument("--peers", default=",".join(p.name for p in PEERS),
                        help="names, with commas (default: all)")
    parser.add_argument("--troupe", help="path of troupe-bench",
                        default=os.path.join(ROOT, "build", "release",
                                             "bench", "troupe-bench"))
    options = parser.parse_args()
    options.workloads = options.workloads.split(",")
    for name in options.workloads:
        if name not in ALL:
            parser.error("no such workload: " + name)
    options.workers = [int(text) for text in options.workers.split(",")]
    if not os.path.exists(options.troupe):
        parser.error(options.troupe + " is not built")
    return options


def main():
    options = parse()
    os.makedirs(BUILD, exist_ok=True)
    wanted = options.peers.split(",")
    peers = [p for p in PEERS if p.name in wanted and build(p)]
    print("%s, %d CPUs, Linux %s, %s" %
          (processor(), os.cpu_count(), platform.release(),
           time.strftime("%Y-%m-%d")))
    print("scale %g, medians of %d rounds%s\n" %
          (options.scale, options.rounds,
           ", seed %d" % options.seed if options.seed else ""), flush=True)
    dice = random.Random(options.seed)
    rows = []
    for workload in options.workloads:
        count, width = sizes(workload, options, dice)
        for workers in options.workers:
            row = Row(workload, workers)
            run_row(row, peers, options, count, width)
            note(" ".join(row.cells(peers)))
            rows.append(row)
    print_table(rows, peers)
    missing = [p.name for p in PEERS if p not in peers]
    if missing:
        print("not taken part: " + " ".join(missing))
    core = [row for row in rows if row.workload in CORE] or rows
    broken = [row for row in rows if row.median("troupe") is None]
    everything, counted = summary(rows, peers), summary(core, peers)
    if counted is None:
        sys.stdout.flush()  # the table first, wherever both go
        print("no ratio: nothing to compare", file=sys.stderr)
        return 1
    print("all workloads: " + everything)
    print("ratio to best peer: " + counted)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
