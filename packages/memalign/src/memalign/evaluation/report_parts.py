"""What stands in a report: plain values, which report_data gathers and report_page writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.evaluation.evaluated import Evaluation
from memalign.metrics import Estimate

__all__ = [
    "Calibration",
    "CurvePoint",
    "GuidelineUse",
    "LearningCurve",
    "People",
    "Report",
    "ReportedCase",
    "Share",
    "Side",
    "Slice",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A way to give verdicts, its figures, and the judge's figure less its own on the same cases (None for the judge).

    `on` is the metric of `ahead` and `verdict`: CCC for numbers, else exact match.
    """

    name: str
    metrics: dict[str, Estimate]
    ahead: Estimate | None = None
    verdict: str = ""
    on: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """How far annotators agree with each other: the ceiling. `pairs` of labels on `cases` that two or more labelled."""

    cases: int
    pairs: int
    same: Estimate
    alpha: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Part of the cases, and the share of them that the judge gets right; of `float` labels the mean error."""

    of: str
    name: str
    n: int
    found: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Whether confidence is true: for each bin its mean confidence, the share right and the number of cases.

    `error` is the expected calibration error, the mean distance of the two, weighed by cases.
    """

    bins: tuple[tuple[float, float, int], ...]
    error: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """What calibrators reach that were fitted on so many labels, in `draws` drawings of them: mean, least and most."""

    labels: int
    mean: float
    least: float
    most: float
    draws: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningCurve:
    """What fewer labels would have come to, in the report's headline metric, and why that cannot be had where it cannot.

    `own` is the figure of the model's own verdicts on the same cases, for which no weight is fitted.
    """

    points: tuple[CurvePoint, ...] = ()
    own: float | None = None
    why_not: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuidelineUse:
    """What one guideline did: on how many cases its checks spoke `yes` or `no`, and which way they pulled.

    `right` and `wrong` count cases where its contribution pulled towards the people's label, or away from it. `fixed`
    and `broken` are cases that the judge without memory got wrong, or right, and where this guideline weighed most. A
    score of `float` is right when it is near the label.
    """

    id: str
    text: str
    taught_by: tuple[str, ...]
    yes: int
    no: int
    right: int
    wrong: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How often people would give a label in the whole population of `n` cases, and how often the judge does."""

    label: str
    people: Estimate
    judge: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedCase:
    """A case as a reader needs it: what was judged, both verdicts, and the reasons."""

    id: str
    label: str
    value: str
    correct: bool | None
    content: dict[str, str]
    rationale: str
    people: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that is known of a judge's agreement with people on cases that it has not learned from.

    `sides` has the judge first, then what it is compared with, on the same cases. `more` is how many labels more would
    bring the interval of the `headline` metric to 5 points either way; 0 where it is there. `seconds` are the median of
    a judgment, and `dollars` its mean; None where they are not known. `taught` cases of the file are in one's memory and were left out.
    """

    judge: str
    model: str
    instructions: str
    headline: str
    taught: int
    evaluation: Evaluation
    sides: tuple[Side, ...]
    people: People | None
    slices: tuple[Slice, ...]
    calibration: Calibration | None
    curve: LearningCurve
    guidelines: tuple[GuidelineUse, ...]
    shares: tuple[Share, ...]
    cases: tuple[ReportedCase, ...]
    more: int | None
    seconds: float | None
    dollars: float | None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
