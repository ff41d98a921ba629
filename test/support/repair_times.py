# SPDX-License-Identifier: Apache-2.0
"""How soon trimmed packets are repaired, from captures at the receiver's ports.

usage: repair_times.py DSCP_TRIMMED[,DSCP...] CAPTURE.pcap...

The captures (Ethernet, classic pcap, of the same clock) hold IPv6-in-IPv6 packets of MRC. Prints
how many packets arrived trimmed, how many of these arrived whole later, and the time between the
two in microseconds (percentiles): NACK, retransmission and whatever queues both had to pass. Exits
with 1 if none arrived trimmed.
"""

import struct
import sys

IN_FRONT = 14 + 40 + 40 + 8  # Ethernet, outer and inner IPv6, UDP
WRITES = range(0xC6, 0xCC)   # mrc-1.0 §1.11: data packets


def frames(name):
    """(time in seconds, frame) of a capture."""
    data = open(name, "rb").read()
    if len(data) < 24:
        sys.exit(f"{name}: is no capture")
    order, scale = {b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
                    b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9)}.get(
                        data[:4], (None, 0))
    if order is None:
        sys.exit(f"{name}: is no classic pcap file")
    at = 24
    while at + 16 <= len(data):
        seconds, part, length, _ = struct.unpack_from(order + "IIII", data, at)
        yield seconds + part * scale, data[at + 16:at + 16 + length]
        at += 16 + length


def main(dscps, names):
    trimmed_classes = {int(word) for word in dscps.split(",")}
    events = sorted((event for name in names for event in frames(name)), key=lambda e: e[0])
    waiting, times, trims = {}, [], 0
    for time, frame in events:
        if len(frame) < IN_FRONT + 12 or frame[12:14] != b"\x86\xdd" or frame[20] != 41:
            continue
        if frame[IN_FRONT] not in WRITES:
            continue
        dscp = (frame[14] & 15) << 2 | frame[15] >> 6
        packet = bytes(frame[IN_FRONT + 5:IN_FRONT + 8] + frame[IN_FRONT + 9:IN_FRONT + 12])
        if dscp in trimmed_classes:
            trims += 1
            waiting.setdefault(packet, time)  # one whose repair was trimmed again waits on
        elif packet in waiting:
            times.append((time - waiting.pop(packet)) * 1e6)
    times.sort()
    print(f"trimmed: {trims}, repaired: {len(times)}, never: {len(waiting)}")
    if times:
        at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
        print(f"repair time: min {times[0]:.0f} us, median {at(0.5):.0f} us, p90 {at(0.9):.0f} us, "
              f"p99 {at(0.99):.0f} us, max {times[-1]:.0f} us")
    return 0 if trims else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
