"""How far fewer labels would have come: the calibrator, refitted on parts of what the memory was taught.

The memory keeps what the judge's model answered about each taught case, and so no model is asked. The guidelines and
their checks are those of all feedback: the curve tells what more labels do for the weights, and nothing of the words.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from memalign.evaluation.agreement import metrics_of
from memalign.evaluation.evaluated import ScoredCase
from memalign.evaluation.report_parts import CurvePoint, LearningCurve
from memalign.judge.calibrator import FEWEST, MOST_LABELS, fitting, known_of
from memalign.judge.checks import margins_of
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["learning_curve"]

_FIRST = 5
_DRAWS = 10


async def learning_curve(
    judge: Judge,
    cases: Sequence[ScoredCase],
    judgments: Mapping[str, Judgment],
    examples: Mapping[str, Example],
    *,
    metric: str,
) -> LearningCurve:
    """The `metric` of calibrators fitted on 5, 10, 20, … of the taught labels, on `cases` that nobody taught.

    `judgments` and `examples` are those of the cases, by id. Where it cannot be had, the curve says why.
    """
    if why := await _why_not(judge, judgments):
        return LearningCurve(why_not=why)
    fit, taught = await fitting(judge)
    scored = [case for case in cases if case.value is not None]
    said = [(judgments[case.id].own_value, margins_of(judgments[case.id].findings)) for case in scored]
    known = await known_of(judge, [examples[case.id] for case in scored], said)
    labels, statistic = [case.label for case in scored], metrics_of(judge.value_type)[metric]
    chance, points = random.Random(0), list[CurvePoint]()
    for count in _counts(len(taught)):
        drawn = [chance.sample(taught, count) for _ in range(_DRAWS)] if count < len(taught) else [taught]
        fitted = [made for part in drawn if (made := fit.of(part, measured=False)) is not None]
        figures = [statistic([made.says(each).value for each in known], labels) for made in fitted]
        if told := [each for each in figures if each is not None]:
            points.append(
                CurvePoint(labels=count, mean=statistics.fmean(told), least=min(told), most=max(told), draws=len(told))
            )
    own = [verdict for verdict, _ in said]
    return LearningCurve(points=tuple(points), own=None if None in own else statistic(own, labels))


def _counts(n: int) -> Iterator[int]:
    count = _FIRST
    while count < n:
        yield count
        count *= 2
    yield n


async def _why_not(judge: Judge, judgments: Mapping[str, Judgment]) -> str:
    """Why there is no curve, in words; empty where there is one."""
    kind = judge.value_type
    if not kind.closed or len(kind.labels) > MOST_LABELS:
        return f"{kind.spec} has no calibrator"
    if not judge.memory:
        return "the judge has learned from nothing"
    _, taught = await fitting(judge)
    if len(taught) < FEWEST:
        return f"its model's answers are kept for {len(taught)} labelled cases, and fitting takes {FEWEST}"
    if len({each.label for each in taught}) == 1:
        return "all cases that it was taught have one label"
    if not any(each.calibrated_value is not None for each in judgments.values()):
        return "no calibrator weighs its verdicts"
    return ""
