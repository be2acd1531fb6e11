"""A study's report: what was fixed beforehand, whether it is met, every method, and one figure of what each part is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.metrics import Estimate
from memalign_bench.draws import draw_methods as every
from memalign_bench.draws.drawing import LABELS, drawn
from memalign_bench.draws.pooled import Fitted, Pool, pooled
from memalign_bench.draws.study import Part, Study
from memalign_bench.report.figures.canvas import COLOURS, GREY, dot, grid, style, svg_of
from memalign_bench.report.tables import ABSENT, Section, Table, markdown, points, quality

if TYPE_CHECKING:
    from memalign_bench.draws.draw_methods import Chances
    from memalign_bench.draws.drawing import Draw

__all__ = ["CRITERION", "Report", "run_study"]

STAGES = (10, 20, 30, 50)
AHEAD = 0.02
CRITERION = (
    f"Fixed beforehand: “{every.EVERYTHING}” is ahead of “{every.FORMER}” (the former calibrator) and of the best baseline by "
    "at least 2 points each, with the interval above 0, pooled over the tasks, on part S, which is opened once at the end. "
    "The best baseline is that one of the four without a language model whose pooled figure is highest on the same items."
)
HOW = (
    "Each draw teaches {labels} labelled items of the pool (two thirds of it where it is small), and only questions that were written from "
    "these rows are used; on a taught row neither its own nor those of its fold alone, as in an align. A task's figure is the mean over {draws} draws of exact match on "
    "unseen items (CCC of the expected label for ranks); the pooled figure is the mean over tasks. Intervals are at 95 %: 2,000 "
    "resamples, in each of which draws, and groups of items, are drawn with replacement, the same for all methods. Draws are "
    "by item, so that a taught and an unseen item of the pool may share a group."
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A study's figures: all methods, everything but for one thing, and fewer labels (by how many)."""

    part: Part
    draws: int
    labels: int
    fitted: tuple[Fitted, ...]
    main: Pool
    without: Pool
    stages: dict[int, Pool]

    @property
    def best(self) -> str:
        """The baseline with the highest pooled figure."""
        tasks = self.main.tasks(*every.BASELINES)
        return max(every.BASELINES, key=lambda method: self.main.figure(method, tasks).value or 0.0)

    @property
    def criterion(self) -> dict[str, Estimate]:
        """How far everything is ahead of what it is measured against, over the tasks that have both."""
        against = (every.FORMER, self.best)
        tasks = {other: self.main.tasks(every.EVERYTHING, other) for other in against}
        return {other: self.main.difference(every.EVERYTHING, other, tasks[other]) for other in against}

    @property
    def met(self) -> bool:
        """Whether that is enough; on part P it says nothing about the criterion."""
        return all(
            found.value is not None and found.value >= AHEAD and (found.low or 0.0) > 0
            for found in self.criterion.values()
        )

    def data(self) -> dict[str, Any]:
        """The figures as plain values."""
        losses = {
            each.study.header.name: {
                method: {
                    "figure": self.main.figure(method, [each.study.header.name]),
                    "log_loss": each.log_loss(method),
                    "calibration_error": each.calibration_error(method),
                }
                for method in each.chances
                if method in self.main.figures[each.study.header.name]
            }
            for each in self.fitted
        }
        return {
            "part": self.part,
            "draws": self.draws,
            "labels": self.labels,
            "criterion": self.criterion,
            "met": self.met if self.part == "S" else None,
            "tasks": losses,
            "ablations": {name: found for name, found, _ in self.ablations()},
        }

    def ablations(self) -> list[tuple[str, Estimate, int]]:
        """What each change of everything does, in its own unit, and over how many tasks."""
        found = []
        for name in every.ABLATIONS:
            tasks = self.without.tasks(name, every.EVERYTHING)
            if tasks:
                found.append((name, self.without.difference(name, every.EVERYTHING, tasks), len(tasks)))
        return found

    def text(self) -> str:
        """The report as Markdown."""
        return markdown(f"Draws of {self.labels} labels, part {self.part}", self.sections())

    def sections(self) -> list[Section]:
        """The criterion before any figure, then the figures."""
        how = HOW.format(labels=self.labels, draws=self.draws)
        rows = [
            (f"{every.EVERYTHING} against {other}", points(found), str(len(self.main.tasks(every.EVERYTHING, other))))
            for other, found in self.criterion.items()
        ]
        verdict = "met" if self.met else "not met"
        said = f"Part S: {verdict}." if self.part == "S" else "Part P is for development: these figures decide nothing."
        return [
            Section(id="criterion", title="What is asked", words=(CRITERION, how)),
            Section(id="answer", title="Answer", words=(said,), tables=(Table(title="Points ahead", columns=("difference", "points", "tasks"), rows=tuple(rows)),)),
            Section(id="methods", title="Methods", words=self._words(), tables=(self._figures(), self._losses())),
            Section(id="ablations", title="What each part is worth", tables=(self._ablations(), self._stages())),
        ]  # fmt: skip

    def svg(self) -> str:
        """What each change of everything does, as a figure."""
        found = self.ablations()
        with style():
            figure, (axis,) = grid(1, height=1.0 + 0.27 * len(found), columns=1)
            axis.axvline(0, color=GREY, linewidth=1)
            for place, (_, one, _) in enumerate(found):
                low, high = one.low or 0.0, one.high or 0.0
                dot(
                    axis,
                    Estimate(value=100 * (one.value or 0.0), low=100 * low, high=100 * high),
                    place,
                    colour=COLOURS[0],
                )
            axis.set_yticks(range(len(found)), [name for name, _, _ in found])
            axis.set_ylim(len(found) - 0.5, -0.5)
            axis.set_xlabel("points against everything, pooled over tasks; left of 0: worse")
            return svg_of(figure)

    def _words(self) -> tuple[str, ...]:
        without = [each.study.header.name for each in self.fitted if not each.study.judged]
        facts = [
            f"{each.study.header.name}: {len(each.draws[0].taught)} taught, {len(each.draws[0].unseen)} unseen in "
            f"{len({each.study.items[n].group for n in each.draws[0].unseen})} groups, {len(each.study.header.questions)} questions"
            for each in self.fitted
        ]
        note = [f"No verdicts yet, and none of the methods that need them: {', '.join(without)}."] if without else []
        return ("; ".join(facts) + ".", *note)

    def _figures(self) -> Table:
        tasks = tuple(self.main.figures)
        rows = [
            (method, quality(self.main.figure(method, there)) if (there := self.main.tasks(method)) else ABSENT, str(len(there)),
             *(f"{self.main.figures[task][method][0]:.3f}" if task in there else ABSENT for task in tasks))
            for method in every.METHODS
        ]  # fmt: skip
        heads = (f"{task} (CCC)" if task in self.main.ranked else task for task in tasks)
        return Table(title="Exact match, or CCC", columns=("method", "pooled", "tasks", *heads), rows=tuple(rows))

    def _losses(self) -> Table:
        def cell(each: Fitted, method: str) -> str:
            if method not in each.chances:
                return ABSENT
            return f"{each.log_loss(method):.2f} / {each.calibration_error(method):.2f}"

        rows = [(method, *(cell(each, method) for each in self.fitted)) for method in every.METHODS]
        heads = (each.study.header.name for each in self.fitted)
        title = "Log loss in nats / expected calibration error"
        return Table(title=title, columns=("method", *heads), rows=tuple(rows))

    def _ablations(self) -> Table:
        rows = [(name, points(found), str(tasks)) for name, found, tasks in self.ablations()]
        return Table(title="Everything but for one thing, against everything", columns=("change", "points", "tasks"), rows=tuple(rows))  # fmt: skip

    def _stages(self) -> Table:
        shown = (every.FEATURES, every.FORMER, every.EVERYTHING)
        rows = [
            (method, *(quality(pool.figure(method, pool.tasks(method))) for pool in self.stages.values()))
            for method in shown
        ]
        return Table(title="By the number of labels", columns=("method", *map(str, self.stages)), rows=tuple(rows))


def run_study(
    studies: Sequence[Study],
    *,
    part: Part,
    draws: int,
    labels: int = LABELS,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Report:
    """Fit every method on every draw; no model is asked."""
    stages = tuple(stage for stage in STAGES if stage < labels)
    total, done = len(studies) * draws * (2 + len(stages)), 0

    def fitted(study: Study, count: int, method: Callable[[Study, Draw], dict[str, Chances]]) -> Fitted:
        nonlocal done
        found: dict[str, list[Chances]] = {}
        chosen = [drawn(study, number, count) for number in range(draws)]
        for draw in chosen:
            for name, chances in method(study, draw).items():
                found.setdefault(name, []).append(chances)
            done += 1
            progress(study.header.name, done, total)
        return Fitted(study=study, draws=chosen, chances=found)

    every_method = tuple(fitted(study, labels, every.main_methods) for study in studies)
    less = [fitted(study, labels, every.ablations) for study in studies]
    both = [
        Fitted(study=a.study, draws=a.draws, chances={every.EVERYTHING: a.chances[every.EVERYTHING], **b.chances})
        for a, b in zip(every_method, less, strict=True)
    ]
    fewer = {stage: pooled([fitted(study, stage, every.everything_of) for study in studies]) for stage in stages}
    main = pooled(every_method)
    return Report(
        part=part,
        draws=draws,
        labels=labels,
        fitted=every_method,
        main=main,
        without=pooled(both),
        stages={**fewer, labels: main},
    )
