"""sources.py - the sources of the library and how each of them is compiled.

For tools that read every source with a compiler of their own.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands_of(build, root=ROOT):
    """{source below root: (folder, [compiler, flags..., file])}.

    Sources of libtroupe are compiled in troupe_objects, those of a component
    for a static and a shared library; each is there once.
    """
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if (file.is_relative_to(root / "src") and file.suffix == ".c"
                and re.search(r"troupe(_objects|_\w+_static)\.dir/",
                              entry["command"])):
            words = shlex.split(entry["command"])
            if pathlib.Path(words[0]).name == "ccache":
                words.pop(0)
            flags = words[1:words.index("-o")]
            name = file.relative_to(root).as_posix()
            found[name] = (entry["directory"],
                           [words[0], *flags, "-c", str(file)])
    return found


def sum_of(command, config):
    """A sum over all that a tool reads: source, headers, configuration."""
    folder, words = command
    text = subprocess.run([*words, "-E", "-C"], cwd=folder, check=False,
                          capture_output=True).stdout
    return hashlib.sha256(config + text).hexdigest()


class Results:
    """Results of earlier calls, by sum; only what was used again is kept."""

    def __init__(self, file, config):
        self.file, self.config = file, config
        self.old = json.loads(file.read_text()) if file.exists() else {}
        self.new = {}

    def get(self, command, make):
        total = sum_of(command, self.config)
        result = self.old.get(total)
        if result is None:
            result = make()
        self.new[total] = result
        return result

    def save(self):
        self.file.write_text(json.dumps(self.new))


def in_parallel(jobs, function, items):
    """Yields (item, function(item)) in the order of the items."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from zip(items, pool.map(function, items))
