#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks captures of MRC traffic: each packet by the Wireshark dissector (tools/wireshark/mrc.lua),
SRv6 routes (mrc-1.0 §4) by a description of the fabric with the usual uSIDs (docs/fabric.md).

Violations are printed one per line, then counts. Exit status: 0 no violation and enough packets;
1 violations or too few packets."""

import argparse
import collections
import ipaddress
import json
import pathlib
import re
import subprocess
import sys

DISSECTOR = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark" / "mrc.lua"
FIELDS = """ipv6.src ipv6.dst ipv6.routing.srh.addr mrc.opcode mrc.trimmed mrc.icrc.status
    mrc.tag.status _ws.expert.message""".split()
FINDING = re.compile(r"\S.* is .*, expected ")  # how the dissector words them
PROBE = 0xDE  # opcode
BLOCK, FIRST_LOCAL, PLANE = 0xFCBB0000, 0xE000, 0x0F00  # uSIDs from FIRST_LOCAL on have no plane


class Network:
    """Hosts by their addresses."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        tree = json.loads(re.sub(r"^ *//.*", "", text, flags=re.MULTILINE))
        t0s, hosts, under = tree["t0"], tree["hosts"], collections.Counter()
        hosts = [{}] * hosts if isinstance(hosts, int) else hosts
        self.hosts = {}  # address: (host, plane, uSID that ends a path to it)
        for k, host in enumerate(hosts):
            t0 = host.get("t0", k * t0s // len(hosts))
            for plane in range(tree["planes"]):
                self.hosts[ipaddress.ip_address(f"fd00:{plane + 1:x}::{k + 1:x}")] = (
                    k, plane, 0x3000 | plane << 8 | t0 << 4 | under[t0])
            under[t0] += 1

    def check(self, sources, destinations, segments):
        """Yields what is wrong with the addresses of a packet, the outer ones first."""
        usids = []
        for address in destinations[:1] + segments:
            words = [int(address) >> shift & 0xFFFF for shift in range(80, -1, -16)]
            while words and words[-1] == 0:
                words.pop()
            if int(address) >> 96 != BLOCK or 0 in words or not words:
                yield f"{address} is no list of uSIDs"
                return
            usids += words
        planes = {usid & PLANE for usid in usids if usid < FIRST_LOCAL}
        outer, inner, there = (self.hosts.get(address, (address, None, None)) for address in
                               (sources[0], sources[-1], destinations[-1]))
        if len(planes | {host[1] << 8 for host in (outer, inner, there)}) > 1:
            yield f"{destinations[0]} and the other addresses are of more than one plane"
        if outer[0] != inner[0]:
            yield f"the outer source {sources[0]} is not the host of {sources[-1]}"
        if usids[-1] < FIRST_LOCAL and usids[-1] != there[2]:
            yield f"the last uSID is {usids[-1]:x}, not {there[2]:x} of {destinations[-1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="capture")
    parser.add_argument("--fabric", metavar="FILE", help="description of the fabric (JSON)")
    parser.add_argument("--port", action="append", default=["4791", "4971"], metavar="N[-M]",
                        help="more UDP ports of MRC")
    parser.add_argument("--keylog", metavar="FILE", help="verification tags (option keylog)")
    parser.add_argument("--min", type=int, default=1, metavar="N", help="least packets of MRC")
    args = parser.parse_args()
    network = args.fabric and Network(args.fabric)
    options = ["mrc.strict:TRUE", "udp.try_heuristic_first:TRUE",
               f"mrc.ports:{','.join(args.port)}", f"mrc.keylog:{args.keylog or ''}"]
    shown = subprocess.run(["tshark", "-n", "-r", args.file, "-X", f"lua_script:{DISSECTOR}",
                            *(word for option in options for word in ("-o", option)),
                            "-T", "fields", "-E", "aggregator=|",
                            *(word for field in FIELDS for word in ("-e", field))],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    counts, opcodes, violations = collections.Counter(mrc=0, unchecked=0), collections.Counter(), 0
    for number, line in enumerate(shown.splitlines(), 1):
        lists = [text.split("|") if text else [] for text in line.split("\t")]
        sources, destinations, segments = (
            [ipaddress.ip_address(text) for text in texts] for texts in lists[:3])
        opcode, trimmed, icrc, tag, messages = lists[3:]
        if not opcode:
            continue
        kind = int(opcode[0], 0)
        opcodes[kind] += 1
        # Reliability probes are of the class of the data, but nothing of them is to be repaired.
        name = "trimmed probes" if kind == PROBE else "trimmed"
        counts.update({name: len(trimmed)}, mrc=1, verified=icrc == ["1"], tagged=tag == ["1"],
                      unchecked=tag == ["2"])
        wrong = [text for text in messages if FINDING.match(text)]
        if network and len(destinations) > 1:
            wrong += network.check(sources, destinations, segments)
        violations += len(wrong)
        for text in wrong:
            print(f"packet {number}: {text}")
    print("total: " + "".join(f"{name} {count}, " for name, count in counts.items())
          + f"violations {violations}")
    print("opcodes: " + ", ".join(f"{op:x} {n}" for op, n in sorted(opcodes.items())))
    return int(violations > 0 or counts["mrc"] < args.min)


if __name__ == "__main__":
    sys.exit(main())
