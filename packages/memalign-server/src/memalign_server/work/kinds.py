"""The kinds of long work: what a job of each is given, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memalign import Judge
from memalign.align import MemAlign
from memalign.errors import MemalignError, UnknownKey
from memalign.io import Examples
from memalign.judge import Progress
from memalign.registry import Receipt, Registry
from memalign.types import Example, Judgment
from memalign.values import Value
from memalign_server.review.answers import withdrawn
from memalign_server.review.cases import add_cases, cases_of
from memalign_server.review.judging import judge_cases, judge_hidden, unjudged
from memalign_server.review.teaching import judge_again
from memalign_server.review.teaching import teach as teach_answers
from memalign_server.review.wording import cases_for_trial, rephrased
from memalign_server.store import Store

if TYPE_CHECKING:
    from memalign.integrations.mlflow.experiments import ExperimentCases

__all__ = ["KINDS", "Kind", "Work"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job under way: the registry, the server's tables, the judge's name, its arguments, and who hears how far it is."""

    registry: Registry
    store: Store
    judge: str
    arguments: Mapping[str, Any]
    progress: Progress


_TRIED_AT_ONCE = 4
"""Cases between two notes of a trial: each is a dot that fills on the page."""

Kind = Callable[[Work], Awaitable[dict[str, Any]]]


def _optimizer(work: Work) -> MemAlign:
    return MemAlign(max_cost=work.arguments.get("max_cost"))


async def align(work: Work) -> dict[str, Any]:
    """Learn `feedback`, a list of rows; none: what is pending."""
    rows = tuple(work.arguments.get("feedback") or ())
    result = await work.registry.aalign(
        work.judge,
        rows,
        optimizer=_optimizer(work),
        own_verdicts=_own_verdicts(work, rows),
        progress=work.progress,
        skip_invalid=bool(work.arguments.get("skip_invalid")),
    )
    return {**result.to_dict(), "summary": str(result)}


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
    waiting = {example.id for example in await asyncio.to_thread(unjudged, work.store, work.judge)}
    result = await work.registry.aunalign(
        work.judge, *keys, source=source, keep=keep, optimizer=_optimizer(work), progress=work.progress
    )
    withdrawn(work.store, work.judge, result.removed, [rule.id for rule in result.forgotten], words_only=words)
    blank = [case for case in await asyncio.to_thread(unjudged, work.store, work.judge) if case.id not in waiting]
    failed = await judge_again(work.store, result.judge, result.version or 0, blank=blank, progress=work.progress)
    return {**result.to_dict(), "summary": str(result), "failed": failed}


async def erase(work: Work) -> dict[str, Any]:
    """Erase what `keys`, `source` and `matching` name, these `sentences`, and all of these `sources`, from everywhere.

    It cannot be stopped half way. The receipt, which names nobody, is in the job's row from the moment at which the text
    is gone. Verdicts in which a guideline that went had a part are asked again.
    """
    before = {example.id for example in await asyncio.to_thread(unjudged, work.store, work.judge)}
    erasing = asyncio.ensure_future(asyncio.to_thread(_erase, work))
    result: dict[str, Any] = {"kept": work.arguments.get("kept", 0)}
    try:
        result |= (await asyncio.shield(erasing)).without_names()
        blank = [case for case in await asyncio.to_thread(unjudged, work.store, work.judge) if case.id not in before]
        version = (await asyncio.to_thread(work.registry.history, work.judge))[-1].number
        judge = await asyncio.to_thread(work.registry.load, work.judge, version)
        judgments = await judge_cases(work.store, judge, version, blank, progress=work.progress)
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
        options = {**selection, "optimizer": _optimizer(work), "progress": work.progress}
        try:
            receipts.append(work.registry.erase(work.judge, **options))
        except UnknownKey as error:  # what it names went with what was erased before, if anything was
            problem = error
    if problem is not None and not receipts:
        raise problem
    foreign = dict.fromkeys(place for one in receipts[:-1] for place in one.left if not place.startswith("memalign_"))
    names = ("keys", "cases", "guidelines", "elsewhere")
    sums: dict[str, Any] = {
        name: dict.fromkeys(part for one in receipts for part in getattr(one, name)) for name in names
    }
    sums["left"] = dict.fromkeys((*receipts[-1].left, *foreign))
    changes: dict[str, Any] = {name: tuple(parts) for name, parts in sums.items()}
    return replace(receipts[-1], **changes)


async def teach(work: Work) -> dict[str, Any]:
    """Teach the judge every answer of the review that it has not learned, and look at past verdicts again."""
    return await teach_answers(
        work.registry, work.store, work.judge, optimizer=_optimizer(work), progress=work.progress
    )


async def refresh(work: Work) -> dict[str, Any]:
    """Judge again what people see next and what they answered, after a person has changed the judge by hand."""
    judge, version = await asyncio.to_thread(_latest, work)
    return {"failed": await judge_again(work.store, judge, version, progress=work.progress)}


async def trial(work: Work) -> dict[str, Any]:
    """Try `text` as the wording of a `guideline`, with `checks`, on cases that `person` answered: which are right.

    The judge of now is asked only where it has not judged a case since it became what it is. The result has the wording
    again, and a `problem` where the model did not answer: nothing that was typed is lost.
    """
    arguments = work.arguments
    judge, version = await asyncio.to_thread(_latest, work)
    reworded = rephrased(
        judge, arguments["guideline"], arguments["text"], checks=arguments["checks"], by=arguments["person"]
    )
    with work.store.read() as connection:
        cases = cases_for_trial(connection, judge, arguments["person"], arguments["guideline"])
    wording = {name: arguments[name] for name in ("guideline", "text", "checks")}
    outcomes = list[dict[str, Any]]()
    work.progress("trying", 0, len(cases))
    for start in range(0, len(cases), _TRIED_AT_ONCE):
        part = cases[start : start + _TRIED_AT_ONCE]
        stale = [case.example for case, _ in part if case.version != version or case.judgment is None]
        before, after = await asyncio.gather(
            judge_hidden(judge, stale), judge_hidden(reworded, [case.example for case, _ in part])
        )
        verdicts = {judgment.id: judgment for judgment in before}
        for (case, value), new in zip(part, after, strict=True):
            pair = {"was": verdicts.get(case.example.id, case.judgment), "now": new}
            right = {name: _agrees(judge, judgment, value) for name, judgment in pair.items()}
            if None not in right.values():
                outcomes.append({"id": case.example.id, **right})
        if all(judgment.error for judgment in after):
            return {**wording, "cases": [], "problem": after[0].error}
        work.progress("trying", start + len(part), len(cases))
    return {**wording, "cases": outcomes, "problem": None}


def _agrees(judge: Judge, judgment: Judgment | None, value: Value) -> bool | None:
    """Whether a judgment says what a person says; None where there is none."""
    verdict = None if judgment is None else judgment.value
    return None if verdict is None else judge.value_type.agree(verdict, value)


def _latest(work: Work) -> tuple[Judge, int]:
    version = work.registry.history(work.judge)[-1].number
    return work.registry.load(work.judge, version), version


async def queue(work: Work) -> dict[str, Any]:
    """Put `examples`, a list of rows, in the queue of the review, and judge every case there that is not judged."""
    chosen, _ = await asyncio.to_thread(_latest, work)
    rows = work.arguments.get("examples") or ()
    return await _queued(work, chosen, list(Examples.of(rows, columns=chosen.columns)) if rows else [])


async def pull(work: Work) -> dict[str, Any]:
    """Put the newest `most` traces of the MLflow `experiment` at `uri` in the queue, and judge every case there."""
    chosen = await asyncio.to_thread(work.registry.load, work.judge)

    def read() -> ExperimentCases:
        from memalign.integrations.mlflow.experiments import cases_of_experiment  # seconds, and not everybody has it

        arguments = work.arguments
        return cases_of_experiment(
            arguments["experiment"],
            chosen.fields,
            tracking_uri=arguments["uri"],
            filter_string=arguments.get("filter"),
            most=arguments["most"],
            progress=work.progress,
        )

    work.progress("reading", 0, 0)
    pulled = await asyncio.to_thread(read)
    return {**await _queued(work, chosen, pulled.examples), "skipped": pulled.skipped, "more": pulled.more}


async def _queued(work: Work, chosen: Judge, examples: Sequence[Example]) -> dict[str, Any]:
    version = (await asyncio.to_thread(work.registry.history, work.judge))[-1].number
    with work.store.write() as connection:
        added = add_cases(connection, work.judge, examples)
    waiting = await asyncio.to_thread(unjudged, work.store, work.judge)
    waiting.sort(key=lambda case: case.id != work.arguments.get("first"))  # that one waits in somebody's foot
    judgments = await judge_cases(work.store, chosen, version, waiting, progress=work.progress)
    failed = [judgment for judgment in judgments if judgment.error is not None]
    return {
        "added": len(added.added),
        "known": added.known,
        "judged": len(judgments) - len(failed),
        "failed": len(failed),
        "problem": failed[0].error if failed else None,
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
