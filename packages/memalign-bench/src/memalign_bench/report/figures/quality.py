"""Agreement with people as figures: by task, the labels that are given, and what each part of memalign is worth."""

from __future__ import annotations

from collections.abc import Sequence

from memalign.metrics import Estimate
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.report.comparisons import ablation_methods, feedback_methods
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.figures.canvas import COLOURS, DASHES, GREY, Drawn, colour_of, dot, grid
from memalign_bench.report.measures import Agreement, agreement
from memalign_bench.report.primary import PRIMARY_METHOD, contrast, headline_stage
from memalign_bench.report.results import Results
from memalign_bench.report.tables import plain

__all__ = ["ablation_figure", "feedback_figure", "quality_figure"]


def quality_figure(results: Results, model: str) -> Drawn | None:
    """Exact match of every judge with its interval, and the baselines as lines, a panel for each task."""
    stage = headline_stage(results, model)
    methods = results.methods(model)
    panels: list[tuple[TaskFacts, dict[str, Agreement], dict[str, Estimate]]] = []
    for task in results.tasks(model):
        judges = {method: found for method in methods if (found := agreement(results, model, [task], method, stage)).n}
        if not task.matchable or not judges:
            continue
        baselines = {method: agreement(results, model, [task], method, stage).exact_match for method in BASELINES}
        panels.append((task, judges, {method: one for method, one in baselines.items() if one.value is not None}))
    if not panels:
        return None
    figure, axes = grid(len(panels), height=0.9 + 0.27 * max(len(judges) for _, judges, _ in panels), columns=2)
    for axis, (task, judges, baselines) in zip(axes, panels, strict=True):
        for dash, (method, baseline) in zip(DASHES, baselines.items(), strict=False):
            axis.axvline(baseline.value or 0.0, color=GREY, linestyle=dash, linewidth=1.1, label=method)
        for place, (method, one) in enumerate(judges.items()):
            dot(axis, one.exact_match, place, colour=colour_of(methods, method), partial=one.n + one.errors < one.known)
        names = [f"{plain(method, 30)} ({one.n})" for method, one in judges.items()]
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_title(plain(task.name, 40))
        axis.set_xlabel("exact match, unseen")
    handles, labels = max((axis.get_legend_handles_labels() for axis in axes), key=lambda found: len(found[0]))
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    caption = (
        f"Exact match on unseen cases at stage {stage}, 95 % intervals, n in parentheses; hollow where not all cases are "
        "judged yet. Lines are baselines without a language model."
    )
    return Drawn(figure=figure, caption=caption)


def ablation_figure(results: Results, model: str) -> Drawn | None:
    """What memalign loses or gains where a part of it is taken away."""
    return _beside_memalign(results, model, ablation_methods(results, model), "left of 0, what was taken away helps")


def feedback_figure(results: Results, model: str) -> Drawn | None:
    """What memalign loses or gains where it is taught by labels alone, or by comments alone."""
    return _beside_memalign(results, model, feedback_methods(results, model), "left of 0, both together teach more")


def _beside_memalign(results: Results, model: str, methods: Sequence[str], reading: str) -> Drawn | None:
    stage = headline_stage(results, model)
    tasks = results.tasks(model)
    found = [
        one
        for method in methods
        if (one := contrast(results, model, tasks, method, PRIMARY_METHOD, stage=stage)) is not None
    ]
    if not found:
        return None
    figure, (axis,) = grid(1, height=1.0 + 0.27 * len(found), columns=1)
    axis.axvline(0, color=GREY, linewidth=1)
    for place, one in enumerate(found):
        scaled = (
            None if part is None else part * 100
            for part in (one.difference.value, one.difference.low, one.difference.high)
        )
        value, low, high = scaled
        dot(axis, Estimate(value=value, low=low, high=high), place, colour=COLOURS[0])
    axis.set_yticks(range(len(found)), [f"{plain(one.method, 40)} ({one.n})" for one in found])
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xlabel("exact match minus memalign's, points")
    caption = f"Unseen cases at stage {stage}, paired, 95 % intervals, n in parentheses; {reading}."
    return Drawn(figure=figure, caption=caption)
