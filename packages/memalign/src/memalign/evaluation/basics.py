"""What plain sentences say of a judge: how often it gives each label, what one label would do, what it leans to."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memalign.evaluation.cases import ScoredCase, clusters, estimate, same_value
from memalign.evaluation.intervals import mean_interval, paired_interval
from memalign.metrics import Estimate
from memalign.values import Value, ValueType

__all__ = ["Basics", "Recall", "basics_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """How often the judge gives a label where people give it: on `given` of `n` cases."""

    label: Value
    n: int
    given: int


@dataclass(frozen=True, kw_only=True)
class Basics:
    """Figures that need no statistics to be read.

    Attributes:
        constant: The label that is right most often if it is always given; of floats the median.
        constant_share: How often it is right.
        recalls: For each label that people gave, the commonest first; empty where labels cannot be listed.
        leans_to: The label that the judge gives too often; None where it leans to none, and for scores.
        lean: How much more often it gives that label than people do, as a share; of scores its mean error in the units
            of the score, above 0 where it is too high. With its interval at 95 %.
        said: How often the judge gives the label `leans_to`.
        meant: How often people do.
    """

    constant: Value | None = None
    constant_share: float | None = None
    recalls: tuple[Recall, ...] = ()
    leans_to: Value | None = None
    lean: Estimate = Estimate(value=None)  # noqa: RUF009  # frozen
    said: int = 0
    meant: int = 0


def basics_of(kind: ValueType, cases: Sequence[ScoredCase]) -> Basics:
    """Compute the plain figures of cases that have a verdict.

    Args:
        kind: The judge's value type.
        cases: Cases with a label; those without a verdict are left out.
    """
    scored = [case for case in cases if case.value is not None]
    if not scored or kind.kind == "str":
        return Basics()
    constant, share = _constant(kind, [case.label for case in scored])
    if kind.numeric:
        return Basics(constant=constant, constant_share=share, lean=_mean_error(scored))
    label, lean = _lean(scored)
    return Basics(
        constant=constant,
        constant_share=share,
        recalls=_recalls(scored),
        leans_to=label,
        lean=lean,
        said=sum(case.value == label for case in scored),
        meant=sum(case.label == label for case in scored),
    )


def _constant(kind: ValueType, labels: Sequence[Value]) -> tuple[Value, float]:
    """Return the label that is right most often if it is always given, and how often that is."""
    best: Value = Counter(labels).most_common(1)[0][0]
    if kind.kind == "float":
        best = statistics.median(float(label) for label in labels)
    right = sum(same_value(best, label, kind.tolerance) for label in labels)
    return best, right / len(labels)


def _recalls(cases: Sequence[ScoredCase]) -> tuple[Recall, ...]:
    recalls = []
    for label, n in Counter(case.label for case in cases).most_common():
        given = sum(bool(case.correct) for case in cases if case.label == label)
        recalls.append(Recall(label=label, n=n, given=given))
    return tuple(recalls)


def _lean(cases: Sequence[ScoredCase]) -> tuple[Value | None, Estimate]:
    """Return the label that the judge gives too often, and by how much; None where that may be chance."""
    said = Counter(case.value for case in cases if case.value is not None)
    meant = Counter(case.label for case in cases)
    label = max(said, key=lambda value: said[value] - meant[value])
    changes = [(case.value == label) - (case.label == label) for case in cases]
    groups = clusters(cases)
    lean = estimate(sum(changes) / len(cases), groups, lambda: paired_interval(changes, groups))
    return (label if lean.low is not None and lean.low > 0 else None), lean


def _mean_error(cases: Sequence[ScoredCase]) -> Estimate:
    errors = [float(case.value or 0) - float(case.label) for case in cases]
    groups = clusters(cases)
    return estimate(sum(errors) / len(errors), groups, lambda: mean_interval(errors, groups))
