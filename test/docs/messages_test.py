#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""messages_test.py: docs/troubleshooting.md quotes messages as the programs print them.

Of each message in the first column of its tables, every longer run of plain words has to occur in
the sources, at once or in two halves that the program puts together. What other programs print
(compilers, CMake) stands in the section on building, which is left out.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(os.environ.get("MRC_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SHORTEST = 12  # characters; a shorter run proves nothing


def source_text():
    """All sources, with string literals that were wrapped over lines put together again."""
    folders = "include", "tools", "bench", "scripts", "nccl_plugin", "verbs_shim"
    files = [file for folder in folders
             for file in sorted((ROOT / folder).rglob("*")) if file.is_file()]
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    return re.sub(r'"\s*\n\s*"', "", text).replace('\\"', '"')


def messages(page):
    """(line number, message) of the first column's quotations."""
    section = ""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("| `") or section == "It does not build":
            continue
        for quotation in re.findall(r"`([^`]+)`", line[1:].split(" | ")[0]):
            yield number, quotation


def runs(message):
    """The parts without names, numbers and quotes, which vary."""
    message = re.sub(r"\w*:[\w:]+|can't", "\0", message)  # addresses and QPNs
    parts = re.split(r"[^a-z ,?-]+|\b[a-z]*\d\w*|\b[A-Z]\w*", message)
    return [run for part in parts if len(run := part.strip(" ,")) >= SHORTEST]


def printed(run, sources):
    """Whether the run is in the sources, or two halves of it with at least 6 characters each."""
    if run in sources:
        return True
    spaces = [i for i, letter in enumerate(run) if letter == " "]
    return any(len(run[:i]) >= 6 and len(run[i + 1:]) >= 6 and
               run[:i] in sources and run[i + 1:] in sources for i in spaces)


def main():
    sources = source_text()
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    checked, missing = 0, []
    for number, message in messages(page):
        checked += bool(runs(message))
        missing += [f'docs/troubleshooting.md:{number}: no program prints "{run}"'
                    for run in runs(message) if not printed(run, sources)]
    print("\n".join(missing), end="\n" if missing else "")
    print(f"{checked} messages, {len(missing)} mistakes")
    return 1 if missing or checked < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
