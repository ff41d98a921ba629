# SPDX-License-Identifier: Apache-2.0
"""One captured packet: which headers it has, and whether each field of them is as mrc-1.0 says."""

import zlib

from mrc_fields import (ANY, BTH, DATA, ICRC_SIZE, IPV4, IPV6, LEAST_TRIMMED, MASKED, OPCODES,
                        REQUEST, RESPONSE, SEGMENT, SRH, TRIMMED, TSETH, UDP, classes)
from mrc_network import text_of

LINKS = {1: (14, 12), 113: (16, 14), 276: (20, 0)}  # link type: header size, where the EtherType is
FIRST_UA = 0xE000  # uSIDs from here on are local to a node (§4.1) and carry no plane
CE = 3


class Ends(Exception):
    """The packet ends within a header."""


class Cut(Exception):
    """The capture holds less of the packet than was sent."""


class Packet:
    """Headers as they are found: `ip` is the one nearest to UDP, `outer` the one before it."""

    def __init__(self, index, name, link, data, length, wrong):
        self.index, self.name, self.data, self._wrong = index, name, data, wrong
        self.at, self.kind_at = LINKS[link]
        self.end = length  # of what the headers so far say there is
        self.headers = []  # (Header, where, its fields)
        self.rooms = []  # IP and UDP: (Header, bytes that it says, bytes that there are)
        self.segments = []
        self.outer = self.ip = self.udp = self.bth = self.opcode = None
        self.payload = 0  # bytes, by the UDP length
        self.trimmed = self.ce = False
        self.cut = False  # bytes of it are missing in the capture
        self.complete = False  # all headers are there
        self.damaged = False  # a receiver drops it

    def wrong(self, field, value, expected, section):
        self._wrong(self, field, value, expected, section)

    def expect(self, field, value, expected, section):
        if value != expected:
            self.wrong(field, value, expected, section)

    def take(self, header):
        if self.at + header.size > self.end:
            raise Ends(header.name)
        if self.at + header.size > len(self.data):
            raise Cut(header.name)
        values = header.read(self.data, self.at)
        self.headers.append((header, self.at, values))
        self.at += header.size
        return values

    def limit(self, header, start, said):
        """From `start` on there are at most the bytes that the header says."""
        self.rooms.append((header, said, self.end - start))
        self.end = min(self.end, start + said)

    def of(self, header):
        """The fields of that header, or None."""
        return next((values for h, _, values in self.headers if h is header), None)

    @property
    def first_ip(self):
        return self.outer or self.ip

    @property
    def entropy(self):
        """The EV as the other side sees it [C-5]."""
        return self.ip.get("flow_label", 0) << 16 | self.udp["source_port"]

    @property
    def timestamp(self):
        """0 where there is none."""
        fields = self.of(TSETH) if self.opcode in DATA else self.headers[-1][2]
        return fields["tx_timestamp"] if fields else 0


def decode(packet, network):
    """Reads and checks the packet; False when it is none of MRC."""
    try:
        if not read_ip(packet) or not read_udp(packet, network):
            return False
        read_transport(packet, network)
    except Ends:
        return False
    except Cut:
        packet.cut = True
    if packet.bth is None:
        return False
    for header, _, values in packet.headers:
        for name, _, _, rule in header.fields:
            good = rule is ANY or (values[name] == rule if isinstance(rule, int)
                                   else values[name] in rule)
            if not good:
                packet.wrong(f"{header.name}.{name}", values[name], rule, header.section)
    if packet.opcode not in OPCODES:
        packet.wrong("BTH.opcode", packet.opcode, OPCODES, "1.11")
        packet.damaged = True
        return True
    check_lengths(packet)
    check_numbers(packet)
    check_class(packet, network)
    if packet.outer:
        check_route(packet, network)
    if packet.complete and not packet.trimmed and not packet.damaged:
        check_icrc(packet)
    return True


# ------------------------------------------------------------------------------- reading
def read_ip(packet):
    """Up to UDP; False when there is none."""
    kind, start = int.from_bytes(packet.data[packet.kind_at:packet.kind_at + 2], "big"), packet.at
    if kind == 0x0800:
        packet.ip = packet.take(IPV4)
        packet.limit(IPV4, start, packet.ip["length"])
        packet.at = start + 4 * packet.ip["ihl"]
        return packet.ip["protocol"] == 17
    if kind != 0x86DD:
        return False
    following = read_ipv6(packet)
    if following in (41, 43):
        packet.outer = packet.ip
        if following == 43:
            srh = packet.take(SRH)
            packet.segments = [packet.take(SEGMENT)["address"]
                               for _ in range(srh["hdr_ext_len"] // 2)]
        following = read_ipv6(packet)
    return following == 17


def read_ipv6(packet):
    packet.ip = packet.take(IPV6)
    packet.limit(IPV6, packet.at, packet.ip["length"])
    return packet.ip["next_header"]


def read_udp(packet, network):
    packet.udp = packet.take(UDP)
    packet.limit(UDP, packet.at - UDP.size, packet.udp["length"])
    return packet.udp["destination_port"] in network.ports


def read_transport(packet, network):
    """BTH and the headers after it; no BTH when it is another transport on the same port."""
    try:
        bth = packet.take(BTH)
        if bth["opcode"] >> 5 != 0b110:  # §1.3; RoCE's RC has other ones
            return
        packet.bth, packet.opcode = bth, bth["opcode"]
        packet.trimmed = not TRIMMED.keys().isdisjoint(
            network.classes_of(packet.first_ip["dscp"]))
        packet.ce = CE in (packet.first_ip["ecn"], packet.ip["ecn"])
        headers = list(OPCODES.get(packet.opcode, ("", ()))[1])
        if packet.opcode in DATA and bth["ts"]:
            headers.insert(1, TSETH)  # after METH
        packet.payload = (packet.udp["length"] - UDP.size - BTH.size
                          - sum(header.size for header in headers) - bth["pad"] - ICRC_SIZE)
        for header in headers:
            packet.take(header)
        packet.complete = True
    except Ends as header:
        if not packet.trimmed:  # a trimmed one may end after any header [O-10]
            packet.wrong("UDP.length", packet.udp["length"], f"room for {header}", "1.2")
            packet.damaged = True


# ------------------------------------------------------------------------------- checking
def check_lengths(packet):
    *ips, (_, said, room) = packet.rooms
    for i, (header, ip_said, ip_room) in enumerate(ips):
        if i == 0:  # Ethernet may have padding after it
            if ip_said > ip_room:
                packet.wrong(f"{header.name}.length", ip_said, f"at most {ip_room}", "1.1")
        elif not packet.trimmed or ip_said != said:  # a switch may leave the inner one as it was
            packet.expect(f"inner {header.name}.length", ip_said, ip_room, "4.1")
    if not packet.trimmed:
        packet.expect("UDP.length", said, room, "1.2")
        packet.damaged |= said != room  # nobody knows where the iCRC is
    elif said <= room:
        packet.wrong("UDP.length", said, f"more than the {room} bytes left", "1.12")
    elif room < LEAST_TRIMMED:
        packet.wrong("IP.length", room, f"at least {LEAST_TRIMMED} bytes from UDP on", "O-10")


def check_numbers(packet):
    """Payload, pad and what BTH has to say by opcode."""
    bth, payload, length = packet.bth, packet.payload, packet.udp["length"]
    if packet.opcode not in DATA:
        packet.expect("BTH.pad", bth["pad"], 0, "1.1: no payload")
        packet.expect("BTH.ts", bth["ts"], 0, "1.5: only in data packets")
        packet.expect("UDP.length", length, length - payload, "1.1: no payload")
        packet.damaged |= payload < 0
    elif payload < 0:
        packet.wrong("UDP.length", length, "room for headers, pad and iCRC", "2.3")
        packet.damaged = True
    else:
        packet.expect("BTH.pad", bth["pad"], -payload % 4, "1.1: pads the payload")
    if packet.opcode in (REQUEST, RESPONSE):
        packet.expect("BTH.dqp", bth["dqp"], 2, "1.3")
        packet.expect("BTH.psn", bth["psn"], bth["psn"] & 0xFFFF, "1.3: 16 bits of id")
    elif bth["dqp"] == 2:
        packet.wrong("BTH.dqp", 2, "the number of a queue pair", "1.3")


def check_class(packet, network):
    """DSCP and ECN, of the outer header and against the inner one."""
    ip, inner = packet.first_ip, packet.ip
    found = network.classes_of(ip["dscp"])
    allowed = classes(packet.opcode, packet.bth["rtx"])
    if packet.trimmed:
        if packet.opcode not in DATA:
            packet.wrong("IP.dscp", ip["dscp"], "trimmed only for data packets", "1.12")
        if packet.outer and not {*allowed, *found} & {*network.classes_of(inner["dscp"])}:
            packet.wrong("inner IPv6.dscp", inner["dscp"], allowed, "1.14")
    else:
        if not {*allowed} & {*found}:
            packet.wrong("IP.dscp", ip["dscp"], allowed, "1.14")
        elif "control" in found:
            packet.expect("IP.ecn", ip["ecn"], 0, "1.14 and O-22")
        if packet.opcode in DATA and ip["ecn"] == 0:  # switches can't mark it then
            packet.wrong("IP.ecn", 0, "ECT(0), ECT(1) or CE", "1.14")
        if packet.outer:
            packet.expect("outer IPv6.dscp", ip["dscp"], inner["dscp"], "4.1: that of the inner")
    if ip["ecn"] != inner["ecn"] and not (ip["ecn"] == CE and inner["ecn"]):
        packet.wrong("outer IPv6.ecn", ip["ecn"], f"{inner['ecn']}, or CE if that is ECT", "4.1")


def split(address):
    """The six places for uSIDs of an address."""
    return [address >> shift & 0xFFFF for shift in range(80, -1, -16)]


def usids_of(packet, address, network, field):
    """The uSIDs in an address of the block; §4.1."""
    if network.blocks and address >> 96 not in network.blocks:
        packet.wrong(field, text_of(address), "an address of the uSID block", "4.1")
    usids = split(address)
    while usids and usids[-1] == 0:
        usids.pop()
    if not usids or 0 in usids:
        packet.wrong(field, text_of(address), "uSIDs without zeros before or between", "4.1")
    return usids


def check_route(packet, network):
    address = packet.outer["destination"]
    usids = usids_of(packet, address, network, "outer IPv6.destination")
    srh = packet.of(SRH)
    if srh:
        count = len(packet.segments)
        packet.expect("SRH.hdr_ext_len", srh["hdr_ext_len"], 2 * max(count, 1), "4.3")
        packet.expect("SRH.last_entry", srh["last_entry"], count - 1, "4.3")
        if srh["segments_left"] > count:
            packet.wrong("SRH.segments_left", srh["segments_left"], f"at most {count}", "4.3")
        for segment in packet.segments:
            more = usids_of(packet, segment, network, "SRH segment")
            usids = usids + more if srh["segments_left"] else usids
    if address >> 96 not in network.blocks:
        return
    planes = {usid & network.plane_mask for usid in usids if usid < FIRST_UA}
    plane = plane_of(packet, network)
    if len(planes) > 1 or plane is None:
        packet.wrong("outer IPv6.destination", text_of(address), "one plane in all uSIDs", "4.2")
        return
    for ip, field in ((packet.outer, "source"), (packet.ip, "source"), (packet.ip, "destination")):
        if network.plane(ip[field]) not in (None, plane):
            packet.wrong(f"IPv6.{field}", text_of(ip[field]), f"an address of plane {plane}", "4.1")
    if network.hosts:
        packet.expect("host of the outer IPv6.source", network.host(packet.outer["source"]),
                      network.host(packet.ip["source"]), "4.1: that of the inner")
    last = network.host_usids.get((network.host(packet.ip["destination"]), plane))
    if last is not None and usids and usids[-1] < FIRST_UA:
        packet.expect("last uSID", usids[-1], last, "4.2")


def plane_of(packet, network):
    """By the block or the uSIDs, else by the address of a known host; None: it is not known."""
    address = packet.outer["destination"] if packet.outer else None
    if address is None or address >> 96 not in network.blocks:
        return network.plane(packet.ip["destination"])
    by_block = network.blocks.index(address >> 96) if len(network.blocks) > 1 else None
    if not network.plane_mask:
        return by_block or 0
    usid = next((u for u in split(address) if 0 < u < FIRST_UA), 0)
    by_usid = (usid & network.plane_mask) // (network.plane_mask & -network.plane_mask)
    return by_usid if by_block in (None, by_usid) else None


def check_icrc(packet):
    """CRC-32 over the masked image; §1.12."""
    if packet.end > len(packet.data):
        packet.cut = True
        return
    nearest = next(i for i, (_, _, ip) in enumerate(packet.headers) if ip is packet.ip)
    image = b"\xff" * 8
    for header, at, _ in packet.headers[nearest:]:
        image += header.with_ones(packet.data, at, MASKED.get(header.name, ()))
    image += packet.data[packet.at:packet.end - ICRC_SIZE]
    found = int.from_bytes(packet.data[packet.end - ICRC_SIZE:packet.end], "little")
    packet.expect("iCRC", found, zlib.crc32(image), "1.12")
    packet.damaged = found != zlib.crc32(image)
