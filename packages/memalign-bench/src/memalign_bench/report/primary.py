"""The one comparison that was fixed before anything was measured, and all others, which are descriptive.

FIXED_WORDS is how it was fixed; what is called bare there is zero-shot. The measure is exact match. Cases are paired by
task, seed and id. The interval is the bootstrap's, over groups of cases in all tasks. A verdict only gets weaker by the
further conditions: McNemar's exact p below 0.05 for "ahead" and "behind", 60 different cases for "not worse by 5 points"
(by the rule of three, fewer cannot rule out a loss of five points even when none is lost).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from memalign.metrics import Estimate, balanced_accuracy, exact_match, mcnemar_exact, paired_bootstrap
from memalign_bench.config import ZERO_SHOT
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.raw import View
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.measures import share
from memalign_bench.report.results import Judged, Key, Results

__all__ = [
    "FIXED_WORDS",
    "MARGIN",
    "PRIMARY_AGAINST",
    "PRIMARY_STAGE",
    "Contrast",
    "Verdict",
    "best_baseline",
    "contrast",
    "headline_stage",
    "primary",
]

FIXED_WORDS = (
    "One primary comparison fixed beforehand: memalign against bare and against MLflow's MemAlign at 50 rows, unseen, "
    "paired, clustered by group, pooled over the tasks, non-inferiority margin five points. Everything else is "
    'descriptive, with intervals; "ahead / tied / behind" only where the interval allows it.'
)
MARGIN = 0.05
PRIMARY_STAGE = 50
PRIMARY_METHOD = "memalign"
PRIMARY_AGAINST = (ZERO_SHOT, "mlflow")
ENOUGH_CASES = round(3 / MARGIN)
ALPHA = 0.05

Verdict = Literal["ahead", "not worse by 5 points", "tied", "behind"]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One method against another on the cases where both gave a verdict; positive differences are for `method`.

    `n` judgments are paired; `left_out` lack a verdict in one of the two. `fixed` only `method` got right, `broken` only
    `against`. `difference` is in exact match, each task weighing by its cases; in `mean_over_tasks` tasks weigh alike.
    """

    method: str
    against: str
    stage: int
    view: View
    tasks: tuple[str, ...]
    n: int
    left_out: int
    cases: int
    groups: int
    seeds: tuple[int, ...]
    first: float
    second: float
    fixed: int
    broken: int
    difference: Estimate
    mean_over_tasks: Estimate

    @property
    def p(self) -> float:
        """McNemar's exact p."""
        return mcnemar_exact(self.fixed, self.broken)

    @property
    def verdict(self) -> Verdict:
        """What may be said of `method`; the module's docstring has the rule."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None:  # no case tells the two apart
            alike = self.fixed == self.broken == 0 and min(self.cases, self.groups) >= ENOUGH_CASES
            return "not worse by 5 points" if alike else "tied"
        if self.p < ALPHA and (low > 0 or high < 0):
            return "ahead" if low > 0 else "behind"
        return "not worse by 5 points" if low > -MARGIN and self.cases >= ENOUGH_CASES else "tied"

    @property
    def word(self) -> Literal["ahead", "tied", "behind"]:
        """The verdict of a descriptive comparison, which knows no margin."""
        verdict = self.verdict
        return "tied" if verdict == "not worse by 5 points" else verdict


def contrast(
    results: Results,
    model: str,
    tasks: Sequence[TaskFacts],
    method: str,
    against: str,
    *,
    stage: int,
    view: View = "unseen",
    among: frozenset[Key] | None = None,
) -> Contrast | None:
    """`method` against `against` at the stage, on the tasks that both judged; None when no case has a verdict in both.

    With `among` only these cases count.
    """
    key = ("contrast", model, tuple(task.name for task in tasks), method, against, stage, view, among)
    return results.once(
        key, lambda: _contrast(results, model, tasks, method, against, stage=stage, view=view, among=among)
    )


def _contrast(
    results: Results,
    model: str,
    tasks: Sequence[TaskFacts],
    method: str,
    against: str,
    *,
    stage: int,
    view: View,
    among: frozenset[Key] | None,
) -> Contrast | None:
    names = [task.name for task in tasks if task.matchable]
    left = results.judged(model, names, method, stage, view=view)
    right = results.judged(model, names, against, stage, view=view)
    pairs = [(left[key], right[key]) for key in left if key in right and (among is None or key in among)]
    if not pairs:
        return None
    shared = {mine.task for mine, _ in pairs}
    asked = {
        key
        for key in left.keys() | right.keys() | results.known(model, shared, view=view, stage=stage)
        if key[0] in shared and (among is None or key in among)
    }
    mine, theirs = [one.right for one, _ in pairs], [other.right for _, other in pairs]
    groups = [repr(one.cluster) for one, _ in pairs]
    truth = [True] * len(pairs)
    difference = paired_bootstrap(exact_match, theirs, mine, truth, groups=groups)
    return Contrast(
        method=method,
        against=against,
        stage=stage,
        view=view,
        tasks=tuple(sorted(shared)),
        n=len(pairs),
        left_out=len(asked) - len(pairs),
        cases=len({(one.task, one.line.id) for one, _ in pairs}),
        groups=len(set(groups)),
        seeds=tuple(sorted({one.seed for one, _ in pairs})),
        first=sum(mine) / len(pairs),
        second=sum(theirs) / len(pairs),
        fixed=sum(a and not b for a, b in zip(mine, theirs, strict=True)),
        broken=sum(b and not a for a, b in zip(mine, theirs, strict=True)),
        difference=difference,
        mean_over_tasks=_mean_over_tasks(pairs, groups) if len(shared) > 1 else difference,
    )


def _mean_over_tasks(pairs: Sequence[tuple[Judged, Judged]], groups: Sequence[str]) -> Estimate:
    """The difference with equal weight for each task.

    Balanced accuracy is the mean, over the labels of the truth, of the share that is right: with the task as the label
    it is the mean over tasks, with the interval's resampling for nothing.
    """
    tasks = [one.task for one, _ in pairs]
    mine = [one.task if one.right else None for one, _ in pairs]
    theirs = [other.task if other.right else None for _, other in pairs]
    return paired_bootstrap(balanced_accuracy, theirs, mine, tasks, groups=groups)


def headline_stage(results: Results, model: str, method: str = PRIMARY_METHOD, against: str | None = None) -> int:
    """The stage at which methods are compared: 50 where both have it, else the largest that they have.

    Without the method it is the largest of any; 0 when only zero-shot was asked.
    """
    methods = [name for name in (method, against) if name is not None and name != ZERO_SHOT]
    stages = [set(results.stages(model, name)) for name in methods if name in results.methods(model)]
    common = set.intersection(*stages) if stages else set()
    if not common:
        common = {stage for name in results.methods(model) for stage in results.stages(model, name)}
    return PRIMARY_STAGE if PRIMARY_STAGE in common else max(common, default=0)


def primary(results: Results, model: str) -> tuple[Contrast, ...]:
    """The primary comparison for one judge model, against each of its two opponents that was judged.

    A contrast whose stage is not 50 is not the primary one, and a report says so.
    """
    found = (
        contrast(
            results,
            model,
            results.tasks(model),
            PRIMARY_METHOD,
            against,
            stage=headline_stage(results, model, PRIMARY_METHOD, against),
        )
        for against in PRIMARY_AGAINST
    )
    return tuple(one for one in found if one is not None)


def best_baseline(results: Results, model: str, task: TaskFacts, stage: int) -> tuple[str, Estimate] | None:
    """The baseline with the highest exact match on the task, and that figure; None when no baseline judged it.

    It is chosen on the very cases that it is then compared on, which favours it a little: the judge must clear it.
    """
    found: list[tuple[str, Estimate]] = []
    for baseline in BASELINES:
        verdicts = list(results.judged(model, [task.name], baseline, stage).values())
        if task.matchable and verdicts:
            found.append((baseline, share([one.right for one in verdicts], [one.cluster for one in verdicts])))
    return max(found, key=lambda one: one[1].value or 0.0, default=None)
