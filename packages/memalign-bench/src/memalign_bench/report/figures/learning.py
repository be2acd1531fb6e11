"""Learning as figures: the curves of quality and prompt tokens, and what learning took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from memalign_bench.config import COMPETITORS, ZERO_SHOT
from memalign_bench.raw import View
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.figures.canvas import Drawn, colour_of, foremost, grid
from memalign_bench.report.measures import Agreement, Judging, agreement, judging
from memalign_bench.report.primary import PRIMARY_METHOD
from memalign_bench.report.quality import by_category
from memalign_bench.report.results import Results
from memalign_bench.report.tables import plain

__all__ = ["learning_figure"]

LINES: Mapping[View, str] = {"unseen": "-", "seen": ":", "left-out": "--"}


def learning_figure(results: Results, model: str) -> Drawn | None:
    """Curves of exact match by category and view, and the prompt tokens of a judgment beside them."""
    methods = foremost(
        [method for method in results.methods(model) if method != ZERO_SHOT and len(results.stages(model, method)) > 1]
    )
    categories = {
        name: tasks
        for name, tasks in by_category(results.tasks(model)).items()
        if any(len(_curve(results, model, tasks, method, "unseen")) > 1 for method in methods)
    }
    if not categories:
        return None
    figure, axes = grid(2 * len(categories), height=2.6, columns=2)
    for row, (category, tasks) in enumerate(categories.items()):
        right, read = axes[2 * row], axes[2 * row + 1]
        ticks: set[int] = set()
        for method in methods:
            colour = colour_of(results.methods(model), method)
            for view, dash in LINES.items():
                if view != "unseen" and method not in {PRIMARY_METHOD, *COMPETITORS}:
                    continue
                curve = _curve(results, model, tasks, method, view)
                if len(curve) < 2:
                    continue
                ticks |= set(curve)
                x = [math.log2(1 + stage) for stage in curve]
                label = plain(method, 30) if view == "unseen" else f"{plain(method, 30)}, {view}"
                y = [found.exact_match.value or 0.0 for found, _ in curve.values()]
                right.plot(x, y, dash, color=colour, marker="o", markersize=3, label=label)
                if view == "unseen":
                    if method == PRIMARY_METHOD:
                        bounds = [found.exact_match for found, _ in curve.values()]
                        low = [one.low if one.low is not None else one.value or 0.0 for one in bounds]
                        high = [one.high if one.high is not None else one.value or 0.0 for one in bounds]
                        right.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
                    tokens = [took.tokens_in or 0.0 for _, took in curve.values()]
                    read.plot(x, tokens, "-", color=colour, marker="o", markersize=3)
        for axis in (right, read):
            axis.set_xticks([math.log2(1 + stage) for stage in sorted(ticks)], [str(stage) for stage in sorted(ticks)])
            axis.set_xlabel("cases learned")
            axis.set_title(plain(category, 40))
        right.set_ylim(0, 1)
        right.set_ylabel("exact match")
        read.set_ylim(bottom=0)
        read.set_ylabel("prompt tokens a judgment")
    handles, labels = max((axis.get_legend_handles_labels() for axis in axes[::2]), key=lambda found: len(found[0]))
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    caption = (
        "Learning curves by category, and beside them the prompt tokens of a judgment. The band is memalign's 95 % "
        "interval on unseen cases; “seen” has the case's own example in memory, “left-out” hides it and all that came of it."
    )
    return Drawn(figure=figure, caption=caption)


def _curve(
    results: Results, model: str, tasks: Sequence[TaskFacts], method: str, view: View
) -> dict[int, tuple[Agreement, Judging]]:
    names = [task.name for task in tasks]
    found = {
        stage: (
            agreement(results, model, tasks, method, stage, view=view),
            judging(results, model, names, method, stage, view=view),
        )
        for stage in results.stages(model, method, view=view)
    }
    return {stage: pair for stage, pair in found.items() if pair[0].n}
