"""Line charts as SVG, light or dark as the reader's system is; so little needs no library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

STYLE = Path(__file__).with_name("charts.css").read_text("utf-8")
WIDTH = 830
PANEL_WIDTH = 270
PANEL_HEIGHT = 290
LEFT = 50
BOTTOM = 260


class Point(NamedTuple):
    """A value over a number of examples."""

    x: int
    y: float


class Panel(NamedTuple):
    """One plot: its title, the ticks of its values, and its lines by name.

    The scale of values is logarithmic if the ticks are far apart; that of examples always is.
    """

    title: str
    ticks: Sequence[float]
    lines: Mapping[str, Sequence[Point]]

    def sizes(self) -> list[int]:
        """Return the numbers of examples that have a point."""
        return sorted({point.x for points in self.lines.values() for point in points})

    def across(self, size: int) -> float:
        """Return where a number of examples is on the horizontal axis."""
        sizes = self.sizes()
        if len(sizes) == 1:
            return 140
        part = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return LEFT + 185 * part

    def up(self, value: float) -> float:
        """Return where a value is on the vertical axis, at the edge if it is outside."""
        first, *_, last = self.ticks
        scaled = math.log10 if self.ticks[1] >= 2 * first else float
        inside = min(max(value, first), last)
        part = (scaled(inside) - scaled(first)) / (scaled(last) - scaled(first))
        return BOTTOM - 210 * part


def chart(title: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """Return an SVG of panels over the number of examples, three in a row, and a legend."""
    legend_rows = math.ceil(len(names) / 3)
    panel_rows = math.ceil(len(panels) / 3)
    legend_top = PANEL_HEIGHT * panel_rows + 20
    height = legend_top + 22 * legend_rows
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img"'
        ' font-size="13" font-family="DejaVu Sans, Verdana, Arial, sans-serif">'
    )
    parts = [head, f"<title>{title}</title>", f"<style>\n{STYLE}</style>"]
    parts.append(f'<rect class="p" width="{WIDTH}" height="{height}" rx="6"/>')
    for place, panel in enumerate(panels):
        row, column = divmod(place, 3)
        parts.append(
            f'<g transform="translate({20 + PANEL_WIDTH * column} {PANEL_HEIGHT * row})">'
        )
        parts += _axes(panel)
        parts += _lines(panel, names)
        parts.append("</g>")
    for place, name in enumerate(names):
        row, column = divmod(place, 3)
        x = 40 + 250 * column
        y = legend_top + 22 * row
        parts.append(f'<g class="c{place}"><path d="M{x} {y - 4}h26"/>')
        parts.append(f'<circle cx="{x + 13}" cy="{y - 4}" r="4"/></g>')
        parts.append(f'<text x="{x + 34}" y="{y}">{name}</text>')
    parts.append("</svg>\n")
    return "\n".join(parts)


def _axes(panel: Panel) -> list[str]:
    parts = [f'<text x="10" y="26" font-weight="bold">{panel.title}</text>']
    for tick in panel.ticks:
        y = panel.up(tick)
        parts.append(f'<line class="g" x1="44" x2="242" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="s" x="40" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>'
        )
    for size in panel.sizes():
        x = f"{panel.across(size):.1f}"
        parts.append(
            f'<text class="s" x="{x}" y="280" text-anchor="middle">{size:,}</text>'
        )
    return parts


def _lines(panel: Panel, names: Sequence[str]) -> list[str]:
    parts = []
    for name in reversed(list(panel.lines)):  # the first is drawn last, on top
        places = [
            (panel.across(point.x), panel.up(point.y)) for point in panel.lines[name]
        ]
        if not places:
            continue
        path = " ".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<g class="c{names.index(name)}"><path d="M{path}"/>')
        for x, y in places:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append("</g>")
    return parts
