"""The kinds of long work: what a job of each is given, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memalign import Judge
from memalign.align import AlignResult, MemAlign
from memalign.errors import MemalignError, UnknownKey
from memalign.io import Examples
from memalign.judge import Progress
from memalign.registry import Receipt, Registry
from memalign.types import Example, Judgment
from memalign_server.review.answers import left_behind, withdrawn
from memalign_server.review.cases import add_cases, cases_ahead, cases_of
from memalign_server.review.disputes import refresh_disputes
from memalign_server.review.learned import cases_for_trial, rephrased
from memalign_server.review.teaching import (
    AHEAD,
    judge_again,
    judge_cases,
    judge_hidden,
    lessons_of,
    mark_taught,
    overruled,
    unjudged,
)
from memalign_server.store import Store

__all__ = ["KINDS", "Kind", "Work"]

_TRIED_AT_ONCE = 4
"""Cases between two notes of a trial: each is a dot that fills on the page."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job under way: the registry, the server's tables, the judge's name, its arguments, and who hears of it."""

    registry: Registry
    store: Store
    judge: str
    arguments: Mapping[str, Any]
    progress: Progress

    async def latest(self) -> tuple[Judge, int]:
        """The newest version of the judge, and its number."""
        version = (await asyncio.to_thread(self.registry.history, self.judge))[-1].number
        return await asyncio.to_thread(self.registry.load, self.judge, version), version

    async def unjudged(self, before: Sequence[Example] = ()) -> list[Example]:
        """The cases of the queue without a judgment, except those that had none `before`."""
        ids = {case.id for case in before}
        return [case for case in await asyncio.to_thread(unjudged, self.store, self.judge) if case.id not in ids]

    def judging(self) -> dict[str, Any]:
        """What all judging of the queue is given."""
        return {"latest": self.latest, "progress": self.progress}

    def options(self) -> dict[str, Any]:
        """What the registry is given whenever it learns, forgets or erases."""
        return {"optimizer": MemAlign(max_cost=self.arguments.get("max_cost")), "progress": self.progress}


Kind = Callable[[Work], Awaitable[dict[str, Any]]]


async def align(work: Work) -> dict[str, Any]:
    """Learn `feedback`, a list of rows; none: what is pending. The new version judges again, as after a teaching."""
    rows = tuple(work.arguments.get("feedback") or ())
    result = await work.registry.aalign(
        work.judge,
        rows,
        own_verdicts=_own_verdicts(work, rows),
        skip_invalid=bool(work.arguments.get("skip_invalid")),
        **work.options(),
    )
    return {**result.to_dict(), "summary": str(result), "failed": await _learned(work, result)}


async def _learned(work: Work, result: AlignResult) -> int:
    """Have what a judge has become judge again; returns how many cases could not be judged."""
    new, version = [rule.id for rule in result.guidelines], result.version or 0
    return await judge_again(work.store, result.judge, version, new_guidelines=new, **work.judging())


def _own_verdicts(work: Work, rows: Sequence[Mapping[str, Any]]) -> dict[str, Judgment]:
    """What the judge said of the rows' cases that are queued with the same content, before it learned from them."""
    content = {str(row.get("id")): row for row in rows}
    with work.store.read() as connection:
        queued = [case for case in cases_of(connection, work.judge, list(content)) if not case.seen]
    return {
        case.example.id: case.judgment
        for case in queued
        if case.judgment is not None
        and all(content[case.example.id].get(name, value) == value for name, value in case.example.to_dict().items())
    }


async def unalign(work: Work) -> dict[str, Any]:
    """Forget the feedback that `keys` and `source` name, from the next version on, and judge again what that changes.

    Guidelines of `keep` stay: their wording is a person's who keeps it. With `words` the verdicts of the feedback stay
    answers, without their words.
    """
    keys, source = tuple(work.arguments.get("keys") or ()), work.arguments.get("source")
    keep, words = tuple(work.arguments.get("keep") or ()), bool(work.arguments.get("words"))
    before = await work.unjudged()
    try:
        result = await work.registry.aunalign(work.judge, *keys, source=source, keep=keep, **work.options())
    except UnknownKey:  # or a server died after the judge had forgotten it, and before its answers were taken back
        judge, version = await work.latest()
        with work.store.read() as connection:
            forgotten = left_behind(connection, judge, keys, source)
        if not forgotten:
            raise
        withdrawn(work.store, work.judge, forgotten, (), words_only=words)
        return {"failed": await judge_again(work.store, judge, version, **work.judging())}
    withdrawn(work.store, work.judge, result.removed, [rule.id for rule in result.forgotten], words_only=words)
    blank = await work.unjudged(before)
    failed = await judge_again(work.store, result.judge, result.version or 0, blank=blank, **work.judging())
    return {**result.to_dict(), "summary": str(result), "failed": failed}


async def erase(work: Work) -> dict[str, Any]:
    """Erase what `keys`, `source` and `matching` name, these `sentences`, and all of these `sources`, from everywhere.

    It cannot be stopped half way. The receipt, which names nobody, is in the job's row from the moment at which the
    text is gone. Verdicts in which a guideline that went had a part are asked again.
    """
    before = await work.unjudged()
    erasing = asyncio.ensure_future(asyncio.to_thread(_erase, work))
    result: dict[str, Any] = {"kept": work.arguments.get("kept", 0)}
    try:
        result |= (await asyncio.shield(erasing)).without_names()
        judge, version = await work.latest()
        judgments = await judge_cases(work.store, judge, version, await work.unjudged(before), **work.judging())
        result["asked_again"] = sum(judgment.error is None for judgment in judgments)
    except asyncio.CancelledError:
        await asyncio.wait((erasing,))
        result |= erasing.result().without_names()
    except MemalignError as error:
        if not erasing.done() or erasing.exception() is not None:
            raise
        result["problem"] = result.get("problem") or str(error)  # of asking again: what was to go went
    return result


def _erase(work: Work) -> Receipt:
    """Erase one selection after the other; the last one searches again for what the others have left in our tables."""
    arguments, receipts, problem = work.arguments, list[Receipt](), None
    selections: list[dict[str, Any]] = [{"source": source} for source in arguments.get("sources") or ()]
    selections += [{"matching": sentence} for sentence in arguments.get("sentences") or ()]
    named = {name: arguments[name] for name in ("source", "matching") if arguments.get(name)}
    if arguments.get("keys") or named or not selections:
        selections.append({"selectors": tuple(arguments.get("keys") or ()), **named})
    for selection in selections:
        try:
            receipts.append(work.registry.erase(work.judge, **selection, **work.options()))
        except UnknownKey as error:  # what it names went with what was erased before, if anything was
            problem = error
    if problem is not None and not receipts:
        raise problem

    def all_of(name: str, of: Sequence[Receipt] = receipts) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(part for receipt in of for part in getattr(receipt, name)))

    foreign = [place for place in all_of("left", receipts[:-1]) if not place.startswith("memalign_")]
    return replace(
        receipts[-1],
        keys=all_of("keys"),
        cases=all_of("cases"),
        guidelines=all_of("guidelines"),
        elsewhere=all_of("elsewhere"),
        left=tuple(dict.fromkeys((*receipts[-1].left, *foreign))),
    )


async def teach(work: Work) -> dict[str, Any]:
    """Teach the judge all answers that count; then have the new version judge what comes next, and what was answered.

    Without anything to learn there is no new version, and only what an older one judged is judged again. Answers that
    changed meanwhile, and those that the judge cannot learn (`refused`, with the reasons), stay untaught. Where the
    model answered nothing, and all waits, the job fails: the answers are kept, and teaching again takes them up.
    """
    judge, version = await work.latest()
    with work.store.write() as connection:
        refresh_disputes(connection, work.judge, kind=judge.value_type)  # answers were erased or withdrawn since
        lessons, wrong = lessons_of(connection, work.judge), overruled(connection, work.judge, judge.memory)
    if not (lessons or wrong or judge.memory.pending):
        # A server that was killed once the judge had learned has left older verdicts.
        failed = await judge_again(work.store, judge, version, **work.judging())
        return {"lessons": 0, "refused": [], "failed": failed}
    if wrong:
        await work.registry.aunalign(work.judge, *wrong, **work.options())
        mark_taught(work.store, work.judge, dict.fromkeys(wrong, 0))
    result = await work.registry.aalign(
        work.judge,
        [lesson.feedback for lesson in lessons],
        skip_invalid=True,
        own_verdicts={lesson.feedback.id: lesson.verdict for lesson in lessons if lesson.verdict is not None},
        **work.options(),
    )
    refused = {row.line: row.reason for row in result.rows if row.status == "invalid"}
    taught = {lesson.feedback.key: lesson.revision for line, lesson in enumerate(lessons, 1) if line not in refused}
    mark_taught(work.store, work.judge, taught)
    waiting = dict(result.pending)
    tried = taught.keys() | {annotation.key for annotation in judge.memory.pending}
    if tried and tried <= waiting.keys():
        raise MemalignError(waiting[min(tried)])
    failed = await _learned(work, result)
    report = {"summary": str(result), "lessons": len(lessons), "refused": list(refused.values()), "failed": failed}
    return {**result.to_dict(), **report}


async def refresh(work: Work) -> dict[str, Any]:
    """Judge again what people see next and what they answered, after a person has changed the judge by hand."""
    judge, version = await work.latest()
    return {"failed": await judge_again(work.store, judge, version, **work.judging())}


async def trial(work: Work) -> dict[str, Any]:
    """Try `text` as the wording of a `guideline`, with `checks`, on cases that `person` answered: which are right.

    The judge of now is asked only where it has not judged a case since it became what it is. The result has the wording
    again, and a `problem` where the model did not answer: nothing that was typed is lost.
    """
    wording = {name: work.arguments[name] for name in ("guideline", "text", "checks")}
    judge, version = await work.latest()
    reworded = rephrased(judge, **wording, by=work.arguments["person"])
    with work.store.read() as connection:
        answered = cases_for_trial(connection, judge, work.arguments["person"], wording["guideline"])
    outcomes, agree = list[dict[str, Any]](), judge.value_type.agree
    work.progress("trying", 0, len(answered))
    for start in range(0, len(answered), _TRIED_AT_ONCE):
        part = answered[start : start + _TRIED_AT_ONCE]
        stale = [case.example for case, _ in part if case.version != version]
        before, after = await asyncio.gather(
            judge_hidden(judge, stale), judge_hidden(reworded, [case.example for case, _ in part])
        )
        if all(judgment.error for judgment in after):
            return {**wording, "cases": [], "problem": after[0].error}
        verdicts = {judgment.id: judgment for judgment in before}
        for (case, value), now in zip(part, after, strict=True):
            was = verdicts.get(case.example.id, case.judgment)
            if was is not None and was.value is not None and now.value is not None:
                right = {"was": agree(was.value, value), "now": agree(now.value, value)}
                outcomes.append({"id": case.example.id, **right})
        work.progress("trying", start + len(part), len(answered))
    return {**wording, "cases": outcomes, "problem": None}


async def queue(work: Work) -> dict[str, Any]:
    """Put `examples`, a list of rows, in the queue of the review, and judge every case there that is not judged."""
    judge, version = await work.latest()
    rows = work.arguments.get("examples") or ()
    return await _queued(work, judge, version, list(Examples.of(rows, columns=judge.columns)) if rows else [])


async def pull(work: Work) -> dict[str, Any]:
    """Put the newest `most` traces of the MLflow `experiment` at `uri` in the queue, and judge every case there."""
    work.progress("reading", 0, 0)
    from memalign.integrations.mlflow.experiments import cases_of_experiment  # seconds, and not everybody has it

    judge, version = await work.latest()
    pulled = await asyncio.to_thread(
        cases_of_experiment,
        work.arguments["experiment"],
        judge.fields,
        tracking_uri=work.arguments["uri"],
        filter_string=work.arguments.get("filter"),
        most=work.arguments["most"],
        progress=work.progress,
    )
    return {**await _queued(work, judge, version, pulled.examples), "skipped": pulled.skipped, "more": pulled.more}


async def _queued(work: Work, judge: Judge, version: int, examples: Sequence[Example]) -> dict[str, Any]:
    """Put cases in the queue; judge every case there that is not judged, and what comes next where that is old."""
    with work.store.write() as connection:
        added, repeated = add_cases(connection, work.judge, examples)
    with work.store.read() as connection:
        old = [case.example for case in cases_ahead(connection, work.judge, n=AHEAD) if case.is_behind(version)]
    cases, no_lower = [*await work.unjudged(), *old], {case.id for case in old}
    cases.sort(key=lambda case: case.id != work.arguments.get("first"))  # that one waits in somebody's foot
    judgments = await judge_cases(work.store, judge, version, cases, no_lower=no_lower, **work.judging())
    # A case that keeps its older verdict is not one that could not be judged.
    problems = [judgment.error for judgment in judgments if judgment.error is not None and judgment.id not in no_lower]
    return {
        "added": added,
        "known": repeated,
        "judged": sum(judgment.error is None for judgment in judgments),
        "failed": len(problems),
        "problem": next(iter(problems), None),
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
