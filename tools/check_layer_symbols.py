#!/usr/bin/env python3
"""check_layer_symbols.py - no layer uses a symbol of a layer above it.

usage: check_layer_symbols.py [--root DIR] [--allowed FILE] BUILD_DIR

An include can be avoided by declaring a function where it is called; a symbol
cannot. For every object of the static libraries in BUILD_DIR this compares
the layer that defines a symbol with the layers that use it, and reports each
use that tools/layers.txt does not allow.

FILE (default: tools/layers_allowed.txt) lists uses that are known and still
to be removed, one per line: user, definer, symbol. They are printed. A line
that is no longer needed is reported.

Exit status 1 if anything was reported.
"""
import argparse
import pathlib
import re
import subprocess
import sys

import layers

OBJECT = re.compile(
    r"CMakeFiles/troupe_(?:objects|\w+_static)\.dir/(src/.*)\.o$")


def objects_of(build, root):
    """{source: object}; an object without its source is left from before."""
    found = {}
    for file in build.glob("CMakeFiles/troupe_*.dir/src/**/*.o"):
        name = OBJECT.search(file.as_posix())
        if name and (root / name.group(1)).exists():
            found[name.group(1)] = file
    return found


def symbols_of(objects):
    """Yields (source, symbol, kind), kind as nm prints it."""
    if not objects:
        return
    sources = {str(file): source for source, file in objects.items()}
    table = subprocess.run(["nm", "-A", "-P", *sources], check=True,
                           text=True, capture_output=True).stdout
    for line in table.splitlines():
        file, _, rest = line.partition(": ")
        symbol, kind = rest.split()[:2]
        yield sources[file], symbol, kind


def layer_of(source):
    return source.split("/")[1]


def uses_of(objects):
    """[(user's source, symbol, definer's source)] between two layers."""
    defined, used = {}, []
    for source, symbol, kind in symbols_of(objects):
        if kind in "Uvw":
            used.append((source, symbol))
        elif kind.isupper() or kind == "u":
            defined[symbol] = source
    return [(source, symbol, defined[symbol]) for source, symbol in used
            if symbol in defined
            and layer_of(source) != layer_of(defined[symbol])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=layers.ROOT)
    parser.add_argument("--allowed", type=pathlib.Path,
                        default=layers.TOOLS / "layers_allowed.txt")
    parser.add_argument("build", type=pathlib.Path)
    options = parser.parse_args()

    table = layers.read()
    allowed = ({tuple(words) for words in layers.words_of(options.allowed)}
               if options.allowed.exists() else set())
    objects = objects_of(options.build, options.root)
    wrong, needed = [], set()
    for source in sorted(options.root.glob("src/**/*.[cS]")):
        source = source.relative_to(options.root).as_posix()
        if source not in objects:
            wrong.append(f"{source}: not built")
    uses = uses_of(objects)
    for source, symbol, definer in sorted(uses):
        user, owner = layer_of(source), layer_of(definer)
        if owner in table.get(user, ()):
            continue
        if (user, owner, symbol) in allowed:
            needed.add((user, owner, symbol))
            print(f"allowed for now: {user} -> {owner}: {source} uses "
                  f"{symbol} of {definer}")
            continue
        wrong.append(f"{user} -> {owner}: {source} uses {symbol} "
                     f"of {definer}")
    for line in sorted(allowed - needed):
        wrong.append(f"{options.allowed.name}: delete the line "
                     f"`{' '.join(line)}`, nothing needs it")
    for text in wrong:
        print(text)
    print(f"layer symbols: {len(objects)} objects, {len(uses)} uses between "
          f"layers, {len(needed)} allowed for now, {len(wrong)} wrong")
    return 1 if wrong or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
