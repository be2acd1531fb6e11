"""The kinds of long work: what a job of each is given, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from memalign import Judge
from memalign.align import AlignResult
from memalign.errors import MemalignError
from memalign.keys import same_person
from memalign.memory import Memory
from memalign.types import Example, FeedbackKey, Judgment
from memalign_server.erase.service import erase
from memalign_server.learned.service import rephrased
from memalign_server.learned.teaching import (
    Lesson,
    lessons_of,
    mark_taught,
    mark_untaught,
    overruled,
)
from memalign_server.review.disputes import refresh_disputes
from memalign_server.review.service import overrule, withdraw
from memalign_server.store.answers import AnsweredCase, cases_for_trial
from memalign_server.store.cases import add_cases, cases_ahead, versions_in_view
from memalign_server.store.erasing import forget_judgments
from memalign_server.work.judging import AHEAD, Work, judge_hidden

__all__ = ["KINDS", "Kind"]

Kind = Callable[[Work], Awaitable[dict[str, Any]]]

_TRIED_AT_ONCE = 4
"""Cases between two notes of a trial: each is a dot that fills on the page."""


# -- learning and forgetting -----------------------------------------------------------------------


async def align(work: Work) -> dict[str, Any]:
    """Learn `feedback`, a list of rows; without any, what is pending.

    The new version judges again, as after a teaching.
    """
    given = work.arguments
    result = await work.registry.aalign(
        work.judge,
        given.get("feedback") or (),
        skip_invalid=bool(given.get("skip_invalid")),
        **work.options(),
    )
    return await _judged_again(work, result)


async def _judged_again(
    work: Work, result: AlignResult, blank: Sequence[Example] = ()
) -> dict[str, Any]:
    """Have what a judge has become judge again; `failed` cases could not be judged."""
    version = result.version or 0
    failed = await work.judge_again(result.judge, version, blank=blank)
    return {**result.to_dict(), "summary": result.summary, "failed": failed}


async def unalign(work: Work) -> dict[str, Any]:
    """Forget the feedback that `keys` and `source` name, and judge again what that changes.

    It is forgotten from the next version on. Guidelines of `keep` stay: their wording is a person's
    who keeps it. With `words` the verdicts of the feedback stay answers, without their words. Of
    people other than `by`, who asks, everything stays that they said: it is out of force, by that
    choice, and what `holder` said holds instead.
    """
    given = work.arguments
    keys = given.get("keys") or ()
    before, _ = await work.latest()
    result = await work.registry.aunalign(
        work.judge,
        *keys,
        source=given.get("source"),
        keep=given.get("keep") or (),
        **work.options(),
    )
    memory = before.memory
    by = given.get("by") or ""
    own, others = _own_and_others(result.removed, memory, by)
    words = bool(given.get("words"))
    holder = given.get("holder") or ""
    with work.store.write() as connection:
        withdraw(connection, work.judge, memory, own, words_only=words)
        overrule(connection, work.judge, memory, others, by=by, holder=holder)
        forget_judgments(
            connection,
            work.judge,
            guidelines={rule.id for rule in result.forgotten},
            cases={key.id for key in result.removed},
            versions=versions_in_view(connection, work.judge),
        )
    judged = await _judged_again(work, result, work.unjudged())
    judged["overruled"] = len(others)
    return judged


def _own_and_others(
    keys: Iterable[FeedbackKey], memory: Memory, by: str
) -> tuple[list[FeedbackKey], list[FeedbackKey]]:
    """Return the keys of the one who asks, and those of others in memory; all if nobody asks."""
    own = []
    others = []
    for key in keys:
        if not by or same_person(key.source, by):
            own.append(key)
        elif memory.annotation(key):
            others.append(key)
    return own, others


async def teach(work: Work) -> dict[str, Any]:
    """Teach the judge all answers that count.

    Then have the new version judge what comes next, and what was answered. Without anything to
    learn there is no new version, and only what an older one judged is judged again. Answers that
    changed meanwhile, and those that the judge cannot learn, stay untaught. Where the model
    answered nothing, and all waits, the job fails: the answers are kept, and teaching again takes
    them up.
    """
    judge, version = await work.latest()
    with work.store.write() as connection:
        # Answers were erased or withdrawn since.
        refresh_disputes(connection, work.judge, kind=judge.value_type)
        lessons = lessons_of(connection, work.judge)
        wrong = overruled(connection, work.judge, judge.memory)
    if not (lessons or wrong or judge.memory.pending):
        # A server that was killed once the judge had learned has left older verdicts.
        failed = await work.judge_again(judge, version)
        return {"lessons": 0, "failed": failed}
    if wrong:
        await work.registry.aunalign(work.judge, *wrong, **work.options())
        mark_untaught(work.store, work.judge, wrong)
    result = await _learn(work, lessons)
    taught = _taught(lessons, result)
    mark_taught(work.store, work.judge, taught)
    _check_answered(result, taught, judge.memory)
    judged = await _judged_again(work, result)
    judged["lessons"] = len(lessons)
    return judged


async def _learn(work: Work, lessons: Sequence[Lesson]) -> AlignResult:
    """Have the judge learn lessons.

    Raises:
        MemalignError: A locked case came out wrong. Nothing was committed: the answers stay
            untaught, and are taught again.
    """
    feedback = []
    verdicts = {}
    for lesson in lessons:
        said = lesson.feedback
        feedback.append(said)
        if lesson.verdict is not None:
            verdicts[said.id] = lesson.verdict
    result = await work.registry.aalign(
        work.judge,
        feedback,
        skip_invalid=True,
        own_verdicts=verdicts,
        **work.options(),
    )
    if result.broken:
        raise MemalignError("; ".join(map(str, result.broken)))
    return result


def _check_answered(
    result: AlignResult, taught: Iterable[Lesson], before: Memory
) -> None:
    """Check that the model answered something. Raises MemalignError."""
    waiting = dict(result.pending)
    tried = {annotation.key for annotation in before.pending}
    tried.update(lesson.feedback.key for lesson in taught)
    if tried and tried <= waiting.keys():
        raise MemalignError(waiting[min(tried)])


def _taught(lessons: Sequence[Lesson], result: AlignResult) -> list[Lesson]:
    """Return the answers that the judge could take."""
    refused = {row.line for row in result.rows if row.status == "invalid"}
    return [lesson for line, lesson in enumerate(lessons, 1) if line not in refused]


async def refresh(work: Work) -> dict[str, Any]:
    """Judge again what people see next and what they answered.

    This is for a judge that a person has changed by hand.
    """
    judge, version = await work.latest()
    return {"failed": await work.judge_again(judge, version)}


# -- a trial ---------------------------------------------------------------------------------------


async def trial(work: Work) -> dict[str, Any]:
    """Try `text` as the wording of a `guideline` on cases that `person` answered: which are right.

    The judge of now is asked only where it has not judged a case since it became what it is. The
    result has the wording again, and a `problem` where the model did not answer: nothing that was
    typed is lost.
    """
    person = work.arguments["person"]
    guideline = work.arguments["guideline"]
    wording = {"guideline": guideline, "text": work.arguments["text"]}
    judge, version = await work.latest()
    reworded = rephrased(judge, **wording, by=person)
    rule = judge.memory.guideline(guideline)
    behind = {key.id for key in judge.memory.sources_of(rule)}
    with work.store.read() as connection:
        answered = cases_for_trial(connection, work.judge, person, behind)
    outcomes = []
    work.progress("trying", 0, len(answered))
    for start in range(0, len(answered), _TRIED_AT_ONCE):
        part = answered[start : start + _TRIED_AT_ONCE]
        cases = [pair.case for pair in part]
        examples = [case.example for case in cases]
        stale = [case.example for case in cases if case.version != version]
        before, after = await asyncio.gather(
            judge_hidden(judge, stale),
            judge_hidden(reworded, examples),
        )
        if all(judgment.error for judgment in after):
            return {**wording, "cases": [], "problem": after[0].error}
        outcomes += _outcomes(judge, part, before, after)
        work.progress("trying", start + len(part), len(answered))
    return {**wording, "cases": outcomes, "problem": None}


def _outcomes(
    judge: Judge,
    answered: Sequence[AnsweredCase],
    before: Iterable[Judgment],
    after: Iterable[Judgment],
) -> list[dict[str, Any]]:
    """Return which cases the judge gets right with its old wording and with the new one."""
    agree = judge.value_type.agree
    verdicts = {judgment.id: judgment for judgment in before}
    outcomes = []
    for pair, now in zip(answered, after, strict=True):
        case_id = pair.case.case_id
        own = pair.answer.value
        was = verdicts.get(case_id, pair.case.judgment)
        if own is None or was is None:
            continue
        if was.value is None or now.value is None:
            continue
        was_right = agree(was.value, own)
        is_right = agree(now.value, own)
        outcomes.append({"id": case_id, "was": was_right, "now": is_right})
    return outcomes


# -- the queue -------------------------------------------------------------------------------------


async def queue(work: Work) -> dict[str, Any]:
    """Judge every case of the queue that is not judged, the `first` one before the others.

    What comes next is judged, too. The result repeats the counts of an `arrival`.
    """
    judge, version = await work.latest()
    judged = await _judge_queue(work, judge, version)
    return judged | (work.arguments.get("arrival") or {})


async def pull(work: Work) -> dict[str, Any]:
    """Put the newest `most` traces of the MLflow `experiment` at `uri` in the queue.

    Every case there is judged.
    """
    work.progress("reading", 0, 0)
    # Here, because it takes seconds, and not everybody has MLflow.
    from memalign.integrations.mlflow import cases_of_experiment

    given = work.arguments
    experiment = given["experiment"]
    judge, version = await work.latest()
    pulled = await asyncio.to_thread(
        cases_of_experiment,
        experiment,
        judge.fields,
        tracking_uri=given["uri"],
        most=given["most"],
        progress=work.progress,
    )
    with work.store.write() as connection:
        arrival = add_cases(
            connection,
            work.judge,
            pulled.examples,
            memory=judge.memory,
            origin=experiment,
        )
    judged = await _judge_queue(work, judge, version)
    read = {"skipped": pulled.skipped, "more": pulled.more}
    return judged | arrival.counts | read


async def _judge_queue(work: Work, judge: Judge, version: int) -> dict[str, Any]:
    """Judge every case of the queue that is not judged, and what comes next where that is old."""
    with work.store.read() as connection:
        ahead = cases_ahead(connection, work.judge, n=AHEAD)
    old = {}
    for case in ahead:
        if case.is_behind(version):
            old[case.case_id] = case.example
    cases = [*work.unjudged(), *old.values()]
    first = work.arguments.get("first")
    cases.sort(key=lambda case: case.id != first)  # it waits in somebody's foot
    judgments = await work.judge_cases(judge, version, cases)
    judged = 0
    problems = []
    for judgment in judgments:
        if judgment.error is None:
            judged += 1
        elif judgment.id not in old:  # it keeps its older verdict
            problems.append(judgment.error)
    return {
        "judged": judged,
        "failed": len(problems),
        "problem": problems[0] if problems else None,
    }


KINDS: Mapping[str, Kind] = {
    "align": align,
    "unalign": unalign,
    "erase": erase,
    "teach": teach,
    "refresh": refresh,
    "try": trial,
    "queue": queue,
    "pull": pull,
}
"""Every kind by its name."""
