# SPDX-License-Identifier: Apache-2.0
"""Colours and fonts of all figures, and how they become files: the same data give the same bytes,
and SVGs follow a reader's preference for a dark page."""

import io
import re

# Distinguishable with every common form of colour blindness (after Okabe and Ito), on light and on
# dark ground. Series beyond them repeat the colours with dashes.
PALETTE = ["#0b72b5", "#d95f02", "#0f9d76", "#c06ca5", "#e3a008", "#4fb0e5", "#7d5a3c", "#7a828f"]
# Any number of colours in an order.
RAMP = ["#33408c", "#2b6ca3", "#2a9d8f", "#7db073", "#e3bf5f", "#ee9a55", "#d9704f"]
DASHES = ["-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2))]

BACK, TITLE, TEXT, QUIET = "#ffffff", "#1d222b", "#3c4350", "#6b7380"
GRID, AXIS, LIMIT = "#e9ebef", "#8b93a1", "#5d6573"
FAULT, FAULT_TEXT, FAULT_OPACITY = "#d1495b", "#b3303f", 0.1

# What a dark page has instead of each of them.
DARK = {BACK: "#14171c", TITLE: "#eef1f5", TEXT: "#b9c0cc", QUIET: "#8f98a6", GRID: "#262b33",
        LIMIT: "#a3abb8", FAULT_TEXT: "#f08a96"}

FONTS = "Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"

WIDTH = 1000  # of a figure in pixels
DPI = 100


def points(pixels):
    """Sizes in pixels of the figure, as matplotlib takes them."""
    return pixels * 72 / DPI


HEADING_SIZE, TITLE_SIZE, TEXT_SIZE = points(20), points(17), points(12.5)


def color(slot):
    return PALETTE[slot % len(PALETTE)]


def ramp(i, n):
    """Colour i of n."""
    at = (i + 0.5) / n * (len(RAMP) - 1) if n > 1 else 1.6
    low = min(int(at), len(RAMP) - 2)
    pair = [[int(c[k:k + 2], 16) for k in (1, 3, 5)] for c in RAMP[low:low + 2]]
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(*pair))


def dashes(slot):
    return DASHES[slot // len(PALETTE) % len(DASHES)]


SETTINGS = {
    "figure.dpi": DPI,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so the layout is the same everywhere
    "font.size": TEXT_SIZE,
    "text.color": TEXT,
    "text.parse_math": False,  # a '$' in a title is a '$'
    "axes.edgecolor": AXIS,
    "axes.labelcolor": TEXT,
    "axes.linewidth": points(1),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": points(1),
    "xtick.color": AXIS,
    "xtick.labelcolor": TEXT,
    "xtick.major.width": points(1),
    "xtick.major.size": points(5),
    "xtick.minor.size": 0,
    "ytick.labelcolor": TEXT,
    "ytick.major.size": 0,
    "ytick.major.pad": points(9),
    "ytick.minor.size": 0,
    "lines.linewidth": points(1.8),
    "lines.solid_joinstyle": "round",
    "lines.solid_capstyle": "round",
    "lines.markersize": points(6),
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.6,
    "legend.labelspacing": 0.45,
    "svg.fonttype": "none",  # text stays text: selectable, small, in a font of the reader's system
    "svg.hashsalt": "openmrc",
}
# A hundredth of a point is below any screen's pixel; matplotlib writes millionths.
LONG_NUMBER = re.compile(r"(-?\d+\.\d\d)\d+")
COORDINATES = re.compile(r'(?<= )(?:d|x|y|width|height|transform|points)="[^"]*"')


def style_element():
    rules = [f'[style*="{kind}: {light}"] {{ {kind}: {dark} !important; }}'
             for light, dark in DARK.items() for kind in ("fill", "stroke")]
    rules.append(f'[style*="fill: {FAULT}; opacity: {FAULT_OPACITY}"] {{ opacity: 0.2 !important; }}')
    body = "\n    ".join(rules)
    return (f"<style>\n  text {{ font-family: {FONTS} !important; }}\n"
            f"  @media (prefers-color-scheme: dark) {{\n    {body}\n  }}\n</style>\n")


def as_svg(figure, title):
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(SETTINGS):  # hash salt and font type count when it is written
        figure.savefig(text, format="svg",
                       metadata={"Date": None, "Creator": None, "Title": title})
    svg = COORDINATES.sub(lambda match: " ".join(LONG_NUMBER.sub(r"\1", match.group()).split()),
                          text.getvalue())
    head, tag, rest = svg.partition("<defs>")
    return head + style_element() + tag + rest


def save(figure, title, name, kind):
    if kind == "svg":
        data = as_svg(figure, title).encode()
    else:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=2 * DPI)
        data = buffer.getvalue()
    with open(name, "wb") as file:
        file.write(data)
