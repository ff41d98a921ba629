# SPDX-License-Identifier: Apache-2.0
"""Time of MPI's all-reduce over size, as scripts/bench_verbs measured it."""

import statistics

from plotting.model import Figure, Panel, PlotError, Series

NAMES = {"mrc": "verbs shim (UCX)", "tcp": "TCP"}
SMALL = 8192


def is_allreduce(report):
    return report.get("kind") == "verbs_shim"


def panel_of(case, title, rows, y_label, y_unit, value):
    panel = Panel(title, "size", y_label, x_unit="bytes", y_unit=y_unit, log_x=True)
    panel.subtitle = f"{case['processes']} processes on one machine, " \
                     f"medians of {case['repetitions']}"
    for net, label in NAMES.items():
        points = [(row["size"], value(row["size"], statistics.median(row[net]))) for row in rows]
        panel.series.append(Series(label, [p[0] for p in points], [p[1] for p in points],
                                   markers=True))
    return panel


def figure(name, report, title=None):
    try:
        case = next((c for c in report["cases"] if c["name"] == "allreduce"), None)
        if case is None:
            raise PlotError(f"'{name}' has no all-reduce: bench_verbs --only allreduce measures it")
        rows = case["sizes"]
        panels = [panel_of(case, "Time of small ones (less is better)",
                           [row for row in rows if row["size"] <= SMALL], "time", "us",
                           lambda size, us: us),
                  panel_of(case, "Data reduced per second (more is better)", rows, "size / time",
                           "Gb/s", lambda size, us: size * 8 / us / 1000)]
    except (KeyError, TypeError) as error:
        raise PlotError(f"'{name}' is a damaged report of bench_verbs: {error}") from None
    return Figure(title or "Open MPI's all-reduce over the verbs shim and over TCP", panels)
