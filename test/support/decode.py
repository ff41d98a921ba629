#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tshark shows, with the dissector tools/wireshark/mrc.lua, of packets in a text file.

decode.py FILE                 prints the file again, with what is shown now
decode.py FILE SECTION PCAP    writes the packets of a section into a capture
decode.py FILE garbage PCAP    writes parts of packets, and packets with random changes

Lines of the file, sections of it after `== SECTION`:
  tshark WHAT OPTION...  a run over the section's packets; WHAT: `tree` (all of MRC), `findings`
                         (values that MRC does not allow; not in `tree`), or fields, joined by
                         commas
  NAME = PACKET          for later use, also in other sections
  PACKET -> SHOWN        what the section's runs show, with | between them
    MORE SHOWN           of `tree`
A PACKET is the name of another, or nothing, and words that change it from left to right:
  PART:HEX     with these bytes as this part: outer, SRH, IP, UDP, BTH and the like, payload, iCRC
  PART@N=HEX   these bytes at byte N of a part
  -PART        without it
  trim=N       without what is after N bytes from UDP on
HEX*N is HEX N times. No length and no iCRC is computed: it says in `tree` what an iCRC should be.
"""

import pathlib
import random
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree

DISSECTOR = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark" / "mrc.lua"
ORDER = {"outer": -2, "SRH": -1, "payload": 1, "iCRC": 2}  # of parts; the others as they were added
FINDING = re.compile(r"\S.* is .*, expected ")  # how the dissector words them
LABEL = re.compile(r"(?:[01. ]+ = )?(?:[SD]PDCID: )?[^:]*: ")


def unhex(text):
    digits, _, times = text.partition("*")
    return bytes.fromhex(digits) * int(times or 1)


def in_order(parts):
    return dict(sorted(parts.items(), key=lambda part: ORDER.get(part[0], 0)))


def packet(spec, named):
    """{part: bytes} by what a line says."""
    first, *words = spec.split() or [""]
    parts = dict(named.get(first, {}))
    for word in words if first in named else [first, *words]:
        if place := re.fullmatch(r"(\w+)@(\d+)=(\w+)", word):
            name, at, data = place[1], int(place[2]), unhex(place[3])
            parts[name] = parts[name][:at] + data + parts[name][at + len(data):]
        elif word.startswith("-"):
            del parts[word[1:]]
        elif word.startswith("trim="):
            parts, size = in_order(parts), int(word[5:])
            for name in list(parts)[list(parts).index("UDP"):]:
                parts[name], size = parts[name][:size], max(0, size - len(parts[name]))
        elif word:
            name, data = word.split(":")
            parts[name] = unhex(data)
    return in_order(parts)


def read(path):
    """[(section, runs, lines)] of the file, lines as (text, packet or None); and named packets."""
    sections, named = [("", [], [])], {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.split(" ->", maxsplit=1)[0].strip()
        if line.startswith("  "):
            continue  # shown before
        if line.startswith("== "):
            sections.append((line[3:], [], []))
        elif line.startswith("tshark "):
            sections[-1][1].append(line.split()[1:])
        definition = re.fullmatch(r"(\w+) = (.*)", text)
        if definition:
            named[definition[1]] = packet(definition[2], named)
        plain = definition or not line or line.startswith(("#", "== ", "tshark "))
        sections[-1][2].append((line if plain else text, None if plain else packet(text, named)))
    return sections, named


def write(path, packets):
    """A capture; each packet (bytes from IP on) may be with the number of bytes that are kept."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, (data, kept) in enumerate(packets):
            kind = b"\x08\0" if data[:1] and data[0] >> 4 == 4 else b"\x86\xdd"
            data = b"\2\0\0\0\0\2\2\0\0\0\0\1" + kind + data
            kept = data[:kept]
            file.write(struct.pack("<IIII", 0, number, len(kept), len(data)) + kept)


def garbage(named):
    """Packets of which the end was not captured, then packets that were valid until changed."""
    whole = {name: b"".join(parts.values()) for name, parts in named.items()}
    for name in ("only_imm", "sack", "nack", "probe", "request", "response"):
        yield from ((whole[name], size) for size in range(50, 120))
    random.seed(1)
    for number in range(3000):
        data = bytearray(random.choice(list(whole.values())))
        for _ in range(number % 8 + 1):
            what, at = random.randrange(4), random.randrange(len(data))
            if what < 2:
                data[at] = random.randrange(256)
            elif what == 2:
                data = data[:max(at, 1)]
            else:
                data += random.randbytes(random.randrange(1, 60))
        yield bytes(data), None


def value(field):
    return LABEL.sub("", field.get("showname"), count=1)


def tree(text):
    """For each packet a line per header, one of what else is shown, and what is unusual."""
    for shown in xml.etree.ElementTree.fromstring(text).iter("packet"):
        top = shown.find("proto[@name='mrc']")
        lines, besides, notes = [], [], []
        for field in top if top is not None else []:
            name = field.get("name").removeprefix("mrc.")
            inner = [child for child in field if child.get("name").startswith("mrc.")]
            notes += [note.get("show") for note in field.iter("field")
                      if note.get("name") == "_ws.expert.message"]
            if inner and name != "_ws.expert":
                lines.append(f"  {name}: " + " ".join(
                    f"{child.get('name').split('.')[-1]}={value(child)}" for child in inner))
            elif not name.startswith("_ws."):
                besides.append(f"{name}={value(field)}")
        notes = [note for note in notes if not FINDING.match(note)]
        lines.append("  and " + " ".join(besides))
        yield "\n".join([*lines, *(f"  note: {note}" for note in notes)])


def fields(text, what):
    for line in text.splitlines():
        texts = line.split("\t")
        if what == ["_ws.expert.message"]:
            texts = ["; ".join(t for t in texts[0].split("|") if FINDING.match(t))]
        yield " ".join({"True": "1", "": "-"}.get(t, t) for t in texts).replace("|", ",")


def run(capture, what, options, folder):
    names = ["_ws.expert.message"] if what == "findings" else what.split(",")
    form = ["-T", "pdml"] if what == "tree" else ["-T", "fields", "-E", "aggregator=|"] + [
        word for name in names for word in ("-e", name)]
    result = subprocess.run(["tshark", "-n", "-X", f"lua_script:{DISSECTOR}", "-r", capture,
                             *options, *form], capture_output=True, text=True, check=False,
                            cwd=folder)
    if result.returncode or "Lua Error" in result.stderr + result.stdout:
        sys.exit(f"tshark: {result.stderr} {re.findall('.*Lua Error.*', result.stdout)[:9]}")
    return list(tree(result.stdout) if what == "tree" else fields(result.stdout, names))


def main(path, section="", capture="packets.pcap"):
    path, capture = pathlib.Path(path), pathlib.Path(capture).resolve()
    sections, named = read(path)
    if section == "garbage":
        write(capture, garbage(named))
        return
    for name, runs, lines in sections:
        if section in ("", name):
            write(capture, [(b"".join(p.values()), None) for _, p in lines if p is not None])
        if section:
            continue
        columns = [run(capture, what, options, path.parent) for what, *options in runs]
        shown = iter(zip(*columns, strict=True))
        if name:
            print(f"== {name}")
        for text, parts in lines:
            if parts is None and not text.startswith("== "):
                print(text)
            elif parts is not None:
                text += " ->\n" if runs and runs[0][0] == "tree" else " -> " if runs else ""
                print(text + (" | ".join(next(shown)) if runs else ""))


main(*sys.argv[1:])
