"""An evaluation in plain sentences, which the command, Python and the report say alike."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from memalign.evaluation.cases import (
    Cases,
    clusters,
    labels,
    verdicts,
    with_verdict,
)
from memalign.evaluation.intervals import estimate_mean, mean_interval, paired_interval
from memalign.evaluation.wording import percent, say
from memalign.metrics import Estimate, wilson_interval
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation

__all__ = [
    "PASSING",
    "fewest",
    "half_width",
    "labels_for",
    "passing_rows",
    "plan_of",
    "sentences_of",
    "table_of",
]

PASSING = ("verdict", "confidence from", "passes", "people agree", "left for people")
"""The head of the table of what may pass without a person."""

_NAMED = 4  # labels in a sentence
_LISTED_IDS = 10
_MOST = 1_000_000  # labels in a plan


def sentences_of(evaluation: Evaluation) -> list[str]:
    """Say the figures of an evaluation in plain sentences, the traffic and the promise included."""
    lines = _agreement(evaluation)
    for traffic in evaluation.traffic:
        where = ""
        if traffic.system:
            where = f"{traffic.system}: "
        for line in say("traffic", one=traffic):
            lines.append(where + line)
    if evaluation.promise is not None:
        lines += say("promise", one=evaluation.promise)
    if evaluation.repeated is not None:
        lines += say("repeated", one=evaluation.repeated)
    return lines


def table_of(evaluation: Evaluation) -> list[str]:
    """Write the figures of an evaluation, one on a line."""
    one = evaluation
    names = [value_text(label) for label in one.labels]
    said: dict[str, list[str]] = {}
    for name, counts in zip(names, one.confusion, strict=True):
        pairs = zip(counts, names, strict=True)
        words = []
        for count, verdict in pairs:
            if count:
                words.append(f"{count} {verdict}")
        if words:
            said[name] = words
    total = one.n + one.unscored + one.unlabelled
    return say(
        "table",
        one=one,
        total=total,
        named=_LISTED_IDS,
        said=said,
    )


def passing_rows(evaluation: Evaluation) -> list[list[str | Estimate]]:
    """Return the rows of the table of what may pass without a person; the agreement is a figure."""
    rows: list[list[str | Estimate]] = []
    for step in evaluation.thresholds:
        row: list[str | Estimate] = [
            step.label or "any",
            f"{step.at:g}",
            percent(step.share),
            step.agreement,
            percent(1 - step.share),
        ]
        rows.append(row)
    return rows


# -- agreement ------------------------------------------------------------------------------------


class Lean(NamedTuple):
    """A label, how often the judge gives it, and how often people do."""

    label: Value | None
    said: int
    meant: int


def _agreement(evaluation: Evaluation) -> list[str]:
    cases = with_verdict(evaluation.cases)
    kind = ValueType.of(evaluation.value_type)
    facts: dict[str, Any] = {}
    if cases and kind.closed:
        facts["constant"], facts["share"] = constant_label(kind, cases)
        if kind.numeric:
            facts["error"] = mean_error(cases)
        else:
            facts["recalls"] = recalls(cases)
            facts["lean"] = lean(cases)
    accuracy = evaluation.metrics["accuracy"]
    return say("agreement", n=len(cases), accuracy=accuracy, **facts)


def constant_label(kind: ValueType, cases: Cases) -> tuple[Value, float]:
    """Return the label that is right most often if it is always given, and how often that is.

    Args:
        kind: What the judge answers; of floats the label is the median.
        cases: Labelled cases.
    """
    meant = labels(cases)
    if kind.kind == "float":
        constant: Value = statistics.median_high(meant)
    else:
        constant = statistics.mode(meant)
    right = [kind.agree(constant, label) for label in meant]
    return constant, statistics.fmean(right)


def recalls(cases: Cases) -> list[tuple[Value, int, float]]:
    """Return the commonest labels, the number of their cases, and the share that the judge gives.

    Args:
        cases: Cases with a verdict.
    """
    meant = Counter(labels(cases))
    right = [case for case in cases if case.correct]
    given = Counter(labels(right))
    found = []
    for label, n in meant.most_common(_NAMED):
        share = given[label] / n
        found.append((label, n, share))
    return found


def lean(cases: Cases) -> Lean | None:
    """Return the label that the judge gives too often; None where chance may explain it.

    Args:
        cases: Cases with a verdict.
    """
    said = Counter(verdicts(cases))
    meant: Counter[Value | None] = Counter(labels(cases))
    more = said.copy()
    more.subtract(meant)
    label, _ = more.most_common(1)[0]
    changes = []
    for case in cases:
        by_judge = case.value == label
        by_people = case.label == label
        change = by_judge - by_people
        changes.append(change)
    mean = estimate_mean(changes, clusters(cases), paired_interval)
    if mean.low is None or mean.low <= 0:
        return None
    return Lean(label, said=said[label], meant=meant[label])


def mean_error(cases: Cases) -> Estimate:
    """Return how far scores are above people's on average, in units of the score.

    Args:
        cases: Cases with a verdict.
    """
    errors = [case.difference for case in cases]
    return estimate_mean(errors, clusters(cases), mean_interval)


# -- how many labels ------------------------------------------------------------------------------


def plan_of(evaluation: Evaluation) -> list[str]:
    """Say what more labels would show."""
    n = evaluation.n
    accuracy = evaluation.metrics["accuracy"]
    share = accuracy.value
    if share is None or accuracy.low is None or accuracy.high is None:
        return say("plan", n=n, half=None, goals={})
    half = (accuracy.high - accuracy.low) / 2
    # Above 1 where cases belong together.
    wider = half / half_width(share, n)
    worth = wider**2
    goals = {"half of that": half / 2, "±5 points": 0.05, "±3 points": 0.03}
    more = {}
    for words, goal in goals.items():
        needed = worth * labels_for(share, goal)
        more[words] = round(needed) - n
    return say("plan", n=n, half=half, goals=more)


def half_width(share: float, n: int) -> float:
    """Return half of Wilson's interval of a share, as a share: 0.06 for 0.9 of 100 cases."""
    interval = wilson_interval(share * n, n)
    if interval is None:
        return 0.5
    low, high = interval
    return (high - low) / 2


def labels_for(share: float, half: float) -> int:
    """Return the fewest labels from which on a share is known to so much on either side."""
    return fewest(lambda n: half_width(share, n) <= half)


def fewest(holds: Callable[[int], bool]) -> int:
    """Return the fewest cases, from 2 to a million, from which on something holds."""
    return bisect_left(range(_MOST), True, lo=2, key=holds)
