"""How far a judge agrees with people: each case judged once, against the label that the annotations' policy gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase, annotations_by_case, clusters, estimate
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.intervals import agreement_interval, share_interval
from memalign.io import FeedbackSource, read_feedback, read_judgments
from memalign.judge.many import signature_of
from memalign.memory.label_policy import policy_label
from memalign.metrics import Estimate, Statistic, ccc, cohen_kappa
from memalign.models.calls import Calls
from memalign.prompts.rendering import prompts_hash
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge, Progress
    from memalign.memory import Case

__all__ = ["METRICS", "Evaluation", "LabelledCases", "aevaluate", "evaluate", "judgments_from", "measure"]

METRICS: dict[str, tuple[str, Statistic]] = {
    "bool": ("kappa", cohen_kappa),
    "choice": ("kappa", cohen_kappa),
    "int": ("weighted_kappa", ccc),  # the two are the same figure
    "float": ("ccc", ccc),
}
"""What is measured of a judge beside its accuracy, by the kind of its values."""

_LISTED_LABELS = 12  # an int:0..100 would make a confusion matrix of mostly empty rows


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Agreement of one judge with people's labels. Intervals are at 95 %.

    Attributes:
        judge: The judge's name.
        value_type: What it answers, such as `bool`.
        n: Cases with a label and a verdict; every figure is over these.
        unscored: Cases with a label and no verdict, because the call failed.
        unlabelled: Cases that have only comments, and were not judged.
        seen: Of the n, those in the judge's memory, by id or content: they say nothing about learning.
        taught: Cases that were left out because they are in the memory of a judge here; see `unseen` of `evaluate`.
        metrics: accuracy (of float: the share within a tenth of the scale); besides kappa of bool and choices,
            weighted_kappa (quadratic) of int, ccc of float. Where cases have a group, intervals come from whole groups;
            fewer than ten groups give none.
        labels: The labels of the confusion matrix; none of float, str and long scales.
        confusion: Counts in the order of `labels` (rows: people, columns: judge).
        usage: What the calls of this evaluation came to.
        model: The model that answered.
        memory_hash: Of the judge's memory.
        cases: Every case with a label.
        base: The evaluation of the judge it is compared with, on the same cases.
        comparison: This judge against that one, paired by case.
        judgments: The judge's, by id; they and people's `rows` are no part of `to_dict`.
    """

    judge: str
    value_type: str
    n: int
    unscored: int
    unlabelled: int
    seen: int
    taught: int = 0
    metrics: dict[str, Estimate]
    labels: tuple[Value, ...]
    confusion: tuple[tuple[int, ...], ...]
    usage: Usage
    model: str
    memory_hash: str
    cases: tuple[ScoredCase, ...]
    base: Evaluation | None = None
    comparison: Comparison | None = None
    judgments: Mapping[str, Judgment] = field(default_factory=dict, repr=False)
    rows: tuple[Feedback, ...] = field(default=(), repr=False)

    @property
    def disagreements(self) -> tuple[ScoredCase, ...]:
        """The cases on which judge and people differ, in their order; numbers that are furthest apart come first."""
        wrong = [case for case in self.cases if case.correct is False]
        if self.value_type.startswith(("int:", "float:")):
            wrong.sort(key=lambda case: -abs(float(case.value or 0) - float(case.label)))
        return tuple(wrong)

    def to_dict(self) -> dict[str, Any]:
        """The figures and cases as plain JSON values."""
        names = [item.name for item in fields(self) if item.name not in ("judgments", "rows", "base")]
        plain: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in names})
        plain |= {"disagreements": [case.id for case in self.disagreements]}
        return plain | {"base": None if self.base is None else self.base.to_dict()}

    def __str__(self) -> str:
        total = self.n + self.unscored + self.unlabelled
        model = self.model or "a model that gave no verdict"
        lines = [
            f"{self.judge} ({self.value_type}) on {model}, memory {self.memory_hash[:12] or 'empty'}",
            f"n = {self.n} of {total} cases; {self.unscored} unscored (no verdict), {self.unlabelled} without a label",
        ]
        if self.taught:
            lines.append(f"{self.taught} more in the judge's memory, which do not count")
        if self.seen:
            lines.append(f"{self.seen} of the {self.n} are in the judge's memory and say nothing about unseen cases")
        if few := self.metrics["accuracy"].no_interval:
            lines.append(few)
        lines += [f"{name.replace('_', ' ')} {figure:.2f}" for name, figure in self.metrics.items()]
        for label, row in zip(self.labels, self.confusion, strict=True):
            counts = (f"{count} {value_text(value)}" for value, count in zip(self.labels, row, strict=True) if count)
            lines += [f"people say {value_text(label)}, the judge says: {', '.join(counts)}"] if any(row) else []
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, kw_only=True)
class LabelledCases:
    """People's rows, an example for each case that has a label that counts, and these labels by the example's id.

    `unlabelled` cases have comments only; `taught` ones were left out because they are in memory.
    """

    rows: tuple[Feedback, ...]
    examples: tuple[Example, ...]
    labels: Mapping[str, Value]
    unlabelled: int
    taught: int

    @classmethod
    def of(cls, judge: Judge, labelled: FeedbackSource, *, outside: Sequence[Judge] = ()) -> LabelledCases:
        """The labelled cases, without those in the memory of a judge of `outside`.

        Raises:
            InvalidRows: A row is not valid.
            InputError: No case has a label, or all cases are in memory.
        """
        file = read_feedback(labelled, value_type=judge.value_type, columns=judge.columns, fields=judge.fields)
        memory, taught = judge.memory, _keys(case for other in outside for case in other.memory.cases)
        annotations = annotations_by_case(file.rows)
        fresh = {name: notes for name, notes in annotations.items() if not taught & _keys(notes)}
        if annotations and not fresh:
            raise InputError(
                f"all {len(annotations)} cases are in the judge's memory, so they say nothing about "
                "unseen cases; use cases that it has not learned from"
            )
        labels = {
            name: label for name, notes in fresh.items() if (label := policy_label(notes, memory.authority)) is not None
        }
        if not labels:
            raise InputError("there are no labelled cases; a row needs what the judge reads, and a value (the label)")
        return cls(
            rows=tuple(row for notes in fresh.values() for row in notes),
            examples=tuple(Example(id=name, **fresh[name][0].content, meta=fresh[name][0].meta) for name in labels),
            labels=labels,
            unlabelled=len(fresh) - len(labels),
            taught=len(annotations) - len(fresh),
        )


async def aevaluate(
    judge: Judge,
    labelled: FeedbackSource,
    *,
    against: Judge | None = None,
    unseen: bool = False,
    judged: str | Path | Sequence[str | Path] = (),
    out: str | Path | None = None,
    concurrency: int | None = None,
    max_cost: float | Calls | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Judge every labelled case once and compare with the label that the judge's policy gives to all annotations on it.

    Args:
        judge: The judge that is measured.
        labelled: A feedback file, or Feedback objects or mappings. A column `group` names what several cases share.
        against: A judge to compare with on the same cases.
        unseen: Leave out cases in the memory of either judge, by id or content.
        judged: Files that `judge_many(out=…)` wrote. A judge whose file is here is not asked.
        out: A file that keeps the judge's judgments, and from which the same call resumes.
        concurrency: Model calls at a time.
        max_cost: Dollars for both judges together; a case that it stops is not scored.
        progress: Called with the phase, how many cases are done, and how many there are.

    Returns:
        The figures, every case, and the comparison where there is one.

    Raises:
        InvalidRows: A row is not valid.
        InputError: No case has a label, all are in memory, or a file of judgments does not fit.
    """
    outside = [other for other in (judge, against) if unseen and other is not None]
    cases = LabelledCases.of(judge, labelled, outside=outside)
    files = [judged] if isinstance(judged, str | Path) else list(judged)
    calls = max_cost if isinstance(max_cost, Calls) else Calls(max_cost=max_cost)

    async def judgments_of(one: Judge, *, first: bool) -> tuple[Sequence[Judgment], Usage]:
        if (file := next((path for path in files if _made_by(one, path)), None)) is not None:
            return judgments_from(file, cases.examples), Usage()
        if first and files:
            raise InputError(
                f"{files[0]} was judged by another judge, or by {one.name} with another model, instructions, "
                "setting or memory; judge the cases again"
            )
        own = out if first else None
        made = await one.ajudge_many(
            cases.examples, concurrency=concurrency, out=own, progress=progress, max_cost=calls
        )
        return made, sum((judgment.usage for judgment in made), Usage())

    evaluation = _evaluation(judge, cases, *await judgments_of(judge, first=True))
    if against is None:
        return evaluation
    base = _evaluation(against, cases, *await judgments_of(against, first=False))
    comparable = base.n > 0 and evaluation.n > 0
    return replace(evaluation, base=base, comparison=compare(base, evaluation) if comparable else None)


evaluate = aio.blocking(aevaluate)
"""Agreement with people, with intervals; the synchronous form of `aevaluate`."""


# -- judgments that lie in a file already ------------------------------------------------------------------------------


def _made_by(judge: Judge, path: str | Path) -> bool:
    """Whether the judge as it is today wrote the file; its name does not count, and no key is needed."""
    signature = f"@{judge.fingerprint}-{prompts_hash()[:6]}" if judge.model_name else signature_of(judge)
    return signature.rpartition("@")[2] == read_judgments(path).judge.rpartition("@")[2]


def judgments_from(path: str | Path, examples: Sequence[Example]) -> list[Judgment]:
    """The judgments of the examples, in their order, from a file that `judge -o` wrote. No model is asked.

    Args:
        path: A file of judgments.
        examples: The cases; the file may hold more.

    Raises:
        InputError: The file is unreadable, lacks a case, or a case has changed since.
    """
    file = read_judgments(path)
    missing = [example.id for example in examples if example.id not in file.judgments]
    if missing:
        more = f" and of {len(missing) - 1} others" if missing[1:] else ""
        raise InputError(f"{path} has no judgment for {missing[0]!r}{more}; judge them first, or leave out --judged")
    for example in examples:
        if not file.fits(example):
            raise InputError(f"{path}: {example.id!r} has changed since it was judged; judge it again")
    return [file.judgments[example.id] for example in examples]


def _evaluation(judge: Judge, labelled: LabelledCases, judgments: Sequence[Judgment], usage: Usage) -> Evaluation:
    by_id = {example.id: judgment for example, judgment in zip(labelled.examples, judgments, strict=True)}
    cases = tuple(
        _scored(example, labelled.labels[example.id], by_id[example.id], judge.value_type)
        for example in labelled.examples
    )
    scored = [case for case in cases if case.value is not None]
    labels = judge.value_type.labels if len(judge.value_type.labels) <= _LISTED_LABELS else ()
    counts = Counter((case.label, case.value) for case in scored)
    memory, ids = _keys(judge.memory.cases), {case.id for case in scored}
    return Evaluation(
        judge=judge.name,
        value_type=judge.value_type.spec,
        n=len(scored),
        unscored=len(cases) - len(scored),
        unlabelled=labelled.unlabelled,
        seen=sum(example.id in ids and not memory.isdisjoint(_keys([example])) for example in labelled.examples),
        taught=labelled.taught,
        metrics=measure(judge.value_type, scored),
        labels=labels,
        confusion=tuple(tuple(counts[row, column] for column in labels) for row in labels),
        usage=usage,
        model=", ".join(dict.fromkeys(judgment.model for judgment in judgments if judgment.model)),
        memory_hash=next((judgment.memory_hash for judgment in judgments if judgment.memory_hash), ""),
        cases=cases,
        judgments=by_id,
        rows=labelled.rows,
    )


def _scored(example: Example, label: Value, judgment: Judgment, value_type: ValueType) -> ScoredCase:
    group = example.meta.get("group")
    error = judgment.error or ("the judgment has no value" if judgment.value is None else None)
    return ScoredCase(
        id=example.id,
        label=label,
        value=None if error else judgment.value,
        error=error,
        group=None if group is None else str(group),
        rationale=judgment.rationale,
        tolerance=value_type.tolerance,
    )


def _keys(cases: Iterable[Case | Example | Feedback]) -> set[str]:
    """Ids and contents: a case that shares one of them with a memory is in it."""
    keys = set[str]()
    for case in cases:
        example = case if isinstance(case, Example) else case.example
        keys |= {f"id {case.id}"} if example is None else {f"id {case.id}", f"content {example.content_hash}"}
    return keys


# -- figures ---------------------------------------------------------------------------------------------------------


def measure(value_type: ValueType, cases: Sequence[ScoredCase]) -> dict[str, Estimate]:
    """The accuracy and the metrics of the value type over the cases that have a verdict."""
    scored = [case for case in cases if case.value is not None]
    values, truth, groups = [case.value for case in scored], [case.label for case in scored], clusters(scored)
    right = [bool(case.correct) for case in scored]
    share = sum(right) / len(right) if right else None
    figures = {"accuracy": estimate(share, groups, lambda: share_interval(right, groups))}
    if value_type.kind in METRICS:
        name, statistic = METRICS[value_type.kind]
        interval = partial(agreement_interval, statistic, values, truth, groups)
        figures[name] = estimate(statistic(values, truth), groups, interval)
    return figures
