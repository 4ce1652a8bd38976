"""layers.py - reads the table of layers, tools/layers.txt."""
import pathlib

TOOLS = pathlib.Path(__file__).resolve().parent
ROOT = TOOLS.parent
TABLE = TOOLS / "layers.txt"


def words_of(file):
    """The lines of a list as words, without comments and empty lines."""
    lines = file.read_text(encoding="utf-8").splitlines()
    lines = [line.split("#")[0].split() for line in lines]
    return [words for words in lines if words]


def read():
    """{layer: the layers it may use}, lowest first."""
    table = {}
    for name, *uses in words_of(TABLE):
        layer = name.rstrip(":")
        unknown = [use for use in uses if use not in table]
        if not name.endswith(":") or layer in table or unknown:
            raise SystemExit(f"{TABLE.name}: wrong line: {name} "
                             f"{' '.join(uses)}")
        table[layer] = set(uses)
    return table


def markdown(table):
    """The lines of the table as documents show it."""
    rows = ["| layer | may use |", "|---|---|"]
    for layer, uses in table.items():
        ordered = [name for name in table if name in uses]
        rows.append(f"| {layer} | {', '.join(ordered) or '–'} |")
    return rows
