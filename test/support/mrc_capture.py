#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a pcap file of MRC packets, right ones and wrong ones, for tests of the dissector.

mrc_capture.py FILE PACKET...; with PACKET -: the words of each line of standard input

A PACKET is a name of BASES and edits after commas, such as only,BTH.psn=0x11,payload=9:
  HEADER.FIELD=N  a field of mrc_layouts.py; outer.FIELD is the outer IPv6's
  payload=N       bytes of payload; pad=N: of pad, instead of what fits
  outer=ADDRESS   in IPv6 to this address; srh=ADDRESS: with this segment
  trim=N          trimmed by a switch, which left so many bytes from UDP on
  icrc=N          this iCRC instead of the right one
  head=1          the iCRC covers 48 bytes from BTH on, and BTH.var_res says so
  tag=N           with this verification tag of OpenMRC in BTH, endpoint headers and iCRC
  cut=N           so many bytes of it are captured
  v4=1            in IPv4 instead of IPv6
Lengths, pad and iCRC are right, also after edits, but where these are about them. raw=HEX is a
packet of these bytes; garbage=N: a valid packet with N random changes, cuts and additions;
random=BASE: random values in all fields of MRC, which are written to FILE.expected as JSON.
"""

import json
import random
import socket
import struct
import sys

from mrc_layouts import HEADERS, randomize

# The vectors of mrc-1.0 §1.15, cut into headers; what has none there was put together from §1 by
# hand, or from docs/extensions.md. Data goes from A to B as ECT, which the iCRC doesn't see;
# `verbatim` has no ECT.
A, B = "20010db8000000000000000000000001", "20010db8000000000000000000000002"
THERE, BACK = "612005a300001140" + A + B, "6b80000000001140" + B + A
UDP = "123412b700000000"
TO_B, TO_A = "00ffff0000020090000010", "00ffff0000010000000010"
ENDPOINT, PROBE = "00ffff0000000200000007", "00ffff0000020000000000"
DATA = {"METH": "00000000", "TSETH": "beef0001", "RETH": "00000000000010001122334400000008"}
UNTIMED = {name: DATA[name] for name in ("METH", "RETH")}
# Of the extension: a message, and memory of the peer.
MESSAGE = DATA | {"METH": "00030009", "RETH": "00000000000000000000000000000008"}
ASKED = DATA | {"METH": "0001000a"}
OPERANDS = "01020304050607081112131415161718"
IMMEDIATE = DATA | {"ImmDt": "cafe0001"}
SACK = {"SETH": "0020000305a312340200010000000010002000010000000000000006",
        "CC_STATE": "beef000300000012"}
NACK = {"NETH": "0000010005a3123402000100000000102000beef"}
UNDER_MRC = ("IPv6", "SRH", "UDP", "outer")
BASES = {  # IPv6, BTH, headers after it
    "verbatim": ("6100" + THERE[4:], "ca" + TO_B, DATA),
    "first": (THERE, "c6" + TO_B, DATA),
    "middle": (THERE, "c7" + TO_B, DATA),
    "last": (THERE, "c8" + TO_B, DATA),
    "last_imm": (THERE, "c9" + TO_B, IMMEDIATE),
    "only": (THERE, "ca" + TO_B, DATA),
    "only_imm": (THERE, "cb" + TO_B, IMMEDIATE),
    "send_first": (THERE, "c0" + TO_B, MESSAGE),
    "send_middle": (THERE, "c1" + TO_B, MESSAGE),
    "send_last": (THERE, "c2" + TO_B, MESSAGE),
    "send_last_imm": (THERE, "c3" + TO_B, MESSAGE | {"ImmDt": "cafe0001"}),
    "send_only": (THERE, "c4" + TO_B, MESSAGE),
    "send_only_imm": (THERE, "c5" + TO_B, MESSAGE | {"ImmDt": "cafe0001"}),
    "read": (THERE, "cc" + TO_B, ASKED),
    "read_first": (THERE, "cd" + TO_B, MESSAGE),
    "read_middle": (THERE, "ce" + TO_B, MESSAGE),
    "read_last": (THERE, "cf" + TO_B, MESSAGE),
    "read_only": (THERE, "d0" + TO_B, MESSAGE),
    "atomic_response": (THERE, "d2" + TO_B, {**MESSAGE, "AtomicResponse": "0123456789abcdef"}),
    "compare_swap": (THERE, "d3" + TO_B, {**ASKED, "AtomicOperands": OPERANDS}),
    "fetch_add": (THERE, "d4" + TO_B, {**ASKED, "AtomicOperands": OPERANDS[:16] + 16 * "0"}),
    "untimed": (THERE, "ca" + TO_B.replace("90", "80"), UNTIMED),
    "sack": (BACK, "dc" + TO_A, SACK),
    "nack": (BACK, "dd" + TO_A, NACK),
    "ack": (BACK, "d1" + TO_A, {"AETH": "1f000000"}),
    "probe": (THERE, "de" + PROBE, {"PETH": "000000000007000001000200beef0001"}),
    "request": (THERE, "d8" + ENDPOINT, {"ERTH": "000100000000000000000000beef0001"}),
    "response": (BACK, "d9" + ENDPOINT, {"EETH": "0004" + 26 * "00" + "beef" + 6 * "00"}),
}


def crc32(data):
    """mrc-1.0 §1.12, rule 3, bit by bit; the dissector has it from tables."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def icrc(ip, rest):
    """Over IP, and UDP and all after it, with what may change set to ones; rules 1 and 2."""
    ip, rest = bytearray(ip), bytearray(rest)
    if ip[0] >> 4 == 6:
        ip[0] |= 0x0F  # traffic class and flow label
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xFF  # hop limit
    else:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF  # TOS, TTL, checksum
    rest[6:8] = b"\xff\xff"  # UDP checksum
    rest[8 + 4] = 0xFF  # BTH's var-res
    return crc32(b"\xff" * 8 + ip + rest)


def ipv4(ip, length):
    """What is in the IPv6 header as an IPv4 one; the checksum is left out."""
    traffic_class = (ip[0] << 8 | ip[1]) >> 4 & 0xFF
    return struct.pack(">BBHHHBBH4s4s", 0x45, traffic_class, 20 + length, 1, 0x4000, ip[7], 17, 0,
                       b"\xc0\0\2" + ip[23:24], b"\xc0\0\2" + ip[39:40])


def put(layers, name, value):
    """Sets HEADER.FIELD."""
    header, _, field = name.partition(".")
    layers[header] = HEADERS["IPv6" if header == "outer" else header].put(
        layers[header], field, value)


def add_tag(layers, tag):
    """Stamps a verification tag into the headers; returns what is added to the iCRC."""
    put(layers, "BTH.p_key", tag >> 36 & 0xFFFF)
    put(layers, "BTH.inv_res", tag >> 32 & 0xF)
    for field in ("ERTH.reserved3", "EETH.reserved4"):
        if field.split(".", maxsplit=1)[0] in layers:
            put(layers, field, tag >> 52)
    return tag & 0xFFFFFFFF


def garbage(changes):
    """A packet that was valid, until this."""
    layer = random.choice([b for b in BASES if b != "verbatim"])
    data, _, _ = build(layer + random.choice(["", ",outer=fcbb:0:1000::", ",v4=1", ",trim=28"]))
    data = bytearray(data)
    for _ in range(changes):
        what, at = random.randrange(4), random.randrange(len(data))
        if what < 2:
            data[at] = random.randrange(256)
        elif what == 2:
            data = data[:max(at, 1)]
        else:
            data += random.randbytes(random.randrange(1, 60))
    return bytes(data)


def build(spec):
    """(bytes from IP on, how many of them are captured, what the dissector has to show)."""
    base, *edits = spec.split(",")
    edits = dict(edit.split("=") for edit in edits)
    kind, _, value = base.partition("=")
    if kind == "raw":
        return bytes.fromhex(value), None, None
    if kind == "garbage":
        return garbage(int(value)), None, None
    ip, bth, extensions = BASES[value if kind == "random" else base]
    layers = {name: bytes.fromhex(text)
              for name, text in ({"IPv6": ip, "UDP": UDP, "BTH": bth} | extensions).items()}
    if kind == "random":
        randomize(layers)
    bare = "RETH" not in layers or bth[:2] == "cc" or "Atomic" in " ".join(layers)
    size = int(edits.pop("payload", 0 if bare else 8))
    pad = int(edits.pop("pad", -size % 4))
    payload = (b"ABCDEFGH" * (size // 8 + 1))[:size] + bytes(pad)
    length = sum(map(len, layers.values())) - 40 + len(payload) + 4
    inner = {"IPv6.length": length, "UDP.length": length, "BTH.pad": pad}
    outer = {}
    around = b""
    if "outer" in edits:
        address = socket.inet_pton(socket.AF_INET6, edits.pop("outer"))
        layers["outer"] = layers["IPv6"][:24] + address
        outer = {"outer.length": length + 40, "outer.next_header": 41}
    if "srh" in edits:
        layers["SRH"] = bytes.fromhex("2902040100000000")
        around = socket.inet_pton(socket.AF_INET6, edits.pop("srh"))
        outer = {"outer.length": length + 40 + 24, "outer.next_header": 43}
    keep, wrong, captured, v4, tag, head = (edits.pop(n, None) for n in (
        "trim", "icrc", "cut", "v4", "tag", "head"))
    if head:
        put(layers, "BTH.var_res", 1)
    added = add_tag(layers, int(tag, 0)) if tag else 0
    if keep:
        less = length - int(keep)
        inner["IPv6.length"] -= less
        outer |= {"outer.length": outer["outer.length"] - less} if outer else {}
        outer |= {"outer.dscp" if outer else "IPv6.dscp": 12}
    for name, value in (inner | outer | edits).items():
        put(layers, name, value if isinstance(value, int) else int(value, 0))
    shown = {name: value for header, data in layers.items() if header not in UNDER_MRC
             for name, value in HEADERS[header].shown(data).items()}
    top = layers.pop("outer", b"") + layers.pop("SRH", b"") + around
    ip, rest = layers.pop("IPv6"), b"".join(layers.values()) + payload
    if v4:
        ip = ipv4(ip, int(keep or length))
    covered = rest[:8 + 48] if head else rest  # UDP is in front of it
    check = int(wrong, 0) if wrong else (icrc(ip, covered) + added) % 2**32
    rest += check.to_bytes(4, "little")
    return top + ip + rest[:int(keep or len(rest))], captured, shown


def main():
    path, *specs = sys.argv[1:]
    if specs == ["-"]:
        specs = sys.stdin.read().split()
    random.seed(1)
    expected = []
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, spec in enumerate(specs):
            data, captured, shown = build(spec)
            kind = b"\x08\0" if data[:1] and data[0] >> 4 == 4 else b"\x86\xdd"
            data = b"\2\0\0\0\0\2\2\0\0\0\0\1" + kind + data
            kept = data[:int(captured)] if captured else data
            file.write(struct.pack("<IIII", 0, number, len(kept), len(data)) + kept)
            expected.append(shown)
    if any(spec.startswith("random=") for spec in specs):
        with open(path + ".expected", "w", encoding="utf-8") as file:
            json.dump(expected, file)


main()
