# SPDX-License-Identifier: Apache-2.0
"""What a figure shows, as plain data. Readers make it from files, drawing.py draws it."""

from dataclasses import dataclass, field


class PlotError(Exception):
    """An input that can't be plotted. The text names the file, the cause and the remedy."""


@dataclass
class Series:
    """A name for the legend (none if empty) and points. `kind`:
    line    joined; dots as well if `markers`
    step    each y holds until the next x
    area    the ground between `below` and y
    bars    y[i] from x[i] to x[i + 1], so x has one more value than y"""

    name: str
    x: list
    y: list
    kind: str = "line"
    markers: bool = False
    color: str = ""  # default: one of the palette
    slot: int | None = None  # which one; default: the number of the series in its panel
    below: list = field(default_factory=list)


@dataclass
class Window:
    """A time in which something is different; an event if `start` is `end`."""

    label: str
    start: float
    end: float


@dataclass
class Bar:
    """A name and its number, None if it has none; `slot` chooses the colour, as of a series."""

    name: str
    value: float | None
    slot: int = 0
    color: str = ""  # default: one of the palette


@dataclass
class Panel:
    """One pair of axes. Units of time, size and rate get an SI prefix that makes short numbers;
    others stay as they are. Without `x_range` the data decide; y begins at 0 unless data are
    negative. A panel with `bars` has nothing else, but for a reference; x is their length."""

    title: str
    x_label: str
    y_label: str
    x_unit: str = ""
    y_unit: str = ""
    subtitle: str = ""
    height: float = 220  # pixels; a figure is 1000 wide
    series: list = field(default_factory=list)
    windows: list = field(default_factory=list)
    reference: float | None = None  # a horizontal line
    reference_label: str = ""
    x_range: tuple | None = None
    y_max: float | None = None
    log_x: bool = False
    x_ticks: list = field(default_factory=list)  # (x, text); default: round numbers
    bars: list = field(default_factory=list)
    attached: bool = False  # to the panel above: the same x axis, a line of text for a title


@dataclass
class Figure:
    """Panels with their areas aligned, in rows of `columns`. `one_legend`: all have the series of
    the first, and the figure has title, legend and note above them."""

    title: str
    panels: list
    columns: int = 1
    one_legend: bool = False
    note: str = ""


PREFIXES = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""),
            (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]


# Units that get a prefix: what they are of which unit without one.
BASES = {"s": ("s", 1), "B": ("B", 1), "Gb/s": ("b/s", 1e9), "GB/s": ("B/s", 1e9)}


def scaled_unit(largest, unit):
    """The factor by which values up to `largest` are to be divided, and the unit they have then."""
    if unit not in BASES or largest <= 0:
        return 1, unit
    base, size = BASES[unit]
    for factor, prefix in PREFIXES:
        # Seconds have no prefixes above one.
        if largest * size >= factor * 0.9999 and (unit != "s" or factor <= 1):
            return factor / size, prefix + base
    return PREFIXES[-1][0] / size, PREFIXES[-1][1] + base


def binary_size(size):
    """"64 KiB", for whole powers of 1,024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:,.10g} {unit}"
        size /= 1024


def label_rows(labels, gap=8, most=6):
    """The row of each label, given as (left, right) in the order of left, such that none overlap;
    None for those that do not fit into `most` rows."""
    free_from = [float("-inf")] * most
    rows = []
    for left, right in labels:
        row = next((r for r in range(most) if left >= free_from[r]), None)
        if row is not None:
            free_from[row] = right + gap
        rows.append(row)
    return rows


def lasting(windows, end):
    """Splits into those within a run that ends at `end`, and the names of those that last from its
    beginning to its end: to be told by words, as shading would say nothing."""
    within = [w for w in windows if w.end - w.start <= 0.97 * end]
    return within, [w.label for w in windows if w.end - w.start > 0.97 * end]
