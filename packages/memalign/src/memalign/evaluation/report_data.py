"""The evidence on a judge that anybody can read: how far it agrees with people on cases that nobody taught it.

`areport` gathers it, as plain values; report_page writes it as HTML or Markdown.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.agreement import Labelled, Progress, aevaluate, measure
from memalign.evaluation.baseline import baselines
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.evaluated import Evaluation, ScoredCase
from memalign.evaluation.evidence import MeasuredJudge
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.guideline_use import guideline_uses
from memalign.evaluation.intervals import share_interval
from memalign.evaluation.learning_curve import learning_curve
from memalign.evaluation.prevalence import prevalence
from memalign.evaluation.report_parts import (
    Calibration,
    People,
    Report,
    ReportedCase,
    Share,
    Side,
    Slice,
)
from memalign.evaluation.unseen import labels_hash, unseen_rows
from memalign.io import read_judgments
from memalign.metrics import Estimate
from memalign.types import Feedback, Judgment
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["areport", "report"]

_WIDTH = 0.05  # half of the interval that settles most questions
_BINS = 10


def report(
    judge: Judge,
    labelled: Labelled,
    *,
    against: Mapping[str, Judge] | None = None,
    population: str | Path | None = None,
    evidence: str | Path | None = None,
    offline: bool = False,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Gather the evidence; the synchronous form of `areport`."""
    return aio.run(
        areport(
            judge,
            labelled,
            against=against,
            population=population,
            evidence=evidence,
            offline=offline,
            concurrency=concurrency,
            progress=progress,
        )
    )


async def areport(
    judge: Judge,
    labelled: Labelled,
    *,
    against: Mapping[str, Judge] | None = None,
    population: str | Path | None = None,
    evidence: str | Path | None = None,
    offline: bool = False,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Judge the labelled cases that the judge has not learned from, and gather what this shows.

    `against` are judges to set beside it, by the name to show; None is the judge without memory, where it has one.
    `population` is a file of judgments (`judge -o`) on all cases of which the labelled ones are a random part.
    `evidence` and `offline` are those of `gate`. Raises InputError where no unseen case has a label or a verdict, or the
    population was judged by another judge; InvalidRows for bad rows.
    """
    if against is None:
        against = {"zero-shot": judge.without_memory()} if judge.memory else {}
    everyone = _population(judge, population)
    rows, taught = unseen_rows(labelled, judge, *against.values())
    labels = labels_hash(judge, rows)

    async def measured(one: Judge) -> tuple[Evaluation, dict[str, Judgment]]:
        source = MeasuredJudge(one, labels=labels, folder=evidence, offline=offline)
        found = await aevaluate(source, rows, concurrency=concurrency, progress=progress)
        return found, source.given

    evaluation, judgments = await measured(judge)
    if not evaluation.n:
        first = next((case.error for case in evaluation.cases if case.error), "")
        raise InputError(f"no case has a verdict: {first}")
    others = {name: (await measured(one))[0] for name, one in against.items()}
    examples = {row.id: row.example for row in rows if row.example is not None}
    without = await baselines(judge, evaluation.cases, examples)
    headline = "ccc" if judge.value_type.kind == "float" else "exact_match"
    zero_shot = others.get("zero-shot")
    costs = [each.usage.cost for each in judgments.values() if each.error is None]
    clocked = [sum(each.usage.seconds.values()) for each in judgments.values() if each.error is None]
    return Report(
        judge=judge.name,
        model=evaluation.model,
        instructions=judge.instructions,
        headline=headline,
        taught=taught,
        evaluation=evaluation,
        sides=_sides(judge, evaluation, others, without),
        people=_people(rows, judge.value_type),
        slices=_slices(evaluation, rows, judge.value_type),
        calibration=_calibration(evaluation, judgments),
        curve=await learning_curve(judge, evaluation.cases, judgments, examples, metric=headline),
        guidelines=guideline_uses(judge, evaluation, judgments, zero_shot),
        shares=_shares(judge, evaluation, everyone),
        cases=_cases(evaluation, judgments, rows),
        more=_more(evaluation.metrics[headline], evaluation.n),
        seconds=statistics.median(clocked) if clocked and any(clocked) else None,
        dollars=statistics.fmean(known) if (known := [each for each in costs if each is not None]) else None,
    )


def _sides(
    judge: Judge,
    evaluation: Evaluation,
    others: Mapping[str, Evaluation],
    without: Mapping[str, Sequence[ScoredCase]],
) -> tuple[Side, ...]:
    """The judge, then the `others`, then the baselines `without` a judge."""
    sides = [Side(name=judge.name, metrics=evaluation.metrics)]
    measured = {name: (found.cases, found.metrics) for name, found in others.items()}
    measured |= {name: (tuple(cases), measure(judge.value_type, cases)) for name, cases in without.items()}
    for name, (cases, metrics) in measured.items():
        found: Comparison = compare(cases, evaluation.cases)
        ahead = found.differences[found.metric]
        sides.append(Side(name=name, metrics=metrics, ahead=ahead, verdict=found.verdict, on=found.metric))
    return tuple(sides)


def _people(rows: Sequence[Feedback], value_type: ValueType) -> People | None:
    said: dict[str, dict[str, Value]] = {}
    for row in rows:
        if row.value is not None:
            said.setdefault(row.id if row.example is None else row.example.content_hash, {})[row.source] = row.value
    several = [list(by_source.values()) for by_source in said.values() if len(by_source) > 1]
    if not several:
        return None
    pairs = [value_type.agree(one, other) for labels in several for one, other in combinations(labels, 2)]
    low, high = share_interval(pairs) or (None, None)
    return People(
        cases=len(several),
        pairs=len(pairs),
        same=Estimate(value=sum(pairs) / len(pairs), low=low, high=high),
        alpha=agreement_of_people(several, value_type),
    )


def _slices(evaluation: Evaluation, rows: Sequence[Feedback], value_type: ValueType) -> tuple[Slice, ...]:
    sources: dict[str, list[str]] = {}
    for row in rows:
        if row.value is not None:
            sources.setdefault(row.id, []).append(row.source)
    of: dict[str, Callable[[ScoredCase], Sequence[str]]] = {
        "label": lambda case: [value_text(case.label)] if value_type.closed and value_type.kind != "float" else [],
        "group": lambda case: [case.group] if case.group else [],
        "source": lambda case: sources.get(case.id, []),
    }
    found = []
    for kind, names in of.items():
        parts: dict[str, list[ScoredCase]] = {}
        for case in evaluation.cases:
            for name in names(case) if case.value is not None else ():
                parts.setdefault(name, []).append(case)
        ordered = sorted(parts.items(), key=lambda part: (-len(part[1]), part[0]))
        found += [
            Slice(of=kind, name=name, n=len(cases), found=_right(cases, value_type))
            for name, cases in ordered
            if len(parts) > 1
        ]
    return tuple(found)


def _right(cases: Sequence[ScoredCase], value_type: ValueType) -> Estimate:
    if value_type.kind == "float":
        return measure(value_type, cases)["mae"]
    right = [bool(case.correct) for case in cases]
    low, high = share_interval(right) or (None, None)
    return Estimate(value=statistics.fmean(right), low=low, high=high)


def _calibration(evaluation: Evaluation, judgments: Mapping[str, Judgment]) -> Calibration | None:
    told = [
        (confidence, bool(case.correct))
        for case in evaluation.cases
        if case.value is not None and (confidence := judgments[case.id].confidence) is not None
    ]
    if not told or any(isinstance(case.label, float) for case in evaluation.cases):
        return None
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in told:
        bins.setdefault(min(int(confidence * _BINS), _BINS - 1), []).append((confidence, right))
    rows = tuple(
        (statistics.fmean(c for c, _ in each), statistics.fmean(r for _, r in each), len(each))
        for _, each in sorted(bins.items())
    )
    error = sum(abs(mean - share) * n for mean, share, n in rows) / len(told)
    return Calibration(bins=rows, error=error, n=len(told))


def _population(judge: Judge, path: str | Path | None) -> tuple[Value, ...]:
    """The verdicts of a file of judgments. Raises InputError where they are not this judge's, or have no labels."""
    if path is None:
        return ()
    if judge.value_type.kind not in ("bool", "choice"):
        raise InputError(f"{judge.value_type.spec} has no labels whose share could be told: leave --population out")
    file = read_judgments(path)
    if (name := file.judge.rpartition("@")[0]) != judge.name:
        raise InputError(f"{path} was judged by {name!r}, not by {judge.name!r}")
    judged = [each for each in file.judgments.values() if each.value is not None]
    if not judged:
        raise InputError(f"{path} has no verdict")
    if any(each.memory_hash != judge.memory.hash for each in judged):
        raise InputError(f"{path} was judged with another memory: judge it again with this version of {judge.name}")
    return tuple(each.value for each in judged if each.value is not None)


def _shares(judge: Judge, evaluation: Evaluation, population: Sequence[Value]) -> tuple[Share, ...]:
    if not population:
        return ()
    scored = [case for case in evaluation.cases if case.value is not None]

    def share(label: Value) -> Share:
        people, verdicts = [case.label == label for case in scored], [case.value == label for case in scored]
        given = [value == label for value in population]
        found = prevalence(people, verdicts, given)
        return Share(label=value_text(label), people=found, judge=statistics.fmean(given), n=len(population))

    return tuple(map(share, judge.value_type.labels))


def _cases(
    evaluation: Evaluation, judgments: Mapping[str, Judgment], rows: Sequence[Feedback]
) -> tuple[ReportedCase, ...]:
    content: dict[str, dict[str, str]] = {}
    words: dict[str, dict[str, str]] = {}
    for row in rows:
        shown = {
            name: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, indent=2)
            for name, each in row.content.items()
        }
        content.setdefault(row.id, shown)
        if row.rationale:
            words.setdefault(row.id, {})[row.source] = row.rationale
    return tuple(
        ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            correct=case.correct,
            content=content.get(case.id, {}),
            rationale=case.error or judgments[case.id].rationale or "",
            people=words.get(case.id, {}),
        )
        for case in evaluation.cases
    )


def _more(found: Estimate, n: int) -> int | None:
    if found.low is None or found.high is None:
        return None
    half = (found.high - found.low) / 2
    return max(0, math.ceil(n * (half / _WIDTH) ** 2) - n)
