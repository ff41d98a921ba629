# SPDX-License-Identifier: Apache-2.0
"""What packets say of each other: SACKs, NACKs, ACKs and answers against the data and the requests
that they are about (mrc-1.0 §1.3, §2)."""

from collections import namedtuple

from mrc_fields import (ACK, AETH, CC_STATE, DATA, EETH, ENDS, ERTH, IMMDT, METH, NACK, NETH, PETH,
                        PROBE, PSNS, REQUEST, RESPONSE, RETH, SACK, SETH, TRIMMED, ahead, signed16)
from mrc_messages import Sent, check_messages

ACK_GOOD = 0x1F  # syndrome; the others are NAKs (§1.6)
NOMINAL = 40  # bytes of a packet beyond its UDP length [C-15]
UNIT = 256  # bytes of rcvd_bytes, which counts modulo 2^24 as PSNs do

# What an answer reflects of one copy of a packet; `trimmed`: NACK reason, or None.
Copy = namedtuple("Copy", "entropy timestamp ce trimmed rtx")


class Flow:
    """What was seen towards one queue pair."""

    def __init__(self):
        self.sent = {}  # PSN: (Sent, its first packet)
        self.copies = {}  # PSN: all of its copies
        self.probes = {}  # id: all of its copies
        self.arrived = set()  # PSNs of which a copy was seen that was not trimmed
        self.lowest = self.highest = None  # of these
        self.whole = None  # all from the lowest to this one have arrived
        self.bytes = 0  # nominal
        self.ends = set()  # (address, UDP port) that it was sent to
        self.sources = set()  # hosts
        self.newest = None  # (cack, rcvd_bytes) of the SACK with the highest cack

    def arrive(self, psn):
        self.arrived.add(psn)
        if self.highest is None or ahead(psn, self.highest) > 0:
            self.highest = psn
        if self.lowest is None or ahead(psn, self.lowest) < 0:
            self.lowest = self.whole = psn
        while (self.whole + 1) % PSNS in self.arrived:
            self.whole = (self.whole + 1) % PSNS


class Flows:
    """All packets, in the order of the capture. With `partial` only what holds when packets are
    missing in it is checked."""

    def __init__(self, network):
        self.network, self.partial = network, network.partial
        self.flows = {}  # (host, low half of the QPN): {QPN: Flow}
        self.peers = {}  # (host, QPN) of a requester: the Flow that it sends
        self.requests = {}  # (from, to, id): [(op, timestamp)]
        self.acks = []
        self.unmatched = 0  # answers of which it is not clear to what

    def add(self, packet):
        if packet.damaged:
            return
        if packet.cut and not packet.complete:
            self.partial = True  # what it said is missing
        elif packet.opcode in DATA:
            self.data(packet)
        elif packet.complete:
            {SACK: self.sack, NACK: self.nack, PROBE: self.probe, ACK: self.acks.append,
             REQUEST: self.request, RESPONSE: self.response}[packet.opcode](packet)

    def host(self, packet, end):
        return self.network.host(packet.ip[end])

    def towards(self, packet):
        """The flow that the packet is part of."""
        host, qpn = self.host(packet, "destination"), packet.bth["dqp"]
        same = self.flows.setdefault((host, qpn & 0xFFFF), {})
        flow = same[qpn] = same.get(qpn) or Flow()
        flow.ends.add((packet.ip["destination"], packet.udp["destination_port"]))
        flow.sources.add(self.host(packet, "source"))
        return flow

    def answered(self, packet, spdcid):
        """The flow that an answer is about: its sender is where that flow ends [C-21]."""
        here, there = self.host(packet, "source"), self.host(packet, "destination")
        qpn, own = packet.bth["dqp"], (packet.ip["destination"], packet.udp["destination_port"])
        found = [flow for flow_qpn, flow in self.flows.get((here, spdcid), {}).items()
                 if there in flow.sources and (here, flow_qpn) != (there, qpn)]
        if len(found) > 1:  # two processes of one host: by the UDP port
            found = [flow for flow in found if own not in flow.ends]
        if len(found) == 1:
            self.peers[there, qpn] = found[0]
            return found[0]
        self.unmatched += 1
        if not found and not self.partial:
            packet.wrong("spdcid", spdcid, "a queue pair that data was sent to", "C-21")
        return None

    # --------------------------------------------------------------------------- requester
    def data(self, packet):
        bth, flow = packet.bth, self.towards(packet)
        psn, names = bth["psn"], self.network.classes_of(packet.first_ip["dscp"])
        reason = next((TRIMMED[name] for name in names if name in TRIMMED), None)
        copies = flow.copies.setdefault(psn, [])
        if not bth["rtx"] and any(not copy.rtx for copy in copies):
            packet.wrong("BTH.rtx", 0, f"1: PSN {psn} was sent before", "1.3")
        copies.append(Copy(packet.entropy, packet.timestamp, packet.ce, reason, bth["rtx"]))
        if packet.trimmed:
            return
        flow.arrive(psn)
        flow.bytes += packet.udp["length"] + NOMINAL
        meth, reth, imm = packet.of(METH), packet.of(RETH), packet.of(IMMDT)
        sent = Sent(packet.opcode, meth["msn"], meth["rqmsn"], reth["va"], reth["r_key"],
                    reth["dmalen"], imm and imm["immediate"], packet.payload)
        first, _ = flow.sent.setdefault(psn, (sent, packet))
        for name in Sent._fields:
            packet.expect(name, getattr(sent, name), getattr(first, name),
                          f"2.9: as in the copy of PSN {psn} before")

    def probe(self, packet):
        peth, copies = packet.of(PETH), self.towards(packet).probes
        packet.expect("BTH.psn", packet.bth["psn"], 0, "1.3")
        packet.expect("PETH.dpdcid", peth["dpdcid"], packet.bth["dqp"] & 0xFFFF, "C-21")
        copies.setdefault(peth["probe_id"], []).append(
            Copy(packet.entropy, packet.timestamp, packet.ce, None, 0))

    # --------------------------------------------------------------------------- responder
    def reflects(self, packet, fields, copies, what, section):
        """Entropy and timestamp are those of one of the copies; returns the copies that fit."""
        if not copies:
            if not self.partial:
                packet.wrong(what, "not in the capture", "there before its answer", section)
            return []
        same = [copy for copy in copies
                if (copy.entropy, copy.timestamp) == (fields["entropy"], packet.timestamp)]
        if not same:
            value, field = fields["entropy"], "entropy"
            if any(copy.entropy == value for copy in copies):
                value, field = packet.timestamp, "tx_timestamp"
            packet.wrong(field, value, [getattr(c, field.removeprefix("tx_")) for c in copies],
                         f"{section}: that of {what}")
        return same

    def sack(self, packet):
        seth, state, bth = packet.of(SETH), packet.of(CC_STATE), packet.bth
        cack, offset = seth["cack_psn"], signed16(seth["sack_offset"])
        packet.expect("BTH.psn", bth["psn"], cack, "1.3: cack_psn")
        packet.expect("SETH.dpdcid", seth["dpdcid"], bth["dqp"] & 0xFFFF, "C-21")
        # The lowest bits are for PSNs up to cack: all set. The next one is clear, or cack would be
        # higher; those above it tell of packets.
        old = max(0, min(64, 1 - offset))
        bitmap = seth["sack_bitmap"]
        if ~bitmap & ((1 << old) - 1):
            packet.wrong("SETH.sack_bitmap", bitmap, f"the lowest {old} bits set", "2.7")
        if 0 <= 1 - offset < 64 and bitmap >> (1 - offset) & 1:
            packet.wrong("SETH.sack_bitmap", bitmap, "the bit of cack + 1 clear", "1.7")
        known = bitmap >> old << old
        if state["ooo_count"] < bin(known).count("1"):
            packet.wrong("CC_STATE.ooo_count", state["ooo_count"],
                         f"at least {bin(known).count('1')}, bits above cack", "1.7")
        flow = self.answered(packet, seth["spdcid"])
        if flow is None:
            return
        if not self.partial:
            self.sack_against_data(packet, flow, cack, offset, known)
        self.received_bytes(packet, flow, cack, state["rcvd_bytes"])
        if seth["pr"]:
            probe = seth["ack_psn_offset"]
            same = self.reflects(packet, seth, flow.probes.get(probe), f"probe {probe}", "1.7")
        else:
            psn = (cack + signed16(seth["ack_psn_offset"])) % PSNS
            copies = [copy for copy in flow.copies.get(psn, ()) if copy.trimmed is None]
            same = self.reflects(packet, seth, copies, f"PSN {psn}", "1.7")
        marked = {copy.ce for copy in same}
        if marked and not self.partial and seth["m"] != 2 and bool(seth["m"]) not in marked:
            packet.wrong("SETH.m", seth["m"], int(True in marked), "2.7: whether it carried CE")

    def sack_against_data(self, packet, flow, cack, offset, known):
        if flow.highest is None:
            return  # it answers a probe, and no data came yet
        if ahead(cack, flow.whole) > 0:
            packet.wrong("SETH.cack_psn", cack,
                         f"at most {flow.whole}: the PSN after it was not seen", "1.7")
        elif ahead((cack + offset) % PSNS, flow.highest) > 1:
            packet.wrong("SETH.sack_offset", offset, f"a base up to {flow.highest} + 1", "2.7")
        for i in range(64):
            psn = (cack + offset + i) % PSNS
            if known >> i & 1 and psn not in flow.arrived:
                packet.wrong("SETH.sack_bitmap", known, f"no bit for PSN {psn}, not seen", "2.7")
        count, most = packet.of(CC_STATE)["ooo_count"], max(0, ahead(flow.highest, cack) - 1)
        if count > most:
            packet.wrong("CC_STATE.ooo_count", count, f"at most {most} PSNs above cack", "1.7")

    def received_bytes(self, packet, flow, cack, received):
        """It grows with cack, also where SACKs overtake each other."""
        if flow.newest:
            order, growth = ahead(cack, flow.newest[0]), ahead(received, flow.newest[1])
            if order * growth < 0:
                packet.wrong("CC_STATE.rcvd_bytes", received,
                             f"{'more' if order > 0 else 'less'} than {flow.newest[1]} "
                             f"with cack {flow.newest[0]}", "2.7")
        if flow.newest is None or ahead(cack, flow.newest[0]) > 0:
            flow.newest = (cack, received)
        most = -(-flow.bytes // UNIT)
        if not self.partial and ahead(received, most % PSNS) > 0:
            packet.wrong("CC_STATE.rcvd_bytes", received, f"at most {most}, what was seen", "C-15")

    def nack(self, packet):
        neth, bth = packet.of(NETH), packet.bth
        psn, reason = neth["nack_psn"], neth["nack_reason"]
        packet.expect("BTH.psn", bth["psn"], psn, "1.3: nack_psn")
        packet.expect("NETH.dpdcid", neth["dpdcid"], bth["dqp"] & 0xFFFF, "C-21")
        flow = self.answered(packet, neth["spdcid"])
        if flow is None:
            return
        copies, what = flow.copies.get(psn, []), f"PSN {psn}"
        if reason in TRIMMED.values() and not self.partial:
            copies = [copy for copy in copies if copy.trimmed == reason]
            what += " trimmed"
        self.reflects(packet, neth, copies, what, "1.8")

    def check_ack(self, packet):
        """An ACK has no QPN of its sender: SACKs of the pair have told which flow it is about."""
        flow = self.peers.get((self.host(packet, "destination"), packet.bth["dqp"]))
        aeth, psn = packet.of(AETH), packet.bth["psn"]
        if flow is None or aeth["syndrome"] != ACK_GOOD:
            self.unmatched += flow is None
        elif psn in flow.sent:
            sent, _ = flow.sent[psn]
            packet.expect("AETH.msn", aeth["msn"], sent.msn, "2.8")
            if sent.opcode not in ENDS:
                packet.wrong("BTH.psn", psn, "a message's last PSN", "O-15")
        elif not self.partial:
            packet.wrong("BTH.psn", psn, "a PSN that was seen", "O-15")

    # --------------------------------------------------------------------------- endpoints
    def request(self, packet):
        erth = packet.of(ERTH)
        key = (self.host(packet, "source"), self.host(packet, "destination"), packet.bth["psn"])
        self.requests.setdefault(key, []).append((erth["op"], erth["tx_timestamp"]))
        if erth["op"]:
            packet.expect("ERTH.port_status_mask", erth["port_status_mask"], 0, "1.10")

    def response(self, packet):
        key = (self.host(packet, "destination"), self.host(packet, "source"), packet.bth["psn"])
        asked = self.requests.get(key, [])
        eeth = packet.of(EETH)
        if asked and (eeth["op"], eeth["tx_timestamp"]) not in asked:
            packet.wrong("EETH.op, tx_timestamp", (eeth["op"], eeth["tx_timestamp"]), asked, "1.10")
        if not asked and not self.partial:
            packet.wrong("BTH.psn", packet.bth["psn"], "the id of a request", "1.3")

    # --------------------------------------------------------------------------- at the end
    def finish(self):
        for packet in self.acks:
            self.check_ack(packet)
        for same in self.flows.values():
            for flow in same.values():
                check_messages(flow.sent, self.network.mtu)
