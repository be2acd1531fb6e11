"""Line charts as SVG, light or dark as the reader's system is; so little needs no library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

STYLE = Path(__file__).with_name("charts.css").read_text("utf-8")


class Point(NamedTuple):
    """A value over a number of examples, and a band around it where there is one."""

    x: int
    y: float
    low: float = math.nan
    high: float = math.nan


class Panel(NamedTuple):
    """One plot: its title, the ticks of its values (logarithmic where they are far apart), and its lines by name."""

    title: str
    ticks: Sequence[float]
    lines: Mapping[str, Sequence[Point]]


def chart(title: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """Three panels a row over the number of examples, and the names of the lines below."""
    height = 290 * math.ceil(len(panels) / 3) + 22 * math.ceil(len(names) / 3) + 20
    size = f'viewBox="0 0 830 {height}" width="830" height="{height}"'
    font = 'font-size="13" font-family="DejaVu Sans, Verdana, Arial, sans-serif"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}><title>{title}</title>'
    ]
    parts.append(f'<style>\n{STYLE}</style><rect class="p" width="830" height="{height}" rx="6"/>')
    for place, panel in enumerate(panels):
        parts.append(f'<g transform="translate({20 + 270 * (place % 3)} {290 * (place // 3)})">')
        parts += [*_drawn(panel, names), "</g>"]
    for place, name in enumerate(names):
        x, y = 40 + 250 * (place % 3), height - 22 * math.ceil(len(names) / 3) + 22 * (place // 3)
        parts.append(
            f'<g class="c{place}"><path d="M{x} {y - 4}h26"/><circle cx="{x + 13}" cy="{y - 4}" r="4"/></g>'
        )
        parts.append(f'<text x="{x + 34}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _drawn(panel: Panel, names: Sequence[str]) -> list[str]:
    ticks, sizes = (
        panel.ticks,
        sorted({point.x for points in panel.lines.values() for point in points}),
    )
    scaled = math.log10 if ticks[1] >= 2 * ticks[0] else float

    def across(size: int) -> float:
        return (
            50 + 185 * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
            if len(sizes) > 1
            else 140
        )

    def up(value: float) -> float:
        value = min(max(value, ticks[0]), ticks[-1])
        return 260 - 210 * (scaled(value) - scaled(ticks[0])) / (
            scaled(ticks[-1]) - scaled(ticks[0])
        )

    parts = [f'<text x="10" y="26" font-weight="bold">{panel.title}</text>']
    for tick in ticks:
        parts.append(f'<line class="g" x1="44" x2="242" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
        parts.append(
            f'<text class="s" x="40" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>'
        )
    for size in sizes:
        parts.append(
            f'<text class="s" x="{across(size):.1f}" y="280" text-anchor="middle">{size:,}</text>'
        )
    for name, points in list(panel.lines.items())[::-1]:  # the first lies on top
        path = " ".join(f"{across(point.x):.1f} {up(point.y):.1f}" for point in points)
        dots = "".join(f'<circle cx="{across(p.x):.1f}" cy="{up(p.y):.1f}" r="4"/>' for p in points)
        edge = [(p.x, p.high) for p in points] + [(p.x, p.low) for p in reversed(points)]
        band = " ".join(f"{across(x):.1f} {up(y):.1f}" for x, y in edge if not math.isnan(y))
        shade = f'<path class="band" d="M{band}"/>' if band else ""
        parts.append(
            f'<g class="c{names.index(name)}">{shade}<path d="M{path}"/>{dots}</g>'
            if points
            else ""
        )
    return parts
