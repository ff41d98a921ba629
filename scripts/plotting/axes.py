# SPDX-License-Identifier: Apache-2.0
"""One pair of axes of a figure. Everything is placed in pixels, from the top down."""

import math

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import (FixedFormatter, FixedLocator, FuncFormatter, LogLocator, MaxNLocator,
                               NullFormatter, NullLocator)

from plotting import style
from plotting.model import label_rows, scaled_unit

EDGE = 28           # least margin at the right
ROW = 19            # height of a row of a legend
FLAG_ROW = 18       # height of a row of labels above the axes
MANY_WINDOWS = 12
LEGEND_SWATCH = 28  # swatch and the gap behind it
LEGEND_GAP = 20     # between columns of a legend


def number(value, _position=None):
    return f"{value:,.10g}"


class Ink:
    """The sizes of texts, before there is a picture."""

    def __init__(self):
        self.renderer = FigureCanvasAgg(Figure(dpi=style.DPI)).get_renderer()

    def width(self, text, size=style.TEXT_SIZE, weight="normal"):
        font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
        return self.renderer.get_text_width_height_descent(text, font, False)[0]


class Axes:
    """A panel on its way into the figure: `above` and `below` are what it needs outside its axes."""

    def __init__(self, panel, ink):
        self.panel, self.ink = panel, ink
        xs = [x for s in panel.series for x in s.x]
        xs += [bar.value for bar in panel.bars if bar.value is not None]
        if panel.bars and panel.reference is not None:
            xs.append(panel.reference)
        self.x_factor, self.x_unit = scaled_unit(
            max(xs, default=0) if not panel.x_range else panel.x_range[1], panel.x_unit)
        ys = [y for s in panel.series for y in s.y]
        if panel.reference is not None and not panel.bars:
            ys.append(panel.reference)
        self.y_factor, self.y_unit = scaled_unit(max(ys, default=0), panel.y_unit)
        self.x_limits = self.find_x_limits(xs)
        self.y_limits = self.find_y_limits([y / self.y_factor for y in ys])
        self.named = [s for s in panel.series if s.name]
        self.flag_rows = 0
        self.axes = None

    def find_x_limits(self, xs):
        if self.panel.x_range:
            low, high = self.panel.x_range
        else:
            xs = [x for x in xs if x > 0] if self.panel.log_x else xs
            low, high = min(xs, default=0), max(xs, default=0)
        if self.panel.log_x:
            low, high = (low, high) if low > 0 else (1, 10)
            room = max((high / low) ** 0.02, 1.02)
            low, high = low / room, high * room
        elif not self.panel.x_range:
            room = 0.02 * (high - low) or abs(high) / 2 or 0.5
            low, high = low - room, high + room
        return low / self.x_factor, high / self.x_factor

    def find_y_limits(self, ys):
        low, high = min([0, *ys]), max([0, *ys])
        if self.panel.y_max is not None:
            return low, self.panel.y_max * 1.02
        room = 0.06 * (high - low)
        high += room
        low -= room if low < 0 else 0
        return low, high if high > low else low + 1

    # --- sizes ------------------------------------------------------------------------------------

    def wanted_left(self):
        """Room for the widest tick label, the gap behind it and the axis label."""
        return 46 + max([20] + [self.ink.width(number(tick)) for tick in self.axes.get_yticks()])

    def wanted_right(self):
        width = self.ink.width(self.panel.reference_label) if self.panel.reference_label else 0
        return max(EDGE, min(width + 18, 220))

    def legend_columns(self, width):
        """As many as fit."""
        widths = [self.ink.width(s.name) + LEGEND_SWATCH for s in self.named]
        for columns in range(len(widths), 1, -1):
            if sum(max(widths[c::columns]) + LEGEND_GAP for c in range(columns)) <= width:
                return columns
        return 1

    def place_flags(self, width):
        """Rows for the labels of windows, each above the middle of its own. Among many windows,
        only the first of a name has a label."""
        low, high = self.x_limits
        self.flags = []
        if self.panel.attached:
            return
        spans, labelled = [], set()
        for window in self.panel.windows:
            if len(self.panel.windows) > MANY_WINDOWS and window.label in labelled:
                continue
            labelled.add(window.label)
            start, end = window.start / self.x_factor, window.end / self.x_factor
            if end < low or start > high:
                continue
            half = self.ink.width(window.label, weight="semibold") / 2
            middle = (max(start, low) + min(end, high)) / 2
            at = min(max((middle - low) / (high - low) * width, half), width - half)
            spans.append((at - half, at + half, (middle - low) / (high - low) * width, window.label))
        spans.sort()
        rows = label_rows([span[:2] for span in spans])
        self.flags = [((left + right) / 2, foot, row, label)
                      for (left, right, foot, label), row in zip(spans, rows) if row is not None]
        self.flag_rows = 1 + max((flag[2] for flag in self.flags), default=-1)

    def head_height(self, width):
        """From the top of the panel to its axes."""
        if self.panel.attached:
            return 28
        self.columns = self.legend_columns(width)
        legend = -(-len(self.named) // self.columns) if self.named else 0
        return (34 + (ROW if self.panel.subtitle else 0) + legend * ROW +
                self.flag_rows * FLAG_ROW + (8 if self.flag_rows or legend else 10))

    def height(self):
        return self.panel.height

    def foot_height(self):
        return 54 if self.panel.x_label else 2

    # --- drawing ----------------------------------------------------------------------------------

    def draw(self, number_of_panel):
        axes, panel = self.axes, self.panel
        axes.set_xlim(*self.x_limits)
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_ylim(*self.y_limits)
        self.draw_windows()
        if panel.reference is not None:
            self.draw_reference()
        for i, series in enumerate(panel.series):
            self.draw_series(series, i, f"panel{number_of_panel}-series{i}")
        if not any(s.x and s.y for s in panel.series):
            axes.text(0.5, 0.5, "no data", color=style.QUIET, ha="center", va="center",
                      transform=axes.transAxes)

    def draw_series(self, series, i, gid):
        slot = i if series.slot is None else series.slot
        color = series.color or style.color(slot)
        dashes = "-" if series.color else style.dashes(slot)
        x = [v / self.x_factor for v in series.x]
        y = [v / self.y_factor for v in series.y]
        if series.kind == "area":
            below = [v / self.y_factor for v in series.below]
            artist = self.axes.fill_between(x, below, y, color=color, linewidth=0, zorder=2)
            self.axes.plot(x, y, color=style.BACK, alpha=0.75, linewidth=style.points(0.8),
                           zorder=2.1)
        elif series.kind == "bars":
            artist = self.axes.stairs(y, x, fill=True, color=color, alpha=0.75, zorder=2)
        else:
            marker = "o" if series.markers or len(x) == 1 else ""
            artist = self.axes.plot(x, y, color=color, linestyle=dashes, marker=marker, zorder=3,
                                    clip_on=False,  # or lines at an edge lose half their width
                                    drawstyle="steps-post" if series.kind == "step" else "default"
                                    )[0]
        artist.set_gid(gid)
        artist.set_label(series.name or f"_{gid}")  # matplotlib keeps a leading '_' off the legend

    def draw_windows(self):
        for window in self.panel.windows:
            start, end = window.start / self.x_factor, window.end / self.x_factor
            if end > start:
                self.axes.axvspan(start, end, color=style.FAULT, alpha=style.FAULT_OPACITY,
                                  linewidth=0, zorder=0.5)
            for edge in sorted({start, end}):
                if edge < self.x_limits[1]:
                    self.axes.axvline(edge, color=style.FAULT, linewidth=style.points(1.1),
                                      linestyle=(0, (3.5, 2.5)), zorder=4)

    def draw_reference(self):
        y = self.panel.reference / self.y_factor
        self.axes.axhline(y, color=style.LIMIT, linewidth=style.points(1.2),
                          linestyle=(0, (5, 3)), zorder=2.5)
        self.axes.annotate(self.panel.reference_label, (1, y), (style.points(8), 0),
                           xycoords=("axes fraction", "data"), textcoords="offset points",
                           color=style.QUIET, va="center", annotation_clip=False)

    def draw_head(self, write, left, top, axes_top):
        """`write` puts a text at a place in pixels of the figure."""
        if self.panel.attached:
            write(left, axes_top - 5, self.panel.title)
            return
        y = top + 30
        write(left, y, self.panel.title, size=style.TITLE_SIZE, weight="bold", color=style.TITLE)
        if self.panel.subtitle:
            y += ROW
            write(left, y, self.panel.subtitle, color=style.QUIET)
        if self.named:
            height = self.panel.height
            handles = self.axes.get_legend_handles_labels()[0]
            # matplotlib fills columns; people read rows.
            by_row = [h for c in range(self.columns) for h in handles[c::self.columns]]
            self.axes.legend(handles=by_row, loc="upper left", ncol=self.columns,
                             bbox_to_anchor=(0, 1 + (axes_top - y - 9) / height))
        for at, foot, row, label in self.flags:
            base = axes_top - 7 - row * FLAG_ROW
            write(left + at, base, label, color=style.FAULT_TEXT, weight="semibold", ha="center")

    def tick_texts(self, width):
        """Of the panel's own ticks, without those that would run into the one before."""
        scale = math.log if self.panel.log_x else float
        low, high = map(scale, self.x_limits)
        texts, end = [], -math.inf
        for at, text in self.panel.x_ticks:
            if self.panel.log_x and at <= 0:  # not on the axis
                texts.append("")
                continue
            middle = (scale(at / self.x_factor) - low) / (high - low) * width
            half = self.ink.width(text) / 2
            fits = middle - half >= end + 6
            texts.append(text if fits else "")
            end = middle + half if fits else end
        return texts

    def set_ticks(self, width):
        x, y = self.axes.xaxis, self.axes.yaxis
        x_label = self.panel.x_label
        if self.panel.x_ticks:
            x.set_major_locator(FixedLocator([at / self.x_factor for at, _ in self.panel.x_ticks]))
            x.set_minor_locator(NullLocator())
        elif self.panel.log_x:
            wide = self.x_limits[1] / self.x_limits[0] > 1000
            x.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=20))
            if self.x_limits[1] / self.x_limits[0] < 4:
                x.set_major_locator(MaxNLocator(8))
            x.set_minor_locator(NullLocator())
            x.set_minor_formatter(NullFormatter())
        else:
            x.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 2.5, 5, 10]))
        y.set_major_locator(MaxNLocator(nbins=min(max(int(self.panel.height / 40), 1), 8),
                                        steps=[1, 2, 2.5, 5, 10]))
        x.set_major_formatter(FixedFormatter(self.tick_texts(width))
                              if self.panel.x_ticks else FuncFormatter(number))
        y.set_major_formatter(FuncFormatter(number))
        if any(s.kind == "bars" for s in self.panel.series):
            self.axes.set_yticks(sorted({0, max(max(s.y, default=0) for s in self.panel.series)}))
            self.axes.grid(False)
        if self.panel.x_label:
            self.axes.set_xlabel(f"{x_label} ({self.x_unit})" if self.x_unit else x_label,
                                 labelpad=style.points(8))
        else:
            self.axes.tick_params(axis="x", length=0, labelbottom=False)
        if any(s.kind in ("area", "bars") for s in self.panel.series):
            self.axes.grid(False, axis="x")
