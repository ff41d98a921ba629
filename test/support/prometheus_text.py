#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Prometheus' text format, version 0.0.4, and its conventions for names.

usage: prometheus_text.py FILE [--table PAGE | --uses OTHER]

Stricter than the format: HELP and TYPE come once, and first; all samples of a metric follow each
other; no series comes twice; counters, and nothing else, end in _total, and are no less than 0;
units are base units. With --table: the table of metrics in a Markdown page has the same names,
types and explanations. `--table PAGE --print` prints that table. With --uses: all metrics that the
file OTHER names are there. Knows nothing of the project's code.
"""

import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
NO_BASE_UNIT = re.compile(r"_(ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|hours|bits|"
                          r"kilobytes|kb|mb|gb|percent)(_total)?$")


class Wrong(Exception):
    pass


def labels_of(text):
    """{name: value} of the inside of the braces."""
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise Wrong(f"no label at '{text[at:at + 40]}'")
        name, value = match.groups()
        if name in found or name.startswith("__"):
            raise Wrong(f"label {name} comes twice, or is reserved")
        found[name] = value
        at = match.end()
        if at < len(text):
            if text[at] != ",":
                raise Wrong(f"no comma at '{text[at:at + 40]}'")
            at += 1
    return found


def sample_of(line):
    """(name, labels, value)."""
    match = NAME.match(line)
    if not match:
        raise Wrong("no name")
    rest, labels = line[match.end():], {}
    if rest.startswith("{"):
        end = rest.rindex("}")
        labels, rest = labels_of(rest[1:end]), rest[end + 1:]
    if not re.fullmatch(r" [-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+|Inf|NaN)", rest):
        raise Wrong(f"no value: '{rest}'")
    return match[0], labels, float(rest)


class Reader:
    def __init__(self):
        self.families = {}  # name: {"help", "type", "labels", "samples"}
        self.series = set()
        self.last = None

    def comment(self, line):
        match = re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line)
        if not match:
            raise Wrong("neither HELP nor TYPE")
        kind, name, text = match.groups()
        family = self.families.setdefault(name, {"samples": 0})
        if kind.lower() in family:
            raise Wrong(f"a second {kind}")
        if family["samples"]:
            raise Wrong(f"{kind} after samples")
        if kind == "TYPE" and text not in ("counter", "gauge"):
            raise Wrong(f"type {text}")
        family[kind.lower()] = text

    def sample(self, line):
        name, labels, value = sample_of(line)
        family = self.families.get(name)
        if not family or "help" not in family or "type" not in family:
            raise Wrong("no HELP and TYPE before it")
        if family["samples"] and self.last != name:
            raise Wrong(f"samples of {name} are not together")
        if (family["type"] == "counter") != name.endswith("_total"):
            raise Wrong("counters, and they alone, end in _total")
        if family["type"] == "counter" and not value >= 0:
            raise Wrong("a counter below 0")
        if not name.startswith("openmrc_") or NO_BASE_UNIT.search(name) or name.lower() != name:
            raise Wrong("such names are against the conventions")
        series = name, tuple(sorted(labels.items()))
        if series in self.series:
            raise Wrong("the series comes twice")
        if family.setdefault("labels", set(labels)) != set(labels):
            raise Wrong(f"other labels than before: {sorted(labels)}")
        self.series.add(series)
        family["samples"] += 1
        self.last = name


def check(text):
    """The metrics by name. Raises Wrong."""
    reader = Reader()
    if not text.endswith("\n"):
        raise Wrong("the last line has no end")
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            (reader.comment if line.startswith("#") else reader.sample)(line)
        except Wrong as error:
            raise Wrong(f"line {number}: {error}: {line[:200]}") from None
    for name, family in reader.families.items():
        if not family["samples"] or "help" not in family or "type" not in family:
            raise Wrong(f"{name}: no samples, HELP or TYPE")
    return reader.families


def rows_of(families):
    for name, family in families.items():
        labels = [label for label in ("plane", "peer", "ev", "state") if label in family["labels"]]
        per = ", ".join(["device"] * ("device" in family["labels"]) + labels) or "host"
        yield f"| `{name}` | {family['type']} | {per} | {family['help'].rstrip('.')} |"


def main(file, *options):
    with open(file, encoding="utf-8") as lines:
        families = check(lines.read())
    if options and options[0] == "--uses":
        with open(options[1], encoding="utf-8") as text:
            missing = set(re.findall(r"openmrc_[a-z_]+", text.read())) - set(families)
        return f"{options[1]} names {sorted(missing)}, which are not in {file}" if missing else None
    if options:
        rows = list(rows_of(families))
        if "--print" in options:
            print("\n".join(rows))
            return None
        with open(options[1], encoding="utf-8") as lines:
            page = [line.rstrip("\n") for line in lines if line.startswith("| `openmrc_")]
        if sorted(page) != sorted(rows):
            return (f"{options[1]} has other metrics than {file}; --print makes the table. "
                    f"Only there: {sorted(set(page) - set(rows))}, "
                    f"missing: {sorted(set(rows) - set(page))}")
    print(f"{len(families)} metrics, {sum(f['samples'] for f in families.values())} samples")
    return None


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except Wrong as error:
        sys.exit(f"{sys.argv[1]}: {error}")
