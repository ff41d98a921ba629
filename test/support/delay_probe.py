#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long UDP datagrams take one way, between two namespaces of this machine.

The sender puts the time into each datagram, the receiver takes that at which the kernel got it.
"""

import argparse
import signal
import socket
import struct
import time

PORT = 5001
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33  # both of Linux; the module lacks them


def send(args):
    sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    start = time.monotonic()
    for number in range(args.count):
        datagram = struct.pack("!QQ", number, time.time_ns())
        sender.sendto(datagram + bytes(args.size), (args.address, PORT))
        if args.per_second:
            time.sleep(max(0, start + (number + 1) / args.per_second - time.monotonic()))


def receive(args):
    """Until the count is reached; after SIGTERM, until nothing comes for a while."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    listener.bind(("::", PORT))
    listener.settimeout(args.patience)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print("ready", flush=True)
    delays, last, reordered = [], -1, 0
    while len(delays) < args.count:
        try:
            datagram, control, _, _ = listener.recvmsg(65536, 64)
        except TimeoutError:
            if ended:
                break
            continue
        number, sent = struct.unpack("!QQ", datagram[:16])
        seconds, nanoseconds = struct.unpack("qq", control[0][2])
        delays.append((seconds * 10**9 + nanoseconds - sent) // 1000)
        reordered += number < last
        last = max(last, number)
    delays.sort()
    print(f"count {len(delays)}\nreordered {reordered}")
    if delays:
        for name, share in (("min", 0), ("median", 0.5), ("p99", 0.99), ("max", 1)):
            print(f"{name} {delays[min(int(share * len(delays)), len(delays) - 1)]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    sender = commands.add_parser("send", help="datagrams to an address")
    sender.set_defaults(run=send)
    sender.add_argument("address")
    sender.add_argument("--count", type=int, default=100)
    sender.add_argument("--size", type=int, default=100, help="bytes more than the time takes")
    sender.add_argument("--per-second", type=int, default=1000, help="0: as fast as it goes")
    receiver = commands.add_parser("receive", help="prints counts and microseconds")
    receiver.set_defaults(run=receive)
    receiver.add_argument("count", type=int, help="ends after so many, or by SIGTERM")
    receiver.add_argument("--patience", type=float, default=2, help="seconds, after SIGTERM")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
