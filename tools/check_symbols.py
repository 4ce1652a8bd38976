#!/usr/bin/env python3
"""check_symbols.py - what the built libraries export, need and keep.

usage: check_symbols.py BUILD_DIR

  - A shared library exports exactly the functions that the public headers
    declare with TR_API, and nothing without the prefix tr_.
  - An object of libtroupe.a needs only the pure functions of libc listed in
    tests/style/libc_pure.txt; the files that stand at the world seam have
    their own lines there.
  - No object keeps a writable variable, except those listed with a reason in
    tests/style/globals_allowed.txt. Thread-locals do not count.
Exit status 1 if anything was reported.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

from layers import ROOT, words_of
COMPONENTS = ("sqlite", "postgres")

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
DECLARATION = re.compile(r"\bTR_API\b([^;{]*)[;{]")
# Symbols that the compiler adds.
COMPILER = re.compile(r"^(_GLOBAL_OFFSET_TABLE_|__stack_chk_\w+"
                      r"|__tls_get_addr|__aarch64_\w+|__\w+_chk|__assert_fail"
                      r"|_ITM_\w+|__gmon_start__|__cxa_finalize|_init|_fini)$")


def run(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout


def declared_in(text):
    """Names declared with TR_API in one header."""
    text = COMMENT.sub(" ", text)
    text = DIRECTIVE.sub("", text)
    names = set()
    for match in DECLARATION.finditer(text):
        declaration = match.group(1)
        name = (re.search(r"\b(tri?_\w+)\s*\(", declaration) or
                re.search(r"\b(\w+)\s*(?:\[[^]]*\]\s*)?$", declaration))
        names.add(name.group(1))
    return names


def component_of(name):
    """Which library a public function lives in; '' is libtroupe."""
    for component in COMPONENTS:
        if component in name:
            return component
    return ""


def check_exports(build, report):
    declared = set()
    for header in sorted(ROOT.glob("include/troupe/*.h")):
        declared |= declared_in(header.read_text(encoding="utf-8"))
    counted = 0
    for component in ("",) + COMPONENTS:
        name = f"libtroupe-{component}.so" if component else "libtroupe.so"
        library = build / name
        if not library.exists():
            if not component:
                report(f"{name}: not built")
            continue
        table = run("nm", "-D", "--defined-only", str(library))
        exported = {line.split()[-1].split("@")[0]
                    for line in table.splitlines()}
        exported = {symbol for symbol in exported
                    if not COMPILER.match(symbol)}
        wanted = {symbol for symbol in declared
                  if component_of(symbol) == component}
        for symbol in sorted(exported):
            if not symbol.startswith("tr_"):
                report(f"{name}: exports {symbol}, which is not tr_*")
        for symbol in sorted(exported - wanted):
            report(f"{name}: exports {symbol}, which no public header "
                   f"declares with TR_API")
        for symbol in sorted(wanted - exported):
            report(f"{name}: {symbol} is declared with TR_API "
                   f"but not exported")
        counted += len(exported)
    return counted


def objects_of(archive):
    """Yields (object, [(symbol, type, section)]) for every member."""
    member, symbols = None, []
    for line in run("nm", "-f", "sysv", str(archive)).splitlines():
        start = re.match(r"(?:Symbols from|Undefined symbols from) .*"
                         r"\[(.*)\]:$", line)
        if start:
            if member:
                yield member, symbols
            member, symbols = start.group(1), []
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 7 and columns[0] != "Name":
            symbols.append((columns[0], columns[3], columns[6]))
    if member:
        yield member, symbols


def source_of(member):
    """world_posix.c.o -> world_posix.c"""
    return re.sub(r"\.o$", "", member)


def check_objects(archive, report):
    pure, extra = set(), {}
    for words in words_of(ROOT / "tests/style/libc_pure.txt"):
        if words[0].endswith(":"):
            extra.setdefault(words[0][:-1], set()).update(words[1:])
        else:
            pure.update(words)
    allowed = {(words[0], words[1]) for words in
               words_of(ROOT / "tests/style/globals_allowed.txt")}
    used = set()
    count = 0
    for member, symbols in objects_of(archive):
        source = source_of(member)
        extra_here = set().union(*(names for file, names in extra.items()
                                   if fnmatch.fnmatch(source, file)))
        count += 1
        for symbol, kind, section in symbols:
            # A static inside a function: gcc says calls.0, clang f.calls.
            plain = re.sub(r"\.\d+$", "", symbol).split(".")[-1]
            if section == "*UND*":
                if (not re.match(r"tri?_", symbol)
                        and not COMPILER.match(symbol)
                        and symbol not in pure
                        and not extra_here & {symbol, "*"}):
                    report(f"{source}: needs {symbol}, which is not in "
                           f"tests/style/libc_pure.txt")
            elif kind == "TLS" or symbol in (".data", ".bss"):
                continue
            elif (re.match(r"\.(data|bss)\b(?!\.rel\.ro)", section)
                  or section == "*COM*"):
                if (source, plain) in allowed:
                    used.add((source, plain))
                else:
                    report(f"{source}: {plain} is a writable global")
    for source, symbol in sorted(allowed - used):
        report(f"globals_allowed.txt: {source} {symbol} is not there any more")
    return count


def main():
    if len(sys.argv) != 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    wrong = []
    exported = check_exports(build, wrong.append)
    objects = check_objects(build / "libtroupe.a", wrong.append)
    for text in wrong:
        print(text)
    print(f"symbols: {exported} exported, {objects} objects, "
          f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
