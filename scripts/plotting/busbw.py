# SPDX-License-Identifier: Apache-2.0
"""Bus bandwidth over size of collective operations, as scripts/bench_nccl measured it."""

import statistics

from plotting.model import Figure, Panel, PlotError, Series, binary_size

NAMES = {"mrc": "MRC", "socket": "TCP"}


def is_busbw(report):
    return report.get("kind") == "nccl_collectives"


def panel_of(case):
    panel = Panel(case["title"], "size", "bus bandwidth", y_unit="Gb/s", log_x=True, height=160)
    panel.subtitle = f"{case['collective'].replace('_', '-')}, {case['ranks']} ranks"
    panel.x_ticks = [(row["size"], binary_size(row["size"])) for row in case["sizes"]]
    for net in case["nets"]:
        points = [(row["size"], statistics.median(row[net])) for row in case["sizes"]
                  if row.get(net)]
        panel.series.append(Series(NAMES.get(net, net), [p[0] for p in points],
                                   [p[1] for p in points], markers=True))
    return panel


def figure(name, report, title=None):
    try:
        panels = [panel_of(case) for case in report["cases"]]
    except (KeyError, TypeError) as error:
        raise PlotError(f"'{name}' is a damaged report of bench_nccl: {error}") from None
    repetitions = sorted({case["repetitions"] for case in report["cases"]})
    return Figure(title or "NCCL's collectives over MRC and TCP", panels, columns=2,
                  one_legend=True, note=f"medians of {' or '.join(map(str, repetitions))}")
