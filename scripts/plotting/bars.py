# SPDX-License-Identifier: Apache-2.0
"""A panel of horizontal bars: a number for each of some names."""

import math

from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator

from plotting import style
from plotting.axes import EDGE, FLAG_ROW, ROW, Axes, number

BAR_ROW = 27    # height of a bar with the gap to the next
LABEL_GAP = 9   # between names and bars


def short(value):
    """Three digits, or as many as there are before the point."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(digits, 1)}f}" if value % 1 else f"{value:,.0f}"


class Bars(Axes):
    def __init__(self, panel, ink):
        super().__init__(panel, ink)
        self.texts = ["none" if bar.value is None else short(bar.value / self.x_factor)
                      for bar in panel.bars]

    def find_x_limits(self, xs):
        low, high = min([0, *xs]), max([0, *xs])
        return low / self.x_factor, (high if high > low else low + 1) / self.x_factor

    def find_y_limits(self, _ys):
        return len(self.panel.bars) - 0.5, -0.5  # the first one on top

    def wanted_left(self):
        return 18 + LABEL_GAP + max(self.ink.width(bar.name) for bar in self.panel.bars)

    def wanted_right(self):
        return max(EDGE, max(self.ink.width(text) for text in self.texts) + EDGE)

    def height(self):
        return BAR_ROW * len(self.panel.bars)

    def place_flags(self, width):
        """The label of the reference, above its line."""
        self.flags, self.flag_rows = [], 0
        if self.panel.reference is None:
            return
        low, high = self.x_limits
        at = (self.panel.reference / self.x_factor - low) / (high - low) * width
        half = self.ink.width(self.panel.reference_label) / 2
        right = width + self.wanted_right() - EDGE / 4
        self.flags = [(min(max(at, half), max(half, right - half)), self.panel.reference_label)]
        self.flag_rows = 1

    def head_height(self, width):
        return (38 + (ROW if self.panel.subtitle else 0) + self.flag_rows * FLAG_ROW + 6)

    def draw(self, number_of_panel):
        axes, panel = self.axes, self.panel
        axes.set_xlim(*self.x_limits)
        axes.set_ylim(*self.y_limits)
        room = self.wanted_right() - EDGE / 4
        for i, (bar, text) in enumerate(zip(panel.bars, self.texts)):
            length = 0 if bar.value is None else bar.value / self.x_factor
            axes.barh(i, length, height=0.62, color=bar.color or style.color(bar.slot), zorder=2,
                      linewidth=0)[0].set_gid(f"panel{number_of_panel}-bar{i}")
            # In a column of their own, where no line crosses them.
            axes.annotate(text, (1, i), (style.points(room), 0),
                          xycoords=("axes fraction", "data"), textcoords="offset points",
                          ha="right", va="center_baseline", annotation_clip=False)
        if panel.reference is not None:
            axes.axvline(panel.reference / self.x_factor, color=style.LIMIT,
                         linewidth=style.points(1.2), linestyle=(0, (5, 3)), zorder=2.5)

    def draw_head(self, write, left, top, axes_top):
        y = top + 30
        write(left, y, self.panel.title, size=style.TITLE_SIZE, weight="bold", color=style.TITLE)
        if self.panel.subtitle:
            write(left, y + ROW, self.panel.subtitle, color=style.QUIET)
        for at, label in self.flags:
            write(left + at, axes_top - 7, label, color=style.QUIET, ha="center")

    def set_ticks(self, width):
        x, y = self.axes.xaxis, self.axes.yaxis
        x.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]))
        x.set_major_formatter(FuncFormatter(number))
        y.set_major_locator(FixedLocator(range(len(self.panel.bars))))
        y.set_major_formatter(FixedFormatter([bar.name for bar in self.panel.bars]))
        self.axes.grid(False, axis="y")
        label = self.panel.x_label + (f" ({self.x_unit})" if self.x_unit else "")
        self.axes.set_xlabel(label, labelpad=style.points(8))
