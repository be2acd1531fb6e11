"""What a judge has learned: guidelines, the ledger of feedback, locked cases."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated

from fastapi import APIRouter, Path, Query

from memalign import Guideline, Judge
from memalign.align import edit_guideline, write_guideline
from memalign.types import Check
from memalign_server.api import shapes
from memalign_server.api.judges import JudgeName, Version, loaded
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["memory"])

GuidelineId = Annotated[str, Path(pattern=r"^G[1-9][0-9]{0,8}$", description="Such as G2.")]
CaseId = Annotated[str, Path(min_length=1, max_length=500, description="A case's id.")]


@router.get("/guidelines")
def list_guidelines(
    judge: JudgeName, server: Here, version: Version = None, limit: Limit = 50, cursor: Cursor = None
) -> Page[Guideline]:
    """Guidelines of every status, by their numbers."""
    start = after(cursor) or "G0"
    number = int(start[1:]) if start[1:].isdigit() and len(start) < 12 else 0
    found = [each for each in loaded(server, judge, version)[0].memory.guidelines if each.number > number]
    return cut(found, limit, lambda each: each.id)


@router.get("/guidelines/{guideline}")
def show_guideline(judge: JudgeName, guideline: GuidelineId, server: Here, version: Version = None) -> Guideline:
    """One guideline with its checks, and the feedback that it comes from."""
    return loaded(server, judge, version)[0].memory.guideline(guideline)


@router.post("/guidelines", status_code=201)
def add_guideline(judge: JudgeName, given: shapes.GuidelineGiven, server: Here, person: Asking) -> Guideline:
    """Write a guideline in your own words."""

    def change(old: Judge) -> Judge:
        return write_guideline(old, given.text, by=person.name, pinned=given.pinned, checks=_checks(given.checks))

    return server.registry.update(judge, change, "edit").judge.memory.guidelines[-1]


@router.patch("/guidelines/{guideline}")
def edit_guideline_by_api(
    judge: JudgeName, guideline: GuidelineId, given: shapes.GuidelineChanged, server: Here, person: Asking
) -> Guideline:
    """Give a guideline another text or other checks, pin it, retire it, or bring it back."""
    checks = None if given.checks is None else _checks(given.checks)

    def change(old: Judge) -> Judge:
        return edit_guideline(
            old,
            guideline,
            by=person.name,
            text=given.text,
            pinned=given.pinned,
            retired=given.retired,
            checks=checks,
        )

    return server.registry.update(judge, change, "edit").judge.memory.guideline(guideline)


def _checks(given: list[shapes.CheckGiven]) -> list[Check]:
    return [Check(question=each.question, answer=each.answer, value=each.value) for each in given]


@router.get("/ledger")
def show_ledger(
    judge: JudgeName,
    server: Here,
    version: Version = None,
    state: Annotated[str | None, Query(max_length=20)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[shapes.LedgerShown]:
    """Where every piece of feedback ended, by its key."""
    start = after(cursor)
    entries = loaded(server, judge, version)[0].memory.ledger() + server.registry.erased(judge)
    there = ((str(each.key), each) for each in entries if state in (None, each.state))
    found = sorted(((key, each) for key, each in there if start is None or key > start), key=itemgetter(0))
    shown = [
        shapes.LedgerShown(key=key, state=each.state, reason=each.reason, guideline_ids=list(each.guideline_ids))
        for key, each in found[: limit + 1]
    ]
    return cut(shown, limit, lambda each: each.key)


@router.get("/locks")
def list_locks(judge: JudgeName, server: Here) -> shapes.LocksShown:
    """The cases that no later align may break."""
    found, number = loaded(server, judge, None)
    return shapes.LocksShown(version=number, locks=list(found.memory.locks))


@router.put("/locks/{case}")
def lock_case(judge: JudgeName, case: CaseId, server: Here) -> shapes.LocksShown:
    """Lock a case: later aligns judge it again, and leave out what makes the judge wrong there."""
    saved = server.registry.lock(judge, case)
    return shapes.LocksShown(version=saved.version, locks=list(saved.judge.memory.locks))


@router.delete("/locks/{case}")
def unlock_case(judge: JudgeName, case: CaseId, server: Here) -> shapes.LocksShown:
    """Let later aligns change a case again."""
    saved = server.registry.lock(judge, case, unlock=True)
    return shapes.LocksShown(version=saved.version, locks=list(saved.judge.memory.locks))
