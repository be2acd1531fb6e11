"""How far a judge agrees with people: the figures of one judge over labelled cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.evaluation.cases import (
    Cases,
    ScoredCase,
    accuracy,
    clusters,
    labels,
    verdicts,
    with_verdict,
)
from memalign.evaluation.comparison import Comparison
from memalign.evaluation.intervals import agreement_interval, estimate
from memalign.evaluation.judged import column_of
from memalign.evaluation.labelled import LabelledCases
from memalign.evaluation.promise import Passing, Promise, steps_of, with_confidence
from memalign.evaluation.repeats import Repeated
from memalign.evaluation.sentences import plan_of, sentences_of, table_of
from memalign.evaluation.traffic import Traffic
from memalign.metrics import Estimate, Statistic, ccc, cohen_kappa
from memalign.notebook import html_view
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["METRICS", "Evaluation", "evaluation_of", "measure"]

METRICS: dict[str, tuple[str, Statistic]] = {
    "bool": ("kappa", cohen_kappa),
    "choice": ("kappa", cohen_kappa),
    "int": ("weighted_kappa", ccc),  # the two are the same figure
    "float": ("ccc", ccc),
}
"""What is measured of a judge beside its accuracy, by the kind of its values."""

_LISTED_LABELS = 12  # an int:0..100 would make a confusion matrix of mostly empty rows

Judgments = Mapping[str, Judgment]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Agreement of one judge with people's labels. Intervals are at 95 %.

    Attributes:
        judge: The judge's name.
        value_type: What it answers, such as `bool`.
        n: Cases with a label and a verdict; every figure is over these.
        unscored: Cases with a label and no verdict, because the call failed.
        unlabelled: Cases that have only comments, and were not judged.
        taught: Labelled cases that a judge here was taught, by id or content. They count in no
            other figure.
        taught_ids: Their ids.
        taught_accuracy: How often the judge gives their labels; None unless they were judged too.
        metrics: accuracy (of float: the share within a tenth of the scale); besides kappa of bool
            and choices, weighted_kappa (quadratic) of int, ccc of float. Where cases have a group,
            intervals come from whole groups; fewer than ten groups give none.
        labels: The labels of the confusion matrix; none of float, str and long scales.
        confusion: Counts in the order of `labels` (rows: people, columns: judge).
        usage: What the calls of this evaluation came to.
        model: The model that was asked.
        answered_by: The names that its answers give, such as a dated version.
        memory_hash: Of the judge's memory.
        cases: Every case with a label that counts.
        base: The evaluation of the judge it is compared with, on the same cases.
        comparison: This judge against that one, paired by case.
        traffic: Shares of judged rows without labels, corrected; see `on` of `evaluate`.
        promise: The threshold above which verdicts may pass without a person; see `promise` of
            `evaluate`.
        repeated: How often verdicts turn; see `repeat` of `evaluate`.
        judgments: The judge's, by id; they and people's `rows` are no part of `to_dict`.
    """

    judge: str
    value_type: str
    n: int
    unscored: int
    unlabelled: int
    taught: int = 0
    taught_ids: tuple[str, ...] = ()
    taught_accuracy: Estimate | None = None
    metrics: dict[str, Estimate]
    labels: tuple[Value, ...]
    confusion: tuple[tuple[int, ...], ...]
    usage: Usage
    model: str
    answered_by: list[str] = field(default_factory=list)
    memory_hash: str
    cases: tuple[ScoredCase, ...]
    base: Evaluation | None = None
    comparison: Comparison | None = None
    traffic: tuple[Traffic, ...] = ()
    promise: Promise | None = None
    repeated: Repeated | None = None
    judgments: Judgments = field(default_factory=dict, repr=False)
    rows: tuple[Feedback, ...] = field(default=(), repr=False)

    @property
    def model_text(self) -> str:
        """The model that was asked, and which version answered if its answers name another."""
        asked = self.model
        others = [name for name in self.answered_by if not asked.endswith(f":{name}")]
        if not others:
            return asked
        return f"{asked} (answered by {', '.join(others)})"

    @property
    def sides(self) -> list[Evaluation]:
        """This evaluation, and that of the judge it is compared with."""
        return [self] if self.base is None else [self, self.base]

    @property
    def disagreements(self) -> Cases:
        """The cases on which judge and people differ; of numbers, the furthest apart come first."""
        wrong = [case for case in self.cases if case.correct is False]
        if not ValueType.of(self.value_type).numeric:
            return wrong
        return sorted(wrong, key=lambda case: -abs(case.difference))

    @property
    def thresholds(self) -> tuple[Passing, ...]:
        """The verdicts that pass at thresholds of confidence: of all verdicts, then of each.

        Empty where verdicts carry no probability.
        """
        sure = with_confidence(self.cases)
        steps = steps_of(sure)
        for label in self.labels:
            own = [case for case in sure if case.value == label]
            if len(own) < len(sure):
                steps += steps_of(own, value_text(label))
        return tuple(steps)

    def sentences(self) -> list[str]:
        """Say the figures in plain sentences, the traffic and the promise included."""
        return sentences_of(self)

    def plan(self) -> list[str]:
        """Say what more labels would show."""
        return plan_of(self)

    def lines(self) -> list[str]:
        """Write this judge's figures, without those of the judge it is compared with."""
        return [*self.sentences(), "", *table_of(self)]

    def __str__(self) -> str:
        """Write this judge's figures, and below them its comparison with the other judge."""
        lines = self.lines()
        if self.base is not None:
            lines += ["", "the other judge:", *self.base.lines()]
        if self.comparison is not None:
            title = "the other judge (the first) against this one (the second):"
            lines += ["", title, str(self.comparison)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show what the figures say as lines, and the figures of each judge as a table."""
        lines = self.sentences()
        head = ["", "this judge"]
        if self.comparison is not None:
            lines.append("")
            lines += str(self.comparison).splitlines()
        if self.base is not None:
            head.insert(1, "the other judge")
        names = [name.replace("_", " ") for name in self.metrics]
        columns = [["cases with a verdict", *names, "model"]]
        for side in reversed(self.sides):
            figures = [str(figure) for figure in side.metrics.values()]
            column = [str(side.n), *figures, side.model_text]
            columns.append(column)
        rows = zip(*columns, strict=True)
        return html_view(lines, head, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and cases as plain JSON values."""
        figures = replace(self, judgments={}, rows=(), base=None)
        plain: dict[str, Any] = msgspec.to_builtins(figures)
        del plain["judgments"]
        del plain["rows"]
        if self.base is not None:
            plain["base"] = self.base.to_dict()
        thresholds = msgspec.to_builtins(self.thresholds)
        wrong = [case.id for case in self.disagreements]
        return plain | {
            "disagreements": wrong,
            "thresholds": thresholds,
            "sentences": self.sentences(),
        }


def measure(value_type: ValueType, cases: Cases) -> dict[str, Estimate]:
    """Return the accuracy, and the metric of the value type, over the cases that have a verdict.

    Args:
        value_type: What the judge answers.
        cases: Labelled cases; one without a verdict counts in no figure.
    """
    scored = with_verdict(cases)
    figures = {"accuracy": accuracy(scored)}
    if value_type.kind in METRICS:
        name, statistic = METRICS[value_type.kind]
        said = verdicts(scored)
        truth = labels(scored)
        groups = clusters(scored)
        value = statistic(said, truth)
        interval = partial(agreement_interval, statistic, said, truth, groups)
        figures[name] = estimate(value, groups, interval)
    return figures


def evaluation_of(
    judge: Judge, labelled: LabelledCases, judgments: Judgments, usage: Usage
) -> Evaluation:
    """Measure a judge by its judgments of labelled cases.

    Args:
        judge: Whose judgments they are.
        labelled: The cases with people's labels.
        judgments: The judge's, by id.
        usage: What the calls for them came to.
    """
    kind = judge.value_type
    cases = _scored_cases(kind, labelled, labelled.examples, judgments)
    scored = with_verdict(cases)
    taught = _scored_cases(kind, labelled, labelled.taught, judgments)
    seen = None
    if taught:
        seen = accuracy(with_verdict(taught))
    listed = kind.labels
    if len(listed) > _LISTED_LABELS:
        listed = ()
    models: dict[str, None] = {}
    answering = set()
    memory_hash = ""
    for judgment in judgments.values():
        models[judgment.model] = None
        answering.add(judgment.answered_by)
        memory_hash = memory_hash or judgment.memory_hash
    return Evaluation(
        judge=judge.name,
        value_type=kind.spec,
        n=len(scored),
        unscored=len(cases) - len(scored),
        unlabelled=labelled.unlabelled,
        taught=len(labelled.taught),
        taught_ids=tuple(example.id for example in labelled.taught),
        taught_accuracy=seen,
        metrics=measure(kind, scored),
        labels=listed,
        confusion=_confusion(listed, scored),
        usage=usage,
        model=", ".join(filter(None, models)),
        answered_by=sorted(answering - {""}),
        memory_hash=memory_hash,
        cases=cases,
        judgments=judgments,
        rows=labelled.rows,
    )


def _scored_cases(
    kind: ValueType,
    labelled: LabelledCases,
    examples: Sequence[Example],
    judgments: Judgments,
) -> tuple[ScoredCase, ...]:
    """Put labels and verdicts together, for the examples that have been judged."""
    cases = []
    for example in examples:
        judgment = judgments.get(example.id)
        if judgment is None:
            continue
        error = judgment.error
        if judgment.value is None and not error:
            error = "the judgment has no value"
        case = ScoredCase(
            id=example.id,
            label=labelled.labels[example.id],
            value=None if error else judgment.value,
            error=error,
            group=column_of(example, "group"),
            system=column_of(example, "system"),
            confidence=judgment.confidence,
            rationale=judgment.rationale,
            tolerance=kind.tolerance,
        )
        cases.append(case)
    return tuple(cases)


def _confusion(listed: Sequence[Value], cases: Cases) -> tuple[tuple[int, ...], ...]:
    """Count how labels (the rows) and verdicts (the columns) meet, in the order of `listed`."""
    pairs = zip(labels(cases), verdicts(cases), strict=True)
    counts = Counter(pairs)
    rows = []
    for label in listed:
        row = [counts[label, verdict] for verdict in listed]
        rows.append(tuple(row))
    return tuple(rows)
