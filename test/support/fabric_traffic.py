#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waits until host h0's traffic takes the links of a fabric that it should, and no others.

usage: fabric_traffic.py NAMESPACES SECONDS [PLANE.T1 | PLANE.*]...

NAMESPACES is what the names of the fabric's namespaces begin with, up to the node. The arguments
that follow name the links from h0's T0 to T1s that are dead, or are of no use; * stands for all of
a plane. Waits for a stretch of traffic in which

* each of the other links carried at least a quarter of an equal share,
* the dead ones carried no more than the probes of their paths,
* what h0 sent in the four planes arrived at h1: nothing goes into a black hole.

Only packets are counted, so a busy machine makes it wait, but not fail. Exits with 1 after SECONDS,
and says what the last stretch was like. Knows nothing of the project's code. Needs root.
"""

import ctypes
import os
import sys
import time

PLANES, UPLINKS = 4, 2
STRETCH = 4000  # packets of h0: enough for shares, few enough for a quarter of a second
FEW = 0.03      # share of them that may be probes, or be counted at one end only

libc = ctypes.CDLL(None, use_errno=True)


def interfaces(namespace):
    """{interface: (packets received, packets sent)}; empty without the namespace."""
    try:
        descriptor = os.open("/run/netns/" + namespace, os.O_RDONLY)
    except FileNotFoundError:
        return {}
    try:
        if libc.setns(descriptor, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)
    found = {}
    with open("/proc/thread-self/net/dev") as lines:
        for line in list(lines)[2:]:
            name, counters = line.split(":")
            fields = counters.split()
            found[name.strip()] = int(fields[1]), int(fields[9])
    return found


def count(prefix):
    """Packets sent by h0, received by h1, and sent by h0's T0 of each plane to each T1."""
    none = (0, 0)
    hosts = [interfaces(prefix + host) for host in ("h0", "h1")]
    counts = {"sent": sum(hosts[0].get(f"p{p}", none)[1] for p in range(PLANES)),
              "arrived": sum(hosts[1].get(f"p{p}", none)[0] for p in range(PLANES))}
    for plane in range(PLANES):
        switch = interfaces(f"{prefix}p{plane}t0-0")
        for uplink in range(UPLINKS):
            counts[f"{plane}.{uplink}"] = switch.get(f"s{uplink}", none)[1]
    return counts


def what_is_wrong(stretch, dead):
    sent = stretch["sent"]
    links = {name: n for name, n in stretch.items() if "." in name}
    alive = [name for name in links if name not in dead]
    wrong = [f"{name} carries {links[name]}" for name in alive
             if links[name] < sent / len(alive) / 4]
    wrong += [f"{name}, which is dead, carries {links[name]}" for name in dead
              if links[name] > FEW * sent]
    if abs(sent - stretch["arrived"]) > FEW * sent:
        wrong.append(f"{stretch['arrived']} arrive")
    return wrong


def main(prefix, seconds, *links):
    dead = []
    for link in links:
        plane, uplink = link.split(".")
        dead += [f"{plane}.{u}" for u in range(UPLINKS) if uplink in (str(u), "*")]
    start = time.monotonic()
    before, wrong = count(prefix), ["no packets"]
    while time.monotonic() - start < float(seconds):
        time.sleep(0.02)
        now = count(prefix)
        stretch = {name: now[name] - before[name] for name in now}
        if stretch["sent"] < STRETCH:
            continue
        wrong = what_is_wrong(stretch, dead)
        if not wrong:
            print(f"{time.monotonic() - start:.1f} s, the last {stretch['sent']} packets right")
            return None
        before = now
    return f"of {stretch['sent']} packets sent: " + "; ".join(wrong)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
