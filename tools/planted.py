#!/usr/bin/env python3
"""planted.py - puts small bugs into the library: do the scenarios fail?

tests/planted holds one bug per file: what it is, in one line, the source
file, and pairs of texts; the old one must be in the source exactly once and
is replaced by the new one. The pairs survive changes around them; a bug that
does not apply any more is an error and must be rewritten.

Each bug is put alone into a copy of the tree under build/planted, the
simulated scenarios are built there with the flags of a release and run, a
few seeds of each, then more, until one fails, --seeds are used up or the
time is over. The unchanged copy runs first: it must pass.

Results are kept beside the copy, so that a call with --only updates only
those rows of the table.

Usage: planted.py [--check] [--random] [--only NN,...] [--seeds N]
                  [--seconds N] [--jobs N] [--table FILE]

--check only looks whether every bug still applies. --random runs the tester
of random programs (tests/random) instead of the scenarios, --seconds for each
bug, and writes the second table of the page. The last line is
`caught N of M`; it ends with 1 if a bug does not apply or build, or if the
tree fails without any.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLANTED = ROOT / "tests" / "planted"
TREE = ROOT / "build" / "planted"
FOUND = TREE / "found.json"
FOUND_RANDOM = TREE / "found-random.json"
RANDOM_HEAD = "## Found by random programs"
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src",
          "tests", "template", "tools", "demo", "examples", "bench")
ROUNDS = (5, 20, 75, 200, 500, 1000)  # seeds of each scenario, per round
RANDOM = "random_programs"
RANDOM_TURN = 10    # seconds for one process of it
TIMEOUT = 20.0      # seconds for a process that may hang ...
TIMEOUT_SEED = 0.5  # ... and for each seed, which takes milliseconds
BROKEN = re.compile(r"random: FAILED: --mode (\w+) --seed (\d+): (.*)")
FAILED = re.compile(r"\bseed (\d+) failed at step \d+, [\d.]+ s: (.*)")


class Wrong(Exception):
    """A bug that cannot be planted."""


class Bug:
    def __init__(self, path):
        self.path = path
        self.number, self.name = path.stem.split("_", 1)
        head, _, body = path.read_text().partition("@@ old\n")
        lines = [line for line in head.splitlines() if line]
        if len(lines) != 2 or not lines[1].startswith("file: ") or not body:
            raise Wrong(f"{path.name}: what it is, file: and @@ old expected")
        self.what, self.file = lines[0], lines[1][len("file: "):]
        body, end, _ = body.partition("@@ end\n")
        pairs = [part.split("@@ new\n") for part in body.split("@@ old\n")]
        if not end or any(len(p) != 2 or not p[0].strip() for p in pairs):
            raise Wrong(f"{path.name}: @@ new or @@ end is missing")
        self.pairs = [(old, new) for old, new in pairs]

    def find(self, text, old):
        """Where old is, by its words: layout may differ. Exactly once."""
        pattern = r"\s+".join(re.escape(word) for word in old.split())
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise Wrong(f"{self.path.name}: its text is {len(found)} times"
                        f" in {self.file}, not once: write it anew")
        return found[0]

    def applied(self, text):
        for old, new in self.pairs:
            at = self.find(text, old)
            text = text[:at.start()] + new.strip() + text[at.end():]
        return text


def read_bugs(only):
    bugs = [Bug(path) for path in sorted(PLANTED.glob("[0-9]*.txt"))]
    wanted = set(only.split(",")) if only else None
    return [bug for bug in bugs
            if wanted is None or bug.number in wanted or bug.name in wanted]


def check(bugs):
    wrong = 0
    for bug in bugs:
        try:
            source = ROOT / bug.file
            if not source.exists():
                raise Wrong(f"{bug.path.name}: there is no {bug.file}")
            bug.applied(source.read_text())
        except Wrong as why:
            print(why)
            wrong += 1
    print(f"planted: {len(bugs)} bugs, {wrong} do not apply")
    return wrong == 0


# ---- the copy ----


def copy_file(source, target):
    """Copies only if the file has changed, so that little is rebuilt."""
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def copy_tree():
    wanted = set()
    for top in COPIED:
        source = ROOT / top
        for path in [source] if source.is_file() else source.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                target = TREE / path.relative_to(ROOT)
                copy_file(path, target)
                wanted.add(target)
    for top in COPIED:  # files that were deleted from the tree
        for path in (TREE / top).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()


def call(command, what):
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Wrong(f"{what}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def configure():
    options = ["-DTROUPE_BENCH=OFF", "-DTROUPE_WERROR=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    call(["cmake", "--preset", "release", *options], "cmake")
    targets = call(["ninja", "-C", "build/release", "-t", "targets", "all"],
                   "ninja")
    return sorted(set(re.findall(r"^(sim_\w+): phony$", targets, re.M)))


def build(scenarios, jobs):
    call(["ninja", "-C", "build/release", "-j", str(jobs), *scenarios],
         "it does not build")


# ---- running ----


def start(scenario, first, count):
    """(exit status or 'hang', what it said)"""
    program = TREE / "build" / "release" / "tests" / "sim" / scenario
    command = [str(program), "--seed", str(first), "--seeds", str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              errors="replace", check=False,
                              timeout=TIMEOUT + count * TIMEOUT_SEED)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return "hang", ""


def run(scenario, first, count):
    """(failing seed, text), or (None, '') if all of them pass."""
    status, text = start(scenario, first, count)
    if status == 0:
        return None, ""
    seed = first
    while count > 1 and not FAILED.search(text):  # a crash, or a hang: where?
        status, text = start(scenario, seed, 1)
        if status != 0:
            break
        seed += 1
        if seed == first + count:
            return None, ""  # it was only slow
    found = FAILED.search(text)
    if found:
        return int(found.group(1)), found.group(2).split("; again:")[0]
    last = text.strip().splitlines()[-1:] or [""]
    words = last[0].replace(f"{TREE}/", "")
    return seed, f"ended with {status}: {words[-100:]}"


class Outcome:
    def __init__(self):
        self.scenario, self.seed, self.why = None, None, ""
        self.seeds = 0  # run in all, the failing one included
        self.over = ""  # why it ended, if nothing failed


def explore(scenarios, seeds, seconds, jobs):
    """Rounds over all scenarios; the first failure in their order counts."""
    outcome, next_seed = Outcome(), 1
    deadline = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for count in ROUNDS:
            count = min(count, (seeds - outcome.seeds) // len(scenarios))
            if count == 0:
                break
            waiting = [(s, pool.submit(run, s, next_seed, count))
                       for s in scenarios]
            for scenario, future in waiting:
                if outcome.scenario is not None:
                    future.cancel()
                    continue
                seed, why = future.result()
                if seed is None:
                    outcome.seeds += count
                    if time.monotonic() < deadline:
                        continue
                    for _, other in waiting:
                        other.cancel()
                    outcome.over = "no time left"
                    return outcome
                outcome.scenario, outcome.seed, outcome.why = (scenario, seed,
                                                               why)
                outcome.seeds += seed - next_seed + 1
            if outcome.scenario is not None:
                return outcome
            next_seed += count
    outcome.over = "no seeds left"
    return outcome


def explore_random(seconds):
    """Random programs, in turns of a few seconds, until one fails."""
    program = TREE / "build" / "release" / "tests" / "random" / RANDOM
    outcome, first = Outcome(), 1
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        command = [str(program), "--no-shrink", "--seconds", str(RANDOM_TURN),
                   "--first", str(first), "--rest", "5"]
        done = subprocess.run(command, capture_output=True, text=True,
                              errors="replace", check=False)
        text = done.stdout + done.stderr
        found = BROKEN.search(text)
        if found:
            outcome.scenario, outcome.seed = found[1], int(found[2])
            outcome.seeds += 3 * (outcome.seed - first + 1)  # in each mode
            said = re.search(r"^broken: .*?: (.*)$", text, re.M)
            outcome.why = found[3] + (f": {said[1]}" if said else "")
            return outcome
        ran = int(re.search(r"random: (\d+) programs", text)[1])
        outcome.seeds += ran
        first += ran // 3
    outcome.over = "no time left"
    return outcome


def plant(bug, scenarios, options):
    target = TREE / bug.file
    text = target.read_text()
    target.write_text(bug.applied(text))
    try:
        build(scenarios, options.jobs)
        if options.random:
            return explore_random(options.seconds)
        return explore(scenarios, options.seeds, options.seconds,
                       options.jobs)
    finally:
        target.write_text(text)


# ---- reporting ----


def short(scenario):
    return scenario[len("sim_"):] if scenario.startswith("sim_") else scenario


def row(bug, outcome):
    if outcome.scenario is None:
        how = f"survived {outcome.seeds} seeds ({outcome.over})"
    else:
        how = (f"{short(outcome.scenario)} after {outcome.seeds} "
               f"seeds: {outcome.why[:90]}")
    return f"{bug.number} {bug.name:<26} {bug.file:<28} {how}"


def read_found(path):
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path, bug, outcome, scenarios):
    found = read_found(path)
    found[bug.path.stem] = dict(vars(outcome), scenarios=len(scenarios))
    path.write_text(json.dumps(found, indent=1))


def results_of(path):
    """(bug, outcome) of all bugs that were tried, in this call or before."""
    found, results = read_found(path), []
    for bug in read_bugs(""):
        if bug.path.stem in found:
            outcome = Outcome()
            vars(outcome).update(found[bug.path.stem])
            results.append((bug, outcome))
    return results


def rows_of(results):
    caught = sum(1 for _, o in results if o.scenario is not None)
    lines = ["| bug | what it does | in | found by | seeds | what it said |",
             "|---|---|---|---|---|---|"]
    for bug, o in results:
        found = short(o.scenario) if o.scenario else "nothing"
        why = (o.why if o.scenario else o.over).replace("|", "\\|")
        lines.append(f"| {bug.number} {bug.name} | {bug.what} | {bug.file} | "
                     f"{found} | {o.seeds} | {why[:160]} |")
    return lines + ["", f"Caught {caught} of {len(results)}.", ""]


def write_random(path):
    """Replaces the second table of the page."""
    first = path.read_text().partition(RANDOM_HEAD)[0].rstrip()
    lines = ["", "", RANDOM_HEAD, "",
             "Made by `tools/planted.py --random`: the same bugs against the "
             "tester of random programs "
             "([0014](design/0014-random-programs.md)), in a release build, "
             "with threads, polled and simulated by turns. Found by: the "
             "mode. Random programs have one node and stores in memory, so "
             "bugs of SQLite and of the bus are out of their reach; so is, in "
             "this build, what only a sanitizer sees. Seeds: how many programs "
             "were run; forty seconds on a busy machine are a few hundred to "
             "three thousand, and 38, 39 and 40 were first met after more.",
             ""]
    path.write_text(first + "\n".join(lines + rows_of(
        results_of(FOUND_RANDOM))))


def write_table(path):
    """Replaces the first table of the page."""
    second = path.read_text().partition(RANDOM_HEAD)[1:]
    results = results_of(FOUND)
    most = max((vars(o)["scenarios"] for _, o in results), default=0)
    lines = [
        "# Planted bugs", "",
        "Made by `make planted` ([tools/planted.py](../tools/planted.py)): "
        "every bug of [tests/planted](../tests/planted) is put alone into a "
        "copy of the tree, the simulated scenarios are built and run, and the "
        "first that fails is noted. Seeds are counted over all of the "
        f"{most} scenarios, which take turns.", "",
        "The first 32 bugs were chosen by reading the sources, before the "
        "scenarios were read. A scenario checks what the rules promise; none "
        "knows of a bug.", "",
    ]
    path.write_text("\n".join(lines + rows_of(results)) +
                    ("\n" if second[0] else "") + "".join(second))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    options = parser.parse_args()
    try:
        bugs = read_bugs(options.only)
        if not check(bugs):
            return 1
        if options.check:
            return 0
        copy_tree()
        scenarios = configure()
        scenarios = [RANDOM] if options.random else scenarios
        build(scenarios, options.jobs)
        before = explore_random(options.seconds) if options.random else \
            explore(scenarios, min(options.seeds, 20 * len(scenarios)),
                    options.seconds, options.jobs)
        if before.scenario is not None:
            print(f"without any bug: {before.scenario} --seed {before.seed}: "
                  f"{before.why}")
            return 1
        results = []
        for bug in bugs:
            outcome = plant(bug, scenarios, options)
            results.append((bug, outcome))
            print(row(bug, outcome), flush=True)
            keep(FOUND_RANDOM if options.random else FOUND, bug, outcome,
                 scenarios)
            if options.table:  # what is known so far
                (write_random if options.random else
                 write_table)(options.table)
    except Wrong as why:
        print(why)
        return 1
    caught = sum(1 for _, o in results if o.scenario is not None)
    print(f"caught {caught} of {len(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
