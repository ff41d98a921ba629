# SPDX-License-Identifier: Apache-2.0
"""The timeline that mrc_perf --timeline writes: bandwidth over time by plane, retransmissions,
and the faults that were injected or marked."""

import csv
from dataclasses import dataclass
from math import isfinite

from plotting import style
from plotting.model import Figure, Panel, PlotError, Series, Window, lasting

TOTAL, RETRANSMITS = "#1d222b", "#d1495b"
MOST_INTERVALS = 1000  # about one for each pixel


@dataclass
class Timeline:
    """Columns of the file; interval i ends at times[i] (seconds) and begins where the last ended."""

    times: list
    planes: list  # by plane: Gb/s by interval
    totals: list
    retransmits: list
    events: list  # texts such as "on: plane 1 down", parted by ';'

    def starts(self):
        return [0.0] + self.times[:-1]


def is_timeline(header):
    return header.startswith("time_s,total_gbps")


def read(name, file):
    rows = list(csv.DictReader(file))
    if not rows:
        raise PlotError(f"'{name}' has no lines below its heading; was the run shorter than one "
                        "interval (mrc_perf --timeline-interval)?")
    planes = [key for key in rows[0] if key and key.startswith("plane")]
    try:
        if not planes:
            raise KeyError("plane0_gbps")
        timeline = Timeline([float(r["time_s"]) for r in rows],
                            [[float(r[p]) for r in rows] for p in planes],
                            [float(r["total_gbps"]) for r in rows],
                            [int(r["retransmits"]) for r in rows],
                            [r["event"] or "" for r in rows])
    except KeyError as missing:
        raise PlotError(f"'{name}' has no column {missing}; "
                        "is it what mrc_perf --timeline wrote?") from None
    except (TypeError, ValueError) as error:
        raise PlotError(f"'{name}' is damaged or cut short: {error}") from None
    if not all(isfinite(x) for column in (timeline.times, timeline.totals, *timeline.planes)
               for x in column):
        raise PlotError(f"'{name}' is damaged: a time or a rate is no finite number")
    if any(b < a for a, b in zip(timeline.starts(), timeline.times)):
        raise PlotError(f"'{name}': time_s goes back from one line to the next")
    return without_empty(timeline)


def without_empty(t):
    """Where one size's measurement ends and the next begins, an interval can be shorter than the
    file's millisecond. It has no rate; what happened in it counts for the interval before."""
    result = Timeline([], [[] for _ in t.planes], [], [], [])
    for i, (start, end) in enumerate(zip(t.starts(), t.times)):
        if end > start:
            result.times.append(end)
            for rates, plane in zip(result.planes, t.planes):
                rates.append(plane[i])
            result.totals.append(t.totals[i])
            result.retransmits.append(t.retransmits[i])
            result.events.append(t.events[i])
        elif result.times:
            result.retransmits[-1] += t.retransmits[i]
            result.events[-1] = "; ".join(filter(None, (result.events[-1], t.events[i])))
    if not result.times:
        raise PlotError("all of the timeline's intervals are shorter than a millisecond")
    return result


def merged(timeline, most=MOST_INTERVALS):
    """At most `most` intervals, neighbours joined: the mean of rates, the sum of retransmissions."""
    group = -(-len(timeline.times) // most)
    if group <= 1:
        return timeline
    starts, times = timeline.starts(), timeline.times
    slices = [slice(i, i + group) for i in range(0, len(times), group)]

    def mean(rates):
        return [sum(r * (b - a) for r, a, b in zip(rates[s], starts[s], times[s])) /
                (times[s][-1] - starts[s][0]) for s in slices]

    return Timeline([times[s][-1] for s in slices], [mean(p) for p in timeline.planes],
                    mean(timeline.totals), [sum(timeline.retransmits[s]) for s in slices],
                    ["; ".join(filter(None, timeline.events[s])) for s in slices])


def windows(timeline):
    """Faults that began ("on: NAME") and ended ("off: NAME"), and events of other names."""
    open_since, found = {}, []
    for event, start in zip(timeline.events, timeline.starts()):
        for text in filter(None, (part.strip() for part in event.split(";"))):
            if text.startswith("on: "):
                open_since.setdefault(text[4:], start)
            elif text.startswith("off: "):
                if text[5:] in open_since:
                    found.append(Window(text[5:], open_since.pop(text[5:]), start))
            else:
                found.append(Window(text, start, start))
    found += [Window(name, start, timeline.times[-1]) for name, start in open_since.items()]
    return sorted(found, key=lambda w: w.start)


def figure(timeline, title=None):
    title = title or "Bandwidth over time, by plane"
    within, throughout = lasting(windows(timeline), timeline.times[-1])
    t = merged(timeline)
    starts, end = t.starts(), t.times[-1]
    mean = sum(r * (b - a) for r, a, b in zip(t.totals, starts, t.times)) / end
    subtitle = f"mean {mean:.2f} Gb/s"
    if throughout:
        subtitle += " · throughout: " + ", ".join(throughout)

    # A rate stands at the middle of its interval; the first and the last reach to the ends.
    x = [0.0] + [(a + b) / 2 for a, b in zip(starts, t.times)] + [end]

    def over_time(rates):
        return [rates[0]] + rates + [rates[-1]]

    series, below = [], [0.0] * len(t.times)
    for i, rates in enumerate(t.planes):
        top = [a + b for a, b in zip(below, rates)]
        series.append(Series(f"plane {i}", x, over_time(top), "area", below=over_time(below),
                             color=style.ramp(i, len(t.planes))))
        below = top
    series.append(Series("total", x, over_time(t.totals), color=TOTAL))
    note = "packets sent again, per interval" if any(t.retransmits) else "no packet was sent again"
    return Figure(title, [
        Panel(title, "", "payload bandwidth", y_unit="Gb/s", subtitle=subtitle, height=290,
              series=series, windows=within, x_range=(0, end)),
        Panel(note, "time", "", x_unit="s", height=48, windows=within, attached=True,
              series=[Series("", [0.0] + t.times, t.retransmits, "bars", color=RETRANSMITS)],
              x_range=(0, end))])
