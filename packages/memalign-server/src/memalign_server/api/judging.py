"""Judging: one case at once for applications, many as a job."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from memalign import Example, Judgment
from memalign.values import Value
from memalign_server.api import shapes
from memalign_server.api.beginning import Beginning
from memalign_server.api.judges import JudgeName, Version, loaded
from memalign_server.problems import Problem
from memalign_server.review.answers import Answer, review_of, save
from memalign_server.review.blind import mark_seen
from memalign_server.review.cases import add_cases, case_of, store_judgments
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here, Owning, Server
from memalign_server.store.columns import new_id

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["judging"])


class ManyGiven(BaseModel):
    """Cases to judge: rows of an example's fields."""

    model_config = ConfigDict(extra="forbid")

    examples: shapes.Rows
    version: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=256)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None


class ThumbGiven(BaseModel):
    """What somebody says of a verdict that was kept: `up` agrees. Words, and the right value, say more than a thumb.

    Of a verdict that is no yes or no, a thumb down needs a `value` or a `rationale`. `source` is who says so; you, without.
    """

    model_config = ConfigDict(extra="forbid")

    up: bool
    value: bool | int | float | str | None = None
    rationale: Annotated[str, Field(max_length=10_000)] = ""
    source: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class ThumbShown(BaseModel):
    """The feedback that a thumb made; the judge learns it at the next `teach`."""

    case: str
    source: str
    value: bool | int | float | str | None
    rationale: str | None


Keep = Annotated[bool, Query(description="Keep the case and its verdict for review, and for a thumb.")]
CaseId = Annotated[str, Path(min_length=1, max_length=500, description="The case's id, as the judgment has it.")]


@router.post("/judge")
async def judge_one(
    judge: JudgeName, given: shapes.Content, server: Here, person: Asking, version: Version = None, keep: Keep = False
) -> Judgment:
    """Judge one case now. A model that fails is a problem with its reason.

    Of a case that waits for review you have seen the verdict then: your answer on it is no blind one.
    A case that is kept and has no `id` gets one made of its content; the judgment has it.
    """
    chosen, number = await asyncio.to_thread(loaded, server, judge, version)
    fields = {name: value for name, value in given.model_dump().items() if value is not None}
    example = Example(**{"id": "item"} | fields)
    if keep and given.id is None:
        example = msgspec.structs.replace(example, id=f"c-{example.content_hash[:16]}")
    judgment = await chosen.ajudge(example)
    await asyncio.to_thread(mark_seen, server.store, judge, person.name, [example.content_hash])
    if keep:
        await asyncio.to_thread(_keep, server, judge, number, example, judgment)
    return judgment


def _keep(server: Server, judge: str, number: int, example: Example, judgment: Judgment) -> None:
    with server.store.write() as connection:
        add_cases(connection, judge, [example])
        there = case_of(connection, judge, example.id)
        if there is None or there.example.content_hash != example.content_hash:
            raise Problem(409, f"another case has the id {example.id!r}, or the same content has another id")
        store_judgments(connection, judge, number, [(judgment, None)])


@router.post("/cases/{case}/thumb")
def thumb_case(
    judge: JudgeName, case: CaseId, given: ThumbGiven, server: Here, person: Asking, owner: Owning
) -> ThumbShown:
    """Agree with a kept verdict, or not; a second thumb of the same source replaces the first."""
    source = given.source or person.name
    if source != person.name and not owner:
        raise Problem(403, f"a reviewer speaks as {person.name!r} alone; a thumb of {source!r} needs an owner")
    kind = loaded(server, judge, None)[0].value_type
    with server.store.write() as connection:
        kept = case_of(connection, judge, case)
        if kept is None or kept.judgment is None:
            raise Problem(404, f"no verdict is kept on case {case!r}: judge it with keep=true first")
        before = review_of(connection, judge, source, case)
        answer = Answer(
            state="answered",
            value=_thumbed(given, kept.judgment.value),
            rationale=given.rationale,
            form=new_id(),
            revision=0 if before is None else before.revision,
            seen=True,
        )
        said = save(connection, judge, source, case, answer, kind=kind).review
    return ThumbShown(case=case, source=source, value=said.value, rationale=said.rationale)


def _thumbed(given: ThumbGiven, verdict: Value | None) -> Value | None:
    """The label that a thumb stands for; None for a thumb down that leaves it open."""
    if given.value is not None:
        return given.value
    if given.up:
        return verdict
    return not verdict if isinstance(verdict, bool) else None


@router.post("/teach", status_code=202)
def teach_kept(judge: JudgeName, begin: Beginning) -> shapes.JobShown:
    """Let the judge learn what people said on the pages and by thumbs, and has not learned yet."""
    return begin("teach", judge, {})


@router.post("/judgments", status_code=202)
def judge_many(judge: JudgeName, given: ManyGiven, begin: Beginning) -> shapes.JobShown:
    """Judge many cases as a job; its result has `judgments`, in the order of the cases."""
    return begin("judge", judge, given.model_dump())
