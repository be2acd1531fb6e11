"""The figures of a report: matplotlib, the same bytes for the same judgments; a figure without data is not drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memalign_bench.raw import model_folder
from memalign_bench.report.figures.canvas import Drawn, inline, style, svg_of
from memalign_bench.report.figures.cost import against_figure
from memalign_bench.report.figures.learning import learning_figure
from memalign_bench.report.figures.quality import ablation_figure, feedback_figure, quality_figure
from memalign_bench.report.results import Results
from memalign_bench.report.tables import plain

__all__ = ["Drawing", "draw"]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure that was drawn: the section's name for it, its file name without ending, what it shows, and its SVG for a page."""

    figure: str
    name: str
    caption: str
    svg: str


FIGURES: dict[str, Callable[[Results, str], Drawn | None]] = {
    "quality": quality_figure,
    "learning": learning_figure,
    "cost": against_figure(lambda took: took.cost_per_1000, "US dollars for 1,000 judgments"),
    "tokens": against_figure(lambda took: took.tokens_in, "prompt tokens a judgment"),
    "latency": against_figure(lambda took: took.seconds_median, "seconds a judgment, median"),
    "ablation": ablation_figure,
    "feedback": feedback_figure,
}


def draw(results: Results, folder: Path) -> tuple[Drawing, ...]:
    """Every figure that there is data for, as SVG in `folder` and for a page."""
    drawings = []
    with style():
        for model in results.models:
            slug = model_folder(model)
            for figure, make in FIGURES.items():
                drawn = make(results, model)
                if drawn is None:
                    continue
                name = f"{figure}-{slug}"
                svg = svg_of(drawn.figure)
                (folder / f"{name}.svg").write_text(svg, "utf-8")
                caption = f"{drawn.caption} {plain(model)}."
                drawings.append(Drawing(figure=figure, name=name, caption=caption, svg=inline(svg, name)))
    return tuple(drawings)
