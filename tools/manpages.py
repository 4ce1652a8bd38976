#!/usr/bin/env python3
"""manpages.py - man pages from the contracts in the public headers.

The comment above a declaration in include/troupe is its contract, and the
only text about it; a page is that text, formatted. Declarations that
follow a contract without a comment of their own share it and its page. A
remark at the end of a declaration's line belongs to that declaration alone.

    manpages.py --out FOLDER   writes man3/*.3 and man7/troupe.7 into FOLDER,
                               which it empties of older pages
    manpages.py --list         the documented names, one per line
    manpages.py --check        only looks: names without a contract are
                               reported, and end with status 1, as they do in
                               the other two

`--root` is the source tree; default: the one this script is in.
"""
import argparse
import pathlib
import re
import sys

# Macros that programs never write: what declarations are made of.
PRIVATE = re.compile(
    r"_$|_H$|^TR_(BEGIN|END)_DECLS$|^TR_(API|NODISCARD|NORETURN|PRINTF|X)$"
    r"|^TR_STR$|^TR_(CHECK|DECL|INFO|MIX4?|OPTIONAL|SHAPE|VAR|WORD[34])(_|$)|^TR_KIND_OF$")
# Headers in the order a reader wants them.
ORDER = ["base", "message", "actor", "supervise", "system", "cluster", "engine",
         "storage", "observe", "test", "sim"]
PLAIN_TYPES = {"tr_err", "tr_ref", "tr_from", "tr_nanos", "tr_type"}
# Length of the text after a name; a longer one is cut at a space.
NAME_LENGTH = 72
# A name that is broken at a hyphen is no name any more.
NO_HYPHENS = [".nh", ".ad l"]
ENDED = ["TR_ESTOPPED", "TR_EKILLED", "TR_ERESTARTED", "TR_ECLOSED",
         "TR_ELIMIT"]


# ---- reading the headers ----

class Item:
    """One function or macro: its names, how it is written, its contract."""

    def __init__(self, name, header, line, synopsis, contract, remark,
                 section):
        self.name, self.header, self.line = name, header, line
        self.synopsis = synopsis    # text as in the header
        self.contract = contract    # paragraphs, or []
        self.remark = remark        # from the end of its own line, or ""
        self.section = section      # "sending", from ---- sending ----


def paragraphs(comment):
    """The paragraphs of a block comment, each one line."""
    lines = [re.sub(r"^\s*\*? ?", "", l).rstrip()
             for l in comment.strip()[2:-2].strip("\n").splitlines()]
    found, now = [], []
    for line in lines + [""]:
        if line.strip():
            now.append(line.strip())
        elif now:
            found.append(" ".join(now))
            now = []
    return found


def chunks(text):
    """(line number, kind, text) for each comment, directive, declaration."""
    at, line = 0, 1
    pattern = re.compile(
        r"(?P<comment>/\*.*?\*/)|(?P<define>#define(?:[^\n]*\\\n)*[^\n]*)"
        r"|(?P<directive>#[^\n]*)"
        r"|(?P<api>TR_API\b[^;]*;(?P<remark>[ \t]*//[^\n]*)?)"
        r"|(?P<typedef>(?:typedef|struct|enum)\b[^;{]*(?:\{.*?\n?\})?[^;{}]*;)"
        r"|(?P<macro>TR_(?:MESSAGE|REQUEST)\([^;]*;)"
        r"|(?P<blank>\n[ \t]*\n)|(?P<other>[^\n]+?(?=\n|/\*))|\s", re.S)
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            at += 1
            continue
        kind = match.lastgroup if match.lastgroup != "remark" else "api"
        if kind:
            yield line, kind, match.group(0)
        line += match.group(0).count("\n")
        # The second newline of a blank line may begin another one.
        at = match.end() - (1 if kind == "blank" else 0)
        line -= 1 if kind == "blank" else 0


class Header:
    """One header: its file comment, its items and its types."""

    def __init__(self, path):
        self.name = path.stem
        self.about = []       # paragraphs of the file comment
        self.items = []
        self.skins = {}       # function -> how C programs write the call
        self.types = {}       # name -> declaration
        self.defines = {}     # macro -> (parameters, body)
        self.inner = {}       # the same of macros.h
        self.read(path)

    def read(self, path):
        contract, section, fresh, defines = None, "", False, []
        for line, kind, text in chunks(path.read_text()):
            if kind == "comment":
                heading = re.match(r"/\* -+ (.*?)(?:;.*?)? -+ ?\*/$",
                                   " ".join(text.split()))
                if heading:
                    section, contract = heading.group(1), None
                elif not self.about:
                    self.about = paragraphs(text)
                else:
                    contract, fresh = paragraphs(text), True
            elif kind == "blank":
                if not fresh:
                    contract = None
            elif kind == "api":
                if "//" in text and not fresh:
                    contract = None  # its own remark says all
                self.function(line, text, contract, section)
                fresh = False
            elif kind == "define":
                defines.append((line, text, contract, section))
                fresh = False
            elif kind == "typedef":
                for name in re.findall(r"(\w+)\s*;$", text):
                    self.types[name] = text
                for name in re.findall(r"\(\*(\w+)\)\(", text)[:1]:
                    self.types[name] = text
                fresh = fresh and "(*" in text  # a callback before its user
            else:
                fresh = False
        for line, text, contract, section in defines:
            self.macro(line, text, contract, section)

    def function(self, line, text, contract, section):
        remark = ""
        code, _, tail = text.partition("//")
        if tail:
            remark = tail.strip()
        found = re.search(r"\b(tr_\w+)\s*\(", code)
        if not found:
            return  # a constant: it is told of where it is used
        name = found.group(1)
        code = re.sub(r"\b(TR_API|TR_NODISCARD|TR_NORETURN)\s+", "",
                      " ".join(code.split()))
        code = re.sub(r"\s*TR_PRINTF\(.*?\)", "", code)
        self.items.append(Item(name, self.name, line, code, contract or [],
                               remark, section))

    def macro(self, line, text, contract, section):
        match = re.match(r"#define\s+(\w+)(\(([^)]*)\))?\s*(.*)", text, re.S)
        name, has, given, body = match.groups()
        parameters = [p.strip() for p in given.split(",")] if has else None
        body = body.replace("\\\n", " ")
        self.defines[name] = (parameters, body)
        if PRIVATE.search(name):
            return
        # A skin in two steps: the inner macro names what stands for `...`.
        inner = re.match(r"\s*(TR_\w+_)\(", body)
        if inner and parameters and parameters[-1] == "...":
            self.skins[name] = (inner.group(1), parameters)
        elif parameters is not None:
            self.skins[name] = (None, parameters)
        if any(i.name == name for i in self.items):
            return  # the function's contract speaks for both
        self.items.append(Item(name, self.name, line, None, contract or [],
                               "", section))

    def written(self, name):
        """How a C program writes the macro, or None if there is none."""
        if name not in self.skins:
            return name if name in self.defines else None
        inner, parameters = self.skins[name]
        parameters = list(parameters)
        known = {**self.inner, **self.defines}
        if inner and inner in known:
            outer = [p for p in parameters if p != "..."]
            names, body = known[inner]
            extra = [p for p in names if p not in outer and p != "..."
                     and p not in ("verb", "linkage")]
            rest = ".option = value" if "TR_OPTIONS(" in body else \
                ".field = value" if "){__VA_ARGS__}" in body else "..."
            if "TR_SEND_(" in body or "TR_ASK_(" in body:
                rest = ".field = value"
            parameters = outer + extra + [rest]
            if rest != "...":
                parameters.append("...")
        return f"{name}({', '.join(parameters)})"


# ---- writing roff ----

def roff(text):
    """Text with roff's own characters made harmless."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("'", "\\(aq").replace("`", "\\`")
    return "\\&" + text if text[:1] in ".'" else text


def emphasised(text):
    """Running text, names of the library in bold."""
    parts = re.split(r"(\b(?:tr_\w+|TR_\w+)\b)", text)
    out = "".join(f"\\fB{roff(p)}\\fR" if i % 2 else roff(p).removeprefix(
        "\\&" if i else "") for i, p in enumerate(parts))
    return out


def prose(text):
    """One sentence per line is not needed; lines are kept short."""
    lines, now = [], ""
    for word in text.split():
        if now and len(now) + 1 + len(word) > 72:
            lines.append(now)
            now = word
        else:
            now = f"{now} {word}" if now else word
    if now:
        lines.append(now)
    lines = [emphasised(line) for line in lines]
    return [f"\\&{l}" if l[:1] in ".'" else l for l in lines]


def literal(text):
    lines = [".PP", ".nf"]
    for line in text.rstrip().splitlines():
        lines.append(roff(line) if line.strip() else ".sp")
    return lines + [".fi"]


def prototype(code, width=72):
    """A declaration on lines of a man page's width."""
    if len(code) <= width:
        return code
    head, _, rest = code.partition("(")
    lines, now = [], head + "("
    indent = "    "
    for part in re.findall(r"[^,]*,?", rest):
        part = part.strip()
        if not part:
            continue
        if len(now) + 1 + len(part) > width:
            lines.append(now)
            now = indent + part
        else:
            now += part if now.endswith("(") else " " + part
    return "\n".join(lines + [now])


def split_errors(contract):
    """Contract -> (paragraphs without, the sentence after `Errors:`)."""
    rest, errors = [], []
    for paragraph in contract:
        before, mark, after = paragraph.partition("Errors:")
        if before.strip():
            rest.append(before.strip())
        if mark:
            errors.append(after.strip())
    return rest, " ".join(errors)


def first_sentence(text):
    """What whatis prints: the first sentence, or less of it if it is long."""
    sentence = re.split(r"(?<=[\w)\]'\"])\.(?:\s|$)", text, maxsplit=1)[0]
    if len(sentence) > NAME_LENGTH:
        cuts = [m.start() for m in re.finditer(r"[;:,]\s(?![^(]*\))", sentence)]
        fitting = [c for c in cuts if c <= NAME_LENGTH] or cuts[:1]
        sentence = sentence[:fitting[-1]] if fitting else sentence
    sentence = re.sub(r"\s+", " ", sentence).strip().rstrip(".:;")
    if re.match(r"[A-Z][a-z ]", sentence):
        sentence = sentence[0].lower() + sentence[1:]
    return sentence


class Pages:
    def __init__(self, root):
        self.root = root
        include = root / "include" / "troupe"
        paths = {p.stem: p for p in include.glob("*.h")}
        order = [n for n in ORDER if n in paths]
        order += sorted(set(paths) - set(order) - {"macros", "troupe"})
        self.headers = [Header(paths[name]) for name in order]
        for header in self.headers:  # where some inner macros are
            header.inner = Header(paths["macros"]).defines
        text = (include / "base.h").read_text()
        self.version = ".".join(
            re.search(rf"TR_VERSION_{part} (\d+)", text).group(1)
            for part in ("MAJOR", "MINOR", "PATCH"))
        self.errors = re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', text)
        self.types = {}
        for header in self.headers:
            self.types.update(header.types)
        self.groups = self.grouped()
        self.page_of = {i.name: g[0].name for g in self.groups for i in g}

    def grouped(self):
        """Lists of items; those with one contract are one list."""
        groups, contract_of = [], None
        for header in self.headers:
            contract_of = None
            for item in header.items:
                alone = item.remark and not item.contract
                if item.contract and item.contract is contract_of:
                    groups[-1].append(item)
                else:
                    groups.append([item])
                contract_of = None if alone else item.contract or None
        return groups

    def header_of(self, item):
        return next(h for h in self.headers if h.name == item.header)

    def missing(self):
        """What has no contract, as the check reports it."""
        return [f"include/troupe/{i.header}.h:{i.line}: {i.name} has no "
                "contract above it"
                for g in self.groups for i in g
                if not i.contract and not i.remark]

    # ---- one page ----

    def mentioned_types(self, synopsis):
        """Types that the page shows, in order of their first mention."""
        shown, queue = [], re.findall(r"\btr_\w+", synopsis)
        while queue:
            name = queue.pop(0)
            if name in shown or name in PLAIN_TYPES:
                continue
            text = self.types.get(name)
            if text is None or ("{" not in text and "(*" not in text):
                continue
            shown.append(name)
            if name.endswith("_options"):
                queue += re.findall(r"\btr_\w+", text)
        return shown

    def synopsis(self, group):
        lines = [f"#include <troupe/{group[0].header}.h>", ""]
        for item in group:
            written = self.header_of(item).written(item.name)
            if item.synopsis is None:
                lines.append(written)
                continue
            same = [p.split()[-1].lstrip("*") for p in re.findall(
                r"[^(),]+(?=[,)])", item.synopsis) if p.split()]
            if written and [p.strip() for p in re.findall(
                    r"[^(),]+(?=[,)])", written)] != same:
                lines += [written + ";", ""]
                exported = item.synopsis.replace(
                    f"{item.name}(", f"({item.name})(", 1)
                lines.append(prototype(exported))
            else:
                lines.append(prototype(item.synopsis))
        return "\n".join(lines)

    def see_also(self, group, text):
        names = {i.name for i in group}
        found = []
        for name in re.findall(r"\b(?:tr_|TR_)\w+", text):
            page = self.page_of.get(name)
            if page and page not in names and page not in found:
                found.append(page)
        for other in self.groups:  # neighbours of the same section
            if (other[0].header == group[0].header and group[0].section
                    and other[0].section == group[0].section
                    and other[0].name not in names
                    and other[0].name not in found and len(found) < 8):
                found.append(other[0].name)
        links = [f".BR {roff(n)} (3)," for n in sorted(found)]
        return links + [".BR troupe (7)"]

    def error_section(self, errors):
        lines = prose(errors)
        meaning = {f"TR_{n}": t for n, _, t in self.errors}
        names = [n for n in re.findall(r"TR_E\w+", errors) if n in meaning]
        if re.search(r"\bended\b", errors):
            lines += prose('"Ended" are the errors of a wait whose own actor '
                           "is ended, or may not wait: " +
                           ", ".join(ENDED) + ".")
            names += [n for n in ENDED if n not in names]
        for name in names:
            lines += [".TP", f".B {name}", roff(meaning[name])]
        return lines

    def page(self, group):
        first = group[0]
        contract, errors = split_errors(first.contract)
        remarks = [(i.name, i.remark) for i in group if i.remark]
        for _, remark in list(remarks):
            if "Errors:" in remark:
                errors = " ".join([errors, remark.partition("Errors:")[2]])
        remarks = [(n, r.partition("Errors:")[0].strip()) for n, r in remarks]
        remarks = [(n, r) for n, r in remarks if r]
        about = first_sentence(contract[0] if contract else first.remark)
        names = ", ".join(i.name for i in group)
        header = self.header_of(first)
        out = ['.\\" Made by tools/manpages.py from the header; not edited.',
               f'.TH {first.name} 3 "" "Troupe {self.version}" '
               '"Troupe Programmer\\(aqs Manual"',
               *NO_HYPHENS,
               ".SH NAME", f"{names} \\- {roff(about)}", ".SH SYNOPSIS"]
        synopsis = self.synopsis(group)
        out += literal(synopsis)[1:]
        out.append(".SH DESCRIPTION")
        for number, text in enumerate(contract):
            out += ([".PP"] if number else []) + prose(text)
        if not contract and len(remarks) == 1:
            text = remarks[0][1]
            out += prose(text[0].upper() + text[1:] +
                         ("" if text.endswith(".") else "."))
        else:
            for name, text in remarks:
                out += [".TP", f".B {name}"] + prose(text)
        if errors:
            out += [".SH ERRORS"] + self.error_section(errors)
        types = self.mentioned_types(synopsis + " ".join(
            self.options_of(i) for i in group))
        if types:
            out.append(".SH TYPES")
            for number, name in enumerate(types):
                out += literal(self.types[name])[0 if number else 1:]
        rules = [p for p in header.about
                 if p.startswith(("Threads:", "Ownership:"))]
        joined = " ".join(rules)
        parts = re.split(r"\s*(?=Ownership:)", joined, maxsplit=1)
        if joined:
            out.append(".SH THREADS AND OWNERSHIP")
            out += prose(f"For all of <troupe/{first.header}.h>:")
            for part in parts:
                out += [".PP"] + prose(part)
        out.append(".SH SEE ALSO")
        out += self.see_also(group, " ".join(
            first.contract + [i.remark for i in group]))
        return "\n".join(out) + "\n"

    def options_of(self, item):
        """The options struct that a macro of this name fills in."""
        header = self.header_of(item)
        body = header.defines.get(item.name, (None, ""))[1]
        inner = re.match(r"\s*(TR_\w+_)\(", body)
        if inner:
            body += header.defines.get(inner.group(1), (None, ""))[1]
        return " ".join(re.findall(r"TR_OPTIONS\((\w+)", body))

    # ---- the overview ----

    def overview(self):
        base = self.headers[0]
        out = ['.\\" Made by tools/manpages.py from the headers; not edited.',
               f'.TH troupe 7 "" "Troupe {self.version}" '
               '"Troupe Programmer\\(aqs Manual"',
               *NO_HYPHENS,
               ".SH NAME", "troupe \\- actors for C: typed messages, "
               "supervision, handlers that may wait",
               ".SH SYNOPSIS"]
        out += literal("#include <troupe/troupe.h>\n\n"
                       "cc -std=gnu11 file.c $(pkg-config --cflags --libs "
                       "troupe)")[1:]
        out.append(".SH DESCRIPTION")
        for number, text in enumerate(base.about[1:]):
            rules = re.split(r"\s(?=[123]\. )", text)
            for part, rule in enumerate(rules):
                if re.match(r"[123]\. ", rule):
                    out += [".TP", f".B {rule[0]}."] + prose(rule[3:])
                else:
                    out += ([".PP"] if number or part else []) + prose(rule)
        for header in self.headers:
            title = header.about[0].partition(" - ")[2].rstrip(".")
            out += [f".SS <troupe/{header.name}.h>",
                    roff(title[0].upper() + title[1:]) + "."]
            for text in header.about[1:] if header is not base else []:
                if not text.startswith(("Threads:", "Ownership:")):
                    out += [".PP"] + prose(text)
            pages = sorted({self.page_of[i.name] for i in header.items},
                           key=str.lower)
            out.append(".PP")
            out += [f".BR {roff(n)} (3){',' if n != pages[-1] else ''}"
                    for n in pages]
        out.append(".SH ERRORS")
        out += prose("Every error has a name (tr_errname), a text "
                     "(tr_strerror) and a number that never changes.")
        for name, number, text in self.errors:
            out += [".TP", f".B TR_{name} ({number})", roff(text)]
        example = self.root / "examples" / "01_hello.c"
        if example.is_file():
            out.append(".SH EXAMPLE")
            out += literal(example.read_text())[1:]
        out.append(".SH SEE ALSO")
        out += [".BR tr_system_open (3),", ".BR TR_MESSAGE (3),",
                ".BR TR_ACTOR (3),", ".BR tr_spawn (3),", ".BR tr_ask (3)"]
        return "\n".join(out) + "\n"

    def write(self, folder):
        for section, suffix in (("man3", ".3"), ("man7", ".7")):
            (folder / section).mkdir(parents=True, exist_ok=True)
            for old in (folder / section).glob(f"*{suffix}"):
                old.unlink()
        for group in self.groups:
            page = folder / "man3" / f"{group[0].name}.3"
            page.write_text(self.page(group))
            for item in group[1:]:
                (folder / "man3" / f"{item.name}.3").symlink_to(page.name)
        (folder / "man7" / "troupe.7").write_text(self.overview())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=pathlib.Path)
    what.add_argument("--list", action="store_true")
    what.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = Pages(arguments.root)
    missing = pages.missing()
    for text in missing:
        print(text, file=sys.stderr)
    if missing:
        return 1
    if arguments.out:
        pages.write(arguments.out)
    if arguments.list:
        print("\n".join(sorted(pages.page_of)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
