"""Erase through the server: one plan that says what goes, and the work that carries it out.

A page shows the plan and a job follows it, so an owner reads the same numbers before and after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from memalign.errors import MemalignError, UnknownKey
from memalign.keys import name_key
from memalign.registry import NOUNS, Receipt, Registry
from memalign.types import Example, FeedbackKey
from memalign_server.store import Store
from memalign_server.store.cases import add_cases, cases_of
from memalign_server.store.team import check_team_keeps_owner, list_people
from memalign_server.work.judging import Work

__all__ = ["erase", "planned"]

Selection = tuple[str, dict[str, Any]]
"""A judge, and the arguments of `Registry.erase` for it."""


async def erase(work: Work) -> dict[str, Any]:
    """Erase what the arguments name, and ask again where an erased guideline had a part.

    It cannot be stopped half way. The receipt, which names nobody, is in the job's row from the
    moment at which the text is gone.

    Args:
        work: Its arguments are `keys`, `source` and `matching` as of `Registry.erase`; `sentences`
            and `sources` to erase too; `cases_kept`, which stay in the queue although nobody says
            anything of them any more; and `leaves`, ids of members who leave the team, and the
            memory of every judge with it.

    Returns:
        The receipt with `version`, the number of the version in force; `kept`, the number of
        mentions without a tick; and `members`, the number of people who left the team.
    """
    erasing = asyncio.ensure_future(asyncio.to_thread(_erase, work))
    result: dict[str, Any] = {"kept": work.arguments.get("kept", 0)}
    try:
        result |= await asyncio.shield(erasing)
        judge, version = await work.latest()
        result["version"] = version
        judgments = await work.judge_cases(judge, version, work.unjudged())
        result["asked_again"] = sum(judgment.error is None for judgment in judgments)
    except asyncio.CancelledError:
        await asyncio.wait((erasing,))
        result |= erasing.result()
    except MemalignError as error:
        if not erasing.done() or erasing.exception() is not None:
            raise
        # Of asking again: what was to go went.
        result["problem"] = result.get("problem") or str(error)
    return result


def planned(
    registry: Registry, store: Store, judge: str, arguments: Mapping[str, Any]
) -> Receipt | None:
    """Return what a job with these arguments would erase, or None if that is nothing.

    Args:
        registry: The registry of judges.
        store: The server's tables.
        judge: The judge whose page asks.
        arguments: The arguments of the job.
    """
    receipts = list[Receipt]()
    for name, selection in _selections(registry, store, judge, arguments):
        with suppress(UnknownKey):
            receipts.append(registry.erase(name, **selection, dry_run=True))
    receipts += _of_last_words(registry, judge, arguments, receipts)
    return _joined(receipts, judge) if receipts else None


def _of_last_words(
    registry: Registry,
    judge: str,
    arguments: Mapping[str, Any],
    receipts: Sequence[Receipt],
) -> Iterator[Receipt]:
    """Yield what goes beside because several selections take the last words on a case.

    Then the case goes too, and none of them says so alone.
    """
    own = [receipt for receipt in receipts if receipt.judge == judge]
    selectors = list[str | FeedbackKey]()
    for receipt in own:
        selectors += receipt.keys
        selectors += [str(FeedbackKey(case, "")) for case in receipt.cases]
    if len(own) > 1 and selectors:
        kept = tuple(arguments.get("cases_kept") or ())
        yield registry.erase(judge, selectors, keep=kept, dry_run=True)


def _erase(work: Work) -> dict[str, Any]:
    """Erase one selection after the other.

    What was left by all but the last is searched again.
    """
    registry = work.registry
    leaves = tuple(work.arguments.get("leaves") or ())
    with work.store.read() as connection:
        check_team_keeps_owner(connection, leaves)
    selections = list(_selections(registry, work.store, work.judge, work.arguments))
    done = list[tuple[Selection, Receipt]]()
    problem: UnknownKey | None = None
    for selection in selections:
        judge, arguments = selection
        _keep_cases(registry, work.store, judge, arguments["keep"])
        try:
            receipt = registry.erase(judge, **arguments, **work.options())
        except UnknownKey as error:
            problem = (
                error  # what it names went with what was erased before, if anything was
            )
        else:
            done.append((selection, receipt))
    if not done:
        raise problem or UnknownKey("nothing was named, so nothing was erased")
    *earlier, (_, last) = done
    final = [_without_what_went_since(work, *one) for one in earlier]
    joined = _joined([*final, last], work.judge)
    return {**joined.without_names(), "members": len(leaves)}


def _selections(
    registry: Registry, store: Store, judge: str, arguments: Mapping[str, Any]
) -> Iterator[Selection]:
    """Yield what is erased one after the other.

    Other judges come first, so that the last search covers them.
    """
    kept = tuple(arguments.get("cases_kept", ()))
    leaves = arguments.get("leaves", ())
    with store.read() as connection:
        members = list_people(connection)
    leaving = [member.name for member in members if member.id in leaves]
    if leaving:
        yield from _of_other_judges(registry, judge, leaving)
    sources = dict[str, str]()
    for source in (*leaving, *arguments.get("sources", ())):
        sources[name_key(source)] = source
    for source in sources.values():
        yield judge, {"source": source, "keep": kept}
    for sentence in arguments.get("sentences", ()):
        yield judge, {"matching": sentence, "keep": kept}
    named: dict[str, Any] = {"selectors": tuple(arguments.get("keys") or ())}
    for name in ("source", "matching"):
        named[name] = arguments.get(name) or None
    if any(named.values()):
        yield judge, {**named, "keep": kept}


def _of_other_judges(
    registry: Registry, judge: str, leaving: Sequence[str]
) -> Iterator[Selection]:
    """Yield what those who leave the team said to other judges; the cases themselves stay there."""
    for other in registry.list():
        for source in leaving if other.name != judge else ():
            with suppress(UnknownKey):
                receipt = registry.erase(other.name, source=source, dry_run=True)
                if receipt.keys or receipt.versions:
                    yield other.name, {"source": source, "keep": receipt.cases}


def _without_what_went_since(
    work: Work, selection: Selection, receipt: Receipt
) -> Receipt:
    """Return the receipt without places in our tables that a later erasure has emptied."""
    if not receipt.left:
        return receipt
    judge, arguments = selection
    try:
        left = work.registry.erase(judge, **arguments, **work.options()).left
    except UnknownKey:  # nothing holds it any more
        left = ()
    foreign = [place for place in receipt.left if not place.startswith("memalign_")]
    return replace(receipt, left=tuple(dict.fromkeys((*foreign, *left))))


def _joined(receipts: Sequence[Receipt], judge: str) -> Receipt:
    """Return one receipt for several: what went from any judge, and where anything is left."""
    own = [receipt for receipt in receipts if receipt.judge == judge]
    erased = {receipt.judge for receipt in receipts}
    left = dict[str, None]()
    elsewhere = set[str]()
    for receipt in receipts:
        left |= dict.fromkeys(receipt.left)
        places = set(receipt.elsewhere)
        elsewhere |= places if receipt.judge == judge else places - erased
    went: Any = {}
    for kind in NOUNS.values():
        went[kind.field] = _went(receipts, kind.field)
    return replace(
        (own or receipts)[-1],
        judge=judge,
        left=tuple(left),
        elsewhere=tuple(sorted(elsewhere)),
        **went,
    )


def _went(receipts: Sequence[Receipt], what: str) -> tuple[Any, ...]:
    """Return what went of each judge, once although several selections may have named it."""
    went = dict[tuple[str, Any], None]()
    for receipt in receipts:
        for part in getattr(receipt, what):
            went[receipt.judge, part] = None
    return tuple(part for _, part in went)


def _keep_cases(
    registry: Registry, store: Store, judge: str, ids: Sequence[str]
) -> None:
    """Put cases in the queue that only the memory holds.

    It forgets a case with the last word on it.
    """
    with store.read() as connection:
        queued = {case.case_id for case in cases_of(connection, judge, ids)}
    missing = set(ids) - queued
    found = list[Example]()
    for version in reversed(registry.history(judge)) if missing else ():
        for case in registry.load(judge, version.number).memory.cases:
            if case.id in missing:
                found.append(case.example)
                missing.remove(case.id)
        if not missing:
            break
    if found:
        with store.write() as connection:
            add_cases(connection, judge, found)
