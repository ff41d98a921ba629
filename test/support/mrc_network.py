# SPDX-License-Identifier: Apache-2.0
"""Hosts, planes and uSIDs by a fabric description (docs/fabric.md), and the SRv6 route of a packet
against it (mrc-1.0 §4)."""

import ipaddress
import json
import re

FIRST_UA = 0xE000  # uSIDs from here on are local to a node (§4.1) and carry no plane
USIDS = {"plane": 0x0F00, "host": 0x3000, "host_t0": 0x00F0, "downlink": 0x000F}
COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*(?s:.*?)\*/')


class BadInput(Exception):
    """What can't be used; the text says why."""


def bits(mask, value):
    """`value` put into the bits of a contiguous mask."""
    return value * (mask & -mask) & mask


def number(value):
    return int(value, 0) if isinstance(value, str) else value


class Network:
    """Without a description it is empty, and what it would decide is not checked."""

    def __init__(self, path=None):
        self.hosts = {}  # address: (host's name, plane)
        self.host_usids = {}  # (host's name, plane): the uSID that ends a path to it
        self.dscp = {"trimmed": 12, "trimmed_last_hop": 16}
        self.block = self.plane_mask = 0
        if path:
            with open(path, encoding="utf-8") as file:
                text = COMMENT.sub(lambda m: m[1] or "", file.read())
            try:
                self.take(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BadInput(f"{path}: {error}") from None

    def take(self, tree):
        self.block = int(ipaddress.ip_network(tree.get("block", "fcbb::/32"))[0]) >> 96
        usids = USIDS | {k: number(v) for k, v in tree.get("usids", {}).items() if k in USIDS}
        self.plane_mask = usids["plane"]
        self.dscp |= {k: number(v) for k, v in tree.get("dscp", {}).items()}
        planes, t0s, hosts = tree.get("planes", 1), tree.get("t0", 1), tree.get("hosts", [])
        hosts = [{}] * hosts if isinstance(hosts, int) else hosts
        under = [0] * t0s  # hosts seen of each T0
        for k, host in enumerate(hosts):
            name, t0 = host.get("name", f"h{k}"), host.get("t0", k * t0s // len(hosts))
            downlink = host.get("downlink", under[t0])
            under[t0] += 1
            for plane in range(planes):
                address = host.get("addresses", {plane: f"fd00:{plane + 1:x}::{k + 1:x}"})[plane]
                self.hosts[str(ipaddress.ip_address(address))] = name, plane
                self.host_usids[name, plane] = (
                    usids["host"] | bits(usids["plane"], plane) | bits(usids["host_t0"], t0)
                    | bits(usids["downlink"], downlink))

    def preferences(self):
        return [f"mrc.dscp_{name}:{value}" for name, value in self.dscp.items()]

    def host(self, address):
        """Name of the host that has the address; a host that is not known is its address."""
        return self.hosts.get(address, (address, None))[0]

    def plane(self, address):
        return self.hosts.get(address, (None, None))[1]


def usids_of(packet, text, network, field):
    """The uSIDs in an address of the block; §4.1."""
    address = int(ipaddress.ip_address(text))
    if address >> 96 != network.block:
        packet.wrong(field, text, "an address of the uSID block")
        return []
    usids = [address >> shift & 0xFFFF for shift in range(80, -1, -16)]
    while usids and usids[-1] == 0:
        usids.pop()
    if not usids or 0 in usids:
        packet.wrong(field, text, "uSIDs without zeros before or between")
        return []
    return usids


def check_route(packet, network):
    usids = usids_of(packet, packet.destinations[0], network, "outer ipv6.dst")
    if not usids:
        return
    for segment in packet.segments:
        usids = usids + usids_of(packet, segment, network, "SRH segment")
    planes = {usid & network.plane_mask for usid in usids if usid < FIRST_UA}
    if len(planes) > 1:
        packet.wrong("outer ipv6.dst", packet.destinations[0], "one plane in all uSIDs")
        return
    plane = planes.pop() // (network.plane_mask & -network.plane_mask) if planes else None
    outer, inner, there = packet.sources[0], packet.source, packet.destination
    for address, field in ((outer, "outer ipv6.src"), (inner, "ipv6.src"), (there, "ipv6.dst")):
        if plane is not None and network.plane(address) not in (None, plane):
            packet.wrong(field, address, f"an address of plane {plane}")
    packet.expect("host of the outer ipv6.src", network.host(outer), network.host(inner))  # §4.1
    last = network.host_usids.get((network.host(there), plane))
    if last is not None and usids[-1] < FIRST_UA:
        packet.expect("last uSID", usids[-1], last)  # §4.2
