"""A gate: whether a judge is good enough to release, decided on cases that nobody taught it.

A criterion passes when the whole interval of its figure lies on the good side, and the judge is worse when all of it
lies on the bad side. Between the two there are too few cases to tell. At 95 % a judge at the very edge is passed, or
stopped, about once in twenty times at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from memalign.errors import InputError
from memalign.evaluation.agreement import METRICS, Evaluation
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
_ORDER: tuple[Outcome, ...] = (
    "worse",
    "too few cases",
    "pass",
)  # the first that a criterion says is the gate's


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One criterion, such as `kappa at least 0.6`, the outcome, and the figure that decided it, also in words."""

    demand: str
    outcome: Outcome
    why: str
    figure: Estimate


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What a gate decided: "worse" when one criterion says so, else "too few cases" when one does, else "pass"."""

    judge: str
    outcome: Outcome
    criteria: tuple[Criterion, ...]
    n: int

    def __str__(self) -> str:
        lines = [f"{self.judge}: {self.outcome}, on {self.n} unseen cases"]
        lines += [
            f"{criterion.outcome}: {criterion.demand}: {criterion.why}"
            for criterion in self.criteria
        ]
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
        raise InputError(
            "name at least one criterion, such as --min-accuracy 0.8 or --not-worse-than 5"
        )
    if not_worse_than is not None:
        if not against:
            raise InputError(
                "--not-worse-than needs a judge to compare with: --against N or --against zero-shot"
            )
        if not 0 <= not_worse_than < 100:
            raise InputError(
                f"--not-worse-than is a number of points from 0 to less than 100, not {not_worse_than:g}"
            )
    for metric, least in minimum.items():
        _metric(metric, judge.value_type)
        if not -1 <= least <= 1:  # NaN included
            raise InputError(
                f"{metric} is at most 1, so it can never reach {least:g}; write 0.8 instead of 80"
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
        minimum: What the interval of a metric must reach, such as `{"kappa": 0.6}` (of `int` the weighted kappa).
        not_worse_than: Points of accuracy that the judge may lose against the other one.

    Returns:
        The outcome, and each criterion with its figure.

    Raises:
        InputError: A case has no verdict (a server that is down neither passes a judge nor stops it), or there
            is no criterion.
    """
    for name, side in (("", evaluation), ("of the other judge: ", evaluation.base)):
        if side is not None and side.unscored:
            first = next(case for case in side.cases if case.error)
            missing = f"{side.unscored} of {side.unscored + side.n} cases have no verdict"
            raise InputError(
                f"{name}{missing}, such as {first.id}: {(first.error or '').rstrip('. ')}. Run it again"
            )
    criteria = []
    for name, least in (minimum or {}).items():
        metric = _metric(name, ValueType.of(evaluation.value_type))
        demand = f"{metric.replace('_', ' ')} at least {least:g}"
        criteria.append(_criterion(demand, evaluation.metrics[metric], least, evaluation.n))
    if not_worse_than is not None:
        if (paired := evaluation.comparison) is None:
            raise InputError(
                "not_worse_than needs a judge to compare with; evaluate with against=JUDGE"
            )
        demand = f"accuracy not worse than the other judge's by {not_worse_than:g} points"
        criteria.append(
            _criterion(demand, paired.difference, -not_worse_than / 100, paired.n, "+.2f")
        )
    if not criteria:
        raise InputError(
            "name at least one criterion: minimum={'accuracy': 0.8} or not_worse_than=5"
        )
    outcome = min((criterion.outcome for criterion in criteria), key=_ORDER.index)
    return GateResult(
        judge=evaluation.judge, outcome=outcome, criteria=tuple(criteria), n=evaluation.n
    )


def junit_xml(result: GateResult) -> bytes:
    """The gate as JUnit XML, a test case for each criterion; one with too few cases is skipped."""
    outcomes = [criterion.outcome for criterion in result.criteria]
    failures, skipped = str(outcomes.count("worse")), str(outcomes.count("too few cases"))
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=f"memalign {result.judge}", tests=str(len(outcomes)),
                          failures=failures, errors="0", skipped=skipped)  # fmt: skip
    for criterion in result.criteria:
        case = ET.SubElement(
            suite, "testcase", classname=f"memalign.{result.judge}", name=criterion.demand
        )
        if criterion.outcome != "pass":
            kind = "failure" if criterion.outcome == "worse" else "skipped"
            ET.SubElement(case, kind, message=criterion.why)
    ET.SubElement(suite, "system-out").text = str(result)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _metric(name: str, value_type: ValueType) -> str:
    metrics = ("accuracy", *METRICS.get(value_type.kind, ())[:1])
    metric = "weighted_kappa" if name == "kappa" and value_type.kind == "int" else name
    if metric not in metrics:
        raise InputError(f"{value_type.spec} has no {name!r}; it has {' and '.join(metrics)}")
    return metric


def outcome_of(figure: Estimate, threshold: float) -> Outcome:
    """Decide on which side of a threshold the whole interval of a figure lies."""
    if figure.low is None or figure.high is None:
        return "too few cases"
    return (
        "pass"
        if figure.low >= threshold
        else "worse"
        if figure.high < threshold
        else "too few cases"
    )


def _criterion(
    demand: str, figure: Estimate, threshold: float, n: int, form: str = ".2f"
) -> Criterion:
    """A criterion decided, with the figure in this form."""
    outcome = outcome_of(figure, threshold)
    why = f"{figure:{form}}, n = {n}"
    if figure.value is None:
        why = f"the {n} cases give no figure, because it needs both labels and varying verdicts"
    elif figure.low is None or figure.high is None:
        why += f", and no interval: {figure.no_interval or 'the cases give none'}"
    elif outcome == "too few cases" and figure.value != threshold:
        half = max(figure.high - figure.value, figure.value - figure.low)
        more = max(math.ceil(n * (half / (figure.value - threshold)) ** 2) - n, 1)
        why += f"; about {more:,} more case{'' if more == 1 else 's'} would settle it, if the figure stays the same"
    return Criterion(demand=demand, outcome=outcome, why=why, figure=figure)
