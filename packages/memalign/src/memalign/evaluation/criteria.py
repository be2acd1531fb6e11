"""A gate: whether a judge is good enough to release, decided on cases that nobody taught it.

A criterion passes when the whole interval of its figure lies on the good side, and the judge is worse when all of it
lies on the bad side. Between the two there are too few cases to tell. At 95 % a judge at the very edge is passed, or
stopped, about once in twenty times at most, whichever way chance goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree as ET

import msgspec

from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, metrics_of
from memalign.metrics import Estimate
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["Criterion", "GateResult", "Outcome", "check_criteria", "gate", "junit_xml", "outcome_of"]

Outcome = Literal["pass", "worse", "too few cases"]

_MOST_MORE = 100_000  # labels; nobody labels more than that for one figure
_ERRORS = {"mae"}  # metrics of which less is better
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One criterion, the figure that answers it, and the outcome.

    Attributes:
        demand: The criterion in words, such as `kappa at least 0.6`.
        outcome: Whether the judge passes.
        why: The figure with its interval, in words.
        figure: The figure.
        threshold: What its interval is held against.
    """

    demand: str
    outcome: Outcome
    why: str
    figure: Estimate
    threshold: float


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What a gate decided: "worse" when one criterion says so, else "too few cases" when one does, else "pass"."""

    judge: str
    outcome: Outcome
    criteria: tuple[Criterion, ...]
    n: int

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return dict(msgspec.to_builtins(self))

    def __str__(self) -> str:
        lines = [f"{self.judge}: {self.outcome}, on {self.n} unseen cases"]
        lines += [f"{criterion.outcome}: {criterion.demand}: {criterion.why}" for criterion in self.criteria]
        return "\n".join(lines)


def check_criteria(
    judge: Judge, *, minimum: Mapping[str, float], not_worse_than: float | None = None, against: bool = False
) -> None:
    """Refuse criteria that no judge could meet, before a model is asked.

    Args:
        judge: The judge that is to be measured.
        minimum: See `gate`.
        not_worse_than: See `gate`.
        against: Whether the judge is compared with another.

    Raises:
        InputError: There is no criterion, a metric is unknown, or a number is impossible.
    """
    if not minimum and not_worse_than is None:
        raise InputError(
            "name at least one criterion: --min-accuracy 0.8, --min-kappa 0.6, or --not-worse-than 5 --against VERSION"
        )
    if not_worse_than is not None:
        if not against:
            raise InputError("--not-worse-than needs a judge to compare with: --against N or --against zero-shot")
        if not 0 <= not_worse_than < 100:
            raise InputError(f"--not-worse-than is a number of points from 0 to less than 100, not {not_worse_than:g}")
    for metric, least in minimum.items():
        _metric(metric, judge.value_type, metrics_of(judge.value_type))
        if not math.isfinite(least):
            raise InputError(f"the minimum of {metric} must be a number, not {least}")
        if metric not in _ERRORS and least > 1:
            raise InputError(f"{metric} is at most 1, so it can never reach {least:g}; write 0.8 instead of 80")


def gate(
    evaluation: Evaluation, *, minimum: Mapping[str, float] | None = None, not_worse_than: float | None = None
) -> GateResult:
    """Decide whether a judge passes. Nothing is asked: the evaluation has all that is needed.

    Args:
        evaluation: What `evaluate(judge, labelled, unseen=True)` gave; with `against` for `not_worse_than`.
        minimum: What the interval of a metric must reach, such as `{"kappa": 0.6}` (of `int` the weighted kappa); of an
            error (mae) what the interval must not pass.
        not_worse_than: Points of accuracy, or of CCC for numbers, that the judge may lose against the other one.

    Returns:
        The outcome, and each criterion with its figure.

    Raises:
        InputError: A case has no verdict (a server that is down neither passes a judge nor stops it), a case is in
            memory, or a criterion has no figure to be held against.
    """
    for name, one in (("", evaluation), ("of the other judge: ", evaluation.base)):
        if one is not None and one.unscored:
            first = next(case for case in one.cases if case.error)
            missing = f"{one.unscored} of {one.unscored + one.n} cases have no verdict"
            raise InputError(f"{name}{missing}, such as {first.id}: {(first.error or '').rstrip('. ')}. Run it again")
    if evaluation.seen:
        raise InputError(f"{evaluation.seen} cases are in the judge's memory; use unseen=True to leave them out")
    kind = ValueType.of(evaluation.value_type)
    criteria = []
    for name, least in (minimum or {}).items():
        metric = _metric(name, kind, evaluation.metrics)
        demand = f"{metric.replace('_', ' ')} {'at most' if metric in _ERRORS else 'at least'} {least:g}"
        figure, error = evaluation.metrics[metric], metric in _ERRORS
        criteria.append(_criterion(demand, figure, least, evaluation.n, less_is_better=error))
    if not_worse_than is not None:
        if (paired := evaluation.comparison) is None:
            raise InputError("not_worse_than needs a judge to compare with; evaluate with against=JUDGE")
        demand = f"{paired.metric.replace('_', ' ')} not worse than the other judge's by {not_worse_than:g} points"
        difference = paired.differences[paired.metric]
        criteria.append(_criterion(demand, difference, -not_worse_than / 100, paired.n, points=True))
    if not criteria:
        raise InputError("name at least one criterion: minimum={'accuracy': 0.8} or not_worse_than=5")
    order: tuple[Outcome, ...] = ("worse", "too few cases", "pass")
    outcome = min((criterion.outcome for criterion in criteria), key=order.index)
    return GateResult(judge=evaluation.judge, outcome=outcome, criteria=tuple(criteria), n=evaluation.n)


def junit_xml(result: GateResult) -> bytes:
    """The gate as JUnit XML, a test case for each criterion; one with too few cases is skipped."""
    outcomes = [criterion.outcome for criterion in result.criteria]
    failures, skipped = str(outcomes.count("worse")), str(outcomes.count("too few cases"))
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=f"memalign {result.judge}", tests=str(len(outcomes)),
                          failures=failures, errors="0", skipped=skipped)  # fmt: skip
    judge = f"memalign.{_plain(result.judge)}"
    for criterion in result.criteria:
        case = ET.SubElement(suite, "testcase", classname=judge, name=_plain(criterion.demand))
        if criterion.outcome == "worse":
            ET.SubElement(case, "failure", message=_plain(criterion.why), type=criterion.outcome)
        elif criterion.outcome == "too few cases":
            ET.SubElement(case, "skipped", message=_plain(criterion.why))
    ET.SubElement(suite, "system-out").text = _plain(str(result))
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _plain(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _metric(name: str, value_type: ValueType, metrics: Container[str]) -> str:
    metric = "weighted_kappa" if name == "kappa" and value_type.kind == "int" else name
    if metric not in metrics:
        raise InputError(f"{value_type.spec} has no {name!r}; it has {', '.join(metrics_of(value_type))}")
    return metric


def outcome_of(figure: Estimate, threshold: float, *, less_is_better: bool = False) -> Outcome:
    """Decide on which side of a threshold the whole interval of a figure lies."""
    if figure.low is None or figure.high is None:
        return "too few cases"
    sign = -1 if less_is_better else 1
    worst, best = sorted((sign * figure.low, sign * figure.high))
    return "pass" if worst >= sign * threshold else "worse" if best < sign * threshold else "too few cases"


def _criterion(
    demand: str, figure: Estimate, threshold: float, n: int, *, less_is_better: bool = False, points: bool = False
) -> Criterion:
    outcome = outcome_of(figure, threshold, less_is_better=less_is_better)
    why = _why(figure, threshold, n, outcome, points=points)
    return Criterion(demand=demand, outcome=outcome, why=why, figure=figure, threshold=threshold)


def _why(figure: Estimate, threshold: float, n: int, outcome: Outcome, *, points: bool = False) -> str:
    """The figure in words; with `points` it is a difference, and written in points."""
    if figure.value is None:
        return f"the {n} cases give no figure, because it needs both labels and varying verdicts"

    def number(value: float) -> str:
        return f"{100 * value:+.1f}" if points else f"{value:.2f}"

    text = f"{number(figure.value)} points" if points else number(figure.value)
    if figure.low is None or figure.high is None:
        return f"{text}, and no interval: {figure.no_interval or f'{n} cases give none'}"
    text = f"{text} [{number(figure.low)}, {number(figure.high)}], n = {n}"
    if outcome != "too few cases":
        return text
    away = abs(figure.value - threshold)
    half = max(figure.high - figure.value, figure.value - figure.low)
    more = math.inf if away == 0 else math.ceil(n * (half / away) ** 2) - n
    if more > _MOST_MORE:
        return f"{text}; the figure is so close to the criterion that more cases would hardly settle it"
    return f"{text}; about {max(more, 1):,} more cases would settle it, if the figure stays the same"
