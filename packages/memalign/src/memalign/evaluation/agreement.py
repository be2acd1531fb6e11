"""How far a judge agrees with people: each case is judged once, against the label that counts."""

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
from memalign.evaluation.cases import Cases, ScoredCase, clusters, with_verdict
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.intervals import (
    agreement_interval,
    estimate,
    estimate_mean,
    share_interval,
)
from memalign.evaluation.judged import column_of, fitting, judged_rows, kept_judgments
from memalign.evaluation.labelled import LabelledCases, need_judge
from memalign.evaluation.promise import (
    Passing,
    Promise,
    check_promise,
    promise_of,
    steps_of,
)
from memalign.evaluation.sentences import plan_of, sentences_of, table_of
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
_SAMPLE = 20  # cases that are judged again

Judgments = Mapping[str, Judgment]


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """How often a judge changes its verdict when it is asked again, on a sample of cases.

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
        taught: Labelled cases that a judge here was taught, by id or content. They count in no
            other figure.
        taught_ids: Their ids.
        taught_accuracy: How often the judge gives their labels; None unless they were judged too.
        metrics: accuracy (of float: the share within a tenth of the scale); besides kappa of bool
            and choices, weighted_kappa (quadratic) of int, ccc of float. Where cases have a group,
            intervals come from whole groups; fewer than ten groups give none.
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
        promise: The threshold above which verdicts may pass without a person; see `promise` of
            `evaluate`.
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
    judgments: Judgments = field(default_factory=dict, repr=False)
    rows: tuple[Feedback, ...] = field(default=(), repr=False)

    @property
    def model_text(self) -> str:
        """The model that was asked, and which version answered if its answers name another."""
        others = [
            name for name in self.answered_by if not self.model.endswith(f":{name}")
        ]
        return (
            f"{self.model} (answered by {', '.join(others)})" if others else self.model
        )

    @property
    def sides(self) -> list[Evaluation]:
        """This evaluation, and that of the judge it is compared with."""
        return [self] if self.base is None else [self, self.base]

    @property
    def disagreements(self) -> Cases:
        """The cases on which judge and people differ; of numbers, the furthest apart come first."""
        wrong = [case for case in self.cases if case.correct is False]
        if ValueType.of(self.value_type).numeric:
            wrong.sort(
                key=lambda case: -abs(float(case.value or 0) - float(case.label))
            )
        return wrong

    @property
    def thresholds(self) -> tuple[Passing, ...]:
        """The verdicts that pass at thresholds of confidence: of all verdicts, then of each.

        Empty where verdicts carry no probability.
        """
        sure = _with_confidence(self.cases)
        steps = steps_of(sure)
        for label in self.labels:
            own = [case for case in sure if case.value == label]
            if len(own) < len(sure):
                steps += [
                    replace(step, label=value_text(label)) for step in steps_of(own)
                ]
        return tuple(steps)

    def sentences(self) -> list[str]:
        """Say the figures in plain sentences, the traffic and the promise included."""
        return sentences_of(self)

    def plan(self) -> list[str]:
        """Say what more labels would show."""
        return plan_of(self)

    def lines(self) -> list[str]:
        """Write this judge's figures, without those of the judge it is compared with."""
        return [*self.sentences(), "", *table_of(self)]

    def __str__(self) -> str:
        """Write this judge's figures, and below them its comparison with the other judge."""
        lines = self.lines()
        if self.base is not None:
            lines += ["", "the other judge:", *self.base.lines()]
        if self.comparison is not None:
            title = "the other judge (the first) against this one (the second):"
            lines += ["", title, str(self.comparison)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show what the figures say as lines, and the figures of each judge as a table."""
        lines = self.sentences()
        if self.comparison is not None:
            lines += ["", *str(self.comparison).splitlines()]
        columns = ["", "this judge"]
        sides = [self]
        if self.base is not None:
            columns = ["", "the other judge", "this judge"]
            sides = [self.base, self]
        rows = [("cases with a verdict", *(str(side.n) for side in sides))]
        for name in self.metrics:
            figures = [f"{side.metrics[name]:.2f}" for side in sides]
            rows.append((name.replace("_", " "), *figures))
        rows.append(("model", *(side.model_text for side in sides)))
        return html_view(lines, columns, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and cases as plain JSON values."""
        kept = [
            one.name
            for one in fields(self)
            if one.name not in ("judgments", "rows", "base")
        ]
        plain = {name: getattr(self, name) for name in kept}
        plain["disagreements"] = [case.id for case in self.disagreements]
        plain["thresholds"] = self.thresholds
        plain["sentences"] = self.sentences()
        plain["base"] = None if self.base is None else self.base.to_dict()
        written: dict[str, Any] = msgspec.to_builtins(plain)
        return written


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
    """Judge every labelled case once, and compare the verdicts with people's labels.

    The label of a case is the one that the judge's policy gives to all annotations on it.
    A case in the memory of either judge, under any id, counts in no figure: it would be right by
    construction.

    Args:
        judge: The judge that is measured.
        labelled: A feedback file, or Feedback objects or mappings. A column `group` names what
            several cases share.
        against: A judge to compare with on the same cases.
        include_taught: Judge taught cases too, for `taught_accuracy`, a figure of its own.
        on: The judge's verdicts on traffic without labels: a file that `judge_many(out=…)` wrote,
            or judgments. Its shares are corrected by the judge's errors on `labelled`, which must
            be drawn at random from the same traffic. A labelled case that the file has is not
            judged again.
        on_examples: The rows that were judged, whose columns `group` and `system` then count.
        promise: A share in (0, 1). `promise` of the result names the threshold above which people
            agree with at least so many verdicts.
        repeat: Judge a sample of the cases so often, 2 or more, to see whether verdicts turn.
        judged: Files that `judge_many(out=…)` wrote. A judge whose file is here is not asked.
        out: A file that keeps the judge's judgments, and from which the same call resumes.
        concurrency: Model calls at a time.
        max_cost: Dollars for both judges together; a case that it stops is not scored.
        progress: Called with the phase, how many cases are done, and how many there are.
        columns: Field to column of another name, for these rows; None for those that the judge
            remembers.

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
    cases = LabelledCases.of(judge, labelled, others=[against] if against else [])
    run = _Run(
        cases=cases,
        examples=cases.all_examples if include_taught else cases.unseen_examples,
        files=[judged] if isinstance(judged, str | Path) else list(judged),
        calls=calls,
        concurrency=concurrency,
        progress=progress,
    )
    rows = None if on is None else judged_rows(judge, on, on_examples)
    evaluation = await run.side(judge, run.known(judge, on), out)
    worth: dict[str, Any] = {}
    if rows is not None:
        worth["traffic"] = traffic_of(judge.value_type, evaluation.cases, *rows)
    if promise is not None:
        worth["promise"] = _promise(evaluation.cases, promise)
    evaluation = replace(evaluation, **worth)
    if repeat is not None:
        evaluation = await _repeated(
            evaluation, cases.examples, repeat, partial(run.ask, judge)
        )
    if against is not None:
        base = await run.side(against, kept_judgments(against, run.files, run.examples))
        evaluation = _compared(evaluation, base)
    return evaluation


evaluate = aio.blocking(aevaluate)
"""Agreement with people, with intervals; the synchronous form of `aevaluate`."""


def _check(
    judge: Judge, against: Judge | None, repeat: int | None, promise: float | None
) -> None:
    """Refuse what cannot be measured, before anything is read or paid for."""
    need_judge(judge, "evaluate(judge, labelled)")
    if against is not None:
        need_judge(against, "evaluate(judge, labelled, against=judge)")
    if repeat is not None and (not isinstance(repeat, int) or repeat < 2):
        raise InputError(
            f"repeat is how often a case is judged: 2 or more, not {repeat}"
        )
    if promise is not None:
        check_promise(promise)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The cases of one evaluation, files with judgments on them, and the limits of its calls."""

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
            some,
            concurrency=self.concurrency,
            out=out,
            progress=self.progress,
            max_cost=self.calls,
        )

    def known(self, judge: Judge, on: object) -> Judgments:
        """Return the judgments of the judge's own file, or else those of the traffic that fit."""
        if self.files:
            return kept_judgments(judge, self.files, self.examples, needed=True)
        return fitting(on, self.examples) if isinstance(on, str | Path) else {}

    async def side(
        self, judge: Judge, known: Judgments, out: str | Path | None = None
    ) -> Evaluation:
        """Evaluate one judge, which is asked only about cases whose judgment is not known."""
        missing = [example for example in self.examples if example.id not in known]
        made = await self.ask(judge, missing, out) if missing else []
        names = [example.id for example in missing]
        judgments = {**known, **dict(zip(names, made, strict=True))}
        return _evaluation(judge, self.cases, judgments, _usage(made))


def _compared(evaluation: Evaluation, base: Evaluation) -> Evaluation:
    comparison = compare(base, evaluation) if base.n and evaluation.n else None
    return replace(evaluation, base=base, comparison=comparison)


# -- beyond agreement -----------------------------------------------------------------------------


def _with_confidence(cases: Cases) -> list[ScoredCase]:
    return [case for case in with_verdict(cases) if case.confidence is not None]


def _promise(cases: Cases, least: float) -> Promise:
    sure = _with_confidence(cases)
    if sure or not cases:
        return promise_of(sure, least)
    decision = "the verdicts carry no probability; those of decision models do"
    return Promise(
        least=least, why=f"{decision}, and those of pairs with --param swap=true"
    )


async def _repeated(
    evaluation: Evaluation,
    examples: Sequence[Example],
    times: int,
    ask: Callable[[Sequence[Example]], Awaitable[Sequence[Judgment]]],
) -> Evaluation:
    """Judge a sample again, without answers that are kept, and compare the verdicts."""
    scored = {
        case.id: case.value for case in evaluation.cases if case.value is not None
    }
    drawn = [example for example in examples if example.id in scored]
    sample = sorted(drawn, key=lambda example: example.content_hash)[:_SAMPLE]
    rounds = [await ask(sample) for _ in range(times - 1)]
    kind = ValueType.of(evaluation.value_type)
    turned: list[bool] = []
    stopped = ""
    usage = evaluation.usage
    for example, *again in zip(sample, *rounds, strict=True):
        usage += _usage(again)
        first = scored[example.id]
        failed = [judgment.error or "" for judgment in again if judgment.value is None]
        values = [judgment.value for judgment in again if judgment.value is not None]
        if failed:
            stopped = stopped or failed[0]
        else:
            turned.append(not all(kind.agree(value, first) for value in values))
    repeated = Repeated(
        times=times,
        n=len(turned),
        turned=sum(turned),
        share=estimate_mean(turned, None, share_interval),
        stopped=stopped,
    )
    return replace(evaluation, repeated=repeated, usage=usage)


# -- from judgments to figures --------------------------------------------------------------------


def _usage(judgments: Sequence[Judgment]) -> Usage:
    return sum((judgment.usage for judgment in judgments), Usage())


def _evaluation(
    judge: Judge, labelled: LabelledCases, judgments: Judgments, usage: Usage
) -> Evaluation:
    kind = judge.value_type
    cases = _scored_cases(kind, labelled, labelled.examples, judgments)
    taught = _scored_cases(kind, labelled, labelled.taught, judgments)
    scored = with_verdict(cases)
    labels = kind.labels if len(kind.labels) <= _LISTED_LABELS else ()
    counts = Counter((case.label, case.value) for case in scored)
    given = judgments.values()
    models = dict.fromkeys(judgment.model for judgment in given if judgment.model)
    hashes = [judgment.memory_hash for judgment in given if judgment.memory_hash]
    return Evaluation(
        judge=judge.name,
        value_type=kind.spec,
        n=len(scored),
        unscored=len(cases) - len(scored),
        unlabelled=labelled.unlabelled,
        taught=len(labelled.taught),
        taught_ids=tuple(example.id for example in labelled.taught),
        taught_accuracy=measure(kind, taught)["accuracy"] if taught else None,
        metrics=measure(kind, scored),
        labels=labels,
        confusion=tuple(
            tuple(counts[row, column] for column in labels) for row in labels
        ),
        usage=usage,
        model=", ".join(models),
        answered_by=sorted({judgment.answered_by for judgment in given} - {""}),
        memory_hash=hashes[0] if hashes else "",
        cases=cases,
        judgments=judgments,
        rows=labelled.rows,
    )


def _scored_cases(
    kind: ValueType,
    labelled: LabelledCases,
    examples: Sequence[Example],
    judgments: Judgments,
) -> tuple[ScoredCase, ...]:
    """Put labels and verdicts together, for the examples that have been judged."""
    cases = []
    for example in examples:
        judgment = judgments.get(example.id)
        if judgment is None:
            continue
        error = judgment.error
        if judgment.value is None and not error:
            error = "the judgment has no value"
        case = ScoredCase(
            id=example.id,
            label=labelled.labels[example.id],
            value=None if error else judgment.value,
            error=error,
            group=column_of(example, "group"),
            system=column_of(example, "system"),
            confidence=judgment.confidence,
            rationale=judgment.rationale,
            tolerance=kind.tolerance,
        )
        cases.append(case)
    return tuple(cases)


def measure(value_type: ValueType, cases: Cases) -> dict[str, Estimate]:
    """Return the accuracy, and the metric of the value type, over the cases that have a verdict.

    Args:
        value_type: What the judge answers.
        cases: Labelled cases; one without a verdict counts in no figure.
    """
    scored = with_verdict(cases)
    groups = clusters(scored)
    right = [bool(case.correct) for case in scored]
    figures = {"accuracy": estimate_mean(right, groups, share_interval)}
    if value_type.kind in METRICS:
        name, statistic = METRICS[value_type.kind]
        columns = [case.value for case in scored], [case.label for case in scored]
        interval = partial(agreement_interval, statistic, *columns, groups)
        figures[name] = estimate(statistic(*columns), groups, interval)
    return figures
