# SPDX-License-Identifier: Apache-2.0
"""The report that mrc_sim run --json writes, with the plots that its scenario asks for."""

from plotting import style
from plotting.model import Bar, Figure, Panel, PlotError, Series, Window

VERSION = 2
MOST_FAULTS = 24  # more would hide the data
ENDS = {"up": "down", "heal": "black_hole"}  # what ends what
NEUTRAL = {"loss": 0, "corruption": 0, "slow": 1}  # the value that ends it
NAMES = {"p50": "median completion time", "p99": "99 % completion time",
         "max": "longest completion time", "host_min": "least per host",
         "host_median": "median per host", "host_max": "most per host"}


def check(name, report):
    if not isinstance(report, dict) or not isinstance(report.get("runs"), list):
        raise PlotError(f"'{name}' is no report of mrc_sim run --json, which is the only JSON that "
                        "can be plotted")
    if report.get("version") != VERSION:
        raise PlotError(f"'{name}' was written by another version of mrc_sim (format "
                        f"{report.get('version')}, wanted: {VERSION}); run the scenario again")


def fault_text(fault):
    kind, value = fault["kind"].replace("_", " "), fault["value"]
    if value is None:
        return kind
    return f"{value:g} x slower" if kind == "slow" else f"{100 * value:g} % {kind}"


def faults(run):
    """When which target was down, slow and so on; in seconds. Those of a run that has too many,
    and those that were there from the start, are left out."""
    listed = run["faults"]
    if len(listed) > MOST_FAULTS:
        return []
    stop = run["end_us"] / 1e6
    since, found = {}, []
    for fault in listed:
        at = fault["at_us"] / 1e6
        if at > stop:
            continue
        key = (fault["target"], ENDS.get(fault["kind"], fault["kind"]))
        if key in since and (fault["kind"] in ENDS or fault["kind"] in NEUTRAL):
            label, start = since.pop(key)
            found.append(Window(label, start, at))
        if fault["kind"] not in ENDS and fault["value"] != NEUTRAL.get(fault["kind"], ()):
            since.setdefault(key, (f"{fault['target']} {fault_text(fault)}", at))
    found += [Window(label, start, stop) for label, start in since.values()]
    return sorted((w for w in found if w.start > 0), key=lambda w: w.start)


def unit_of(unit):
    """The unit to draw and the factor of values in it."""
    return {"bytes": ("B", 1), "us": ("s", 1e-6)}.get(unit, (unit, 1))


def text_of(name):
    return NAMES.get(name, name.replace("_", " "))


def chosen(plot, runs):
    """The runs of a plot, each with its number, which is that of its colour in all plots."""
    names = plot.get("variants")
    return [(i, run) for i, run in enumerate(runs) if names is None or run["name"] in names]


def color_of(number, count):
    """Of one of `count` runs or lines: where there are more than colours, none comes twice."""
    return style.ramp(number, count) if count > len(style.PALETTE) else ""


def series_of(run, show):
    """Name of a series in the report, and the factor of its values."""
    if show != "goodput per host":
        return show, 1
    return "goodput", 1 / max(1, sum(1 for rate in run["host_gbps"]["all"] if rate > 0))


def over_time(plot, runs):
    panel = Panel(plot["title"] or plot["show"], "time", plot["show"], x_unit="s")
    end = 0
    for slot, run in chosen(plot, runs):
        samples = run["samples"]
        if samples is None:
            continue
        name, share = series_of(run, plot["show"])
        found = [s for s in samples["series"] if s["name"] == name]
        if not found:
            raise ValueError(f"there is no series '{name}'")
        panel.y_unit, factor = unit_of(found[0]["unit"])
        start, width = samples["start_us"] / 1e6, samples["width_us"] / 1e6
        values = [v * factor * share for v in found[0]["values"]]
        panel.series.append(Series(run["name"], [start + width * (i + 0.5)
                                                 for i in range(len(values))], values, slot=slot,
                                   color=color_of(slot, len(runs))))
        end = max(end, start + width * len(values))
    panel.windows = faults(runs[0]) if runs else []
    panel.x_range = (0, end) if end > 0 else None
    return panel


def completion_times(plot, runs):
    panel = Panel(plot["title"] or "Message completion times", "completion time", "messages",
                  x_unit="s", y_unit="%", y_max=100)
    for slot, run in chosen(plot, runs):
        points = run["completion_us"]["distribution"]
        panel.series.append(Series(run["name"], [x / 1e6 for x in points["us"]],
                                   points["percent"], "step", slot=slot,
                                   color=color_of(slot, len(runs))))
    return panel


def value(run, metric):
    """A number of a run, or None."""
    if metric.startswith("flow "):
        flows, number = run["flows"], int(metric[5:])
        return flows[number]["gbps"] if number < len(flows) else None
    if metric.startswith("goodput h"):
        hosts, number = run["host_gbps"]["all"], int(metric[9:])
        return hosts[number] if number < len(hosts) else None
    return run["metrics"][metric]


def bars(plot, runs, unit, factor):
    """A bar for each run, named as it is; the only run of a scenario has no name."""
    panel = Panel(plot["title"] or text_of(plot["metric"]),
                  plot["x_label"] or text_of(plot["metric"]), "", x_unit=unit)
    for slot, run in chosen(plot, runs):
        y = value(run, plot["metric"])
        panel.bars.append(Bar(run["name"] or "run", None if y is None else y * factor, slot,
                              color_of(slot, len(runs))))
    return panel


def number(x):
    return f"{x:,.10g}"


def summary(plot, runs):
    """A number of each run: over its x, with a line for each name of a line, or as bars, if no run
    has an x."""
    metric = plot["metric"]
    unit, factor = unit_of(plot["unit"])
    if all(run["x"] is None for _, run in chosen(plot, runs)):
        return bars(plot, runs, unit, factor)
    panel = Panel(plot["title"] or text_of(metric), plot["x_label"] or "variant", text_of(metric),
                  y_unit=unit)
    if plot["log_x"]:  # between powers of two, say, are no round numbers
        xs = {run["x"] for _, run in chosen(plot, runs) if run["x"] is not None}
        panel.x_ticks = [(x, number(x)) for x in sorted(xs)]
    lines = list(dict.fromkeys(run["line"] for _, run in chosen(plot, runs)))
    for line in lines:
        points = []
        for i, run in chosen(plot, runs):
            y = value(run, metric)
            if run["line"] == line and y is not None:
                points.append((i if run["x"] is None else run["x"], y * factor))
        points.sort()
        panel.series.append(Series(line, [p[0] for p in points], [p[1] for p in points],
                                   markers=True, color=color_of(lines.index(line), len(lines))))
    return panel


def figure(name, report, title=None):
    check(name, report)
    try:
        return build(report, title)
    except KeyError as field:
        raise PlotError(f"'{name}' is a damaged report of mrc_sim: {field} is missing") from None
    except (IndexError, TypeError, ValueError) as error:
        raise PlotError(f"'{name}' is a damaged report of mrc_sim: {error}") from None


def build(report, title):
    started = [run for run in report["runs"] if "samples" in run]
    kinds = {"completion_times": completion_times, "summary": summary}
    panels = []
    for plot in report["plots"]:
        panel = kinds.get(plot["show"], over_time)(plot, started)
        panel.height, panel.log_x = plot["height"], plot["log_x"]
        panel.reference = plot.get("reference")
        panel.reference_label = plot.get("reference_label", "")
        panels.append(panel)
    title = title or report["title"]
    if panels:
        panels[0].subtitle = f"{title}; seed {report['seed']}"
        if report["interrupted"]:
            panels[0].subtitle += "; interrupted"
    return Figure(title, panels)
