"""A gate: whether a judge is good enough to release, decided on cases that nobody taught it.

A criterion passes when the whole interval of its figure lies on the good side, and fails when all of it lies on the
bad side. Between the two the labelled cases do not tell, and the outcome is inconclusive. At 95 % a judge at the very
edge is passed, or failed, about once in twenty times at most, whichever way chance goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.agreement import Labelled, Progress, aevaluate, metrics_of
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.evaluated import Evaluation
from memalign.evaluation.evidence import MeasuredJudge, MissingEvidence
from memalign.evaluation.unseen import labels_hash, unseen_rows
from memalign.metrics import Estimate
from memalign.types import Feedback, Usage

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.values import ValueType

__all__ = ["Criterion", "GateResult", "Outcome", "agate", "gate"]

Outcome = Literal["pass", "regression", "inconclusive"]

_MOST_MORE = 100_000  # labels; whoever would need more will not label them
_ERRORS = {"mae"}  # metrics of which less is better


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One demand, the figure that answers it, and what comes of it. `found` is None for locked cases."""

    demand: str
    outcome: Outcome
    why: str
    found: Estimate | None = None
    threshold: float | None = None


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What a gate decided: "regression" when one criterion fails, else "inconclusive" when one is, else "pass".

    `evaluation` is the judge's on the n cases that are in neither judge's memory; `taught` cases of the labelled file
    are, and were left out. `base` and `comparison` are there where the judge is compared with a baseline. `asked` is what
    was asked for this time; judgments that were kept cost nothing.
    """

    judge: str
    outcome: Outcome
    criteria: tuple[Criterion, ...]
    taught: int
    evaluation: Evaluation
    base: Evaluation | None = None
    comparison: Comparison | None = None
    asked: Usage = Usage()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def __str__(self) -> str:
        left_out = f"; {self.taught} more are in memory and do not count" if self.taught else ""
        lines = [f"{self.judge}: {self.outcome}, on {self.evaluation.n} unseen cases{left_out}"]
        lines += [f"{each.outcome}: {each.demand}: {each.why}" for each in self.criteria]
        return "\n".join(lines)


def gate(
    judge: Judge,
    labelled: Labelled,
    *,
    minimum: Mapping[str, float] | None = None,
    baseline: Judge | None = None,
    not_worse_than: float | None = None,
    evidence: str | Path | None = None,
    offline: bool = False,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> GateResult:
    """Decide whether the judge passes; the synchronous form of `agate`."""
    return aio.run(
        agate(
            judge,
            labelled,
            minimum=minimum,
            baseline=baseline,
            not_worse_than=not_worse_than,
            evidence=evidence,
            offline=offline,
            concurrency=concurrency,
            progress=progress,
        )
    )


async def agate(
    judge: Judge,
    labelled: Labelled,
    *,
    minimum: Mapping[str, float] | None = None,
    baseline: Judge | None = None,
    not_worse_than: float | None = None,
    evidence: str | Path | None = None,
    offline: bool = False,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> GateResult:
    """Judge the labelled cases and decide whether the judge passes.

    `minimum` has for each metric of the evaluation (kappa, exact_match, ccc, …) what its interval must reach; of an
    error (mae) it is what the interval must not pass. `not_worse_than` is how many points of exact match, or of CCC for
    numbers, the judge may lose against `baseline`, on the same cases. Locked cases of the judge must have the experts'
    label. Cases in the memory of one of the two are left out. `evidence` is a folder of judgments that are not asked for
    again; with `offline` nothing is asked at all.

    Raises InputError where nothing is demanded, a metric is unknown, or all cases are in memory; MissingEvidence where a
    case has no verdict, so that a server that is down never passes a judge, nor fails it.
    """
    locked = _locked(judge)
    if not minimum and not_worse_than is None and not locked:
        raise InputError("nothing is demanded: name a minimum (--min-kappa 0.6), or a baseline and --not-worse-than")
    if (not_worse_than is None) != (baseline is None):
        raise InputError("a baseline and the points that the judge may lose (--not-worse-than) belong together")
    if not_worse_than is not None and not 0 <= not_worse_than < 100:
        raise InputError(f"--not-worse-than takes points from 0 to below 100, not {not_worse_than:g}")
    for metric, least in (minimum or {}).items():
        if metric not in (known := metrics_of(judge.value_type)):
            raise InputError(f"{judge.value_type.spec} has no {metric!r}; it has {', '.join(known)}")
        if not math.isfinite(least):
            raise InputError(f"the minimum of {metric} is no number: {least}")
        if metric not in _ERRORS and least > 1:
            raise InputError(f"{metric} is at most 1, and can never reach {least:g}: say 0.8, not 80")
    if offline and evidence is None:
        raise InputError("offline needs a folder of evidence (--evidence DIR)")
    unseen, taught = unseen_rows(labelled, judge, *([] if baseline is None else [baseline]))
    labels = labels_hash(judge, unseen)

    sources: list[MeasuredJudge] = []

    async def measured(one: Judge) -> Evaluation:
        source = MeasuredJudge(one, labels=labels, folder=evidence, offline=offline)
        sources.append(source)
        found = await aevaluate(source, unseen, concurrency=concurrency, progress=progress)
        if found.unscored:
            first = next(case for case in found.cases if case.error)
            cases = f"{found.unscored} of {found.unscored + found.n} cases have no verdict"
            raise MissingEvidence(f"{cases}; the first, {first.id}: {_sentence(first.error)} Run it again")
        return found

    evaluation = await measured(judge)
    criteria = [_reaches(evaluation, metric, least) for metric, least in (minimum or {}).items()]
    base = comparison = None
    if baseline is not None and not_worse_than is not None:
        try:
            base = await measured(baseline)
        except MissingEvidence as error:
            raise MissingEvidence(f"of the baseline: {error}") from None
        comparison = compare(base, evaluation)
        criteria.append(_keeps_up(comparison, not_worse_than))
    if locked:
        source = MeasuredJudge(
            judge, labels=labels, folder=None if evidence is None else Path(evidence) / "locked", offline=offline
        )
        sources.append(source)
        given = await aevaluate(source, locked, concurrency=concurrency, progress=progress)
        criteria.append(_holds(given, judge.value_type))
    outcomes = {each.outcome for each in criteria}
    outcome: Outcome = (
        "regression" if "regression" in outcomes else "inconclusive" if "inconclusive" in outcomes else "pass"
    )
    return GateResult(
        judge=judge.name,
        outcome=outcome,
        criteria=tuple(criteria),
        taught=taught,
        evaluation=evaluation,
        base=base,
        comparison=comparison,
        asked=sum((source.asked for source in sources), Usage()),
    )


# -- the cases -----------------------------------------------------------------------------------------------------


def _locked(judge: Judge) -> list[Feedback]:
    """The judge's locked cases with the experts' label, as rows."""
    cases = [case for name in judge.memory.locks if (case := judge.memory.case(name)) is not None]
    labelled = [(case, judge.memory.label(case)) for case in cases]
    return [Feedback(id=case.id, value=label, **case.example.content) for case, label in labelled if label is not None]


# -- the criteria --------------------------------------------------------------------------------------------------


def _reaches(evaluation: Evaluation, metric: str, least: float) -> Criterion:
    found, less_is_better = evaluation.metrics[metric], metric in _ERRORS
    word = "at most" if less_is_better else "at least"
    outcome = _outcome(found, least, less_is_better=less_is_better)
    return Criterion(
        demand=f"{metric.replace('_', ' ')} {word} {least:g}",
        outcome=outcome,
        why=_why(found, least, evaluation.n, outcome),
        found=found,
        threshold=least,
    )


def _keeps_up(comparison: Comparison, points: float) -> Criterion:
    found = comparison.differences[comparison.metric]
    outcome = _outcome(found, -points / 100)
    return Criterion(
        demand=f"{comparison.metric.replace('_', ' ')} not worse than the baseline's by {points:g} points",
        outcome=outcome,
        why=_why(found, -points / 100, comparison.n, outcome, points=True),
        found=found,
        threshold=-points / 100,
    )


def _holds(evaluation: Evaluation, value_type: ValueType) -> Criterion:
    if evaluation.unscored:
        first = next(case for case in evaluation.cases if case.error)
        raise MissingEvidence(f"locked case {first.id} has no verdict: {_sentence(first.error)} Run it again")
    pairs = [(case.id, case.value, case.label) for case in evaluation.cases]
    # As an align holds them: of `float` a score near the label keeps it.
    broken = [name for name, value, label in pairs if value is None or not value_type.agree(value, label)]
    total = len(evaluation.cases)
    why = f"{', '.join(broken)} broken" if broken else f"{total} of {total} have the experts' label"
    return Criterion(demand="locked cases hold", outcome="regression" if broken else "pass", why=why)


def _sentence(error: str | None) -> str:
    return f"{(error or '').rstrip('. ')}."


def _outcome(found: Estimate, threshold: float, *, less_is_better: bool = False) -> Outcome:
    if found.low is None or found.high is None:
        return "inconclusive"
    if less_is_better:
        return "pass" if found.high <= threshold else "regression" if found.low > threshold else "inconclusive"
    return "pass" if found.low >= threshold else "regression" if found.high < threshold else "inconclusive"


def _why(found: Estimate, threshold: float, n: int, outcome: Outcome, *, points: bool = False) -> str:
    """What was found, in words; with `points` it is a difference, and written in points."""
    if found.value is None:
        return f"the {n} cases give no figure: it needs two labels, and verdicts that vary"

    def number(value: float) -> str:
        return f"{100 * value:+.1f}" if points else f"{value:.2f}"

    figure = f"{number(found.value)} points" if points else number(found.value)
    if found.low is None or found.high is None:
        return f"{figure}, and no interval: {found.no_interval or f'{n} cases give none'}"
    said = f"{figure} [{number(found.low)}, {number(found.high)}], n = {n}"
    if outcome != "inconclusive":
        return said
    away = abs(found.value - threshold)
    half = max(found.high - found.value, found.value - found.low)
    more = math.inf if away == 0 else math.ceil(n * (half / away) ** 2) - n
    if more > _MOST_MORE:
        return f"{said}; no number of cases that anybody labels would settle it"
    return f"{said}; about {max(more, 1):,} cases more would settle it, if the figure stays"
