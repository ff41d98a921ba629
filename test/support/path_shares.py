#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the paths over a T1 carried before it failed, meanwhile and after its repair.

usage: path_shares.py COUNTS T1 FAILED BROKEN MENDING MENDED
       path_shares.py COUNTS T1 SINCE

COUNTS is what scripts/path_counts.py recorded; the times are seconds since 1970: the command that
takes the T1 down begins and has ended, the one that mends it begins and has ended. Exits with 1
unless

* in the second before, each path over the T1 carried at least half of a fair share,
* while it was down, but for the first half of a second, they carried nothing,
* they do again in a second that begins at most LIMIT s after the repair. Says how long it took.

With one time: exits with 1 unless they carried that in a second after it. Fair is an equal share of
all that went to the same T0, whatever that was.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
import path_counts  # noqa: E402

LIMIT = 10  # on a machine that is busy; it is a second elsewhere
STEP = 0.05


def shares(counts, switch, start):
    """{path over the switch: what it carried in that second, in fair shares}"""
    second = counts.second(start)
    return {path: n / max(path_counts.share(second, path), 1) for path, n in second.items()
            if path.startswith(switch + ">")}, second


def text(counts, switch, start):
    found, second = shares(counts, switch, start)
    return ", ".join(f"{path} {second[path]} packets ({100 * part:.0f} % of a fair share)"
                     for path, part in found.items())


def right(counts, switch, start):
    found, second = shares(counts, switch, start)
    return bool(found) and min(found.values()) >= 0.5 and min(second.values()) >= 50


def again(counts, switch, since):
    """Seconds from then until the second begins in which they carry their shares, or None."""
    late = max(0.0, counts.times[0] - since)
    while since + late + 1 <= counts.times[-1]:
        if right(counts, switch, since + late):
            return late
        late += STEP
    return None


def main(counts_file, switch, *times):
    counts = path_counts.Counts(counts_file)
    failed, broken, mending, mended = map(float, times)
    wrong = []
    print("before:", text(counts, switch, failed - 1))
    if not right(counts, switch, failed - 1):
        wrong.append("the paths did not carry their shares before the failure")
    dead = [b - a for path, a, b in zip(counts.paths, counts.at(broken + 0.5), counts.at(mending))
            if path.startswith(switch + ">")]
    print("while it is down:", *(round(n) for n in dead))
    if max(dead) > 20:  # the kernel has some of its own
        wrong.append("packets went over a switch that is down")
    print("the second after the repair:", text(counts, switch, mended))
    late = again(counts, switch, mended)
    if late is None:
        wrong.append("the paths did not carry their shares again")
    else:
        print(f"shares again in the second from {late:.2f} s after the repair on:",
              text(counts, switch, mended + late))
        if late > LIMIT:
            wrong.append(f"the shares came back after {late:.2f} s, {LIMIT} s are allowed")
    return "; ".join(wrong) or None


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(again(path_counts.Counts(sys.argv[1]), sys.argv[2], float(sys.argv[3])) is None)
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
