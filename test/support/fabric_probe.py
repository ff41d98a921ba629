#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends packets into a fabric and tells what comes out, for the tests of mrc_fabric.

Knows nothing of the project's code. Needs root.
"""

import argparse
import signal
import socket
import struct
import sys
import time

IPV6, UDP, ROUTING = 41, 17, 43
MRC_PORT = 4791
SO_RCVBUFFORCE = 33  # of Linux; the module lacks it


def ipv6_header(source, destination, length, next_header, traffic_class, label=0):
    first = 6 << 28 | traffic_class << 20 | label
    return (struct.pack("!IHBB", first, length, next_header, 64)
            + socket.inet_pton(socket.AF_INET6, source)
            + socket.inet_pton(socket.AF_INET6, destination))


def make_packet(args, destination, flow):
    """IPv6 / [SRH] / IPv6 / UDP, or IPv6 / UDP; the payload starts with the destination."""
    text = (destination + " ").encode()
    payload = text + bytes(i & 0xFF for i in range(max(0, args.size - len(text))))
    packet = struct.pack("!HHHH", 0xC000 + flow, MRC_PORT, 8 + len(payload), 0) + payload
    traffic_class = args.dscp << 2 | args.ecn
    inner_to = args.inner or destination
    packet = ipv6_header(args.source, inner_to, len(packet), UDP, traffic_class) + packet
    if not args.inner:
        return packet
    following = IPV6
    if args.segment:
        packet = (struct.pack("!BBBBBBH", IPV6, 2, 4, 1, 0, 0, 0)
                  + socket.inet_pton(socket.AF_INET6, args.segment) + packet)
        following = ROUTING
    return ipv6_header(args.source, destination, len(packet), following, traffic_class) + packet


def send(args):
    sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    packets = [[(make_packet(args, to, flow), (to, 0)) for to in args.destination]
               for flow in range(args.flows)]
    start = time.monotonic()
    if args.began:
        print(start)
    for number in range(args.count):
        for packet, destination in packets[number % args.flows]:
            try:
                sender.sendto(packet, destination)
            except OSError as error:
                print(f"{destination[0]}: {error}", file=sys.stderr)
        if args.per_second:
            time.sleep(max(0, start + (number + 1) / args.per_second - time.monotonic()))
    if args.hex:
        print(packets[-1][-1][0].hex())


def is_mrc(packet):
    """True for a packet with UDP to MRC's port, behind whatever headers."""
    at, following = 40, packet[6]
    while following in (IPV6, ROUTING):
        following, step = (packet[at + 6], 40) if following == IPV6 else (
            packet[at], 8 * (packet[at + 1] + 1))
        at += step
    return following == UDP and packet[at + 2:at + 4] == struct.pack("!H", MRC_PORT)


def receive(args):
    """Until the count is reached; after SIGTERM, until nothing more comes."""
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86DD))
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    listener.settimeout(2)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print("ready", flush=True)
    count = size = marked = 0
    last = 0
    by_dscp = {}
    while count < args.count:
        try:
            packet, address = listener.recvfrom(65536)
        except TimeoutError:
            if ended:
                break
            continue
        if address[2] == socket.PACKET_OUTGOING or not is_mrc(packet):
            continue
        last = time.monotonic()
        count += 1
        size += len(packet) + 14
        traffic_class = (packet[0] & 15) << 4 | packet[1] >> 4
        marked += traffic_class & 3 == 3
        by_dscp[traffic_class >> 2] = by_dscp.get(traffic_class >> 2, 0) + 1
        if args.packets:
            print(address[0], packet.hex())
    print(f"count {count}\nmarked {marked}\nbytes {size}\nlast {last}")
    for dscp, packets in sorted(by_dscp.items()):
        print(f"dscp{dscp} {packets}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    sender = commands.add_parser("send", help="packets to each destination")
    sender.set_defaults(run=send)
    sender.add_argument("source", help="this host's address")
    sender.add_argument("destination", nargs="+", help="outermost destination address")
    sender.add_argument("--inner", help="destination of an IPv6 header inside; without, none")
    sender.add_argument("--segment", help="second segment, in a segment routing header")
    sender.add_argument("--count", type=int, default=1)
    sender.add_argument("--size", type=int, default=100, help="bytes of UDP payload")
    sender.add_argument("--dscp", type=int, default=0)
    sender.add_argument("--ecn", type=int, default=0)
    sender.add_argument("--flows", type=int, default=1, help="different UDP source ports")
    sender.add_argument("--per-second", type=int, default=0, help="0: as fast as it goes")
    sender.add_argument("--began", action="store_true", help="print when the first was sent")
    sender.add_argument("--hex", action="store_true", help="print the last flow's packet")
    receiver = commands.add_parser("receive", help="MRC packets on any interface; prints counts")
    receiver.set_defaults(run=receive)
    receiver.add_argument("count", type=int, help="ends after so many packets, or by SIGTERM")
    receiver.add_argument("--packets", action="store_true", help="print interface and packet, too")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
