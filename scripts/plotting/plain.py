# SPDX-License-Identifier: Apache-2.0
"""Draws figures as SVG without matplotlib, for machines that lack it: one column of panels with
areas, lines, bars and windows, as a timeline has them. Everything is in pixels, from the top."""

from math import floor, log10
from xml.sax.saxutils import escape

from plotting import style
from plotting.model import label_rows, scaled_unit

LEFT, RIGHT, LEGEND_ROW, FLAG_ROW = 78, 28, 20, 18
CHARACTER = 7.2  # about the width of one in a text of 12.5 pixels


def can_draw(figure):
    kinds = {s.kind for p in figure.panels for s in p.series}
    return (figure.columns == 1 and not figure.one_legend and kinds <= {"area", "line", "bars"} and
            all(s.color and not s.markers for p in figure.panels for s in p.series) and
            all(p.x_range and not p.bars and not p.log_x and not p.x_ticks and p.reference is None
                for p in figure.panels))


def ticks(low, high, most):
    """Round numbers from low to high, at most about `most`."""
    rough = max(high - low, 1e-12) / most
    size = 10.0 ** floor(log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough)
    count = floor(high / step + 1e-9)
    return [i * step for i in range(count + 1) if i * step >= low]


def number(value):
    return f"{round(value, 12):,.10g}"


def unit_of(name):
    return f" ({name})" if name else ""


def text(x, y, words, size=12.5, fill=style.TEXT, anchor="start", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" style="fill: {fill}" '
            f'text-anchor="{anchor}"{more}>{escape(words)}</text>')


class Area:
    """Where a panel's data are: the axes' place, and the scale of both."""

    def __init__(self, panel, top):
        self.panel, self.top = panel, top
        self.width = style.WIDTH - LEFT - RIGHT
        self.x_factor, self.x_unit = scaled_unit(panel.x_range[1], panel.x_unit)
        ys = [y for s in panel.series for y in s.y]
        self.y_factor, self.y_unit = scaled_unit(max(ys, default=0), panel.y_unit)
        self.y_high = (panel.y_max or max(ys, default=0) * 1.06) or 1

    def x(self, value):
        low, high = self.panel.x_range
        return LEFT + (value - low) / ((high - low) or 1) * self.width

    def y(self, value):
        return self.top + self.panel.height * (1 - value / self.y_high)

    def outline(self, xs, ys):
        return " ".join(f"{self.x(x):.2f},{self.y(y):.2f}" for x, y in zip(xs, ys))


def draw_series(area, series):
    color = series.color
    if series.kind == "line":
        return (f'<polyline points="{area.outline(series.x, series.y)}" '
                f'style="fill: none; stroke: {color}" stroke-width="1.8"/>')
    if series.kind == "area":
        low = area.outline(series.x[::-1], series.below[::-1])
        return (f'<polygon points="{area.outline(series.x, series.y)} {low}" '
                f'style="fill: {color}" opacity="0.85"/>')
    return "".join(
        f'<rect x="{area.x(a):.2f}" y="{area.y(y):.2f}" width="{area.x(b) - area.x(a):.2f}" '
        f'height="{area.y(0) - area.y(y):.2f}" style="fill: {color}"/>'
        for a, b, y in zip(series.x, series.x[1:], series.y) if y > 0)


def draw_axes(area):
    panel, bottom = area.panel, area.top + area.panel.height
    parts = []
    for value in ticks(0, area.y_high / area.y_factor, max(2, panel.height // 60)):
        y = area.y(value * area.y_factor)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + area.width}" y1="{y:.1f}" y2="{y:.1f}" '
                     f'style="stroke: {style.GRID}"/>')
        parts.append(text(LEFT - 9, y + 4, number(value), anchor="end"))
    if panel.x_label:
        low, high = (x / area.x_factor for x in panel.x_range)
        for value in ticks(low, high, 12):
            parts.append(text(area.x(value * area.x_factor), bottom + 18, number(value),
                              anchor="middle"))
        parts.append(text(LEFT + area.width / 2, bottom + 40,
                          panel.x_label + unit_of(area.x_unit), anchor="middle"))
    if panel.y_label:
        middle = area.top + panel.height / 2
        parts.append(text(18, middle, panel.y_label + unit_of(area.y_unit), anchor="middle",
                          more=f' transform="rotate(-90 18 {middle:.1f})"'))
    return parts, [f'<line x1="{LEFT}" x2="{LEFT + area.width}" y1="{bottom:.1f}" '
                   f'y2="{bottom:.1f}" style="stroke: {style.AXIS}"/>']


def draw_windows(area, flags_top):
    panel, parts = area.panel, []
    for window in panel.windows:
        left, width = area.x(window.start), max(area.x(window.end) - area.x(window.start), 1)
        parts.append(f'<rect x="{left:.1f}" y="{area.top:.1f}" width="{width:.1f}" '
                     f'height="{panel.height}" '
                     f'style="fill: {style.FAULT}; opacity: {style.FAULT_OPACITY}"/>')
    for left, row, label in flags(area):
        parts.append(text(left, flags_top + FLAG_ROW * (row + 1) - 5, label,
                          fill=style.FAULT_TEXT))
    return parts


def flags(area):
    """Left edge, row and text of the windows' labels that fit."""
    if area.panel.attached:
        return []
    labels = []
    for window in area.panel.windows:
        wide = len(window.label) * CHARACTER
        left = max(LEFT, min(area.x(window.start), LEFT + area.width - wide))
        labels.append((left, left + wide, window.label))
    labels.sort()
    rows = label_rows([(left, right) for left, right, _ in labels])
    return [(left, row, label) for (left, _, label), row in zip(labels, rows) if row is not None]


def draw_legend(panel, top):
    parts, x, y = [], LEFT, top
    for series in (s for s in panel.series if s.name):
        wide = 28 + len(series.name) * CHARACTER + 18
        if x + wide > style.WIDTH - RIGHT:
            x, y = LEFT, y + LEGEND_ROW
        parts.append(f'<rect x="{x:.1f}" y="{y + 4:.1f}" width="20" '
                     f'height="{3 if series.kind == "line" else 11}" '
                     f'style="fill: {series.color}"/>')
        parts.append(text(x + 26, y + 14, series.name))
        x += wide
    return parts, y + LEGEND_ROW - top if parts else 0


def draw(figure):
    """The SVG, as a text."""
    parts, top = [], 8
    for n, panel in enumerate(figure.panels):
        if panel.attached:
            parts.append(text(LEFT, top + 16, panel.title, fill=style.QUIET))
            top += 24
        else:
            parts.append(text(LEFT, top + 24, panel.title, 17, style.TITLE,
                              more=' font-weight="bold"'))
            parts.append(text(LEFT, top + 46, panel.subtitle, fill=style.QUIET))
            legend, height = draw_legend(panel, top + 54)
            parts += legend
            top += 60 + height
        flags_top = top
        top += FLAG_ROW * max((row + 1 for _, row, _ in flags(Area(panel, 0))), default=0) + 4
        area = Area(panel, top)
        grid, axis = draw_axes(area)
        parts += grid
        for i, series in enumerate(panel.series):
            parts.append(f'<g id="panel{n}-series{i}">{draw_series(area, series)}</g>')
        parts += draw_windows(area, flags_top) + axis
        top += panel.height + (52 if panel.x_label else 10)
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {style.WIDTH} {top:.0f}" '
            f'width="{style.WIDTH}" height="{top:.0f}">\n<title>{escape(figure.title)}</title>\n'
            f"{style.style_element()}"
            f'<rect width="100%" height="100%" style="fill: {style.BACK}"/>\n{body}\n</svg>\n')
