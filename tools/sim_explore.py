#!/usr/bin/env python3
"""sim_explore.py - many seeds of every simulated scenario, over many runs.

The state file keeps for each scenario (a program made with tr_sim_main) the
next seed that has not been tried. A call tries `--seeds` more of each, in
parallel processes, adds its figures to those of all calls before, and keeps
what failed: a failing seed is written to the state file and named at the end
with the command that replays it. With --keep it is appended to the list of
seeds that the tests run for ever.

Usage: sim_explore.py --seeds N [--jobs N] [--chunk N] [--state FILE]
                      [--keep FILE] [--fresh] [--first SEED] [--seconds N]
                      [--strict N] program...

At the end every fault class and every buggify site is listed with how often
it happened, over all calls. One that never happened is a gap in the
scenarios, and so is a class that no scenario switches on: after --strict seeds
in all, such a gap ends with 1, too.

Ends with 1 if a seed failed, in this call, or if a scenario called the system
directly for time, random numbers, threads or files.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import time

LOG = re.compile(r"^\S+ (?:DEBUG|INFO|WARN|ERROR)\s+sim (?P<text>.*)$")
FAILED = re.compile(r"\bseed (\d+) failed at ")
TOTALS = re.compile(r"in all (\d+\.\d+) simulated s, (\d+) steps")
COUNTER = re.compile(r"(fault|buggify)\s+(\S+)\s+(\d+) of\s+(\d+)")
STRAY = re.compile(r"stray\s+(\S.*\S)\s+(\d+) of\s+\d+")
PROGRESS_EVERY = 2.0  # seconds
CHUNK_SECONDS = 2.0   # a chunk of seeds should take about that long
CHUNK_MAX = 2000
TIMEOUT = 600         # seconds for one chunk; more is a hang


class Figures:
    """Sums over chunks, and over calls: what the state file holds."""

    def __init__(self, stored=None):
        stored = stored or {}
        self.seeds = stored.get("seeds", 0)
        self.simulated = stored.get("simulated_seconds", 0)
        self.cpu = stored.get("cpu_seconds", 0.0)
        self.faults = collections.Counter(stored.get("faults", {}))
        self.sites = collections.Counter(stored.get("sites", {}))
        self.reached = collections.Counter(stored.get("reached", {}))

    def stored(self):
        return {"seeds": self.seeds, "simulated_seconds": self.simulated,
                "cpu_seconds": round(self.cpu, 3), "faults": dict(self.faults),
                "sites": dict(self.sites), "reached": dict(self.reached)}

    def add(self, other):
        self.seeds += other.seeds
        self.simulated += other.simulated
        self.cpu += other.cpu
        self.faults.update(other.faults)
        self.sites.update(other.sites)
        self.reached.update(other.reached)

    def never(self):
        """What should have struck and never has."""
        struck = self.faults + self.sites  # drops what is zero
        names = set(self.faults) | set(self.sites)
        return sorted(name for name in names if name not in struck)

    def coverage(self):
        places = set(self.faults) | set(self.sites)
        struck = self.faults + self.sites
        return f"{len(struck)} of {len(places)} classes and sites"

    def __str__(self):
        fired = sum(self.faults.values())
        rate = int(self.simulated / self.cpu) if self.cpu else 0
        return (f"{self.seeds} seeds, {self.simulated} simulated s, "
                f"{rate} per CPU s, {fired} faults")


class Chunk:
    """What one process said about its seeds."""

    def __init__(self, program, first, count):
        self.program, self.first, self.count = program, first, count
        self.figures = Figures()
        self.failed = {}  # seed: text
        self.strays = collections.Counter()  # calls around the world
        self.seconds = 0.0


def site_name(name):
    """Sites are named by path: that of the build is of no interest."""
    parts = pathlib.PurePath(name).parts
    for top in ("src", "tests", "examples", "demo"):
        if top in parts:
            return "/".join(parts[parts.index(top):])
    return parts[-1] if parts else name


def read_output(chunk, text):
    for line in text.splitlines():
        log = LOG.match(line)
        words = log.group("text") if log else ""
        failed = FAILED.search(words)
        if failed:
            chunk.failed[int(failed.group(1))] = words
        totals = TOTALS.search(words)
        if totals:
            chunk.figures.simulated = round(float(totals.group(1)))
        stray = STRAY.search(words)
        counter = COUNTER.search(words)
        if stray:
            chunk.strays[stray.group(1)] += int(stray.group(2))
        elif counter:
            kind, name, fired, reached = counter.groups()
            name = name if kind == "fault" else site_name(name)
            of_kind = (chunk.figures.faults if kind == "fault"
                       else chunk.figures.sites)
            of_kind[name] += int(fired)
            if int(reached) > 0:
                chunk.figures.reached[name] += int(reached)


def run(chunk):
    """One process; on a crash the seed is found by trying them singly."""
    command = [chunk.program, "--seed", str(chunk.first), "--seeds",
               str(chunk.count)]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT, check=False)
        status, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, text = "hang", ""
    chunk.seconds = time.monotonic() - begun
    chunk.figures.seeds = chunk.count
    read_output(chunk, text)
    if status != 0 and not chunk.failed:
        if chunk.count == 1:
            last = text.strip().splitlines()[-1:] or [""]
            chunk.failed[chunk.first] = f"ended with {status}: {last[0]}"
        else:
            find_crash(chunk)
    return chunk


def find_crash(chunk):
    for seed in range(chunk.first, chunk.first + chunk.count):
        single = run(Chunk(chunk.program, seed, 1))
        if single.failed:
            chunk.failed.update(single.failed)
            return
    chunk.failed[chunk.first] = "ended badly, but no single seed does"


class Explorer:
    def __init__(self, args):
        self.args = args
        self.state_path = pathlib.Path(args.state)
        self.state = {} if args.fresh else self.load()
        self.lock = threading.Lock()
        self.now = Figures()
        self.begun = time.monotonic()
        self.told = self.begun
        self.failed = []  # (program, seed, text)
        self.never = []   # what should have struck
        self.strays = collections.Counter()
        self.by_name = {self.name(p): Figures() for p in args.programs}

    @staticmethod
    def name(program):
        name = pathlib.Path(program).name
        return name.removeprefix("sim_").removesuffix("_sim")

    def load(self):
        try:
            return json.loads(self.state_path.read_text())
        except (OSError, ValueError):
            return {}

    def save(self):
        text = json.dumps(self.state, indent=1, sort_keys=True) + "\n"
        fresh = self.state_path.with_suffix(".new")
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text)
        fresh.replace(self.state_path)

    def of(self, program):
        return self.state.setdefault(self.name(program), {"next": 1})

    def note(self, chunk):
        with self.lock:
            self.now.add(chunk.figures)
            self.by_name[self.name(chunk.program)].add(chunk.figures)
            self.strays.update(chunk.strays)
            for seed, text in sorted(chunk.failed.items()):
                self.failed.append((chunk.program, seed, text))
                self.of(chunk.program).setdefault("failed", {})[
                    str(seed)] = text
                print(f"\n{self.name(chunk.program)}: {text}", flush=True)
            self.progress(False)

    def progress(self, last):
        now = time.monotonic()
        if not last and now - self.told < PROGRESS_EVERY:
            return
        self.told = now
        rate = self.now.seeds / max(now - self.begun, 0.001)
        total = self.args.seeds * len(self.args.programs)
        line = (f"{self.now.seeds} of {total} seeds, {len(self.failed)} "
                f"failed; {rate:.0f} seeds/s, "
                f"{int(self.now.simulated / max(self.now.cpu, 0.001))} "
                f"simulated s per CPU s, "
                f"{sum(self.now.faults.values())} faults, "
                f"{self.now.coverage()}")
        end = "\n" if last or not sys.stderr.isatty() else "\r"
        print(line, end=end, file=sys.stderr, flush=True)

    def explore(self, program, pool):
        """All seeds of one program, the chunks as large as they are quick."""
        state = self.of(program)
        first, left = self.args.first or state["next"], self.args.seeds
        until = time.monotonic() + self.args.seconds / len(self.args.programs)
        size = self.args.chunk or 5
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_before = usage.ru_utime + usage.ru_stime
        while left > 0 and (not self.args.seconds
                            or time.monotonic() < until):
            chunks = []
            while left > 0 and len(chunks) < self.args.jobs:
                count = min(size, left)
                chunks.append(Chunk(program, first, count))
                first, left = first + count, left - count
            done = list(pool.map(run, chunks))
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = usage.ru_utime + usage.ru_stime
            done[0].figures.cpu = cpu - cpu_before
            cpu_before = cpu
            for chunk in done:
                self.note(chunk)
            if not self.args.chunk:
                slowest = max(chunk.seconds for chunk in done)
                grow = CHUNK_SECONDS / max(slowest, 0.01)
                size = max(1, min(CHUNK_MAX, int(size * min(grow, 8))))
            self.finish_part(program, first, done)

    def finish_part(self, program, first, done):
        """After each batch, so that an interrupted call loses little."""
        state = self.of(program)
        sums = Figures(state.get("figures"))
        for chunk in done:
            sums.add(chunk.figures)
        if not self.args.first:
            state["next"] = first
        state["figures"] = sums.stored()
        self.save()

    def report(self):
        self.progress(True)
        for program in self.args.programs:
            name = self.name(program)
            total = Figures(self.of(program).get("figures"))
            print(f"{name}: {self.by_name[name]}; in all calls: {total}")
        total = Figures()
        for entry in self.state.values():
            total.add(Figures(entry.get("figures")))
        for kind, counts in (("fault", total.faults),
                             ("buggify", total.sites)):
            for what, fired in sorted(counts.items()):
                note = "" if fired else (
                    "  NEVER" if total.reached[what] else
                    "  no scenario can")
                print(f"{kind:7} {what:44} {fired:12}{note}")
        print(f"in all calls: {total}, {total.coverage()}")
        if total.seeds >= self.args.strict * len(self.args.programs):
            self.never = total.never()
            for what in self.never:
                print(f"NEVER struck: {what}: no run shows what it does")
        for what, calls in sorted(self.strays.items()):
            print(f"STRAY {what}: {calls} calls that no seed decides")
        for program, seed, text in self.failed:
            print(f"FAILED {program} --seed {seed} --trace   # {text}")

    def keep(self):
        if not self.args.keep or not self.failed:
            return
        path = pathlib.Path(self.args.keep)
        there = path.read_text() if path.exists() else ""
        known = {tuple(line.split()[:2]) for line in there.splitlines()}
        with path.open("a") as out:
            for program, seed, _ in self.failed:
                if (self.name(program), str(seed)) not in known:
                    out.write(f"{self.name(program)} {seed}\n")

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            try:
                for program in self.args.programs:
                    self.explore(program, pool)
            except KeyboardInterrupt:
                print("\ninterrupted; the next call goes on from here")
        self.report()
        self.keep()
        return 1 if self.failed or self.never or self.strays else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--chunk", type=int, default=0,
                        help="seeds for one process; default: as is quick")
    parser.add_argument("--state", default="build/sim-state.json")
    parser.add_argument("--keep", help="append failing seeds to this file")
    parser.add_argument("--first", type=int, default=0,
                        help="the first seed, instead of the next one")
    parser.add_argument("--seconds", type=float, default=0,
                        help="real time after which no new seeds are begun")
    parser.add_argument("--strict", type=int, default=1000,
                        help="seeds of each program from which on a class or "
                        "site that never struck is a failure")
    parser.add_argument("--fresh", action="store_true",
                        help="forget what earlier calls did")
    parser.add_argument("programs", nargs="+")
    return Explorer(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
