"""Judge every labelled case once, by as few calls as may be, and measure the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, Judgments, evaluation_of
from memalign.evaluation.comparison import compare
from memalign.evaluation.judged import fitting, judged_rows, kept_judgments
from memalign.evaluation.labelled import LabelledCases, need_judge
from memalign.evaluation.promise import check_promise, promise_of
from memalign.evaluation.repeats import repeated
from memalign.evaluation.traffic import traffic_of
from memalign.io import ExampleSource, FeedbackSource, RowSource
from memalign.models.calls import Calls
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge import Judge, JudgmentList, Progress

__all__ = ["aevaluate", "evaluate"]


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
    others = [] if against is None else [against]
    cases = LabelledCases.of(judge, labelled, others=others)
    run = _Run(
        cases=cases,
        examples=cases.all_examples if include_taught else cases.unseen_examples,
        calls=calls,
        concurrency=concurrency,
        progress=progress,
    )
    files = [judged] if isinstance(judged, str | Path) else list(judged)
    rows = None if on is None else judged_rows(judge, on, on_examples)
    known = _known(judge, files, on, run.examples)
    evaluation = await run.side(judge, known, out)
    worth: dict[str, Any] = {}
    if rows is not None:
        worth["traffic"] = traffic_of(judge.value_type, evaluation.cases, *rows)
    if promise is not None:
        worth["promise"] = promise_of(evaluation.cases, promise)
    if repeat is not None:
        ask = partial(run.ask, judge)
        again = await repeated(evaluation.cases, cases.examples, repeat, ask)
        worth["repeated"] = again[0]
        worth["usage"] = evaluation.usage + again[1]
    if against is not None:
        known = kept_judgments(against, files, run.examples)
        worth |= await run.beside(evaluation, against, known)
    return replace(evaluation, **worth)


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


def _known(
    judge: Judge,
    files: Sequence[str | Path],
    on: str | Path | Sequence[Judgment] | None,
    examples: Sequence[Example],
) -> Judgments:
    """Return the judgments of the judge's own file, or else those of the traffic that fit."""
    if files:
        return kept_judgments(judge, files, examples, needed=True)
    return fitting(on, examples) if isinstance(on, str | Path) else {}


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The cases of one evaluation, and the limits of its calls."""

    cases: LabelledCases
    examples: Sequence[Example]
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

    async def side(
        self, judge: Judge, known: Judgments, out: str | Path | None = None
    ) -> Evaluation:
        """Measure one judge, which is asked only about cases whose judgment is not known."""
        judgments = dict(known)
        usage = Usage()
        missing = [example for example in self.examples if example.id not in known]
        if missing:
            made = await self.ask(judge, missing, out)
            for example, judgment in zip(missing, made, strict=True):
                judgments[example.id] = judgment
                usage += judgment.usage
        return evaluation_of(judge, self.cases, judgments, usage)

    async def beside(
        self, evaluation: Evaluation, judge: Judge, known: Judgments
    ) -> dict[str, Any]:
        """Measure the judge to compare with, and compare if both gave a verdict."""
        base = await self.side(judge, known)
        if not base.n or not evaluation.n:
            return {"base": base}
        return {"base": base, "comparison": compare(base, evaluation)}
