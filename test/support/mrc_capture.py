#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a pcap file of MRC packets, right ones and wrong ones, for the test of mrc_decode.py.

mrc_capture.py [--big] [--nano] [--cooked] FILE PACKET...

A PACKET is a name of BASES and edits after commas, such as only,BTH.psn=0x11,payload=9:
  HEADER.FIELD=N  a field of mrc_fields.py; outer.FIELD is the outer IPv6's
  payload=N       bytes of payload; pad=N: of pad, instead of what fits
  outer=ADDRESS   in IPv6 to this address; srh=ADDRESS: with this segment
  trim=N          trimmed by a switch, which left so many bytes from UDP on
  icrc=N          this iCRC instead of the right one
  cut=N           so many bytes of it are captured
Lengths, pad and iCRC are right, also after edits, but where these are about them. raw=HEX is a
packet of these bytes.
"""

import socket
import struct
import sys

import mrc_fields

TABLES = {h.name: h for h in vars(mrc_fields).values() if isinstance(h, mrc_fields.Header)}

# The vectors of mrc-1.0 §1.15, cut into headers; what has none there was put together from §1 by
# hand. Data goes from A to B as ECT, which the iCRC doesn't see; `verbatim` has no ECT.
A, B = "20010db8000000000000000000000001", "20010db8000000000000000000000002"
THERE, BACK = "612005a300001140" + A + B, "6b80000000001140" + B + A
UDP = "123412b700000000"
TO_B, TO_A = "00ffff0000020090000010", "00ffff0000010000000010"
ENDPOINT, PROBE = "00ffff0000000200000007", "00ffff0000020000000000"
DATA = {"METH": "00000000", "TSETH": "beef0001", "RETH": "00000000000010001122334400000008"}
UNTIMED = {name: DATA[name] for name in ("METH", "RETH")}
IMMEDIATE = DATA | {"ImmDt": "cafe0001"}
SACK = {"SETH": "0020000305a312340200010000000010002000010000000000000006",
        "CC_STATE": "beef000300000012"}
NACK = {"NETH": "0000010005a3123402000100000000102000beef"}
BASES = {  # IPv6, BTH, headers after it
    "verbatim": ("6100" + THERE[4:], "ca" + TO_B, DATA),
    "first": (THERE, "c6" + TO_B, DATA),
    "middle": (THERE, "c7" + TO_B, DATA),
    "last": (THERE, "c8" + TO_B, DATA),
    "last_imm": (THERE, "c9" + TO_B, IMMEDIATE),
    "only": (THERE, "ca" + TO_B, DATA),
    "only_imm": (THERE, "cb" + TO_B, IMMEDIATE),
    "untimed": (THERE, "ca" + TO_B.replace("90", "80"), UNTIMED),
    "sack": (BACK, "dc" + TO_A, SACK),
    "nack": (BACK, "dd" + TO_A, NACK),
    "ack": (BACK, "d1" + TO_A, {"AETH": "1f000000"}),
    "probe": (THERE, "de" + PROBE, {"PETH": "000000000007000001000200beef0001"}),
    "request": (THERE, "d8" + ENDPOINT, {"ERTH": "000100000000000000000000beef0001"}),
    "response": (BACK, "d9" + ENDPOINT, {"EETH": "0004" + 26 * "00" + "beef" + 6 * "00"}),
}


def crc32(data):
    """mrc-1.0 §1.12, rule 3, bit by bit; the decoder has it from a library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def icrc(ip, rest):
    """Over IPv6, and UDP and all after it, with what may change set to ones; rules 1 and 2."""
    image = bytearray(b"\xff" * 8 + ip + rest)
    image[8] |= 0x0F  # traffic class and flow label
    image[9:12] = b"\xff\xff\xff"
    image[15] = 0xFF  # hop limit
    image[8 + 40 + 6:8 + 40 + 8] = b"\xff\xff"  # UDP checksum
    image[8 + 40 + 8 + 4] = 0xFF  # BTH's var-res
    return crc32(image)


def put(layers, name, value):
    """Sets HEADER.FIELD."""
    header, _, field = name.partition(".")
    data = layers[header]
    table = TABLES["IPv6" if header == "outer" else header]
    _, first, width, _ = next(row for row in table.fields if row[0] == field)
    shift = table.bits - first - width
    number = int.from_bytes(data, "big") & ~(((1 << width) - 1) << shift) | value << shift
    layers[header] = number.to_bytes(table.size, "big")


def build(spec):
    """(bytes from IP on, how many of them are captured)."""
    base, *edits = spec.split(",")
    edits = dict(edit.split("=") for edit in edits)
    if base.startswith("raw="):
        return bytes.fromhex(base[4:]), None
    ip, bth, extensions = BASES[base]
    layers = {name: bytes.fromhex(text)
              for name, text in ({"IPv6": ip, "UDP": UDP, "BTH": bth} | extensions).items()}
    size = int(edits.pop("payload", 8 if "RETH" in layers else 0))
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
    keep, wrong, captured = (edits.pop(name, None) for name in ("trim", "icrc", "cut"))
    if keep:
        less = length - int(keep)
        inner["IPv6.length"] -= less
        outer |= {"outer.length": outer["outer.length"] - less} if outer else {}
        outer |= {"outer.dscp" if outer else "IPv6.dscp": 12}
    for name, value in (inner | outer | edits).items():
        put(layers, name, value if isinstance(value, int) else int(value, 0))
    top = layers.pop("outer", b"") + layers.pop("SRH", b"") + around
    ip, rest = layers.pop("IPv6"), b"".join(layers.values()) + payload
    rest += (int(wrong, 0) if wrong else icrc(ip, rest)).to_bytes(4, "little")
    return top + ip + rest[:int(keep or len(rest))], captured


def main():
    options = [arg for arg in sys.argv[1:] if arg.startswith("--")]
    path, *specs = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
    order = ">" if "--big" in options else "<"
    magic = 0xA1B23C4D if "--nano" in options else 0xA1B2C3D4
    link, head = (276, b"\x86\xdd" + b"\0" * 18) if "--cooked" in options else (
        1, b"\2\0\0\0\0\2\2\0\0\0\0\1\x86\xdd")
    with open(path, "wb") as file:
        file.write(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link))
        for number, spec in enumerate(specs):
            data, captured = build(spec)
            data = head + data
            kept = data[:int(captured)] if captured else data
            file.write(struct.pack(order + "IIII", 0, number, len(kept), len(data)) + kept)


main()
