"""What the judge's learning changed: which verdicts turned, by which guidelines, and what people think of it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from memalign import Guideline
from memalign_server.api.judges import JudgeName, latest
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.api.review import CaseId
from memalign_server.problems import Problem
from memalign_server.review.blind import hidden_from
from memalign_server.review.turning import Turn, decide, readable_first, turns_of_version, versions_with_turns
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Blind, Here

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}/changes", tags=["review"])

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="A version of the judge.")]


class ChangeSummary(BaseModel):
    """A version that turned verdicts, and how many."""

    version: int
    turned: int


class TurnShown(BaseModel):
    """A case of which a version says something else than the one before.

    `effect` is fixed, broken, moved (wrong before and after) or turned (nobody has labelled it). While a case that waits
    for your answer is `hidden`, its verdicts and labels are null.
    """

    case: str
    hidden: bool
    before: bool | int | float | str | None
    after: bool | int | float | str | None
    label: bool | int | float | str | None
    effect: Literal["fixed", "broken", "moved", "turned"] | None
    guidelines: list[str]
    decision: Literal["accepted", "objected"] | None
    decided_by: str | None


class ChangeShown(BaseModel):
    """What a version changed: the guidelines that it was the first to have, and the verdicts that it turned."""

    version: int
    guidelines: list[Guideline]
    turned: list[TurnShown]


class DecisionGiven(BaseModel):
    """What you think of a turned verdict. Who objects answers the case anew, for the judge to learn from."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["accepted", "objected"]


def _turn(turn: Turn, *, hidden: bool) -> TurnShown:
    told = {} if hidden else {name: getattr(turn, name) for name in ("before", "after", "label", "effect")}
    return TurnShown(
        case=turn.case_id,
        hidden=hidden,
        **{"before": None, "after": None, "label": None, "effect": None, **told},
        guidelines=list(turn.guidelines),
        decision=turn.decision,
        decided_by=turn.decided_by,
    )


@router.get("")
def list_changes(judge: JudgeName, server: Here, limit: Limit = 50, cursor: Cursor = None) -> Page[ChangeSummary]:
    """The versions that turned verdicts, the newest first."""
    latest(server, judge)
    start = after(cursor)
    below = int(start) if start is not None and start.isdigit() and len(start) < 10 else None
    with server.store.read() as connection:
        numbers = [each for each in versions_with_turns(connection, judge) if below is None or each < below]
        piece = cut(numbers, limit, str)
        items = [
            ChangeSummary(version=each, turned=len(turns_of_version(connection, judge, each))) for each in piece.items
        ]
    return Page(items=items, next=piece.next)


@router.get("/{version}")
def show_change(judge: JudgeName, version: Number, server: Here, blind: Blind) -> ChangeShown:
    """One version: what it was taught, and which verdicts it turned: broken ones first, hidden ones last."""
    parent = next((each.parent for each in server.registry.history(judge) if each.number == version), None)
    guidelines = server.registry.load(judge, version).memory.guidelines
    before = () if parent is None else server.registry.load(judge, parent).memory.guidelines
    known = {each.id for each in before}
    with server.store.read() as connection:
        turned = turns_of_version(connection, judge, version)
        hidden = hidden_from(connection, judge, blind, [each.case_id for each in turned])
    return ChangeShown(
        version=version,
        guidelines=[each for each in guidelines if each.id not in known],
        turned=[_turn(each, hidden=each.case_id in hidden) for each in readable_first(turned, hidden)],
    )


@router.put("/{version}/cases/{case}")
def decide_change(
    judge: JudgeName,
    version: Number,
    case: CaseId,
    given: DecisionGiven,
    server: Here,
    person: Asking,
) -> TurnShown:
    """Accept a turned verdict, or object to it; the last word counts."""
    latest(server, judge)
    with server.store.write() as connection:
        if hidden_from(connection, judge, person.name, [case]):
            raise Problem(409, f"answer case {case!r} first: its verdicts are hidden until then")
        turn = decide(connection, judge, version, case, decision=given.decision, person=person.name)
    return _turn(turn, hidden=False)
