#!/usr/bin/env python3
"""random_mutations.py - changes the library at random: does any test notice?

Draws changes of single lines in src/<layer>, by seed: a comparison or a logical
operator flipped, a condition negated, a statement left out, a number off by
one. All of them are put into one copy of the tree, under build/random-mutations,
each behind a test of the environment variable TR_MUTANT; so the tree is built
once, and a run picks its change. For each one the unit tests of its layer are
run, that of its file first, then random programs, until one fails, crashes or
does not end. What no test notices is listed and has to be judged.

Memory orders are not among them: weaker ones change nothing on x86-64; see
docs/design/0019-memory-orders.md.

Usage: random_mutations.py [--layers core,...] [--count N] [--seed S]
                           [--jobs N] [--table FILE] [--list]

--list only prints what was drawn. The last line is `noticed N of M`.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import planted
from planted import ROOT, Wrong

TREE = ROOT / "build" / "random-mutations"
LAYERS = "core,system,cluster,storage,schema"
RESULTS = TREE / "results.json"
RANDOM = "random_programs"
RANDOM_SECONDS = 15
TIMEOUT = 30       # seconds for a test that may hang
SLOW = 6           # a test that takes longer is left out
NOT_CALLS = ("TRI_CHECK TRI_CHECK_SLOW TR_TRY TR_MUST return sizeof assert "
             "tri_logf tri_log_write tri_error_set va_start va_end").split()

HEADER = """
/* No header: the sources define their feature macros first. */
char *getenv(const char *name);
int atoi(const char *text);
static inline int tri_is_mutant(int n)
{
    static int which = -2;
    if (which == -2) {
        const char *text = getenv("TR_MUTANT");
        which = text ? atoi(text) : -1;
    }
    return which == n;
}
"""

CONDITION = re.compile(r"^(\s+(?:\} else )?(?:if|while) \()(.*)(\) \{)$")
RETURN = re.compile(r"^(\s+return )([^;]*)(;)$")
ASSIGN = re.compile(r"^\s+\*?\w[\w\->.\[\]]* (?:=|\+=|-=|\|=|&=) [^;]*;$")
CALL = re.compile(r"^\s+(?:\(void\)!?)?(\w+)\([^;]*\);$")
FLIPS = {" == ": " != ", " != ": " == ", " < ": " >= ", " > ": " <= ",
         " <= ": " > ", " >= ": " < ", " && ": " || ", " || ": " && "}
OFFS = {" < ": " <= ", " > ": " >= ", " <= ": " < ", " >= ": " > ",
        " + 1": " + 2", " - 1": " - 2"}
WHOLE = re.compile(r"[;{}:]$|^$|^(//|/?\*)")


class Mutant:
    def __init__(self, layer, file, line, old, new, how):
        self.layer, self.file, self.line = layer, file, line
        self.old, self.new, self.how = old, new, how
        self.shown = how  # what the table says


def balanced(text):
    return text.count("(") == text.count(")")


def changed(text, table):
    """Each way to replace one occurrence of a key of the table."""
    for old, new in table.items():
        at = text.find(old)
        while at >= 0:
            yield text[:at] + new + text[at + len(old):]
            at = text.find(old, at + 1)


def of_expression(layer, file, at, line, match):
    """Changes inside a condition or a returned value."""
    before, inner, after = match.groups()
    if not balanced(inner):
        return
    found = [(new, "flip") for new in changed(inner, FLIPS)]
    found += [(new, "off by one") for new in changed(inner, OFFS)]
    if before.lstrip().startswith(("if", "}")):
        found.append((f"!({inner})", "flip"))
    for new, how in found:
        text = f"{before}tri_is_mutant(@) ? ({new}) : ({inner}){after}"
        m = Mutant(layer, file, at, line, text, how)
        m.shown = f"{how}: `{inner}` to `{new}`"
        yield m


def of_line(layer, file, at, line):
    match = CONDITION.match(line) or RETURN.match(line)
    if match:
        yield from of_expression(layer, file, at, line, match)
        return
    call = CALL.match(line)
    left_out = call and call[1] not in NOT_CALLS and \
        "assert" not in call[1] and balanced(line)
    if left_out or (ASSIGN.match(line) and balanced(line)):
        body = line.strip()
        indent = line[:len(line) - len(body)]
        m = Mutant(layer, file, at, line,
                   f"{indent}if (!tri_is_mutant(@)) {{ {body} }}", "delete")
        m.shown = f"delete: `{body}`"
        yield m


def candidates(layer):
    for path in sorted((ROOT / "src" / layer).rglob("*.[ch]")):
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            before = lines[at - 1].strip() if at else ""
            # The line must be a statement of its own, in a block.
            if WHOLE.search(before) and not line.endswith("\\"):
                yield from of_line(layer, str(path.relative_to(ROOT)), at,
                                   line)


def draw(layers, count, seed):
    drawn = []
    for layer in layers:
        found = list(candidates(layer))
        by_line = {}
        for m in random.Random(f"{seed} {layer}").sample(found, len(found)):
            by_line.setdefault((m.file, m.line), m)  # one for each line
        drawn += list(by_line.values())[:count]
    return drawn


# ---- building and running ----


def prepare(mutants, layers, jobs):
    planted.TREE = TREE
    planted.copy_tree()
    for number, m in enumerate(mutants):
        path = TREE / m.file
        lines = path.read_text().splitlines()
        lines[m.line] = m.new.replace("@", str(number))
        path.write_text("\n".join(lines) + "\n")
    (TREE / "mutant.h").write_text(HEADER)
    options = ["-DTROUPE_BENCH=OFF", "-DTROUPE_SCRIPTS=OFF",
               "-DTROUPE_CROSS=OFF", "-DTROUPE_WERROR=OFF",
               f"-DCMAKE_C_FLAGS=-w -include {TREE}/mutant.h"]
    if planted.shutil.which("ccache"):
        options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    planted.call(["cmake", "--preset", "dev", *options], "cmake")
    listed = planted.call(["ninja", "-C", "build/dev", "-t", "targets", "all"],
                          "ninja")
    tests = {layer: re.findall(rf"^(unit_{layer}_\w+): phony$", listed, re.M)
             for layer in layers}
    planted.call(["ninja", "-C", "build/dev", "-j", str(jobs), RANDOM,
                  *sum(tests.values(), [])], "it does not build")
    return tests


def run_test(name, number):
    """True if the test passes with this change; -1 is none."""
    command = [str(TREE / "build" / "dev" / "tests" / "unit" / name)]
    if name == RANDOM:
        command = [str(TREE / "build" / "dev" / "tests" / "random" / name),
                   "--no-shrink", "--seconds", str(RANDOM_SECONDS),
                   "--first", "1", "--rest", "5"]
    environment = dict(os.environ, TR_MUTANT=str(number), TR_TEST_SCALE="0.1",
                       TR_SOURCE_DIR=str(TREE))
    try:
        done = subprocess.run(command, env=environment, cwd=TREE / "build",
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False,
                              timeout=TIMEOUT + RANDOM_SECONDS)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def usable(tests):
    """Tests that pass without a change, and in reasonable time."""
    kept = []
    for name in tests:
        begun = time.monotonic()
        if run_test(name, -1) and time.monotonic() - begun < SLOW:
            kept.append(name)
    return kept


def noticed_by(number, m, tests):
    """The first test that fails, or None."""
    stem = pathlib.Path(m.file).stem
    folder = pathlib.Path(m.file).parent.name

    def distance(name):
        return (not name.endswith("_" + stem), stem not in name,
                folder not in name)
    for name in sorted(tests, key=distance) + [RANDOM]:
        # Twice, and not without the change: a test may fail under load.
        if not run_test(name, number) and not run_test(name, number) and \
                run_test(name, -1):
            return name
    return None


def write_table(path, results):
    """Replaces the survivors after the heading; reasons are kept."""
    text = path.read_text()
    head, mark, rest = text.partition("## Results\n")
    reasons = dict(re.findall(r"^\| (\S+:\d+ .*?) \| (.*) \|$", rest, re.M))
    lines = [mark]
    for layer in sorted({r["layer"] for r in results}):
        mine = [r for r in results if r["layer"] == layer]
        seen = sum(1 for r in mine if r["by"])
        lines.append(f"- {layer}: {seen} of {len(mine)} noticed")
    lines += ["", "| not noticed | why |", "|---|---|"]
    for r in results:
        if not r["by"]:
            what = f"{r['file']}:{r['line']} {r['shown']}".replace("|", "\\|")
            lines.append(f"| {what} | {reasons.get(what, '')} |")
    path.write_text(head + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default=LAYERS)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    layers = options.layers.split(",")
    mutants = draw(layers, options.count, options.seed)
    if options.list:
        for m in mutants:
            print(f"{m.file}:{m.line + 1}: {m.shown}")
        return 0
    try:
        tests = prepare(mutants, layers, options.jobs)
    except Wrong as why:
        print(why)
        return 1
    good = {layer: usable(names) for layer, names in tests.items()}
    results = []
    for number, m in enumerate(mutants):
        by = noticed_by(number, m, good[m.layer])
        results.append({"layer": m.layer, "file": m.file, "line": m.line + 1,
                        "shown": m.shown, "by": by})
        print(f"{m.file}:{m.line + 1}: {m.shown}: {by or 'NOT NOTICED'}",
              flush=True)
        RESULTS.write_text(json.dumps(results, indent=1))
    if options.table:
        write_table(options.table, results)
    print(f"noticed {sum(1 for r in results if r['by'])} of {len(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
