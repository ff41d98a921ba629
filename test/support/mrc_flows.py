# SPDX-License-Identifier: Apache-2.0
"""What packets say of each other: SACKs, NACKs, ACKs and answers against the data and the requests
that they are about (mrc-1.0 §1.3, §2). Fields by their names in the dissector."""

from collections import namedtuple

from mrc_messages import ENDS, PSNS, Sent, ahead, check_messages

DATA = [opcode for opcode in range(0xC0, 0xD5) if opcode != 0xD1]
ACK, REQUEST, RESPONSE, SACK, NACK, PROBE = 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE
ACK_GOOD = 0x1F  # syndrome; the others are NAKs (§1.6)
NOMINAL = 40  # bytes of a packet beyond its UDP length [C-15]
UNIT = 256  # bytes of rcvd_bytes, which counts modulo 2^24 as PSNs do
TRIM_REASONS = {"trimmed": 1, "trimmed_last_hop": 2}  # of NACKs, by DSCP class (§1.13)

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

    def __init__(self, network, partial, mtu):
        self.network, self.partial, self.mtu = network, partial, mtu
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

    def towards(self, packet):
        """The flow that the packet is part of."""
        host, qpn = self.network.host(packet.destination), packet.v["dqp"]
        same = self.flows.setdefault((host, qpn & 0xFFFF), {})
        flow = same[qpn] = same.get(qpn) or Flow()
        flow.ends.add((packet.destination, packet.port))
        flow.sources.add(self.network.host(packet.source))
        return flow

    def answered(self, packet, spdcid):
        """The flow that an answer is about: its sender is where that flow ends [C-21]."""
        here, there = (self.network.host(a) for a in (packet.source, packet.destination))
        qpn, own = packet.v["dqp"], (packet.destination, packet.port)
        found = [flow for flow_qpn, flow in self.flows.get((here, spdcid), {}).items()
                 if there in flow.sources and (here, flow_qpn) != (there, qpn)]
        if len(found) > 1:  # two processes of one host: by the UDP port
            found = [flow for flow in found if own not in flow.ends]
        if len(found) == 1:
            self.peers[there, qpn] = found[0]
            return found[0]
        self.unmatched += 1
        if not found and not self.partial:
            packet.wrong("spdcid", spdcid, "a queue pair that data was sent to")
        return None

    # --------------------------------------------------------------------------- requester
    def data(self, packet):
        v, flow = packet.v, self.towards(packet)
        psn = v["psn"]
        reason = next((TRIM_REASONS[name] for name in TRIM_REASONS
                       if self.network.dscp[name] == packet.dscp), None)
        copies = flow.copies.setdefault(psn, [])
        if not v["rtx"] and any(not copy.rtx for copy in copies):
            packet.wrong("mrc.rtx", 0, f"1: PSN {psn} was sent before")  # §1.3
        copies.append(Copy(packet.entropy, packet.timestamp, packet.ce, reason, v["rtx"]))
        if packet.trimmed:
            return
        flow.arrive(psn)
        flow.bytes += packet.length + NOMINAL
        sent = Sent(packet.opcode, v["meth.msn"], v["meth.rqmsn"], v["reth.va"], v["reth.r_key"],
                    v["reth.dmalen"], v.get("immdt.immediate"), v["payload_length"])
        first, _ = flow.sent.setdefault(psn, (sent, packet))
        for name in Sent._fields:  # as in the copy before; §2.9
            packet.expect(name, getattr(sent, name), getattr(first, name))

    def probe(self, packet):
        self.towards(packet).probes.setdefault(packet.v["probe.id"], []).append(
            Copy(packet.entropy, packet.timestamp, packet.ce, None, 0))

    # --------------------------------------------------------------------------- responder
    def reflects(self, packet, entropy, copies, what):
        """Entropy and timestamp are those of one of the copies; returns the copies that fit."""
        if not copies:
            if not self.partial:
                packet.wrong(what, "not in the capture", "there before its answer")
            return []
        same = [copy for copy in copies
                if (copy.entropy, copy.timestamp) == (entropy, packet.timestamp)]
        if not same:
            field, value = "entropy", entropy
            if any(copy.entropy == value for copy in copies):
                field, value = "timestamp", packet.timestamp
            packet.wrong(field, value, f"that of {what}: {[getattr(c, field) for c in copies]}")
        return same

    def sack(self, packet):
        v = packet.v
        cack, offset = v["sack.cack_psn"], v["sack.sack_offset"]
        flow = self.answered(packet, v["sack.spdcid"])
        if flow is None:
            return
        if not self.partial:
            self.sack_against_data(packet, flow, cack, offset)
        self.received_bytes(packet, flow, cack, v["cc.rcvd_bytes"])
        if v["sack.pr"]:
            copies, what = flow.probes.get(v["sack.probe_id"]), f"probe {v['sack.probe_id']}"
        else:
            psn = (cack + v["sack.ack_psn_offset"]) % PSNS
            copies = [copy for copy in flow.copies.get(psn, ()) if copy.trimmed is None]
            what = f"PSN {psn}"
        same = self.reflects(packet, v["sack.entropy"], copies, what)  # §1.7
        marked = {copy.ce for copy in same}
        if marked and not self.partial and v["sack.m"] != 2 and v["sack.m"] not in marked:
            packet.wrong("mrc.sack.m", v["sack.m"], f"{int(1 in marked)}: whether {what} had CE")

    def sack_against_data(self, packet, flow, cack, offset):
        if flow.highest is None:
            return  # it answers a probe, and no data came yet
        if ahead(cack, flow.whole) > 0:
            packet.wrong("mrc.sack.cack_psn", cack,
                         f"at most {flow.whole}: the PSN after it was not seen")  # §1.7
        elif ahead((cack + offset) % PSNS, flow.highest) > 1:
            packet.wrong("mrc.sack.sack_offset", offset, f"at most {flow.highest} + 1")  # §2.7
        bitmap = packet.v["sack.bitmap"]
        for i in range(max(0, 1 - offset), 64):  # the bits below are for PSNs up to cack
            psn = (cack + offset + i) % PSNS
            if bitmap >> i & 1 and psn not in flow.arrived:
                packet.wrong("mrc.sack.bitmap", bitmap, f"no bit for PSN {psn}, not seen")
        count, most = packet.v["cc.ooo_count"], max(0, ahead(flow.highest, cack) - 1)
        if count > most:
            packet.wrong("mrc.cc.ooo_count", count, f"at most {most} PSNs above cack")  # §1.7

    def received_bytes(self, packet, flow, cack, received):
        """It grows with cack, also where SACKs overtake each other; §2.7."""
        if flow.newest:
            order, growth = ahead(cack, flow.newest[0]), ahead(received, flow.newest[1])
            if order * growth < 0:
                packet.wrong("mrc.cc.rcvd_bytes", received, f"{'more' if order > 0 else 'less'} "
                             f"than {flow.newest[1]} with cack {flow.newest[0]}")
        if flow.newest is None or ahead(cack, flow.newest[0]) > 0:
            flow.newest = (cack, received)
        most = -(-flow.bytes // UNIT)
        if not self.partial and ahead(received, most % PSNS) > 0:
            packet.wrong("mrc.cc.rcvd_bytes", received, f"at most {most}, what was seen")  # [C-15]

    def nack(self, packet):
        v = packet.v
        psn, reason = v["nack.psn"], v["nack.reason"]
        flow = self.answered(packet, v["nack.spdcid"])
        if flow is None:
            return
        copies, what = flow.copies.get(psn, []), f"PSN {psn}"
        if reason in TRIM_REASONS.values() and not self.partial:
            copies = [copy for copy in copies if copy.trimmed == reason]
            what += " trimmed"
        self.reflects(packet, v["nack.entropy"], copies, what)  # §1.8

    def check_ack(self, packet):
        """An ACK has no QPN of its sender: SACKs of the pair have told which flow it is about."""
        v = packet.v
        flow = self.peers.get((self.network.host(packet.destination), v["dqp"]))
        if flow is None or v["aeth.syndrome"] != ACK_GOOD:
            self.unmatched += flow is None
        elif v["psn"] in flow.sent:
            sent, _ = flow.sent[v["psn"]]
            packet.expect("mrc.aeth.msn", v["aeth.msn"], sent.msn)  # §2.8
            if sent.opcode not in ENDS:
                packet.wrong("mrc.psn", v["psn"], "a message's last PSN")  # [O-15]
        elif not self.partial:
            packet.wrong("mrc.psn", v["psn"], "a PSN that was seen")

    # --------------------------------------------------------------------------- endpoints
    def hosts(self, packet):
        return self.network.host(packet.source), self.network.host(packet.destination)

    def request(self, packet):
        self.requests.setdefault((*self.hosts(packet), packet.v["psn"]), []).append(
            (packet.v["request.op"], packet.timestamp))

    def response(self, packet):
        asked = self.requests.get((*self.hosts(packet)[::-1], packet.v["psn"]), [])
        got = packet.v["response.op"], packet.timestamp
        if asked and got not in asked:
            packet.wrong("operation and timestamp", got, asked)  # §1.10
        if not asked and not self.partial:
            packet.wrong("mrc.psn", packet.v["psn"], "the id of a request")  # §1.3

    # --------------------------------------------------------------------------- at the end
    def finish(self):
        for packet in self.acks:
            self.check_ack(packet)
        for same in self.flows.values():
            for flow in same.values():
                check_messages(flow.sent, self.mtu)
