"""A gate: whether a judge is good enough to release, decided on cases that nobody taught it.

A criterion passes when the whole interval of its figure lies on the good side, and the judge is
worse when all of it lies on the bad side. Between the two there are too few cases to tell. At 95 %
a judge at the very edge is passed, or stopped, about once in twenty times at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from memalign.errors import InputError
from memalign.evaluation.agreement import METRICS, Evaluation
from memalign.evaluation.wording import say
from memalign.metrics import Estimate
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = [
    "Criterion",
    "GateResult",
    "Outcome",
    "check_criteria",
    "gate",
    "junit_xml",
    "outcome_of",
]

Outcome = Literal["pass", "worse", "too few cases"]

_FIRST: tuple[Outcome, ...] = ("worse", "too few cases", "pass")
"""The first of these that a criterion says is the gate's."""

_ONE = (
    "name at least one criterion, such as --min-accuracy 0.8 or --not-worse-than 5; "
    "in Python, minimum={'accuracy': 0.8} or not_worse_than=5"
)
_OTHER = (
    "--not-worse-than needs a judge to compare with: --against N or --against zero-shot; "
    "in Python, evaluate with against=JUDGE"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """A criterion such as `kappa at least 0.6`, its outcome, and the figure that decided it.

    `why` is the figure in words.
    """

    demand: str
    outcome: Outcome
    why: str
    figure: Estimate


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What a gate decided.

    It is "worse" when one criterion says so, else "too few cases" when one does, else "pass".
    """

    judge: str
    outcome: Outcome
    criteria: tuple[Criterion, ...]
    n: int

    def __str__(self) -> str:
        lines = [f"{self.judge}: {self.outcome}, on {self.n} unseen cases"]
        for one in self.criteria:
            lines.append(f"{one.outcome}: {one.demand}: {one.why}")
        return "\n".join(lines)


def check_criteria(
    judge: Judge,
    *,
    minimum: Mapping[str, float],
    not_worse_than: float | None = None,
    against: bool = False,
) -> None:
    """Refuse criteria that no judge could meet, before a model is asked.

    Args:
        judge: The judge that is to be measured.
        minimum: As in `gate`.
        not_worse_than: As in `gate`.
        against: Whether the judge is compared with another.

    Raises:
        InputError: There is no criterion, a metric is unknown, or a number is impossible.
    """
    if not minimum and not_worse_than is None:
        raise InputError(_ONE)
    if not_worse_than is not None:
        if not against:
            raise InputError(_OTHER)
        if not 0 <= not_worse_than < 100:
            raise InputError(
                "--not-worse-than is a number of points from 0 to less than 100, "
                f"not {not_worse_than:g}"
            )
    for metric, least in minimum.items():
        _metric(metric, judge.value_type)
        if not -1 <= least <= 1:  # NaN included
            raise InputError(
                f"{metric} is at most 1, so it can never reach {least:g}; "
                "write 0.8 instead of 80"
            )


def gate(
    evaluation: Evaluation,
    *,
    minimum: Mapping[str, float] | None = None,
    not_worse_than: float | None = None,
) -> GateResult:
    """Decide whether a judge passes. Nothing is asked: the evaluation has all that is needed.

    Args:
        evaluation: The result of `evaluate(judge, labelled)`; with `against` for `not_worse_than`.
        minimum: What the interval of a metric must reach, such as `{"kappa": 0.6}` (of `int` the
            weighted kappa).
        not_worse_than: Points of accuracy that the judge may lose against the other one.

    Returns:
        The outcome, and each criterion with its figure.

    Raises:
        InputError: A case has no verdict (a server that is down neither passes a judge nor stops
            it), or there is no criterion.
    """
    for side in evaluation.sides:
        _need_verdicts(side, "" if side is evaluation else "of the other judge: ")
    kind = ValueType.of(evaluation.value_type)
    criteria = []
    for name, least in (minimum or {}).items():
        metric = _metric(name, kind)
        demand = f"{metric.replace('_', ' ')} at least {least:g}"
        figure = evaluation.metrics[metric]
        criteria.append(_criterion(demand, figure, least, evaluation.n))
    if not_worse_than is not None:
        paired = evaluation.comparison
        if paired is None:
            raise InputError(_OTHER)
        points = f"{not_worse_than:g} points"
        demand = f"accuracy not worse than the other judge's by {points}"
        least = -not_worse_than / 100
        criteria.append(_criterion(demand, paired.difference, least, paired.n, "+.2f"))
    if not criteria:
        raise InputError(_ONE)
    return GateResult(
        judge=evaluation.judge,
        outcome=min((one.outcome for one in criteria), key=_FIRST.index),
        criteria=tuple(criteria),
        n=evaluation.n,
    )


def _need_verdicts(side: Evaluation, whose: str) -> None:
    """Refuse an evaluation in which a case has no verdict."""
    failed = [case for case in side.cases if case.error]
    if failed:
        error = (failed[0].error or "").rstrip(". ")
        raise InputError(
            f"{whose}{len(failed)} of {len(side.cases)} cases have no verdict, "
            f"such as {failed[0].id}: {error}. Run it again"
        )


def junit_xml(result: GateResult) -> bytes:
    """Write the gate as JUnit XML, a test case for each criterion; too few cases skip it.

    Args:
        result: What `gate` decided.
    """
    title = f"memalign {result.judge}"
    kinds: dict[Outcome, str] = {"worse": "failure", "too few cases": "skipped"}
    outcomes = [one.outcome for one in result.criteria]
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name=title,
        tests=str(len(outcomes)),
        errors="0",
        failures=str(outcomes.count("worse")),
        skipped=str(outcomes.count("too few cases")),
    )
    for one in result.criteria:
        case = ET.SubElement(suite, "testcase", classname=title, name=one.demand)
        kind = kinds.get(one.outcome)
        if kind is not None:
            ET.SubElement(case, kind, message=one.why)
    ET.SubElement(suite, "system-out").text = str(result)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def outcome_of(figure: Estimate, threshold: float) -> Outcome:
    """Decide on which side of a threshold the whole interval of a figure lies."""
    if figure.low is not None and figure.low >= threshold:
        return "pass"
    if figure.high is not None and figure.high < threshold:
        return "worse"
    return "too few cases"


def _metric(name: str, kind: ValueType) -> str:
    """Return the full name of a metric of a value type."""
    metrics = ["accuracy"]
    if kind.kind in METRICS:
        metrics.append(METRICS[kind.kind][0])
    metric = name
    if name == "kappa" and kind.kind == "int":
        metric = "weighted_kappa"
    if metric not in metrics:
        raise InputError(f"{kind.spec} has no {name!r}; it has {' and '.join(metrics)}")
    return metric


def _criterion(
    demand: str, figure: Estimate, threshold: float, n: int, form: str = ".2f"
) -> Criterion:
    """Decide a criterion, and say why with the figure in this form."""
    outcome = outcome_of(figure, threshold)
    more = None
    if outcome == "too few cases":
        more = _missing(figure, threshold, n)
    why = say("criterion", figure=figure, n=n, form=form, more=more)
    return Criterion(demand=demand, outcome=outcome, why=why[0], figure=figure)


def _missing(figure: Estimate, threshold: float, n: int) -> int | None:
    """Return how many more cases would settle it, if the figure stays the same."""
    if figure.value is None or figure.low is None or figure.high is None:
        return None
    apart = figure.value - threshold
    if apart == 0:
        return None
    over = figure.high - figure.value
    under = figure.value - figure.low
    times = max(over, under) / apart
    needed = math.ceil(n * times**2)
    return max(needed - n, 1)
