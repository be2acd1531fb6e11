"""How far a judge agrees with people: each case judged once, against the label that the annotations' policy gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase, clusters, estimate
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.intervals import agreement_interval, share_interval
from memalign.evaluation.judged import (
    column_of,
    covers,
    judged_rows,
    judgments_from,
    made_by,
    made_by_another,
)
from memalign.evaluation.labelled import LabelledCases, need_judge
from memalign.evaluation.promise import Passing, Promise, check_promise, promise_of, steps_of
from memalign.evaluation.sentences import plan_of, sentences_of
from memalign.evaluation.traffic import Traffic, traffic_of
from memalign.io import ExampleSource, FeedbackSource, RowSource
from memalign.metrics import Estimate, Statistic, ccc, cohen_kappa
from memalign.models.calls import Calls
from memalign.notebook import html_view
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge, JudgmentList, Progress

__all__ = ["METRICS", "Evaluation", "Repeated", "aevaluate", "evaluate", "measure"]

METRICS: dict[str, tuple[str, Statistic]] = {
    "bool": ("kappa", cohen_kappa),
    "choice": ("kappa", cohen_kappa),
    "int": ("weighted_kappa", ccc),  # the two are the same figure
    "float": ("ccc", ccc),
}
"""What is measured of a judge beside its accuracy, by the kind of its values."""

_LISTED_LABELS = 12  # an int:0..100 would make a confusion matrix of mostly empty rows
_LISTED_IDS = 10
_SAMPLE = 20  # cases that are judged again


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """How often a judge changes its verdict when it is asked again, on a sample of the labelled cases.

    Attributes:
        times: How often each case was judged, the first time included.
        n: Cases that were judged so often.
        turned: Those whose verdicts were not all the same.
        share: Their share, with its interval at 95 %.
        stopped: Why other cases of the sample were not judged again; empty where all were.
    """

    times: int
    n: int
    turned: int
    share: Estimate
    stopped: str = ""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Agreement of one judge with people's labels. Intervals are at 95 %.

    Attributes:
        judge: The judge's name.
        value_type: What it answers, such as `bool`.
        n: Cases with a label and a verdict; every figure is over these.
        unscored: Cases with a label and no verdict, because the call failed.
        unlabelled: Cases that have only comments, and were not judged.
        taught: Labelled cases that a judge here was taught, by id or content. They count in no other figure.
        taught_ids: Their ids.
        taught_accuracy: How often the judge gives their labels; None unless they were judged too.
        metrics: accuracy (of float: the share within a tenth of the scale); besides kappa of bool and choices,
            weighted_kappa (quadratic) of int, ccc of float. Where cases have a group, intervals come from whole groups;
            fewer than ten groups give none.
        labels: The labels of the confusion matrix; none of float, str and long scales.
        confusion: Counts in the order of `labels` (rows: people, columns: judge).
        usage: What the calls of this evaluation came to.
        model: The model that was asked.
        answered_by: The names that its answers give, such as a dated version.
        memory_hash: Of the judge's memory.
        cases: Every case with a label that counts.
        base: The evaluation of the judge it is compared with, on the same cases.
        comparison: This judge against that one, paired by case.
        traffic: Shares of judged rows without labels, corrected; see `on` of `evaluate`.
        promise: The threshold above which verdicts may pass without a person; see `promise` of `evaluate`.
        repeated: How often verdicts turn; see `repeat` of `evaluate`.
        judgments: The judge's, by id; they and people's `rows` are no part of `to_dict`.
    """

    judge: str
    value_type: str
    n: int
    unscored: int
    unlabelled: int
    taught: int = 0
    taught_ids: tuple[str, ...] = ()
    taught_accuracy: Estimate | None = None
    metrics: dict[str, Estimate]
    labels: tuple[Value, ...]
    confusion: tuple[tuple[int, ...], ...]
    usage: Usage
    model: str
    answered_by: list[str] = field(default_factory=list)
    memory_hash: str
    cases: tuple[ScoredCase, ...]
    base: Evaluation | None = None
    comparison: Comparison | None = None
    traffic: tuple[Traffic, ...] = ()
    promise: Promise | None = None
    repeated: Repeated | None = None
    judgments: Mapping[str, Judgment] = field(default_factory=dict, repr=False)
    rows: tuple[Feedback, ...] = field(default=(), repr=False)

    @property
    def model_text(self) -> str:
        """The model that was asked, and which version answered where its answers give another name."""
        others = [name for name in self.answered_by if not self.model.endswith(f":{name}")]
        return f"{self.model} (answered by {', '.join(others)})" if others else self.model

    @property
    def disagreements(self) -> tuple[ScoredCase, ...]:
        """The cases on which judge and people differ, in their order; numbers that are furthest apart come first."""
        wrong = [case for case in self.cases if case.correct is False]
        if self.value_type.startswith(("int:", "float:")):
            wrong.sort(key=lambda case: -abs(float(case.value or 0) - float(case.label)))
        return tuple(wrong)

    @property
    def thresholds(self) -> tuple[Passing, ...]:
        """What passes without a person at thresholds of confidence: of all verdicts, then of each.

        Empty where verdicts carry no probability.
        """
        sure = [case for case in self.cases if case.confidence is not None]
        steps = steps_of(sure)
        for label in self.labels:
            own = [case for case in sure if case.value == label]
            if 0 < len(own) < len(sure):
                steps += steps_of(own, label=True)
        return tuple(steps)

    def plan(self) -> list[str]:
        """Say what more labels would show."""
        return plan_of(self)

    def to_dict(self) -> dict[str, Any]:
        """The figures and cases as plain JSON values."""
        names = [
            item.name for item in fields(self) if item.name not in ("judgments", "rows", "base")
        ]
        plain: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in names})
        plain |= {"disagreements": [case.id for case in self.disagreements]}
        plain |= {"thresholds": msgspec.to_builtins(self.thresholds), "sentences": self.sentences()}
        return plain | {"base": None if self.base is None else self.base.to_dict()}

    def __str__(self) -> str:
        """This judge's figures, and below them its comparison with the other judge."""
        if self.base is None:
            return "\n".join(self.lines())
        lines = [*self.lines(), "", "the other judge:", *self.base.lines()]
        if self.comparison is not None:
            lines += [
                "",
                "the other judge (the first) against this one (the second):",
                str(self.comparison),
            ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_view(str(self).splitlines())

    def sentences(self) -> list[str]:
        """Say the figures in plain sentences, the traffic and the promise included."""
        return sentences_of(self)

    def lines(self) -> list[str]:
        """Write this judge's figures, without those of the judge it is compared with."""
        return [*self.sentences(), "", *self._table()]

    def _table(self) -> list[str]:
        total = self.n + self.unscored + self.unlabelled
        model = self.model_text or "a model that gave no verdict"
        lines = [
            f"{self.judge} ({self.value_type}) on {model}, memory {self.memory_hash[:12] or 'empty'}",
            f"n = {self.n} of {total} cases; {self.unscored} unscored (no verdict), {self.unlabelled} without a label",
            *self._taught_lines(),
        ]
        if few := self.metrics["accuracy"].no_interval:
            lines.append(few)
        for name, figure in self.metrics.items():
            lines.append(f"{name.replace('_', ' ')} {figure:.2f}")
        for label, row in zip(self.labels, self.confusion, strict=True):
            counts = [
                f"{count} {value_text(value)}"
                for value, count in zip(self.labels, row, strict=True)
                if count
            ]
            if counts:
                lines.append(f"people say {value_text(label)}, the judge says: {', '.join(counts)}")
        return lines

    def _taught_lines(self) -> list[str]:
        """Name the taught cases on a line of their own, and their figure on another."""
        if not self.taught:
            return []
        total = self.taught + self.n + self.unscored + self.unlabelled
        named = ", ".join(self.taught_ids[:_LISTED_IDS])
        if self.taught > _LISTED_IDS:
            named += f" and {self.taught - _LISTED_IDS} more"
        lines = [
            f"{self.taught} of {total} cases were taught and are left out of every figure: {named}"
        ]
        if self.taught_accuracy is not None:
            lines.append(
                f"taught cases alone: accuracy {self.taught_accuracy:.2f}, n = {self.taught}"
            )
        return lines


async def aevaluate(
    judge: Judge,
    labelled: FeedbackSource,
    *,
    against: Judge | None = None,
    include_taught: bool = False,
    on: str | Path | Sequence[Judgment] | None = None,
    on_examples: ExampleSource | None = None,
    promise: float | None = None,
    repeat: int | None = None,
    judged: str | Path | Sequence[str | Path] = (),
    out: str | Path | None = None,
    concurrency: int | None = None,
    max_cost: float | Calls | None = None,
    progress: Progress | None = None,
    columns: Mapping[str, str] | None = None,
) -> Evaluation:
    """Judge every labelled case once and compare with the label that the judge's policy gives to all annotations on it.

    A case in the memory of either judge, under any id, counts in no figure: it would be right by construction.

    Args:
        judge: The judge that is measured.
        labelled: A feedback file, or Feedback objects or mappings. A column `group` names what several cases share.
        against: A judge to compare with on the same cases.
        include_taught: Judge taught cases too, for `taught_accuracy`, a figure of its own.
        on: The judge's verdicts on traffic without labels: a file that `judge_many(out=…)` wrote, or judgments. Its
            shares are corrected by the judge's errors on `labelled`, which must be drawn at random from the same
            traffic and may be among it.
        on_examples: The rows that were judged, whose columns `group` and `system` then count.
        promise: A share in (0, 1). `promise` of the result names the threshold above which people agree with at least
            so many verdicts.
        repeat: Judge a sample of the cases so often, 2 or more, to see whether verdicts turn.
        judged: Files that `judge_many(out=…)` wrote. A judge whose file is here is not asked.
        out: A file that keeps the judge's judgments, and from which the same call resumes.
        concurrency: Model calls at a time.
        max_cost: Dollars for both judges together; a case that it stops is not scored.
        progress: Called with the phase, how many cases are done, and how many there are.
        columns: Field to column of another name, for these rows; None for those that the judge remembers.

    Returns:
        The figures, every case, and the comparison where there is one.

    Raises:
        InvalidRows: A row is not valid.
        InputError: No case has a label, all are in memory, or a file of judgments does not fit.
        TypeError: The judge is not the first argument.
    """
    _check(judge, against, repeat, promise)
    calls = max_cost if isinstance(max_cost, Calls) else Calls(max_cost=max_cost)
    if columns is not None:
        labelled = RowSource.of(labelled, columns=columns)
    cases = LabelledCases.of(judge, labelled, others=() if against is None else (against,))
    rows = None if on is None else judged_rows(judge, on, on_examples)
    run = _Run(
        cases=cases,
        examples=cases.all_examples if include_taught else cases.unseen_examples,
        files=[judged] if isinstance(judged, str | Path) else list(judged),
        calls=calls,
        concurrency=concurrency,
        progress=progress,
    )
    if not run.files and isinstance(on, str | Path) and covers(on, run.examples):
        run = replace(run, files=[on])
    evaluation = await run.side(judge, first=True, out=out)
    if rows is not None:
        evaluation = replace(
            evaluation, traffic=traffic_of(judge.value_type, evaluation.cases, *rows)
        )
    if promise is not None:
        evaluation = replace(evaluation, promise=_promise(evaluation.cases, promise))
    if repeat is not None:
        evaluation = await _repeated(evaluation, cases.examples, repeat, partial(run.ask, judge))
    if against is not None:
        evaluation = _compared(evaluation, await run.side(against))
    return evaluation


evaluate = aio.blocking(aevaluate)
"""Agreement with people, with intervals; the synchronous form of `aevaluate`."""


def _check(judge: Judge, against: Judge | None, repeat: int | None, promise: float | None) -> None:
    """Refuse what cannot be measured, before anything is read or paid for."""
    need_judge(judge, "evaluate(judge, labelled)")
    if against is not None:
        need_judge(against, "evaluate(judge, labelled, against=judge)")
    if repeat is not None and (not isinstance(repeat, int) or repeat < 2):
        raise InputError(f"repeat is how often a case is judged: 2 or more, not {repeat}")
    if promise is not None:
        check_promise(promise)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The cases of one evaluation, files with judgments on them, and the limits within which judges are asked."""

    cases: LabelledCases
    examples: Sequence[Example]
    files: Sequence[str | Path]
    calls: Calls
    concurrency: int | None
    progress: Progress | None

    async def ask(
        self, judge: Judge, some: Sequence[Example], out: str | Path | None = None
    ) -> JudgmentList[Any]:
        return await judge.ajudge_many(
            some, concurrency=self.concurrency, out=out, progress=self.progress, max_cost=self.calls
        )

    async def side(
        self, judge: Judge, *, first: bool = False, out: str | Path | None = None
    ) -> Evaluation:
        """Evaluate one judge, by a file that it wrote, or by asking it; the first must have written a file, if any."""
        for file in self.files:
            if made_by(judge, file):
                return self._evaluation(judge, judgments_from(file, self.examples), Usage())
        if first and self.files:
            raise made_by_another(judge, self.files[0])
        made = await self.ask(judge, self.examples, out)
        return self._evaluation(judge, made, made.usage)

    def _evaluation(self, judge: Judge, judgments: Sequence[Judgment], usage: Usage) -> Evaluation:
        by_id = {
            example.id: judgment for example, judgment in zip(self.examples, judgments, strict=True)
        }
        return _evaluation(judge, self.cases, by_id, usage)


def _compared(evaluation: Evaluation, base: Evaluation) -> Evaluation:
    comparison = compare(base, evaluation) if base.n and evaluation.n else None
    return replace(evaluation, base=base, comparison=comparison)


# -- beyond agreement ------------------------------------------------------------------------------------------------


def _promise(cases: Sequence[ScoredCase], least: float) -> Promise:
    sure = [case for case in cases if case.confidence is not None and case.value is not None]
    if sure or not cases:
        return promise_of(sure, least)
    decision = "the verdicts carry no probability; those of decision models do"
    return Promise(least=least, why=f"{decision}, and those of pairs with --param swap=true")


async def _repeated(
    evaluation: Evaluation,
    examples: Sequence[Example],
    times: int,
    ask: Callable[[Sequence[Example]], Awaitable[Sequence[Judgment]]],
) -> Evaluation:
    """Judge a sample again, without answers that are kept, and compare the verdicts."""
    scored = {case.id: case.value for case in evaluation.cases if case.value is not None}
    drawn = sorted(
        (example for example in examples if example.id in scored), key=lambda one: one.content_hash
    )
    sample = drawn[:_SAMPLE]
    kind = ValueType.of(evaluation.value_type)
    turned = dict.fromkeys((example.id for example in sample), False)
    usage, stopped = evaluation.usage, ""
    for _ in range(times - 1):
        for example, judgment in zip(sample, await ask(sample), strict=True):
            usage += judgment.usage
            value = judgment.value
            if value is None:
                stopped = stopped or judgment.error or ""
                turned.pop(example.id, None)
            elif example.id in turned and not kind.agree(value, scored[example.id]):
                turned[example.id] = True
    changed = list(turned.values())
    share = estimate(
        sum(changed) / len(changed) if changed else None, None, lambda: share_interval(changed)
    )
    repeated = Repeated(
        times=times, n=len(changed), turned=sum(changed), share=share, stopped=stopped
    )
    return replace(evaluation, repeated=repeated, usage=usage)


# -- from judgments to figures ---------------------------------------------------------------------------------------


def _evaluation(
    judge: Judge, labelled: LabelledCases, judgments: Mapping[str, Judgment], usage: Usage
) -> Evaluation:
    cases = _scored_cases(judge, labelled, labelled.examples, judgments)
    taught = _scored_cases(judge, labelled, labelled.taught, judgments)
    scored = [case for case in cases if case.value is not None]
    labels = judge.value_type.labels if len(judge.value_type.labels) <= _LISTED_LABELS else ()
    counts = Counter((case.label, case.value) for case in scored)
    return Evaluation(
        judge=judge.name,
        value_type=judge.value_type.spec,
        n=len(scored),
        unscored=len(cases) - len(scored),
        unlabelled=labelled.unlabelled,
        taught=len(labelled.taught),
        taught_ids=tuple(example.id for example in labelled.taught),
        taught_accuracy=measure(judge.value_type, taught)["accuracy"] if taught else None,
        metrics=measure(judge.value_type, scored),
        labels=labels,
        confusion=tuple(tuple(counts[row, column] for column in labels) for row in labels),
        usage=usage,
        model=", ".join(
            dict.fromkeys(judgment.model for judgment in judgments.values() if judgment.model)
        ),
        answered_by=sorted({judgment.answered_by for judgment in judgments.values()} - {""}),
        memory_hash=next(
            (judgment.memory_hash for judgment in judgments.values() if judgment.memory_hash), ""
        ),
        cases=cases,
        judgments=judgments,
        rows=labelled.rows,
    )


def _scored_cases(
    judge: Judge,
    labelled: LabelledCases,
    examples: Sequence[Example],
    judgments: Mapping[str, Judgment],
) -> tuple[ScoredCase, ...]:
    """Put labels and verdicts together, for the examples that have been judged."""
    return tuple(
        _scored(example, labelled.labels[example.id], judgments[example.id], judge.value_type)
        for example in examples
        if example.id in judgments
    )


def _scored(
    example: Example, label: Value, judgment: Judgment, value_type: ValueType
) -> ScoredCase:
    error = judgment.error or ("the judgment has no value" if judgment.value is None else None)
    return ScoredCase(
        id=example.id,
        label=label,
        value=None if error else judgment.value,
        error=error,
        group=column_of(example, "group"),
        system=column_of(example, "system"),
        confidence=judgment.confidence,
        rationale=judgment.rationale,
        tolerance=value_type.tolerance,
    )


# -- figures ---------------------------------------------------------------------------------------------------------


def measure(value_type: ValueType, cases: Sequence[ScoredCase]) -> dict[str, Estimate]:
    """The accuracy and the metrics of the value type over the cases that have a verdict."""
    scored = [case for case in cases if case.value is not None]
    values, truth, groups = (
        [case.value for case in scored],
        [case.label for case in scored],
        clusters(scored),
    )
    right = [bool(case.correct) for case in scored]
    share = sum(right) / len(right) if right else None
    figures = {"accuracy": estimate(share, groups, lambda: share_interval(right, groups))}
    if value_type.kind in METRICS:
        name, statistic = METRICS[value_type.kind]
        interval = partial(agreement_interval, statistic, values, truth, groups)
        figures[name] = estimate(statistic(values, truth), groups, interval)
    return figures
