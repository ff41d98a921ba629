# SPDX-License-Identifier: Apache-2.0
"""What failures cost, from a timeline of mrc_perf.

usage: failure_report.py TIMELINE.csv TIMES BEGIN

TIMES has a line per failure: NAME|SHARE|START|END, times in seconds since 1970; BEGIN is when the
timeline began. Prints for each failure the bandwidth that was left (mean while it lasted, against
the mean of the second before), how long packets were lost after it began (time to avoid), and
how long after its end the bandwidth was back at 90 % (time to return). Exits with 1 if less than
SHARE was left, or if the bandwidth did not come back. A failure's command takes some 10 ms itself.
"""

import csv
import statistics
import sys


def main(timeline, times, begin):
    rows = [(float(r["time_s"]), float(r["total_gbps"]), int(r["retransmits"]))
            for r in csv.DictReader(open(timeline, newline=""))]
    begin = float(begin)
    failed = []
    print(f"{'failure':24} {'before':>8} {'during':>8} {'left':>6} {'avoid':>8} {'return':>8}")
    for line in open(times):
        name, share, start, end = line.strip().split("|")
        start, end = float(start) - begin, float(end) - begin
        between = lambda a, b: [row for row in rows if a <= row[0] < b]
        before = statistics.fmean(row[1] for row in between(start - 1.0, start - 0.1))
        during = statistics.fmean(row[1] for row in between(start + 0.2, end))
        lost, quiet = [], 0
        for row in between(start, end):  # until nothing was sent again in five intervals
            quiet = 0 if row[2] > 0 else quiet + 1
            if row[2] > 0:
                lost.append(row[0])
            elif lost and quiet == 5:
                break
        back = [row[0] for row in between(end, end + 1.6) if row[1] >= 0.9 * before]
        after = statistics.fmean(row[1] for row in between(end + 0.5, end + 1.5))
        avoid = f"{(lost[-1] - start) * 1000:5.0f} ms" if lost else "-"
        returned = f"{(back[0] - end) * 1000:5.0f} ms" if back else "never"
        print(f"{name:24} {before:8.2f} {during:8.2f} {during / before:6.2f} "
              f"{avoid:>8} {returned:>8}")
        if during < float(share) * before:
            failed.append(f"{name}: {during / before:.2f} left, {share} expected")
        if not back or after < 0.8 * before:  # without a plane: 0.75
            failed.append(f"{name}: the bandwidth did not come back")
    for line in failed:
        print(line)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
