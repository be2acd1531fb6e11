"""What each guideline weighs in a judge's verdicts: its questions' coefficients, and how far they move a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from memalign.errors import ConfigurationError
from memalign.judge import Judge
from memalign.judge.calibrator import FEWEST, MOST_LABELS, calibrates, fit_calibrator, fitting
from memalign.judge.open_model import open_model
from memalign.types import Guideline

__all__ = ["Weight", "Weights", "points", "weights_of"]

Why = Literal["not in force", "no question", "not asked", "too few", "no answers", "not weighed"]


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A guideline's `coefficient`: what a usual answer to its questions adds, of labels in log-odds, of a float in points.

    None with the reason `why`. One below 0 counts against what the guideline says.
    """

    coefficient: float | None = None
    why: Why | None = None


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of guidelines by their ids. `decides`: the verdict is what they add up to, not the model's own.

    Where they are not `fitted`, too few cases are labelled, and all questions count the same.
    """

    by_id: Mapping[str, Weight] = field(default_factory=dict)
    fitted: bool = False
    decides: bool = False


def points(log_odds: float) -> float:
    """How far so much log-odds moves a verdict of even chances, in points of a hundred."""
    return 100 * abs(1 / (1 + math.exp(-log_odds)) - 0.5)


async def weights_of(judge: Judge) -> Weights:
    """The weights of every guideline; of hundreds of labelled cases they take a second, once."""
    guidelines = judge.memory.guidelines
    why = _nothing_weighed(judge)
    calibrator = await fit_calibrator(judge) if why is None else None
    if calibrator is None:
        by_id = {each.id: Weight(why=_silent(each) or why or "no answers") for each in guidelines}
        return Weights(by_id=by_id)
    _, taught = await fitting(judge)
    columns = calibrator.columns
    size = dict(zip(columns.questions, calibrator.weights[columns.of_checks], strict=True))
    found: dict[str, Weight] = {}
    for each in guidelines:
        asked = [float(size[check.question]) for check in each.checks if check.question in size]
        silent = _silent(each) or (None if asked else "not asked")
        found[each.id] = Weight(why=silent) if silent is not None else Weight(coefficient=sum(asked))
    several = len(taught) >= FEWEST and len({each.label for each in taught}) > 1
    return Weights(by_id=found, fitted=several, decides=calibrator.worth.decides)


def _nothing_weighed(judge: Judge) -> Why | None:
    kind, memory = judge.value_type, judge.memory
    if not kind.closed or len(kind.labels) > MOST_LABELS or judge.parameters.get("calibrate") is False:
        return "not weighed"
    try:
        if calibrates(judge, open_model(judge).limits):
            return None
    except ConfigurationError:  # no key here: nothing says how strong the model is
        return "no answers"
    return "too few" if sum(memory.label(case) is not None for case in memory.cases) < FEWEST else "no answers"


def _silent(guideline: Guideline) -> Why | None:
    if guideline.status in ("retired", "superseded"):
        return "not in force"
    return None if guideline.checks else "no question"
