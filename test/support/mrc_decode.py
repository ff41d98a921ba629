#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes captures of MRC traffic and checks every field against the MRC 1.0 document.

A second opinion on what OpenMRC sends: written from the document alone, it shares nothing with the
C++ code. Violations are printed one per line, then a summary. Exit status: 0 no violation and
enough packets of MRC; 1 violations or too few packets; 2 options or files that can't be used."""

import argparse
import json
import signal
import struct
import sys

from mrc_fields import DSCP, OPCODES
from mrc_flows import Flows
from mrc_network import BadInput, Network, address, block, number, text_of
from mrc_packet import LINKS, Packet, decode, plane_of

MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),  # ticks of 1 us
          b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}  # of 1 ns
NO_PCAP = {b"": "no pcap file", b"\x1f\x8b": "compressed; unpack it first",
           b"\x0a\x0d\x0d\x0a": "pcapng; convert it with tshark -F pcap -r FILE -w OTHER"}
MOST_CAPTURED = 1 << 18  # bytes of one packet; tcpdump takes no more
CUT_SHORT = "cut short; end tcpdump with SIGINT and wait until it is gone"


def read_capture(path):
    """(time in ns, link type, bytes, length on the wire) of each packet in a pcap file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    if not data:
        raise BadInput(f"{path}: empty, without even a header")
    if data[:4] not in MAGICS:
        magic = max((m for m in NO_PCAP if data.startswith(m)), key=len)
        raise BadInput(f"{path}: {NO_PCAP[magic]}")
    if len(data) < 24:
        raise BadInput(f"{path}: {CUT_SHORT}")
    order, tick = MAGICS[data[:4]]
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    if link not in LINKS:
        raise BadInput(f"{path}: link type {link}; known are 1 (Ethernet), 113, 276 (Linux cooked)")
    packets, at = [], 24
    while at < len(data):
        where = f"{path}: packet {len(packets) + 1}, byte {at}"
        if at + 16 > len(data):
            raise BadInput(f"{where}: {CUT_SHORT}")
        seconds, part, captured, length = struct.unpack_from(order + "4I", data, at)
        at += 16
        if captured > min(length, MOST_CAPTURED):
            raise BadInput(f"{where}: {captured} bytes captured of {length}: the file is damaged")
        if at + captured > len(data):
            raise BadInput(f"{where}: {CUT_SHORT}")
        packets.append((seconds * 10**9 + part * tick, link, data[at:at + captured], length))
        at += captured
    return packets


def read_captures(paths):
    """(name, link type, bytes, length) of all packets; those of several files by their times."""
    packets = []
    for path in paths:
        name = f"{path}:" if len(paths) > 1 else ""
        packets += [(time, f"{name}{i}", *rest)
                    for i, (time, *rest) in enumerate(read_capture(path), 1)]
    if len(paths) > 1:
        packets.sort(key=lambda packet: packet[0])
    return [packet[1:] for packet in packets]


class Report:
    """Violations in the order of packets, and counts."""

    def __init__(self):
        self.violations = []  # (index of the packet, text)
        self.counts = dict.fromkeys(
            ("packets", "mrc", "foreign", "cut", "trimmed", "ce", "unmatched", "violations"), 0)
        self.tables = {"opcodes": {}, "classes": {}, "planes": {}, "routes": {}}

    def wrong(self, packet, field, value, expected, section):
        self.violations.append((packet.index, f"packet {packet.name}: {field} is {show(value)}, "
                                              f"expected {show(expected)} (mrc-1.0 §{section})"))

    def count(self, table, key):
        self.tables[table][key] = self.tables[table].get(key, 0) + 1

    def add(self, packet, network):
        self.counts["mrc"] += 1
        for flag in ("cut", "trimmed", "ce"):
            self.counts[flag] += getattr(packet, flag)
        ip = packet.first_ip
        self.count("opcodes", OPCODES.get(packet.opcode, (hex(packet.opcode),))[0])
        self.count("classes", "/".join(network.classes_of(ip["dscp"])) or f"dscp {ip['dscp']}")
        plane = plane_of(packet, network)
        self.count("planes", "unknown" if plane is None else str(plane))
        source = "" if packet.outer else text_of(ip["source"]) + " > "
        self.count("routes", source + text_of(ip["destination"]))

    def write(self, json_file):
        for _, text in sorted(self.violations, key=lambda violation: violation[0]):
            print(text)
        self.counts["violations"] = len(self.violations)
        tables = {name: dict(sorted(table.items())) for name, table in self.tables.items()}
        for name, table in ({"total": self.counts} | tables).items():
            print(f"{name}: " + ", ".join(f"{key} {count}" for key, count in table.items()))
        if json_file:
            try:
                with open(json_file, "w", encoding="utf-8") as file:
                    file.write(json.dumps(self.counts | tables, indent=2) + "\n")
            except OSError as error:
                raise BadInput(f"{json_file}: {error.strerror}") from None


def show(value):
    """A value as the document writes it: numbers in hexadecimal where they are large."""
    if isinstance(value, bool) or not isinstance(value, (int, dict, list, tuple, range)):
        return str(value)
    if isinstance(value, int):
        return str(value) if -10 < value < 10 else f"{value} ({value:#x})"
    if isinstance(value, range):
        return f"{value[0]} .. {value[-1]}"
    return "one of " + ", ".join(show(v) for v in value)


def show_packet(packet):
    lines = [f"packet {packet.name}: {OPCODES.get(packet.opcode, ('?',))[0]}"
             f"{', trimmed' if packet.trimmed else ''}{', cut' if packet.cut else ''}"]
    for header, _, values in packet.headers:
        fields = (text_of(v) if n in ("source", "destination", "address") else f"{v:#x}"
                  for n, v in values.items())
        lines.append(f"  {header.name}: " + " ".join(map("=".join, zip(values, fields))))
    lines.append(f"  payload: {packet.payload} bytes")
    return "\n".join(lines)


def options():
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__,
        epilog="A capture should be made where the data arrives, and hold all packets of all\n"
               "planes from the start of the queue pairs, each once; else say --partial. A\n"
               "snaplen of 160 keeps all headers.")
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="pcap file, as tcpdump -w writes it; several are merged by time")
    parser.add_argument("--fabric", metavar="FILE", help="description of the fabric (JSON)")
    parser.add_argument("--block", action="append", default=[], metavar="PREFIX",
                        help="uSID block such as fcbb::/32; one for all planes or one per plane")
    parser.add_argument("--plane-mask", metavar="MASK", help="the plane's bits in a uSID: 0x0f00")
    parser.add_argument("--host", action="append", default=[], metavar="ADDRESS,...",
                        help="a host's addresses, by plane; may be repeated")
    parser.add_argument("--port", action="append", default=[], metavar="N[-M]",
                        help="UDP ports of MRC instead of 4791 and 4971; may be repeated")
    parser.add_argument("--dscp", action="append", default=[], metavar="CLASS=VALUE",
                        help="DSCP of one of the classes " + ", ".join(DSCP))
    parser.add_argument("--mtu", metavar="BYTES", help="payload of a full packet (default: as the "
                                                       "first that is full shows)")
    parser.add_argument("--partial", action="store_true",
                        help="packets are missing in the capture: check only what holds then")
    parser.add_argument("--min", default="1", metavar="N", help="fewer packets of MRC are an error "
                                                                "(default 1)")
    parser.add_argument("--json", metavar="FILE", help="write the summary as JSON")
    parser.add_argument("--verbose", action="store_true", help="print each packet of MRC")
    return parser.parse_args()


def network_of(args):
    network = Network()
    network.partial = args.partial
    if args.fabric:
        network.read_description(args.fabric)
    if args.block:
        network.blocks = [block(text) for text in args.block]
    if args.plane_mask:
        network.plane_mask = number(args.plane_mask, 0, 0xFFFF, "--plane-mask")
    for host in args.host:
        for plane, text in enumerate(host.split(",")):
            network.hosts[address(text, "--host")] = (host, plane)
    for setting in args.dscp:
        network.set_dscp(*setting.partition("=")[::2], "--dscp")
    if args.port:
        network.ports = set()
    for text in args.port:
        first, _, last = text.partition("-")
        network.ports.update(range(number(first, 1, 65535, "--port"),
                                   number(last or first, 1, 65535, "--port") + 1))
    if args.mtu:
        network.mtu = number(args.mtu, 1, 65535, "--mtu")
    return network


def main():
    args = options()
    report = Report()
    network = network_of(args)
    least = number(args.min, 0, 1 << 62, "--min")
    flows = Flows(network)
    for index, (name, link, data, length) in enumerate(read_captures(args.files)):
        packet = Packet(index, name, link, data, length, report.wrong)
        report.counts["packets"] += 1
        if decode(packet, network):
            report.add(packet, network)
            flows.add(packet)
            if args.verbose:
                print(show_packet(packet))
        elif packet.cut:
            report.counts["cut"] += 1
            flows.partial = True
        else:
            report.counts["foreign"] += 1
    flows.finish()
    report.counts["unmatched"] = flows.unmatched
    report.write(args.json)
    if report.counts["mrc"] < least:
        print(f"only {report.counts['mrc']} packets of MRC, not {least}: was the capture on the "
              "right interface, and are --port and --dscp those of the sender?", file=sys.stderr)
        return 1
    return 1 if report.violations else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    try:
        sys.exit(main())
    except BadInput as error:
        print(f"mrc_decode: {error}", file=sys.stderr)
        sys.exit(2)
