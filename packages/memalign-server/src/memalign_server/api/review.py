"""The review over HTTP: which case comes next, what you say of it, and then what the judge and others said.

Blind first, as on the pages: until you have answered a case, `judgment` and `others` are empty and `hidden` is true.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from memalign import Guideline, Judge, Judgment
from memalign.metrics import Estimate
from memalign.types import as_json
from memalign_server.api import shapes
from memalign_server.api.beginning import Beginning
from memalign_server.api.judges import JudgeName, latest
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.problems import Problem
from memalign_server.review.answers import LONGEST, Answer, Review, save, undo
from memalign_server.review.blind import ReviewedCase, reviewed
from memalign_server.review.cases import CaseState, QueuedCase, case_of, list_cases, next_cases, progress_of
from memalign_server.review.disagreement import disagreement_count, disagreements
from memalign_server.review.evidence import evidence_of
from memalign_server.review.teaching import untaught_count
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here
from memalign_server.store.columns import new_id

__all__ = ["CaseId", "router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}/review", tags=["review"])

CaseId = Annotated[str, Path(min_length=1, max_length=500, description="The case's id.")]
Label = Annotated[str | None, Query(max_length=2000)]
Again = Annotated[bool, Query(description="Those that you skipped.")]
Revision = Annotated[int, Field(ge=0, le=2**31 - 1)]


class CasesGiven(BaseModel):
    """Cases for review: rows of an example's fields."""

    model_config = ConfigDict(extra="forbid")

    cases: shapes.Rows


class AnswerGiven(BaseModel):
    """What you say of a case: all of it, for it replaces what you said before.

    An answered one has a `value`, or words. `revision` is that of the answer that you saw: 0 for the first one.
    What comes twice with one `form`, a random text of yours, is kept once.
    """

    model_config = ConfigDict(extra="forbid")

    state: Literal["answered", "skipped", "unclear"] = "answered"
    value: bool | int | float | str | None = None
    rationale: Annotated[str, Field(max_length=LONGEST)] = ""
    revision: Revision = 0
    form: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class AnswerShown(BaseModel):
    """What one person said of a case. `taught` says that the judge has learned it as it stands."""

    person: str
    state: Literal["answered", "skipped", "unclear", "undone"]
    value: bool | int | float | str | None
    rationale: str | None
    revision: int
    taught: bool
    updated_at: str


class ReasonShown(BaseModel):
    """One thing that speaks for asking: its code, how strongly (0 to 1), and a figure or a name."""

    code: str
    degree: float
    detail: str


class ReviewCase(BaseModel):
    """One case of the queue. While it is `hidden`, `judgment` is null and `others` is empty: you are asked first.

    `agree` says whether you and the judge say the same; `problem` why it could not be judged.
    """

    id: str
    example: dict[str, Any]
    reasons: list[ReasonShown]
    hidden: bool
    mine: AnswerShown | None
    judgment: Judgment | None
    version: int | None
    agree: bool | None
    others: list[AnswerShown]
    problem: str | None


class DisagreementShown(BaseModel):
    """A case that you and somebody else answered differently, and everybody's answers."""

    id: str
    example: dict[str, Any]
    answers: list[AnswerShown]


class ProgressShown(BaseModel):
    """How far you are, and what blind answers prove so far.

    `blind` of everybody's answers were given before the verdict was shown; `agreed` of them say what the judge said.
    `agreement`, between `low` and `high` with 95 %, is null while `missing` more are needed. `untaught` answers wait.
    """

    total: int
    answered: int
    skipped: int
    unclear: int
    left: int
    disagreements: int
    untaught: int
    blind: int
    agreed: int
    missing: int
    agreement: float | None
    low: float | None
    high: float | None


def _answer(said: Review) -> AnswerShown:
    names = ("person", "state", "value", "rationale", "revision", "updated_at")
    return AnswerShown(**{name: getattr(said, name) for name in names}, taught=bool(said.taught) and not said.untaught)


def _case(found: ReviewedCase) -> ReviewCase:
    case = found.case
    return ReviewCase(
        id=case.example.id,
        example=case.example.to_dict(),
        reasons=[ReasonShown(**as_json(each)) for each in found.reasons],
        hidden=found.hidden,
        mine=None if found.said is None else _answer(found.said),
        judgment=found.judgment,
        version=case.version,
        agree=found.agree,
        others=[_answer(each) for each in found.others],
        problem=case.problem,
    )


def _shown(connection: Connection, judge: Judge, person: str, case: str) -> ReviewCase:
    return _case(reviewed(connection, judge, person, _queued(connection, judge, case)))


def _queued(connection: Connection, judge: Judge, case: str) -> QueuedCase:
    found = case_of(connection, judge.name, case)
    if found is None:
        raise Problem(404, f"case {case!r} is not in the queue of {judge.name!r}: it was erased or never put in")
    return found


@router.get("/cases")
def list_review_cases(
    judge: JudgeName,
    server: Here,
    person: Asking,
    state: Annotated[CaseState | None, Query(description="What they are for you; open ones wait for you.")] = None,
    guideline: Annotated[str | None, Query(max_length=16, description="Those on which it spoke.")] = None,
    people: Label = None,
    judged: Label = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ReviewCase]:
    """Cases in the order in which they were put in.

    `people` and `judged` go together: answered cases that people, asked blind, called the one and the judge the other.
    """
    found = server.judges.latest(judge).judge
    pair = None
    if (people is None) != (judged is None):
        raise Problem(422, "`people` and `judged` go together")
    if people is not None and judged is not None:
        # The pair tells the verdict: only of cases that the person has answered.
        pair, state = (found.value_type.parse(people), found.value_type.parse(judged)), state or "answered"
        if state != "answered":
            raise Problem(422, "`people` and `judged` are told of cases that you have answered: leave `state` out")
    start = after(cursor) or "0"
    number = int(start) if start.isdigit() and len(start) < 16 else 0
    chosen = {"state": state, "guideline": guideline, "pair": pair}
    with server.store.read() as connection:
        cases = list_cases(connection, judge, person.name, **chosen, after=number, limit=limit + 1)  # type: ignore[arg-type]
        piece = cut(cases, limit, lambda each: str(each.number))
        items = [_case(reviewed(connection, found, person.name, each)) for each in piece.items]
    return Page(items=items, next=piece.next)


@router.post("/cases", status_code=202)
def add_review_cases(judge: JudgeName, given: CasesGiven, begin: Beginning) -> shapes.JobShown:
    """Put cases in the queue and judge those there that are not judged. Content that is there already stays as it is."""
    return begin("queue", judge, {"examples": given.cases})


@router.get("/next")
def next_review_cases(
    judge: JudgeName,
    server: Here,
    person: Asking,
    n: Annotated[int, Query(ge=1, le=50, description="How many.")] = 1,
    again: Again = False,
    without: Annotated[list[str] | None, Query(max_length=100, description="Cases that you have at hand.")] = None,
) -> list[ReviewCase]:
    """The cases that wait for you, the most useful first."""
    found = server.judges.latest(judge).judge
    with server.store.read() as connection:
        cases = next_cases(connection, judge, person.name, n=n, without=without or (), again=again)
        return [_case(reviewed(connection, found, person.name, each)) for each in cases]


@router.get("/cases/{case}")
def show_review_case(judge: JudgeName, case: CaseId, server: Here, person: Asking) -> ReviewCase:
    """One case: before your answer its content, after it what the judge and others say."""
    found = server.judges.latest(judge).judge
    with server.store.read() as connection:
        return _shown(connection, found, person.name, case)


@router.put("/cases/{case}/answer")
def answer_case(judge: JudgeName, case: CaseId, given: AnswerGiven, server: Here, person: Asking) -> ReviewCase:
    """Answer a case, skip it, or say that you cannot tell; the case then shows what the judge said.

    An answer over another `revision` than the one that stands changes nothing: 409, with what stands as `mine`.
    """
    found = server.judges.latest(judge).judge
    said = Answer(
        state=given.state,
        value=given.value,
        rationale=given.rationale,
        revision=given.revision,
        form=given.form or new_id(),
    )
    with server.store.write() as connection:
        _queued(connection, found, case)
        saved = save(connection, judge, person.name, case, said, kind=found.value_type)
        if saved.outcome != "conflict":
            return _shown(connection, found, person.name, case)
    raise _conflict(saved.review)


@router.delete("/cases/{case}/answer")
def undo_answer_by_api(
    judge: JudgeName,
    case: CaseId,
    server: Here,
    person: Asking,
    revision: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only while it stands.")] = None,
) -> ReviewCase:
    """Take your answer back, as long as the judge has not learned it; the next one is not blind any more."""
    found = server.judges.latest(judge).judge
    with server.store.write() as connection:
        _queued(connection, found, case)
        undone = undo(connection, judge, person.name, case, revision=revision)
        if undone is None:
            raise Problem(404, f"you have said nothing of case {case!r}")
        if undone.outcome != "conflict":
            return _shown(connection, found, person.name, case)
    raise _conflict(undone.review)


def _conflict(stands: Review) -> Problem:
    return Problem(
        409,
        f"your answer on {stands.case_id!r} has changed elsewhere; it is revision {stands.revision} now: look at it, "
        "and send that `revision`",
        mine=_answer(stands).model_dump(),
    )


@router.get("/similar")
async def similar_guidelines_by_api(
    judge: JudgeName, server: Here, words: Annotated[str, Query(min_length=1, max_length=LONGEST)]
) -> list[Guideline]:
    """Guidelines in force that already say something like these words, the nearest first."""
    return await server.similar.to(await run_in_threadpool(server.judges.latest, judge), words)


@router.get("/disagreements")
def list_disagreements(
    judge: JudgeName, server: Here, person: Asking, limit: Limit = 50, cursor: Cursor = None
) -> Page[DisagreementShown]:
    """Cases that you and somebody else answered differently, your latest answer first.

    To settle one, answer it anew; until then the judge's policy says which label counts.
    """
    latest(server, judge)
    with server.store.read() as connection:
        found = disagreements(connection, judge, person.name, limit=limit + 1, before=after(cursor) or "")
    piece = cut(found, limit, lambda each: next(a.updated_at for a in each.answers if a.person == person.name))
    items = [
        DisagreementShown(
            id=each.case.example.id,
            example=each.case.example.to_dict(),
            answers=[_answer(said) for said in each.answers],
        )
        for each in piece.items
    ]
    return Page(items=items, next=piece.next)


@router.get("/progress")
def review_progress(judge: JudgeName, server: Here, person: Asking) -> ProgressShown:
    """How far you are with the queue, and what blind answers prove so far."""
    kind = server.judges.latest(judge).judge.value_type
    with server.store.read() as connection:
        mine = progress_of(connection, judge, person.name)
        evidence = evidence_of(connection, judge, kind)
        differ = disagreement_count(connection, judge, person.name)
        waiting = untaught_count(connection, judge)
    figure = Estimate(value=None) if evidence.missing else evidence.share
    return ProgressShown(
        **dataclasses.asdict(mine),
        left=mine.left,
        disagreements=differ,
        untaught=waiting,
        blind=evidence.n,
        agreed=evidence.agreed,
        missing=evidence.missing,
        agreement=figure.value,
        low=figure.low,
        high=figure.high,
    )
