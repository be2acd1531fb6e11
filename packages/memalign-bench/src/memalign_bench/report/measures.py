"""What a benchmark measures of one method: agreement with people, cost, and whether right verdicts stay right.

Every figure has its n and, where the data give one, a 95 % interval from resampled groups of cases. The seeds of a task are
pooled: groups are resampled by task and name, so that a case which several seeds drew is one piece of evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, median

from memalign.metrics import (
    Estimate,
    Statistic,
    balanced_accuracy,
    bootstrap_interval,
    ccc,
    cohen_kappa,
    exact_match,
    label_shares,
    mae,
    wilson_interval,
)
from memalign.values import Value, value_text
from memalign_bench.raw import Fit, Line, View
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.results import Judged, Key, Results

__all__ = [
    "Agreement",
    "Corrected",
    "Flips",
    "Judging",
    "Learning",
    "agreement",
    "corrected",
    "curve_area",
    "flips",
    "judging",
    "judging_of",
    "learning",
    "share",
]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement with people on one or more tasks, at one stage and in one view.

    `n` judgments have a verdict; `cases` and `groups` say of how many. `errors` gave none and are not wrong. `known` is how
    many any method of the model was asked about. Exact match is None for floats. `people` and `judge` are the shares of each
    label, for one task whose labels can be listed.
    """

    n: int
    errors: int
    known: int
    cases: int
    groups: int
    seeds: tuple[int, ...]
    exact_match: Estimate
    people: Mapping[str, float]
    judge: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Agreement on one task that label shares do not flatter: figures that the value type does not have are None.

    Balanced accuracy and kappa for bool and choices; kappa with quadratic weights for int, ccc for int and float.
    """

    balanced_accuracy: Estimate
    kappa: Estimate
    ccc: Estimate


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What `n` judgments took, failed ones included; a share, a mean or a cost is None where nothing is known of it.

    Seconds are the model's for one case, alone. `tokens_in` (mean of a judgment) include cached ones, of which
    `cached_share` is the share. `cost_per_1000` is in US dollars.
    """

    n: int
    seconds_median: float | None = None
    seconds_p95: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    cached_share: float | None = None
    cost_per_1000: float | None = None


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What learning took: means over `n` runs (tasks and seeds), and the seconds of the quickest and the slowest.

    A method that learns more, instead of anew, took this much since the stage before. Cost is in US dollars, None when one
    is not known. `counts` are means of the method's own facts.
    """

    n: int
    seconds: float
    quickest: float
    slowest: float
    calls: float
    tokens_in: float
    tokens_out: float
    cost: float | None
    counts: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Flips:
    """How verdicts changed from one stage to the next, pooled over stages, seeds and tasks.

    Of `n` cases judged at both, `broken` were right and became wrong (negative flips), `fixed` the other way round. `rate` is
    broken over n, as in Yan et al. 2021 (positive-congruent training).
    """

    n: int
    broken: int
    fixed: int
    right_before: int
    rate: Estimate


def agreement(
    results: Results, model: str, tasks: Sequence[TaskFacts], method: str, stage: int, *, view: View = "unseen"
) -> Agreement:
    """How far the method agrees with people, pooled over the tasks."""
    key = ("agreement", model, tuple(task.name for task in tasks), method, stage, view)
    return results.once(key, lambda: _agreement(results, model, tasks, method, stage, view=view))


def _agreement(
    results: Results, model: str, tasks: Sequence[TaskFacts], method: str, stage: int, *, view: View
) -> Agreement:
    names = [task.name for task in tasks]
    found = list(results.judged(model, names, method, stage, view=view).values())
    matchable = {task.name for task in tasks if task.matchable}
    matched = [judged for judged in found if judged.task in matchable]
    people, judge = _shares(tasks[0], found) if len(tasks) == 1 else ({}, {})
    return Agreement(
        n=len(found),
        errors=sum(line.value is None for _, line in results.lines(model, names, method, stage, view=view)),
        known=len(results.known(model, names, view=view, stage=stage)),
        cases=len({(judged.task, judged.line.id) for judged in found}),
        groups=len({judged.cluster for judged in found}),
        seeds=tuple(sorted({judged.seed for judged in found})),
        exact_match=share([judged.right for judged in matched], [judged.cluster for judged in matched]),
        people=people,
        judge=judge,
    )


def corrected(
    results: Results, model: str, task: TaskFacts, method: str, stage: int, *, view: View = "unseen"
) -> Corrected:
    """Balanced accuracy, kappa and CCC of the method on one task."""
    found = list(results.judged(model, [task.name], method, stage, view=view).values())
    kind, nothing = task.value_type, Estimate(value=None)
    named = not kind.numeric and kind.closed
    weighted = partial(cohen_kappa, weights="quadratic") if kind.kind == "int" else cohen_kappa
    return Corrected(
        balanced_accuracy=_estimate(balanced_accuracy, found) if named else nothing,
        kappa=_estimate(weighted, found) if named or kind.kind == "int" else nothing,
        ccc=_estimate(ccc, found) if kind.numeric else nothing,
    )


def share(right: Sequence[bool], clusters: Sequence[object]) -> Estimate:
    """The share of True with its interval: from whole clusters, and Wilson's over the clusters where all are equal."""
    truth = [True] * len(right)
    value = exact_match(right, truth)
    interval = bootstrap_interval(exact_match, right, truth, groups=_plain(clusters)) if value is not None else None
    if interval is None and value in (0.0, 1.0):
        # Every resample of an all-right sample is all right; five of five is still no proof of perfection.
        units = len(set(clusters))
        interval = wilson_interval(units if value else 0, units)
    low, high = interval or (None, None)
    return Estimate(value=value, low=low, high=high)


def judging(
    results: Results, model: str, tasks: Iterable[str], method: str, stage: int, *, view: View = "unseen"
) -> Judging:
    """What judging took over the tasks."""
    return judging_of([line for _, line in results.lines(model, tasks, method, stage, view=view)])


def judging_of(lines: Sequence[Line]) -> Judging:
    """What these judgments took."""
    if not lines:
        return Judging(n=0)
    seconds = sorted(line.seconds for line in lines)
    tokens = sum(line.tokens_in for line in lines)
    return Judging(
        n=len(lines),
        seconds_median=median(seconds),
        seconds_p95=seconds[math.ceil(0.95 * len(seconds)) - 1],
        tokens_in=tokens / len(lines),
        tokens_out=fmean(line.tokens_out for line in lines),
        cached_share=sum(line.cached for line in lines) / tokens if tokens else None,
        cost_per_1000=_scaled(_total(line.cost for line in lines), 1000 / len(lines)),
    )


def learning(fits: Sequence[Fit]) -> Learning | None:
    """The mean of what learning took; None without any."""
    if not fits:
        return None
    names = sorted({name for fit in fits for name in fit.counts})
    seconds = [fit.seconds for fit in fits]
    return Learning(
        n=len(fits),
        seconds=fmean(seconds),
        quickest=min(seconds),
        slowest=max(seconds),
        calls=fmean(fit.calls for fit in fits),
        tokens_in=fmean(fit.tokens_in for fit in fits),
        tokens_out=fmean(fit.tokens_out for fit in fits),
        cost=_scaled(_total(fit.cost for fit in fits), 1 / len(fits)),
        counts={name: fmean(fit.counts.get(name, 0) for fit in fits) for name in names},
    )


def flips(results: Results, model: str, tasks: Sequence[TaskFacts], method: str) -> Flips | None:
    """How the method's verdicts on unseen cases changed from stage to stage; None when no case has them at two stages."""
    by_stage = _by_stage(results, model, tasks, method, "unseen")
    changes = [
        (before[key], after[key]) for before, after in pairwise(by_stage.values()) for key in before if key in after
    ]
    if not changes:
        return None
    broken = [before.right and not after.right for before, after in changes]
    return Flips(
        n=len(changes),
        broken=sum(broken),
        fixed=sum(after.right and not before.right for before, after in changes),
        right_before=sum(before.right for before, _ in changes),
        rate=share(broken, [before.cluster for before, _ in changes]),
    )


def curve_area(
    results: Results, model: str, tasks: Sequence[TaskFacts], method: str, *, view: View = "unseen"
) -> tuple[Estimate, int] | None:
    """The area under the learning curve, in [0, 1], and the number of cases it is over; None with fewer than two stages.

    It is the trapezoid rule on log2(1 + stage), stretched to [0, 1]: a judge that is right at p throughout has p. Only cases
    with a verdict at every stage count.
    """
    by_stage = _by_stage(results, model, tasks, method, view)
    if len(by_stage) < 2:
        return None
    first, *others = by_stage.values()
    common = [key for key in first if all(key in found for found in others)]
    if not common:
        return None
    weights = trapezoid_weights(list(by_stage))
    # The area is linear in the verdicts: a weighted mean over stages for each case, then the mean over cases.
    areas = [sum(w * found[key].right for w, found in zip(weights, by_stage.values(), strict=True)) for key in common]
    clusters = [first[key].cluster for key in common]
    zeros = [0.0] * len(areas)
    low, high = bootstrap_interval(mae, areas, zeros, groups=clusters) or (None, None)  # mae to 0 is the mean
    return Estimate(value=min(1.0, fmean(areas)), low=low, high=high), len(common)


def _by_stage(
    results: Results, model: str, tasks: Sequence[TaskFacts], method: str, view: View
) -> dict[int, dict[Key, Judged]]:
    """The method's verdicts on the tasks that can be matched, at each stage that has any; other tasks may have more stages."""
    names = [task.name for task in tasks if task.matchable]
    found = {
        stage: results.judged(model, names, method, stage, view=view)
        for stage in results.stages(model, method, view=view)
    }
    return {stage: judged for stage, judged in found.items() if judged}


def trapezoid_weights(stages: Sequence[int]) -> list[float]:
    """How much each stage's exact match weighs in `curve_area`; they add up to 1."""
    x = [math.log2(1 + stage) for stage in stages]
    steps = [(right - left) / (x[-1] - x[0]) for left, right in pairwise(x)]
    return [(left + right) / 2 for left, right in zip([0.0, *steps], [*steps, 0.0], strict=True)]


def _estimate(statistic: Statistic, found: Sequence[Judged]) -> Estimate:
    values, truth = [_value(judged) for judged in found], [judged.line.label for judged in found]
    value = statistic(values, truth)
    groups = [judged.cluster for judged in found]
    interval = bootstrap_interval(statistic, values, truth, groups=groups) if value is not None else None
    low, high = interval or (None, None)
    return Estimate(value=value, low=low, high=high)


def _value(judged: Judged) -> Value:
    if judged.line.value is None:
        raise AssertionError(f"{judged.key} has no verdict")  # `Results.judged` has none of these
    return judged.line.value


def _shares(task: TaskFacts, found: Sequence[Judged]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    labels = list(task.value_type.labels)
    if not labels:
        return {}, {}
    people = label_shares([judged.line.label for judged in found], labels)
    judge = label_shares([_value(judged) for judged in found], labels)
    # Keys are labels as files write them; a label_shares key is always one of `labels`.
    return ({value_text(label): people[label] for label in labels if label in people},
            {value_text(label): judge[label] for label in labels if label in judge})  # fmt: skip


def _plain(clusters: Sequence[object]) -> list[str]:
    return [repr(cluster) for cluster in clusters]


def _total(amounts: Iterable[float | None]) -> float | None:
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _scaled(amount: float | None, factor: float) -> float | None:
    return None if amount is None else amount * factor
