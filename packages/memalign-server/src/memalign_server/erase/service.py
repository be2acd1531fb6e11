"""Erase through the server: one plan that says what goes, and the work that carries it out.

A page shows the plan and a job follows it, so an owner reads the same numbers before and after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from memalign.errors import MemalignError, UnknownKey
from memalign.registry import NOUNS, Receipt, Selection
from memalign_server.store.cases import add_cases, cases_of
from memalign_server.store.tables import people
from memalign_server.store.team import check_team_keeps_owner, list_people
from memalign_server.work.judging import Work

__all__ = ["erase", "planned"]


async def erase(work: Work) -> dict[str, Any]:
    """Erase what the arguments name, and ask again where an erased guideline had a part.

    It cannot be stopped half way. The receipt, which names nobody, is in the job's row from the
    moment at which the text is gone.

    Args:
        work: Its arguments are `keys`, `source` and `matching` as of `Registry.erase`;
            `selections`, more of these; `cases_kept`, which stay in the queue although nobody says
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
        judged = [judgment for judgment in judgments if judgment.error is None]
        result["asked_again"] = len(judged)
    except asyncio.CancelledError:
        await asyncio.wait((erasing,))
        result |= erasing.result()
    except MemalignError as error:
        if not erasing.done() or erasing.exception() is not None:
            raise
        # Of asking again: what was to go went.
        result["problem"] = result.get("problem") or str(error)
    return result


def planned(work: Work) -> list[Receipt]:
    """Return what a job would erase from each judge.

    Args:
        work: The job.
    """
    receipts = []
    for judge, selected in _erasures(work):
        with suppress(UnknownKey):
            receipt = work.registry.erase(judge, **selected, dry_run=True)
            receipts.append(receipt)
    return receipts


class _Named(msgspec.Struct):
    """What a job names, as `Registry.erase` does; an empty field says nothing."""

    keys: list[str] | None = None
    source: str | None = None
    matching: str | None = None

    @property
    def selection(self) -> Selection:
        return Selection(
            keys=tuple(self.keys or ()),
            source=self.source or None,
            matching=self.matching or None,
        )


class _Arguments(_Named):
    """The arguments of a job; see `erase`."""

    selections: list[_Named] = []
    cases_kept: list[str] = []
    leaves: list[str] = []


def _arguments_of(work: Work) -> _Arguments:
    return msgspec.convert(work.arguments, _Arguments)


def _erase(work: Work) -> dict[str, Any]:
    leaves = _arguments_of(work).leaves
    with work.store.read() as connection:
        check_team_keeps_owner(connection, leaves)
    options = work.options()
    receipts = []
    for judge, selected in _erasures(work):
        _keep_cases(work, judge, selected["keep"])
        receipt = work.registry.erase(judge, **selected, **options)
        receipts.append(receipt)
    joined = _joined(receipts)
    return {**joined.without_names(), "members": len(leaves)}


def _erasures(work: Work) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each judge that something is erased from, with the arguments of `Registry.erase`.

    Other judges come first, so that the last search covers them. They lose what those who leave the
    team said; the cases themselves stay there.
    """
    arguments = _arguments_of(work)
    registry = work.registry
    leaving = _said_by(work, arguments.leaves)
    for other in registry.list() if leaving else ():
        if other.name == work.judge:
            continue
        with suppress(UnknownKey):
            receipt = registry.erase(other.name, also=leaving, dry_run=True)
            if receipt.keys or receipt.versions:
                selected = {"also": leaving, "keep": receipt.cases}
                yield other.name, selected
    own = arguments.selection
    ticked = [named.selection for named in arguments.selections]
    chosen: dict[str, Any] = {
        "selectors": own.keys,
        "source": own.source,
        "matching": own.matching,
        "also": [*leaving, *ticked],
        "keep": arguments.cases_kept,
    }
    yield work.judge, chosen


def _said_by(work: Work, members: Collection[str]) -> list[Selection]:
    """Return what members said, by their ids."""
    with work.store.read() as connection:
        team = list_people(connection)
    selections = []
    for person in team:
        if person.id in members:
            selection = Selection(source=person.name)
            selections.append(selection)
    return selections


def _joined(receipts: Sequence[Receipt]) -> Receipt:
    """Return one receipt for several judges: what went, and where anything is left."""
    *others, joined = receipts
    erased = {receipt.judge for receipt in receipts}
    for other in others:
        went: dict[str, Any] = {}
        for kind in NOUNS.values():
            before = getattr(joined, kind.field)
            went[kind.field] = before + getattr(other, kind.field)
        left = dict.fromkeys(joined.left)
        for place in other.left:
            # Whoever leaves was in the team until the last erasure, which searched it again.
            if not place.startswith(people.name):
                left[place] = None
        elsewhere = set(other.elsewhere) - erased
        elsewhere.update(joined.elsewhere)
        joined = replace(
            joined,
            left=tuple(left),
            elsewhere=tuple(sorted(elsewhere)),
            **went,
        )
    return joined


def _keep_cases(work: Work, judge: str, ids: Sequence[str]) -> None:
    """Put cases in the queue that only the memory holds.

    It forgets a case with the last word on it.
    """
    with work.store.read() as connection:
        queued = cases_of(connection, judge, ids)
    missing = set(ids)
    for case in queued:
        missing.discard(case.case_id)
    if not missing:
        return
    found = []
    for version in reversed(work.registry.history(judge)):
        memory = work.registry.load(judge, version.number).memory
        for learned in filter(None, map(memory.case, list(missing))):
            found.append(learned.example)
            missing.remove(learned.id)
        if not missing:
            break
    if found:
        with work.store.write() as connection:
            add_cases(connection, judge, found)
