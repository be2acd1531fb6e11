"""The figures of a report: matplotlib, the same bytes for the same judgments; a figure without data is not drawn."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memalign.bench.arms.floors import FLOORS
from memalign.bench.config import BARE, PEERS
from memalign.bench.raw import model_folder
from memalign.bench.report.comparisons import ablation_arms
from memalign.bench.report.costs import learns_more
from memalign.bench.report.facts import TaskFacts
from memalign.bench.report.measures import Agreement, Judging, agreement, judging, learning, share
from memalign.bench.report.primary import PRIMARY_ARM, contrast, headline_stage
from memalign.bench.report.quality import by_category
from memalign.bench.report.results import Results
from memalign.bench.report.tables import plain
from memalign.errors import ConfigurationError
from memalign.metrics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Drawing", "draw"]

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
MOST_ARMS = 7
MOST_LABELS = 8


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure that was drawn: the section's name for it, its file name without ending, what it shows, and its SVG for a page."""

    figure: str
    name: str
    caption: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    figure: Figure
    caption: str


def draw(results: Results, folder: Path) -> tuple[Drawing, ...]:
    """Every figure that there is data for, as PNG and SVG in `folder`, and as SVG for a page.

    Raises ConfigurationError when matplotlib is not installed.
    """
    drawings = []
    with _style():
        for model in results.models:
            slug = model_folder(model)
            for figure, make in _FIGURES.items():
                drawn = make(results, model)
                if drawn is None:
                    continue
                name = f"{figure}-{slug}"
                png, svg = _saved(drawn.figure, "png"), _saved(drawn.figure, "svg")
                (folder / f"{name}.png").write_bytes(png)
                (folder / f"{name}.svg").write_bytes(svg)
                caption = f"{drawn.caption} {plain(model)}."
                drawings.append(
                    Drawing(figure=figure, name=name, caption=caption, svg=_inline(svg.decode("utf-8"), name))
                )
    return tuple(drawings)


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure  # noqa: F401  # a broken installation is found here
    except ImportError as error:
        raise ConfigurationError(f'the figures need matplotlib: pip install "memalign[bench]" ({error})') from error
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


def _saved(figure: Figure, kind: str) -> bytes:
    out = io.BytesIO()
    about = {"Software": None} if kind == "png" else {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(out, format=kind, dpi=150, metadata=about)
    figure.set_layout_engine("none")  # placed once; again would only cost time
    return out.getvalue()


def _inline(svg: str, name: str) -> str:
    """The SVG as an element of a page: no prolog, ids of its own, text in the page's colour, no ground."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return svg.replace(INK, "currentColor").replace("fill: #ffffff", "fill: none")


# -- the figures ---------------------------------------------------------------------------------------------------


def _quality(results: Results, model: str) -> _Drawn | None:
    stage = headline_stage(results, model)
    arms = results.arms(model)
    panels: list[tuple[TaskFacts, dict[str, Agreement], dict[str, Estimate]]] = []
    for task in results.tasks(model):
        judges = {arm: found for arm in arms if (found := agreement(results, model, [task], arm, stage)).n}
        if not task.matchable or not judges:
            continue
        floors = {arm: agreement(results, model, [task], arm, stage).exact_match for arm in FLOORS}
        panels.append((task, judges, {arm: one for arm, one in floors.items() if one.value is not None}))
    if not panels:
        return None
    figure, axes = _grid(len(panels), height=0.9 + 0.27 * max(len(judges) for _, judges, _ in panels), columns=2)
    for axis, (task, judges, floors) in zip(axes, panels, strict=True):
        for dash, (arm, floor) in zip(DASHES, floors.items(), strict=False):
            axis.axvline(floor.value or 0.0, color=GREY, linestyle=dash, linewidth=1.1, label=arm)
        for place, (arm, one) in enumerate(judges.items()):
            _dot(axis, one.exact_match, place, colour=_colour(arms, arm), partial=one.n + one.errors < one.known)
        names = [f"{plain(arm, 30)} ({one.n})" for arm, one in judges.items()]
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
        "judged yet. Lines are floors without a language model."
    )
    return _Drawn(figure=figure, caption=caption)


def _learning(results: Results, model: str) -> _Drawn | None:
    arms = _foremost([arm for arm in results.arms(model) if arm != BARE and len(results.stages(model, arm)) > 1])
    categories = {
        name: tasks
        for name, tasks in by_category(results.tasks(model)).items()
        if any(len(_curve(results, model, tasks, arm, "unseen")) > 1 for arm in arms)
    }
    if not categories:
        return None
    figure, axes = _grid(2 * len(categories), height=2.6, columns=2)
    for row, (category, tasks) in enumerate(categories.items()):
        right, read = axes[2 * row], axes[2 * row + 1]
        ticks: set[int] = set()
        for arm in arms:
            colour = _colour(results.arms(model), arm)
            for view, dash in (("unseen", "-"), ("seen", ":"), ("left-out", "--")):
                if view != "unseen" and arm not in {PRIMARY_ARM, *PEERS}:
                    continue
                curve = _curve(results, model, tasks, arm, view)
                if len(curve) < 2:
                    continue
                ticks |= set(curve)
                x = [math.log2(1 + stage) for stage in curve]
                label = plain(arm, 30) if view == "unseen" else f"{plain(arm, 30)}, {view}"
                y = [found.exact_match.value or 0.0 for found, _ in curve.values()]
                right.plot(x, y, dash, color=colour, marker="o", markersize=3, label=label)
                if view == "unseen":
                    if arm == PRIMARY_ARM:
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
    return _Drawn(figure=figure, caption=caption)


def _against(pick: Callable[[Judging], float | None], axis_name: str) -> Callable[[Results, str], _Drawn | None]:
    """A figure of quality against something that a judgment takes, on the cases that all arms of it judged."""

    def make(results: Results, model: str) -> _Drawn | None:
        stage = headline_stage(results, model)
        tasks = [task.name for task in results.tasks(model) if task.matchable]
        judged = {arm: results.judged(model, tasks, arm, stage) for arm in results.arms(model)}
        most = max(map(len, judged.values()), default=0)
        full = {arm: found for arm, found in judged.items() if found and len(found) * 2 >= most}
        common = sorted(set.intersection(*(set(found) for found in full.values()))) if full else []
        taken = {arm: pick(judging(results, model, tasks, arm, stage)) for arm in full}
        shown = {arm: value for arm, value in taken.items() if value}  # nothing and not known have no place on the axis
        if len(shown) < 2 or not common:
            return None
        figure, (axis,) = _grid(1, height=3.4, columns=1)
        for arm, value in shown.items():
            cases = [full[arm][key] for key in common]
            found = share([case.right for case in cases], [case.cluster for case in cases])
            middle = found.value or 0.0
            colour = _colour(results.arms(model), arm)
            if found.low is not None and found.high is not None:
                axis.plot([value, value], [found.low, found.high], color=colour, linewidth=1.2)
            mark = _mark(results.arms(model), arm)
            axis.plot([value], [middle], mark, color=colour, markersize=5, label=plain(arm, 30))
        if max(shown.values()) > 3 * min(shown.values()):
            _logarithmic(axis, "x", list(shown.values()))
        else:
            axis.set_xlim(0, 1.1 * max(shown.values()))
        axis.set_xlabel(axis_name)
        axis.set_ylabel("exact match, unseen")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside right upper")
        few = [arm for arm, found in judged.items() if arm not in full]
        without = f" Without {', '.join(few)}, which judged less than half of the cases." if few else ""
        caption = f"Stage {stage}, the {len(common)} cases that all arms shown judged, 95 % intervals.{without}"
        return _Drawn(figure=figure, caption=caption)

    return make


def _labels(results: Results, model: str) -> _Drawn | None:
    stage = headline_stage(results, model)
    panels: list[tuple[TaskFacts, dict[str, Agreement]]] = []
    for task in results.tasks(model):
        if not 2 <= len(task.value_type.labels) <= MOST_LABELS:
            continue
        found = {arm: agreement(results, model, [task], arm, stage) for arm in results.arms(model)}
        there = {arm: one for arm, one in found.items() if one.n}
        if there:
            panels.append((task, there))
    if not panels:
        return None
    figure, axes = _grid(len(panels), height=1.2 + 0.24 * max(len(found) + 1 for _, found in panels), columns=2)
    for axis, (task, found) in zip(axes, panels, strict=True):
        widest = max(found.values(), key=lambda one: one.n)
        rows = [("people", widest.people), *((plain(arm, 30), one.judge) for arm, one in found.items())]
        for place, label in enumerate(widest.people):
            left = [sum(list(shares.values())[:place]) for _, shares in rows]
            axis.barh(
                range(len(rows)), [shares[label] for _, shares in rows], left=left, height=0.7,
                color=COLOURS[place], label=plain(label, 24) or " ",
            )  # fmt: skip
        axis.set_yticks(range(len(rows)), [name for name, _ in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_title(plain(task.name, 40))
        axis.legend(loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)
    return _Drawn(
        figure=figure, caption=f"Shares of labels among people and among the verdicts on unseen cases, stage {stage}."
    )


def _teaching(results: Results, model: str) -> _Drawn | None:
    names = [task.name for task in results.tasks(model)]
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for arm in _foremost([arm for arm in results.arms(model) if arm != BARE]):
        so_far = [0.0, 0.0]
        for stage in sorted({cell.stage for cell in results.fits if (cell.model, cell.arm) == (model, arm)}):
            took = learning(results.fits_of(model, names, arm, stage))
            if took is None or not stage:
                continue
            now = [took.seconds, took.tokens_in + took.tokens_out]
            so_far = [a + b for a, b in zip(so_far, now, strict=True)] if learns_more(arm) else now
            curves.setdefault(arm, []).append((stage, so_far[0], so_far[1]))
    curves = {arm: points for arm, points in curves.items() if any(tokens for _, _, tokens in points)}
    if not any(len(points) > 1 for points in curves.values()):
        return None
    figure, axes = _grid(2, height=2.8, columns=2)
    for arm, points in curves.items():
        colour = _colour(results.arms(model), arm)
        for axis, column in zip(axes, (1, 2), strict=True):
            axis.plot([point[0] for point in points], [point[column] for point in points], "-o", color=colour,
                      markersize=3, label=plain(arm, 30))  # fmt: skip
    stages = sorted({point[0] for points in curves.values() for point in points})
    for axis, column, name in zip(axes, (1, 2), ("seconds to learn", "tokens to learn"), strict=True):
        _logarithmic(axis, "y", [point[column] for points in curves.values() for point in points if point[column]])
        _logarithmic(axis, "x", stages)
        axis.set_xticks(stages, [str(stage) for stage in stages])
        axis.set_xlabel("cases learned")
        axis.set_ylabel(name)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    caption = "What learning took up to each stage, mean over tasks and seeds; of arms that learn only what is new, all stages so far together."
    return _Drawn(figure=figure, caption=caption)


def _ablation(results: Results, model: str) -> _Drawn | None:
    stage = headline_stage(results, model)
    tasks = results.tasks(model)
    found = [
        one
        for arm in ablation_arms(results, model)
        if (one := contrast(results, model, tasks, arm, PRIMARY_ARM, stage=stage)) is not None
    ]
    if not found:
        return None
    figure, (axis,) = _grid(1, height=1.0 + 0.27 * len(found), columns=1)
    axis.axvline(0, color=GREY, linewidth=1)
    for place, one in enumerate(found):
        scaled = (
            None if part is None else part * 100
            for part in (one.difference.value, one.difference.low, one.difference.high)
        )
        value, low, high = scaled
        _dot(axis, Estimate(value=value, low=low, high=high), place, colour=COLOURS[0])
    axis.set_yticks(range(len(found)), [f"{plain(one.arm, 40)} ({one.n})" for one in found])
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xlabel("exact match minus memalign's, points")
    caption = f"Unseen cases at stage {stage}, paired, 95 % intervals, n in parentheses; left of 0, what was taken away helps."
    return _Drawn(figure=figure, caption=caption)


_FIGURES: dict[str, Callable[[Results, str], _Drawn | None]] = {
    "quality": _quality,
    "labels": _labels,
    "learning": _learning,
    "cost": _against(lambda took: took.cost_per_1000, "US dollars for 1,000 judgments"),
    "tokens": _against(lambda took: took.tokens_in, "prompt tokens a judgment"),
    "latency": _against(lambda took: took.seconds_median, "seconds a judgment, median"),
    "teaching": _teaching,
    "ablation": _ablation,
}


# -- what they share -----------------------------------------------------------------------------------------------


def _grid(n: int, *, height: float, columns: int) -> tuple[Figure, list[Axes]]:
    """`n` axes in rows of `columns`, each about `height` inches high; no pyplot, so that nothing global is touched."""
    from matplotlib.figure import Figure

    columns = min(n, columns)
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(4.6 * columns if columns > 1 else 6.4, height * rows), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.remove()
    return figure, list(axes[:n])


def _dot(axis: Axes, found: Estimate, place: float, *, colour: str, partial: bool = False) -> None:
    if found.value is None:
        return
    if found.low is not None and found.high is not None:
        axis.plot([found.low, found.high], [place, place], color=colour, linewidth=1.4)
    axis.plot(
        [found.value], [place], "o", color=colour, markersize=5, fillstyle="none" if partial else "full", clip_on=False
    )


def _logarithmic(axis: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
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


def _mark(arms: Sequence[str], arm: str) -> str:
    """Colours come round again after seven arms: then the mark is another."""
    others = [name for name in arms if name not in {BARE, PRIMARY_ARM}]
    return "o" if arm not in others else MARKS[others.index(arm) // (len(COLOURS) - 1) % len(MARKS)]


def _colour(arms: Sequence[str], arm: str) -> str:
    """The same colour for an arm in every figure: memalign's and bare's are fixed."""
    if arm in {BARE, PRIMARY_ARM}:
        return GREY if arm == BARE else COLOURS[0]
    others = [name for name in arms if name not in {BARE, PRIMARY_ARM}]
    return COLOURS[1 + others.index(arm) % (len(COLOURS) - 1)]


def _foremost(arms: Sequence[str]) -> list[str]:
    """As many arms as a figure of lines can bear, in their own order: memalign and other optimizers before its variants."""
    ranked = sorted(arms, key=lambda arm: (arm != PRIMARY_ARM, arm not in PEERS, arm.startswith("memalign-")))
    kept = set(ranked[:MOST_ARMS])
    return [arm for arm in arms if arm in kept]


def _curve(
    results: Results, model: str, tasks: Sequence[TaskFacts], arm: str, view: Any
) -> dict[int, tuple[Agreement, Judging]]:
    names = [task.name for task in tasks]
    found = {
        stage: (
            agreement(results, model, tasks, arm, stage, view=view),
            judging(results, model, names, arm, stage, view=view),
        )
        for stage in results.stages(model, arm, view=view)
    }
    return {stage: pair for stage, pair in found.items() if pair[0].n}
