"""The share of each label in real traffic: the judge's own share, corrected by its errors on labelled cases.

The point is that of prediction-powered inference with a power-tuned weight (Angelopoulos, Duchi and
Zrnic 2023, PPI++), which for a verdict of two values is the post-stratified share. Its interval is put
together from Wilson's intervals of the two strata (Zou and Donner 2008), because a normal one fails at
thirty labels; benchmarks/coverage.py has tried it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memalign.evaluation.cases import FEWEST_GROUPS, ScoredCase, clusters, estimate
from memalign.evaluation.intervals import mean_interval, share_interval
from memalign.metrics import Estimate, student_t
from memalign.values import Value, ValueType, value_text

__all__ = ["Share", "Traffic", "corrected_mean", "corrected_share", "refusal", "traffic_of"]

_FEWEST_LABELS = 20
_FEWEST_VERDICTS = (
    3  # labelled cases on either side, so that the judge's errors there can be measured
)

_CHANCE = 1.07
"""The chi-square that chance alone exceeds in three of ten samples. A stricter test would keep only
lucky samples, whose intervals then cover too rarely."""

_ALL_TOGETHER = 4.0
"""Groups that are added in which all cases go together: ten groups show little of how far they do."""

_LEVEL = 0.95
_LISTED = 12  # labels: of more, those that the judge gives most

Numbers = Sequence[float]
Groups = Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of one label in the traffic, or the mean of a score. Intervals are at 95 %.

    Attributes:
        label: The label in words; `mean` for the mean of a score.
        judge: As the judge says it, over all rows of the traffic.
        corrected: Corrected for the judge's errors; without a value where that is refused.
        people: As people say it, on the labelled cases alone.
        refused: Why there is no correction; empty where there is one.
    """

    label: str
    judge: float
    corrected: Estimate
    people: Estimate
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a judge's verdicts on unlabelled rows are worth, in the light of its errors on labelled ones.

    Attributes:
        system: The system or week that the rows name in their column `system`, or None.
        labelled: How many labelled cases the correction rests on.
        judged: How many rows of traffic have a verdict, labelled ones among them included.
        unscored: How many have none, because the call failed.
        taught: How many were left out, because the judge was taught them.
        shares: A share for each label, or one for the mean.
        warnings: What speaks against the correction.
    """

    system: str | None = None
    labelled: int
    judged: int
    unscored: int = 0
    taught: int = 0
    shares: tuple[Share, ...]
    warnings: tuple[str, ...] = ()


def traffic_of(
    kind: ValueType,
    cases: Sequence[ScoredCase],
    rows: Sequence[ScoredCase],
    taught: int = 0,
) -> tuple[Traffic, ...]:
    """Correct the judge's shares of traffic by its errors on labelled cases.

    Rows of several systems are corrected one by one, each by labelled cases of its own: a correction
    that is shared can turn the sign of a comparison (arXiv 2605.06939).

    Args:
        kind: The judge's value type.
        cases: Labelled cases, drawn at random from the same traffic; they may be among the rows.
        rows: The judged traffic; its labels are not read.
        taught: How many more rows the judge was taught.

    Returns:
        One result for each system, or one for all rows.
    """
    systems = list(dict.fromkeys(row.system for row in rows))
    results = []
    for system in systems:
        mine = [row for row in rows if row.system == system]
        own = cases
        if len(systems) > 1:
            own = [case for case in cases if case.system == system]
        results.append(_traffic(kind, own, mine, system, taught))
    return tuple(results)


def _traffic(
    kind: ValueType,
    cases: Sequence[ScoredCase],
    rows: Sequence[ScoredCase],
    system: str | None,
    taught: int,
) -> Traffic:
    scored = [case for case in cases if case.value is not None]
    judged = [row for row in rows if row.value is not None]
    labels: Sequence[Value | None] = ()
    if kind.numeric:
        labels = (None,)
    elif judged:
        labels = kind.labels[:1] if kind.kind == "bool" else kind.labels
        if len(labels) > _LISTED:
            labels = [
                label for label, _ in Counter(row.value for row in judged).most_common(_LISTED)
            ]
    warnings = [] if labels else ["free text has no shares"]
    theirs = sorted({case.system or "no system" for case in scored})
    if scored and theirs != [system or "no system"]:
        named = ", ".join(theirs)
        warnings.append(
            f"labelled cases come from {named}, and the judged rows from {system or 'no system'}"
        )
    return Traffic(
        system=system,
        labelled=len(scored),
        judged=len(judged),
        unscored=len(rows) - len(judged),
        taught=taught,
        shares=tuple(_share(kind, label, scored, judged, warnings) for label in labels),
        warnings=tuple(warnings),
    )


def _share(
    kind: ValueType,
    label: Value | None,
    cases: Sequence[ScoredCase],
    judged: Sequence[ScoredCase],
    warnings: list[str],
) -> Share:
    """Correct the share of one label, or the mean without one; add to the warnings."""

    def number(value: Any) -> float:
        return float(value) if label is None else float(value == label)

    ids = {case.id for case in cases}
    others = [row for row in judged if row.id not in ids]
    truth = [number(case.label) for case in cases]
    verdicts = [number(case.value) for case in cases]
    rest = [number(row.value) for row in others]
    groups = clusters(cases)
    interval = mean_interval if label is None else share_interval
    people = estimate(
        sum(truth) / len(truth) if truth else None,
        groups,
        lambda: interval(truth, groups),
    )
    name = "mean" if label is None else value_text(label)
    refused = refusal(truth, verdicts, groups)
    corrected = Estimate(value=None)
    if not refused:
        correct = corrected_mean if label is None else corrected_share
        corrected = _on_scale(kind, correct(truth, verdicts, rest, groups, clusters(others)))
        warnings += _not_at_random(name, verdicts, rest)
    own = [number(row.value) for row in judged]
    return Share(
        label=name,
        judge=sum(own) / len(own) if own else math.nan,
        corrected=corrected,
        people=people,
        refused=refused,
    )


def _on_scale(kind: ValueType, figure: Estimate) -> Estimate:
    """Keep the mean of a score and its interval between the bounds of the scale."""
    if not kind.numeric:
        return figure
    ends = np.clip(
        [figure.value or 0.0, figure.low or 0.0, figure.high or 0.0], kind.low, kind.high
    )
    return Estimate(value=float(ends[0]), low=float(ends[1]), high=float(ends[2]))


def _not_at_random(name: str, labelled: Numbers, others: Numbers) -> list[str]:
    """Warn where verdicts on labelled and other rows differ by more than three standard errors."""
    if not others:
        return []
    one, other = np.array(labelled), np.array(others)
    error = math.sqrt(one.var() / len(one) + other.var() / len(other))
    spread = float(np.concatenate([one, other]).std())
    apart = abs(float(one.mean() - other.mean()))
    if apart <= max(3 * error, spread / 5):
        return []
    return [
        f"by the judge's verdicts, {name} is {one.mean():.2f} of labelled and {other.mean():.2f} of other rows, "
        "so the labelled ones do not look drawn at random"
    ]


def refusal(labels: Numbers, verdicts: Numbers, groups: Groups = None) -> str:
    """Say why verdicts cannot be corrected by these labels; empty if they can.

    Args:
        labels: People's labels as numbers, 0 or 1 for a share.
        verdicts: The judge's on the same cases.
        groups: The group of each case, where cases belong together.
    """
    n = len(labels)
    if n < _FEWEST_LABELS:
        return f"it takes {_FEWEST_LABELS} labelled cases, and {n} count here"
    if groups is not None and len(set(groups)) < FEWEST_GROUPS:
        few = len(set(groups))
        return f"it takes {FEWEST_GROUPS} groups of labelled cases, and there are {few}"
    commonest = max(verdicts.count(value) for value in set(verdicts))
    if n - commonest < _FEWEST_VERDICTS:
        same = f"the judge says the same of {commonest} of {n} labelled cases"
        return f"{same}, so its errors cannot be measured"
    if np.std(labels) == 0 or n * np.corrcoef(labels, verdicts)[0, 1] ** 2 < _CHANCE:
        return f"the judge's verdicts go with people's labels no more than by chance, on {n} cases"
    return ""


def corrected_share(
    labels: Numbers,
    verdicts: Numbers,
    others: Numbers,
    groups: Groups = None,
    other_groups: Groups = None,
) -> Estimate:
    """Estimate a label's share in traffic of which the judge has seen all and people a part.

    The labelled cases must be drawn at random from the same traffic.

    Args:
        labels: 1 where people give the label, else 0, for each labelled case.
        verdicts: 1 where the judge gives it, for the same cases.
        others: 1 where the judge gives it, for each row without a label.
        groups: The group of each labelled case; None where all are independent.
        other_groups: The group of each other row.

    Returns:
        The share in [0, 1] with its interval at 95 %.
    """
    y = np.array(labels, dtype=float)
    said = np.array(verdicts, dtype=bool)
    every = np.concatenate([said, np.array(others, dtype=bool)]).astype(float)
    weight = float(every.mean())
    inside = float(y[said].mean() if said.any() else y.mean())
    outside = float(y.mean() if said.all() else y[~said].mean())
    slope = inside - outside
    value = weight * inside + (1 - weight) * outside
    part = np.where(
        said, weight / max(said.mean(), 1e-9), (1 - weight) / max(1 - said.mean(), 1e-9)
    )
    influence = slope * (every - weight) / len(every)
    influence[: len(y)] += part * (y - np.where(said, inside, outside)) / len(y)
    effect, t = _effect(influence, len(y), groups, other_groups)
    down = up = 0.0
    for factor, share, n in (
        (weight, inside, said.sum()),
        (1 - weight, outside, (~said).sum()),
        (slope, weight, len(every)),
    ):
        low, high = _wilson(share, n / effect, t)
        sides = (share - low, high - share)
        down += (factor * sides[factor < 0]) ** 2
        up += (factor * sides[factor >= 0]) ** 2
    return Estimate(
        value=value,
        low=max(0.0, value - math.sqrt(down)),
        high=min(1.0, value + math.sqrt(up)),
    )


def corrected_mean(
    labels: Numbers,
    verdicts: Numbers,
    others: Numbers,
    groups: Groups = None,
    other_groups: Groups = None,
) -> Estimate:
    """Estimate the mean score of traffic, as `corrected_share` does a share; in units of the score."""
    y, said = np.array(labels, dtype=float), np.array(verdicts, dtype=float)
    every = np.concatenate([said, np.array(others, dtype=float)])
    slope, start = np.polyfit(said, y, 1)
    value = float(start + slope * every.mean())
    influence = slope * (every - every.mean()) / len(every)
    influence[: len(y)] += (y - start - slope * said) / (len(y) - 1)
    effect, t = _effect(influence, len(y), groups, other_groups)
    half = t * math.sqrt(effect * float((influence**2).sum()))
    return Estimate(value=value, low=value - half, high=value + half)


def _wilson(share: float, n: float, t: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share; everything is possible without a case."""
    if n <= 0:
        return 0.0, 1.0
    middle = (share + t * t / (2 * n)) / (1 + t * t / n)
    inside = max(0.0, share * (1 - share)) / n + t * t / (4 * n * n)
    half = t * math.sqrt(inside) / (1 + t * t / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _effect(influence: Any, labelled: int, groups: Groups, others: Groups) -> tuple[float, float]:
    """Return how many cases tell as much as one independent case (Kish 1965), and Student's t.

    Args:
        influence: The part of each case in the figure's error, labelled cases first.
        labelled: How many of them are labelled.
        groups: Their groups; None where all are independent.
        others: The groups of the others.
    """
    if groups is None and others is None:
        return 1.0, student_t(_LEVEL, labelled - 2)
    named = list(groups or range(labelled))
    named += others or range(labelled, len(influence))
    places = np.unique([str(name) for name in named], return_inverse=True)[1]
    sizes = np.bincount(places[:labelled]).astype(float)
    count = int((sizes > 0).sum())
    most = float((sizes**2).sum()) / labelled
    alone = float((influence**2).sum())
    together = float((np.bincount(places, influence) ** 2).sum())
    shown = max(1.0, together / alone * count / (count - 1)) if alone > 0 else most
    effect = (count * shown + _ALL_TOGETHER * most) / (count + _ALL_TOGETHER)
    return effect, student_t(_LEVEL, count - 2)
