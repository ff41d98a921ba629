#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends COUNT numbered Ethernet frames from one NIC to another and tells what became of them.

Prints "received N distinct N overtaken N least_delay_ms N", where overtaken are frames that came
after one with a higher number. For guest.sh's faults, which act on whatever passes a wire, without
RDMA.
"""
import argparse
import socket
import struct
import time

ETHERTYPE = 0x88B5  # for local experiments
QUIET_S = 1.5  # without a frame for so long, none is on its way
LIMIT_S = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", metavar="FROM", help="the NIC that sends")
    parser.add_argument("target", metavar="TO", help="the NIC that receives")
    parser.add_argument("count", metavar="COUNT", type=int)
    options = parser.parse_args()
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    receiver.bind((options.target, ETHERTYPE))
    receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((options.source, 0))
    to = receiver.getsockname()[4]
    start = sender.getsockname()[4]
    got = []
    least = float("inf")

    def take(timeout):
        nonlocal least
        receiver.settimeout(timeout)
        try:
            frame = receiver.recv(2048)
        except (TimeoutError, BlockingIOError):
            return False
        number, sent = struct.unpack_from("!Id", frame, 14)
        got.append(number)
        least = min(least, time.monotonic() - sent)
        return True

    for number in range(options.count):
        frame = to + start + struct.pack("!HId", ETHERTYPE, number, time.monotonic())
        sender.send(frame.ljust(60, b"\0"))
        while take(0):
            pass
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and take(QUIET_S):
        pass
    furthest, overtaken = -1, 0
    for number in got:
        overtaken += number < furthest
        furthest = max(furthest, number)
    print(f"received {len(got)} distinct {len(set(got))} overtaken {overtaken}"
          f" least_delay_ms {int(least * 1000) if got else -1}")


if __name__ == "__main__":
    main()
