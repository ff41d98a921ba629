#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the packets of each path through a kernel fabric while parts of it fail and come back.

usage: path_counts.py record NAMESPACES FILE
       path_counts.py report FILE EVENTS RESULTS TIMELINE

record writes, 50 times a second until it is told to end, how many packets each T1 has sent so far
to each T0 but h0's: what the paths from h0 have carried. NAMESPACES is what the names of the
fabric's namespaces begin with, up to the node. The counters are the kernel's.

report prints packets per path and second before, during and after each failure, when the packets
that it cost had been sent again, when the paths over the part carried at least half of a fair share
again, what those of a failed T1 carried in the second after the repair, and how often mrc_perf at
h0 took paths out of use over which nothing had failed. EVENTS has a line for each failure: when its
command began, when the repair's began and when that ended (seconds since 1970), then the part:
p1t1-0, a switch, or h1-p3t0-1, a link, and after a space what to call it. RESULTS is mrc_perf's
JSON, TIMELINE its CSV.
"""

import bisect
import csv
import ctypes
import json
import os
import re
import signal
import sys
import time

INTERVAL = 0.02

libc = ctypes.CDLL(None, use_errno=True)


def interfaces(namespace):
    """{interface: packets sent} of a namespace."""
    with open("/run/netns/" + namespace, "rb") as handle:
        if libc.setns(handle.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"can't enter the namespace {namespace}")
    with open("/proc/thread-self/net/dev", encoding="ascii") as lines:
        rows = [line.split(":") for line in list(lines)[2:]]
    return {name.strip(): int(counters.split()[9]) for name, counters in rows}


def read(prefix, switches):
    """{"p1t1-0>p1t0-1": packets that the T1 has sent to the T0}"""
    counts = {}
    for switch in switches:
        for port, sent in interfaces(prefix + switch).items():
            if re.fullmatch(r"l[1-9]\d*", port):
                counts[f"{switch}>{switch.split('t')[0]}t0-{port[1:]}"] = sent
    return counts


def record(prefix, path):
    nodes = (name[len(prefix):] for name in os.listdir("/run/netns") if name.startswith(prefix))
    switches = sorted((n for n in nodes if re.fullmatch(r"p\d+t1-\d+", n)),
                      key=lambda n: [int(x) for x in re.findall(r"\d+", n)])
    if not switches:
        sys.exit(f"path_counts: no namespace of a T1 begins with {prefix}")
    ended = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.append(True))
    columns = list(read(prefix, switches))
    with open(path, "w", encoding="ascii") as file:
        print("time", *columns, sep=",", file=file, flush=True)
        while not ended:
            before = time.time()
            counts = read(prefix, switches)
            now = (before + time.time()) / 2  # on a busy machine it takes a while
            print(f"{now:.4f}", *(counts[c] for c in columns), sep=",", file=file, flush=True)
            time.sleep(INTERVAL)


class Counts:
    """What record() wrote."""

    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            rows = list(csv.reader(file))
        self.paths = rows[0][1:]
        rows = [row for row in rows[1:] if len(row) == len(rows[0])]
        self.times = [float(row[0]) for row in rows]
        self.values = [[int(x) for x in row[1:]] for row in rows]

    def at(self, when):
        """Packets so far, by path; between two readings on a straight line."""
        i = min(max(bisect.bisect(self.times, when), 1), len(self.times) - 1)
        part = (when - self.times[i - 1]) / (self.times[i] - self.times[i - 1])
        part = min(max(part, 0), 1)
        return [a + part * (b - a) for a, b in zip(self.values[i - 1], self.values[i])]

    def between(self, start, end):
        """{path: packets} in that time."""
        pairs = zip(self.paths, self.at(start), self.at(end))
        return {path: round(b - a) for path, a, b in pairs}

    def second(self, start):
        """{path: packets} in the second that begins then."""
        return self.between(start, start + 1)


def share(second, path):
    """Packets that each path to the same T0 would carry if all carried the same."""
    target = re.sub("^.*>p[0-9]+", "", path)
    same = [n for p, n in second.items() if re.sub("^.*>p[0-9]+", "", p) == target]
    return sum(same) / len(same)


def is_over(path, part):
    """Whether a path leads over a switch, or over a host's link."""
    if part.startswith("h"):
        return path.endswith(">" + part.split("-", 1)[1])
    return part in path.split(">")


def retirements(results, parts):
    """{"p1t1-0": how often mrc_perf at h0 took a path over it out of use} of the T1s over which,
    seen from h0 to a host at T0 1, no path leads over one of the parts."""
    healthy = {}
    for path in results["paths"]:
        t1 = f"p{path['plane']}t1-{path['port_path']}"
        if not any(is_over(f"{t1}>p{path['plane']}t0-1", part) for part in parts):
            healthy[t1] = healthy.get(t1, 0) + path["times_bad"]
    return healthy


def back_after(counts, part, mending):
    """Seconds from the repair's begin to a twentieth of a second in which all paths over the part
    carry at least half of a fair share; None if there is none within ten seconds."""
    for i in range(1000):
        stretch = counts.between(mending + i / 100, mending + i / 100 + 0.05)
        if all(n >= share(stretch, path) / 2 for path, n in stretch.items() if is_over(path, part)):
            return i / 100
    return None


def sent_again(results, timeline_file, failed, mending):
    """Packets sent again during a failure, and how long after its begin the first spell ended."""
    start = results["results"][0]["start"]
    with open(timeline_file, encoding="utf-8") as file:
        rows = [(start + float(row["time_s"]), int(row["retransmits"]))
                for row in csv.DictReader(file)]
    rows = [row for row in rows if failed < row[0] < mending]
    spell = [i for i, (_, n) in enumerate(rows) if n > 0][:1]
    while spell and spell[-1] + 1 < len(rows) and rows[spell[-1] + 1][1] > 0:
        spell.append(spell[-1] + 1)
    return sum(n for _, n in rows), rows[spell[-1]][0] - failed if spell else 0


def report(counts_file, events_file, results_file, timeline_file):
    counts = Counts(counts_file)
    with open(results_file, encoding="utf-8") as file:
        results = json.load(file)
    with open(events_file, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(" ", 4) for line in file]
    events = [(*map(float, line[:3]), *line[3:]) for line in lines]
    if not events:
        return
    rows = [("before", counts.second(events[0][0] - 1))]
    for _, mending, mended, _, name in events:
        rows.append((f"{name} down", counts.second(mending - 1)))
        rows.append(("  repaired", counts.second(mended)))
    print("\npackets per path, in the second before a failure, the last one of it, and the first\n"
          "one after the repair, as the T1s' ports counted them:")
    width = max(len(label) for label, _ in rows)
    print(" " * width, *(f"{path.split('>')[0]:>6}" for path in counts.paths))
    for label, second in rows:
        print(f"{label:{width}}", *(f"{second[path]:6}" for path in counts.paths))
    print("\npackets sent again, the last of them so long after the failure began; paths over the\n"
          "part were back so long after the repair began (times with mrc_fabric's own):")
    for failed, mending, _, part, name in events:
        packets, last = sent_again(results, timeline_file, failed, mending)
        back = back_after(counts, part, mending)
        print(f"{name:{width - 5}} {packets:6} {1000 * last:6.0f} ms",
              "never" if back is None else f"{1000 * back:6.0f} ms")
    for (_, _, _, part, _), (_, after) in zip(events, rows[2::2]):
        for path in counts.paths:
            if part == path.split(">")[0]:
                fair = share(after, path)
                print(f"{part} carried {after[path]} packets in the second after its repair, "
                      f"{100 * after[path] / fair:.0f} % of a fair share ({fair:.0f})")
    healthy = retirements(results, [event[3] for event in events])
    taken = {t1: n for t1, n in healthy.items() if n > 0}
    print(f"paths over which nothing failed: {len(healthy)}; taken out of use: {len(taken)}" +
          "".join(f", {t1} {n} times" for t1, n in taken.items()))


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "record":
        record(*arguments[1:])
    elif len(arguments) == 5 and arguments[0] == "report":
        report(*arguments[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
