#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks captures of MRC traffic: each packet by the Wireshark dissector (tools/wireshark/mrc.lua),
packets against each other by mrc_flows.py, SRv6 routes by a description of the fabric.

Violations are printed one per line, then counts. Exit status: 0 no violation and enough packets;
1 violations or too few packets; 2 tshark or the description can't be used."""

import argparse
import pathlib
import re
import subprocess
import sys

from mrc_flows import DATA, Flows
from mrc_network import BadInput, Network, check_route

DISSECTOR = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark" / "mrc.lua"
CONTEXT = """frame.number ip.src ip.dst ipv6.src ipv6.dst ip.dsfield.dscp ipv6.tclass.dscp
    udp.dstport udp.length ipv6.routing.srh.addr _ws.expert.message""".split()
NUMBERS = """opcode psn dqp rtx meth.msn meth.rqmsn tseth.tx_timestamp reth.va reth.r_key
    reth.dmalen immdt.immediate aeth.syndrome aeth.msn sack.m sack.pr sack.ack_psn_offset
    sack.probe_id sack.entropy sack.spdcid sack.cack_psn sack.sack_offset sack.bitmap
    cc.tx_timestamp cc.ooo_count cc.rcvd_bytes nack.reason nack.entropy nack.spdcid nack.psn
    nack.tx_timestamp probe.id probe.tx_timestamp request.op request.tx_timestamp response.op
    response.tx_timestamp ev payload_length cut ce trimmed icrc.status tag.status bad_tag
    malformed""".split()
NEEDED = {0xDC: "cc.rcvd_bytes", 0xDD: "nack.tx_timestamp", 0xDE: "probe.tx_timestamp",
          0xD1: "aeth.msn", 0xD8: "request.tx_timestamp", 0xD9: "response.tx_timestamp"}
FINDING = re.compile(r"\S.* is .*, expected ")  # how the dissector words them
TRUE, FALSE = ("1", "True"), ("", "0", "False")


def number_of(text):
    if text in TRUE or text in FALSE:
        return int(text in TRUE)
    try:
        return int(text, 0)
    except ValueError:
        return 1  # an expert info without a value


class Packet:
    """What the dissector says of a packet; fields by name without mrc. in `v`."""

    def __init__(self, name, columns, report):
        lists = {field: text.split("|") if text else [] for field, text in zip(CONTEXT, columns)}
        self.name, self.report = name, report
        self.v = {field: number_of(text) for field, text in zip(NUMBERS, columns[len(CONTEXT):])
                  if text != ""}
        self.sources = lists["ip.src"] or lists["ipv6.src"]
        self.destinations = lists["ip.dst"] or lists["ipv6.dst"]
        self.dscp = int((lists["ip.dsfield.dscp"] or lists["ipv6.tclass.dscp"] or "0")[0])
        self.segments = lists["ipv6.routing.srh.addr"]
        self.port, self.length = (int((lists[f] or "0")[-1]) for f in ("udp.dstport", "udp.length"))
        self.findings = [text for text in lists["_ws.expert.message"] if FINDING.match(text)]
        self.opcode = self.v.get("opcode")
        self.cut, self.trimmed, self.ce = (self.v.get(f, 0) for f in ("cut", "trimmed", "ce"))
        self.damaged = (self.v.get("icrc.status") == 0 or "malformed" in self.v
                        or "bad_tag" in self.v)  # not accepted
        self.verified, self.tagged, self.unchecked = (
            int(self.v.get(field) == state)
            for field, state in (("icrc.status", 1), ("tag.status", 1), ("tag.status", 2)))
        needed = "reth.dmalen" if self.opcode in DATA else NEEDED.get(self.opcode)
        self.complete = needed in self.v
        self.entropy = self.v.get("ev")

    @property
    def source(self):
        return self.sources[-1]

    @property
    def destination(self):
        return self.destinations[-1]

    @property
    def timestamp(self):
        """0 where there is none."""
        return next((v for k, v in self.v.items() if k.endswith("tx_timestamp")), 0)

    def wrong(self, field, value, expected):
        self.report(self, f"{field} is {value}, expected {expected}")

    def expect(self, field, value, expected):
        if value != expected:
            self.wrong(field, value, expected)


def read(path, ports, options, report):
    """All packets of a file, also those that are not of MRC; by tshark."""
    command = ["tshark", "-n", "-r", path, "-X", f"lua_script:{DISSECTOR}",
               "-o", "udp.try_heuristic_first:TRUE", "-o", f"mrc.ports:{','.join(ports)}"]
    for option in options:
        command += ["-o", option]
    command += ["-T", "fields", "-E", "separator=/t", "-E", "aggregator=|"]
    for field in CONTEXT + ["mrc." + name for name in NUMBERS]:
        command += ["-e", field]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode or "Lua" in result.stderr:
        raise BadInput(f"tshark: {result.stderr.strip()}")
    return [Packet(i, line.split("\t"), report)
            for i, line in enumerate(result.stdout.splitlines(), 1)]


class Check:
    """Violations, and what was counted."""

    def __init__(self, network, partial=False, mtu=None):
        self.network, self.flows = network, Flows(network, partial, mtu)
        self.violations, self.counts, self.opcodes = [], {}, {}

    def wrong(self, packet, text):
        self.violations.append(f"packet {packet.name}: {text}")

    def add(self, packet):
        packet.report = self.wrong
        self.count("packets")
        if packet.opcode is None:
            self.count("foreign")
            return
        self.count("mrc")
        for name in ("cut", "trimmed", "ce", "verified", "tagged", "unchecked"):
            self.count(name, getattr(packet, name))
        self.opcodes[packet.opcode] = self.opcodes.get(packet.opcode, 0) + 1
        for text in packet.findings:
            self.wrong(packet, text)
        if len(packet.destinations) > 1 and self.network.hosts:
            check_route(packet, self.network)
        self.flows.add(packet)

    def count(self, name, more=1):
        self.counts[name] = self.counts.get(name, 0) + more

    def finish(self):
        self.flows.finish()
        self.counts |= {"unmatched": self.flows.unmatched, "violations": len(self.violations)}
        print("total: " + ", ".join(f"{name} {count}" for name, count in self.counts.items()))
        print("opcodes: " + ", ".join(f"{op:x} {n}" for op, n in sorted(self.opcodes.items())))


def check_cases(path, packets, network):
    """Each line of the file is a case: good or bad, the field that is wrong in its last packet,
    options, and how many of the packets are of it. Returns what came out otherwise."""
    failed, at = [], 0
    for line in open(path, encoding="utf-8"):
        kind, field, options, specs = line.rstrip("\n").split("\t")
        mtu = re.search(r"--mtu (\d+)", options)
        check = Check(network if "--fabric" in options else Network(), "--partial" in options,
                      mtu and int(mtu[1]))
        count = len(specs.split())
        for packet in packets[at:at + count]:
            check.add(packet)
        check.flows.finish()
        at += count
        bad = f"packet {packets[at - 1].name}: {field} is "
        if (kind == "bad") != bool(check.violations) or len(check.violations) > 1 or (
                kind == "bad" and not check.violations[0].startswith(bad)):
            failed.append(f"{kind} {field} {options} {specs}\n    {check.violations}")
    return failed if at == len(packets) else failed + [f"{at} of {len(packets)} packets are used"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="captures; merged by time")
    parser.add_argument("--fabric", metavar="FILE", help="description of the fabric (JSON)")
    parser.add_argument("--port", action="append", default=["4791", "4971"], metavar="N[-M]",
                        help="more UDP ports of MRC")
    parser.add_argument("--keylog", metavar="FILE", help="verification tags (option keylog)")
    parser.add_argument("--mtu", type=int, metavar="BYTES", help="payload of a full packet")
    parser.add_argument("--partial", action="store_true", help="the capture misses packets")
    parser.add_argument("--min", type=int, default=1, metavar="N", help="least packets of MRC")
    parser.add_argument("--cases", metavar="FILE", help="cases that the packets are of")
    args = parser.parse_args()
    network = Network(args.fabric) if args.fabric else Network()
    source = args.files[0]
    if len(args.files) > 1:
        source = args.files[0] + ".merged"
        subprocess.run(["mergecap", "-w", source, *args.files], check=True)
    options = ["mrc.strict:TRUE"] + network.preferences()
    if args.keylog:
        options.append(f"mrc.keylog:{args.keylog}")
    check = Check(network, args.partial, args.mtu)
    packets = read(source, args.port, options, check.wrong)
    if args.cases:
        failed = check_cases(args.cases, packets, network)
        print("\n".join(failed) or f"{len(packets)} packets of all cases are judged right")
        return 1 if failed else 0
    for packet in packets:
        check.add(packet)
    check.finish()
    print("\n".join(check.violations))
    if check.counts.get("mrc", 0) < args.min:
        print(f"fewer than {args.min} packets of MRC", file=sys.stderr)
        return 1
    return 1 if check.violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        print(f"mrc_check: {error}", file=sys.stderr)
        sys.exit(2)
