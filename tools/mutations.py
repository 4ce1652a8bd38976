#!/usr/bin/env python3
"""mutations.py - breaks a requirement in the library: does its test fail?

tests/mutations holds a file for each requirement: its id is the name of the
file; what is broken, in one line, the source file, the test that is named
after the id, and pairs of texts as in tests/planted: the old one must be in
the source exactly once and is replaced by the new one.

Each is put alone into a copy of the tree under build/mutations; the library
and the program of the test are built there, and that one test is run. It runs
on the unchanged copy first and must pass there.

Usage: mutations.py [--check] [--only ID,...] [--jobs N] [--table FILE]
       mutations.py --sample N [--seed S]

--check only looks whether every one still applies and its test exists.
--sample draws N ids at random among those that have a test. The last line is
`failed N of M`; it ends with 1 if a test passes over broken code.
"""
import argparse
import os
import pathlib
import random
import re
import subprocess
import sys

import planted
from planted import ROOT, Wrong

MUTATIONS = ROOT / "tests" / "mutations"
TREE = ROOT / "build" / "mutations"
GROUPS = ("C L S SP MB DP T K OR SV DW DL DR RG GD SH EV PA "
          "VA MS DI AC BU ST TE").split()
SEED = 20261116
TIMEOUT = 60  # seconds for one test; a test that hangs has failed
ROW = re.compile(r"^\| ([A-Z]+)(\d+) \| (.*) \| (.*) \|$")
# What cmocka prints about a failed check: its text and its place.
SAID = re.compile(r"\[  ERROR   \] --- (.+)")
SITE = re.compile(r"\[   LINE   \] --- (\S+?:\d+)")

NAME = re.compile(r"^(?![# /}])[^\n;]*?\(?(\w+)\)?\(", re.M)

TABLE = "| id | what was broken | in | test | result | what it said |"

# Runs one test of a program, the one that ONLY_TEST names; preloaded.
ONLY = """
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
__attribute__((constructor)) static void only(void)
{
    cmocka_set_test_filter(getenv("ONLY_TEST"));
}
"""


class Mutation:
    def __init__(self, path):
        self.path, self.id = path, path.stem
        head, _, body = path.read_text().partition("@@ old\n")
        lines = [line for line in head.splitlines() if line]
        if (len(lines) != 3 or not lines[1].startswith("file: ") or
                not lines[2].startswith("test: ") or not body):
            raise Wrong(f"{path.name}: what is broken, file:, test: and "
                        "@@ old expected")
        self.what, self.file = lines[0], lines[1][len("file: "):]
        self.program, self.test = lines[2][len("test: "):].split()
        body, end, _ = body.partition("@@ end\n")
        pairs = [part.split("@@ new\n") for part in body.split("@@ old\n")]
        if not end or any(len(p) != 2 or not p[0].strip() for p in pairs):
            raise Wrong(f"{path.name}: @@ new or @@ end is missing")
        self.pairs = [(old, new) for old, new in pairs]
        self.function = ""

    find = planted.Bug.find
    applied = planted.Bug.applied

    def target(self):
        return self.program.replace(".", "_")

    def binary(self):
        return (TREE / "build" / "dev" / "tests" /
                self.program.split(".")[0] / self.target())


def requirements():
    """{id: (text, tests)} of the groups, with a test, in their order."""
    found = {}
    for line in (ROOT / "docs" / "requirements.md").read_text().splitlines():
        match = ROW.match(line)
        if match and match[1] in GROUPS and "test" in match[4]:
            found[match[1] + match[2]] = (match[3], match[4])
    return found


def read_mutations(only):
    wanted = only.split(",") if only else None
    return [Mutation(path) for path in sorted(MUTATIONS.glob("*.txt"))
            if wanted is None or path.stem in wanted]


def function_at(text, at):
    """The function, or the object, in which the position is."""
    found = NAME.findall(text[:at])
    return found[-1] if found else "?"


def check(mutations):
    wrong, known = 0, requirements()
    for m in mutations:
        try:
            source = ROOT / m.file
            if not source.exists():
                raise Wrong(f"{m.path.name}: there is no {m.file}")
            text = source.read_text()
            m.applied(text)
            m.function = function_at(text, m.find(text, m.pairs[0][0]).start())
            if f"`{m.test}`" not in known.get(m.id, ("", ""))[1]:
                raise Wrong(f"{m.path.name}: {m.test} is no test of {m.id} "
                            "in docs/requirements.md")
        except Wrong as why:
            print(why)
            wrong += 1
    print(f"mutations: {len(mutations)}, {wrong} do not apply")
    return wrong == 0


# ---- building and running ----


def build(mutations, jobs):
    targets = sorted({m.target() for m in mutations})
    planted.call(["ninja", "-C", "build/dev", "-j", str(jobs), *targets],
                 "it does not build")


def prepare(mutations, jobs):
    planted.TREE = TREE
    planted.copy_tree()
    options = ["-DTROUPE_BENCH=OFF", "-DTROUPE_SCRIPTS=OFF",
               "-DTROUPE_CROSS=OFF", "-DTROUPE_WERROR=OFF"]
    if planted.shutil.which("ccache"):
        options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    planted.call(["cmake", "--preset", "dev", *options], "cmake")
    (TREE / "only.c").write_text(ONLY)
    planted.call(["cc", "-shared", "-fPIC", "-o", "only.so", "only.c",
                  "-lcmocka"], "cc")
    build(mutations, jobs)


def run(m):
    """How the test fails; None if it passes."""
    environment = dict(os.environ, LD_PRELOAD=str(TREE / "only.so"),
                       ONLY_TEST=m.test)
    try:
        done = subprocess.run([str(m.binary())], env=environment, text=True,
                              errors="replace", capture_output=True,
                              timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    text = re.sub(r"(\.\./)+|" + re.escape(f"{TREE}/"), "",
                  done.stdout + done.stderr)
    if done.returncode == 0:
        if f"[       OK ] {m.test}" not in text:
            raise Wrong(f"{m.id}: {m.program} has no {m.test}")
        return None
    own = [line for line in text.splitlines()
           if line.strip() and not line.startswith("[")]
    if done.returncode < 0:
        last = own[-1].strip() if own else ""
        return f"signal {-done.returncode}: {last}"
    said = [s for s in SAID.findall(text) if not s.startswith("[")]
    said = said[0].strip() if said else own[0].strip() if own else ""
    site = SITE.search(text)
    return f"{site[1]}: {said}" if site else said or "fails"


def broken(m, jobs):
    target = TREE / m.file
    text = target.read_text()
    target.write_text(m.applied(text))
    try:
        build([m], jobs)
        return run(m)
    finally:
        target.write_text(text)


# ---- reporting ----


def row(m, said):
    cell = (said or "").replace("|", "\\|")[:120]
    return (f"| [{m.id}](../tests/mutations/{m.id}.txt) | {m.what} | "
            f"{m.file}:{m.function} | `{m.test}` | "
            f"{'fails' if said else 'passes'} | {cell} |")


def write_table(path, results):
    """Replaces what follows the heading of the table; the rest stays."""
    head = path.read_text().partition(TABLE)[0]
    failed = sum(1 for _, said in results if said)
    lines = [TABLE,
             "|---|---|---|---|---|---|",
             *(row(m, said) for m, said in results), "",
             f"{failed} of {len(results)} tests failed.", ""]
    path.write_text(head + "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    if options.sample:
        known = requirements()
        for name in random.Random(options.seed).sample(list(known),
                                                       options.sample):
            print(f"{name:<6} {known[name][0]}")
        return 0
    try:
        mutations = read_mutations(options.only)
        if not check(mutations):
            return 1
        if options.check:
            return 0
        prepare(mutations, options.jobs)
        results = []
        for m in mutations:
            before = run(m)
            if before is not None:
                raise Wrong(f"{m.id}: unbroken, {m.test} fails: {before}")
        for m in mutations:
            results.append((m, broken(m, options.jobs)))
            print(row(*results[-1]), flush=True)
    except Wrong as why:
        print(why)
        return 1
    if options.table:
        write_table(options.table, results)
    failed = sum(1 for _, said in results if said)
    print(f"failed {failed} of {len(results)}")
    return 0 if failed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
