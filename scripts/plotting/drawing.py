# SPDX-License-Identifier: Apache-2.0
"""Draws figures by matplotlib. Everything is placed in pixels, from the top down."""

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from plotting import style
from plotting.axes import LEGEND_GAP, ROW, Axes, Ink
from plotting.bars import Bars

TOP = 4        # above everything
HEADING = 74   # of a figure with a legend for all panels


def draw(figure):
    """A matplotlib figure of a model's figure."""
    with rc_context(style.SETTINGS):
        return layout(figure)


def add_axes(canvas, part):
    part.axes = canvas.add_axes([0.1, 0.1, 0.8, 0.8], label=str(len(canvas.axes)),
                                facecolor="none")
    part.axes.set_xlim(*part.x_limits)
    part.axes.set_ylim(*part.y_limits)
    part.set_ticks(style.WIDTH)


def margins(parts):
    """Left and right of each part. Areas are aligned, but for bars, whose names need their own."""
    aligned = [part for part in parts if not part.panel.bars]
    common = (max((part.wanted_left() for part in aligned), default=0),
              max((part.wanted_right() for part in aligned), default=0))
    return [(part.wanted_left(), part.wanted_right()) if part.panel.bars else common
            for part in parts]


def draw_heading(canvas, model, part, left, height, write):
    """Title and legend for all panels, whose series are those of `part`."""
    write(left, TOP + 32, model.title, size=style.HEADING_SIZE, weight="bold", color=style.TITLE)
    handles = part.axes.get_legend_handles_labels()[0][:len(part.panel.series)]
    canvas.legend(handles=handles, loc="upper left", ncol=len(handles),
                  bbox_to_anchor=(left / style.WIDTH, 1 - (TOP + 32 + ROW - 5) / height))
    at = left + sum(part.ink.width(s.name) + LEGEND_GAP + 36 for s in part.panel.series)
    write(at, TOP + 32 + ROW + 5, model.note, color=style.QUIET)


def layout(model):
    ink = Ink()
    parts = [(Bars if panel.bars else Axes)(panel, ink) for panel in model.panels]
    canvas = Figure(figsize=(style.WIDTH / style.DPI, 1), dpi=style.DPI, facecolor=style.BACK)
    FigureCanvasAgg(canvas)
    for part in parts:
        add_axes(canvas, part)
        if model.one_legend:
            part.named = []
    cell = style.WIDTH / model.columns
    sides = margins(parts)

    places, y = [], TOP + (HEADING if model.one_legend else 0)  # left, width, top and top of axes
    for first in range(0, len(parts), model.columns):
        row = range(first, min(first + model.columns, len(parts)))
        heads = []
        for i in row:
            left, right = sides[i]
            places.append([(i - first) * cell + left, cell - left - right, y, 0])
            parts[i].place_flags(places[i][1])
            heads.append(parts[i].head_height(places[i][1]))
        for i in row:
            places[i][3] = y + max(heads)
        y += max(heads) + max(parts[i].height() + parts[i].foot_height() for i in row)
    height = max(y, 60)
    canvas.set_size_inches(style.WIDTH / style.DPI, height / style.DPI)

    def write(x, y_down, text, size=style.TEXT_SIZE, **more):
        canvas.text(x / style.WIDTH, 1 - y_down / height, text, size=size, va="baseline", **more)

    for i, (part, (left, width, top, axes_top)) in enumerate(zip(parts, places)):
        part.axes.set_position([left / style.WIDTH, 1 - (axes_top + part.height()) / height,
                                width / style.WIDTH, part.height() / height])
        part.draw(i)
        part.set_ticks(width)
        part.draw_head(write, left, top, axes_top)
        if part.panel.y_label and not part.panel.bars:
            label = part.panel.y_label + (f" ({part.y_unit})" if part.y_unit else "")
            at = left - sides[i][0] + 16
            canvas.text(at / style.WIDTH, 1 - (axes_top + part.height() / 2) / height, label,
                        rotation=90, ha="center", va="center", rotation_mode="anchor")
    if model.one_legend and parts:
        draw_heading(canvas, model, parts[0], places[0][0], height, write)
    return canvas
