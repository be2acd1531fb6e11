"""What all figures share: style, axes, marks, colours, and how a figure becomes a file or a part of a page."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from memalign.metrics import Estimate
from memalign_bench.config import COMPETITORS, ZERO_SHOT
from memalign_bench.report.primary import PRIMARY_METHOD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "DASHES",
    "GREY",
    "Drawn",
    "colour_of",
    "dot",
    "foremost",
    "grid",
    "inline",
    "logarithmic",
    "mark_of",
    "style",
    "svg_of",
]

INK = "#1f2328"
"""Text and axes; in a page they take the page's own colour, so that they are readable on light and on dark."""
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#8c6d31",
    "#7b61a8",
)  # Okabe and Ito, and two
GREY = "#8a8f98"
DASHES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^")
MOST_METHODS = 7


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure and what it shows, for one model."""

    figure: Figure
    caption: str


@contextmanager
def style() -> Iterator[None]:
    """The settings under which figures are drawn."""
    import matplotlib as mpl

    settings: Any = {
        "svg.hashsalt": "memalign",  # without it ids are random
        "svg.fonttype": "none",
        "text.parse_math": False,  # a label may hold dollar signs
        "font.family": ["DejaVu Sans", "sans-serif"],
        "font.size": 9,
        "text.color": INK,
        "axes.facecolor": "none",
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "legend.fontsize": 8,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A label may be in a script that the font lacks; the SVG's text is right all the same.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def svg_of(figure: Figure) -> str:
    """The figure as SVG, without a date or a version in it."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return out.getvalue()


def inline(svg: str, name: str) -> str:
    """The SVG as an element of a page: no prolog, ids of its own, text in the page's colour, no ground."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return svg.replace(INK, "currentColor").replace("fill: #ffffff", "fill: none")


def grid(n: int, *, height: float, columns: int) -> tuple[Figure, list[Axes]]:
    """`n` axes in rows of `columns`, each about `height` inches high; no pyplot, so that nothing global is touched."""
    from matplotlib.figure import Figure

    columns = min(n, columns)
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(4.6 * columns if columns > 1 else 6.4, height * rows), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.remove()
    return figure, list(axes[:n])


def dot(axis: Axes, found: Estimate, place: float, *, colour: str, partial: bool = False) -> None:
    """A figure with its interval, lying; hollow where it is `partial`."""
    if found.value is None:
        return
    if found.low is not None and found.high is not None:
        axis.plot([found.low, found.high], [place, place], color=colour, linewidth=1.4)
    axis.plot(
        [found.value], [place], "o", color=colour, markersize=5, fillstyle="none" if partial else "full", clip_on=False
    )


def logarithmic(axis: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis with ticks at 1, 2 and 5, so that it has some within a decade too."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low < 4 else (1,)
    scaled = axis.xaxis if which == "x" else axis.yaxis
    axis.set(**{f"{which}scale": "log"})
    scaled.set_major_locator(FixedLocator([n * 10.0**power for power in range(low, high + 1) for n in steps]))
    scaled.set_major_formatter(_in_words)
    scaled.set_minor_locator(NullLocator())
    axis.set(**{f"{which}lim": (min(values) / 1.4, max(values) * 1.4)})


def _in_words(value: float, place: float | None) -> str:
    """A tick of a logarithmic axis; matplotlib's own are formulas, which are not read here because labels are not."""
    del place
    return f"{value:,.10g}"


def mark_of(methods: Sequence[str], method: str) -> str:
    """Colours come round again after seven methods: then the mark is another."""
    others = [name for name in methods if name not in {ZERO_SHOT, PRIMARY_METHOD}]
    return "o" if method not in others else MARKS[others.index(method) // (len(COLOURS) - 1) % len(MARKS)]


def colour_of(methods: Sequence[str], method: str) -> str:
    """The same colour for a method in every figure: memalign's and zero-shot's are fixed."""
    if method in {ZERO_SHOT, PRIMARY_METHOD}:
        return GREY if method == ZERO_SHOT else COLOURS[0]
    others = [name for name in methods if name not in {ZERO_SHOT, PRIMARY_METHOD}]
    return COLOURS[1 + others.index(method) % (len(COLOURS) - 1)]


def foremost(methods: Sequence[str]) -> list[str]:
    """As many methods as a figure of lines can bear, in their own order: memalign and other optimizers before its variants."""
    ranked = sorted(
        methods,
        key=lambda method: (method != PRIMARY_METHOD, method not in COMPETITORS, method.startswith("memalign-")),
    )
    kept = set(ranked[:MOST_METHODS])
    return [method for method in methods if method in kept]
