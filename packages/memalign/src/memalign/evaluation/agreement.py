"""How far a judge agrees with people: each case judged once, against the label that the annotations' policy gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.evaluated import Disagreement, Evaluation, ScoredCase, clusters, too_few_groups
from memalign.evaluation.intervals import agreement_interval, share_interval
from memalign.io import FeedbackSource, check_feedback
from memalign.judge.spend_limit import SpendLimit
from memalign.memory import Memory
from memalign.memory.label_policy import policy_label
from memalign.metrics import (
    Estimate,
    Statistic,
    balanced_accuracy,
    ccc,
    cohen_kappa,
    confusion,
    exact_match,
    label_shares,
    mae,
)
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import Value, ValueType, value_text

__all__ = ["aevaluate", "evaluate", "measure", "metrics_of"]

Progress = Callable[[str, int, int], None]
Labelled = FeedbackSource
_Scored = tuple[Value, ScoredCase]
"""A verdict (the judge's, or its calibrated one) and its case."""

_LISTED_LABELS = 20  # an int:0..100 would make a confusion matrix of mostly empty rows


class _Judging(Protocol):
    """What an evaluation needs of a judge; `memalign.Judge` has it."""

    @property
    def name(self) -> str: ...
    @property
    def value_type(self) -> ValueType: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def columns(self) -> Mapping[str, str]: ...
    async def ajudge_many(
        self,
        examples: Sequence[Example],
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Sequence[Judgment]: ...


def evaluate(
    judge: _Judging,
    labelled: Labelled,
    *,
    concurrency: int | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    max_cost: float | SpendLimit | None = None,
) -> Evaluation:
    """Agreement with people, with intervals; the synchronous form of `aevaluate`."""
    return aio.run(aevaluate(judge, labelled, concurrency=concurrency, out=out, progress=progress, max_cost=max_cost))


async def aevaluate(
    judge: _Judging,
    labelled: Labelled,
    *,
    concurrency: int | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    max_cost: float | SpendLimit | None = None,
) -> Evaluation:
    """Judge every labelled case once and compare with the label that the judge's policy gives to all annotations on its content.

    `labelled` is a feedback file, or Feedback objects or mappings. Cases with comments only are counted and not
    judged; cases whose judging fails are counted and not wrong. Where rows have a `group` column, intervals are as wide as
    cases deserve that go together; fewer than ten groups give none. `out` keeps the judgments and is resumed from. What
    `max_cost`, in dollars, stops is counted as not scored. Raises InvalidRows for bad rows, InputError when no case has a
    label.
    """
    rows = check_feedback(labelled, value_type=judge.value_type, columns=judge.columns).rows
    annotations = _by_case(rows)
    memory = judge.memory
    labels = {name: policy_label(said, memory.authority, memory.policy) for name, said in annotations.items()}
    examples = [
        Example(id=example_id, **said[0].content, meta=said[0].meta)
        for example_id, said in annotations.items()
        if labels[example_id] is not None
    ]
    if not examples:
        raise InputError("no case has a label (a value): there is nothing to compare the judge with")
    limit: dict[str, Any] = {} if max_cost is None else {"max_cost": max_cost}  # not every judge knows one
    judgments = await judge.ajudge_many(examples, concurrency=concurrency, out=out, progress=progress, **limit)
    judged = list(zip(examples, judgments, strict=True))
    cases = tuple(
        _case(example, label, judgment) for example, judgment in judged if (label := labels[example.id]) is not None
    )
    scored = [(case.value, case) for case in cases if case.value is not None]
    values, truth = [value for value, _ in scored], [case.label for _, case in scored]
    listed = _listed(judge.value_type, [*values, *truth])
    ids = {case.id for _, case in scored}
    rationales = {example.id: judgment.rationale for example, judgment in judged}
    return Evaluation(
        judge=judge.name,
        value_type=judge.value_type.spec,
        n=len(scored),
        unscored=len(cases) - len(scored),
        unlabelled=len(annotations) - len(cases),
        seen=_seen(judge.memory, [example for example in examples if example.id in ids]),
        metrics=_all_metrics(judge.value_type, scored),
        labels=listed,
        confusion=confusion(values, truth, listed) if listed else (),
        people_shares=_shares(truth, listed),
        judge_shares=_shares(values, listed),
        disagreements=_disagreements(scored, rationales, annotations),
        usage=sum((judgment.usage for judgment in judgments), Usage()),
        model=", ".join(dict.fromkeys(judgment.model for judgment in judgments if judgment.model)),
        memory_hash=next((judgment.memory_hash for judgment in judgments if judgment.memory_hash), ""),
        cases=cases,
    )


def _case(example: Example, label: Value, judgment: Judgment) -> ScoredCase:
    group = example.meta.get("group")
    error = judgment.error or ("the judgment has no value" if judgment.value is None else None)
    return ScoredCase(
        id=example.id,
        label=label,
        value=None if error else judgment.value,
        calibrated=judgment.calibrated_value,
        own=judgment.own_value,
        error=error,
        group=None if group is None else str(group),
    )


def _by_case(rows: Sequence[Feedback]) -> dict[str, list[Feedback]]:
    """All annotations on each case, by its first id: the same content under two ids is one case, as in a memory."""
    annotations: dict[str, list[Feedback]] = {}
    first: dict[str, str] = {}  # of every id and of every content
    for row in rows:
        content = row.example.content_hash if row.example is not None else row.id
        case = first.get(row.id) or first.get(content) or row.id
        first[row.id] = first[content] = case
        annotations.setdefault(case, []).append(row)
    return annotations


def _seen(memory: Memory, examples: Sequence[Example]) -> int:
    ids = {case.example.id for case in memory.episodic}
    contents = {case.example.content_hash for case in memory.episodic}
    return sum(example.id in ids or example.content_hash in contents for example in examples)


def _all_metrics(value_type: ValueType, scored: Sequence[_Scored]) -> dict[str, Estimate]:
    """The metrics of the value type, and exact match of other verdicts: calibrated, the model's own."""
    found = _metrics(value_type, scored)
    calibrated = [(case.calibrated, case) for _, case in scored if case.calibrated is not None]
    if value_type.kind != "float" and scored and len(calibrated) == len(scored):
        found["exact_match_calibrated"] = _metrics(value_type, calibrated)["exact_match"]
        own = [(case.own, case) for _, case in scored if case.own is not None]
        if len(own) == len(scored):
            found["exact_match_own"] = _metrics(value_type, own)["exact_match"]
    return found


def metrics_of(value_type: ValueType) -> dict[str, Statistic]:
    """What is measured of a judge with this value type, by name."""
    match value_type.kind:
        case "int":
            quadratic = partial(cohen_kappa, weights="quadratic")
            return {"exact_match": exact_match, "weighted_kappa": quadratic, "ccc": ccc, "mae": mae}
        case "float":
            return {"ccc": ccc, "mae": mae}
        case "str":
            return {"exact_match": exact_match}
        case _:
            return {"exact_match": exact_match, "balanced_accuracy": balanced_accuracy, "kappa": cohen_kappa}


def measure(value_type: ValueType, cases: Sequence[ScoredCase]) -> dict[str, Estimate]:
    """The metrics of the value type over the cases that have a verdict."""
    return _metrics(value_type, [(case.value, case) for case in cases if case.value is not None])


def _metrics(value_type: ValueType, scored: Sequence[_Scored]) -> dict[str, Estimate]:
    values, truth = [value for value, _ in scored], [case.label for _, case in scored]
    groups = clusters([case for _, case in scored])
    if value_type.kind == "str":
        values, truth = [str(value).strip() for value in values], [str(label).strip() for label in truth]
    found: dict[str, Estimate] = {}
    few = too_few_groups(groups)
    for name, statistic in metrics_of(value_type).items():
        value = statistic(values, truth)
        if few and value is not None:
            found[name] = Estimate(value=value, no_interval=few)
            continue
        if name == "exact_match":
            interval = share_interval([one == other for one, other in zip(values, truth, strict=True)], groups)
        else:
            interval = agreement_interval(statistic, values, truth, groups)
        low, high = interval or (None, None)
        found[name] = Estimate(value=value, low=low, high=high)
    return found


def _listed(value_type: ValueType, values: Sequence[Value]) -> tuple[Value, ...]:
    if value_type.kind == "int" and not 0 < len(value_type.labels) <= _LISTED_LABELS:
        return tuple(sorted({int(value) for value in values}))
    return value_type.labels


def _shares(values: Sequence[Value], labels: Sequence[Value]) -> dict[str, float]:
    return {value_text(label): share for label, share in label_shares(values, labels).items()}  # type: ignore[arg-type]


def _disagreements(
    scored: Sequence[_Scored],
    rationales: Mapping[str, str | None],
    annotations: Mapping[str, Sequence[Feedback]],
) -> tuple[Disagreement, ...]:
    """Numbers that are furthest apart first, all else in the order of the cases."""
    found = [
        Disagreement(
            id=case.id,
            value=value,
            label=case.label,
            rationale=rationales[case.id],
            people={each.source: each.rationale for each in annotations[case.id] if each.rationale},
        )
        for value, case in scored
        if not case.correct
    ]
    return tuple(sorted(found, key=lambda each: -_distance(each.value, each.label)))


def _distance(value: Value, label: Value) -> float:
    return 0.0 if isinstance(value, str) or isinstance(label, str) else abs(value - label)
