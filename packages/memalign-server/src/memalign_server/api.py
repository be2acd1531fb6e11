"""The API, `/api/v1`: routes for applications, in OpenAPI's words. People review on the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Self, cast

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from memalign import Example, Judge, Judgment
from memalign.errors import InputError
from memalign.evaluation import Usefulness
from memalign.io import Examples, read_feedback
from memalign.judge import named_parts
from memalign.keys import FeedbackKey, same_person
from memalign.registry import JudgeSummary
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.service import Person
from memalign_server.problems import Problem
from memalign_server.review.service import mark_seen
from memalign_server.server import JUDGE, Here, Loaded, Server
from memalign_server.store.cases import (
    add_cases,
    cases_of,
    ids_with_content,
    measuring_names,
    store_judgments,
)
from memalign_server.store.tables import whole_value
from memalign_server.work.jobs import Job
from memalign_server.work.judging import useful_ranks

PREFIX = "/api/v1"

router = APIRouter()
of_judge = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

JudgeName = Annotated[str, Path(max_length=200, description="The judge's name.")]
JobId = Annotated[str, Path(max_length=32, description="The job's id.")]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Key = Annotated[str, Field(min_length=1, max_length=2000, examples=["t-17@ana"])]
# An entry that is no object is a bad row like any other, and named as such.
Row = Annotated[Any, WithJsonSchema({"type": "object", "additionalProperties": True})]
Rows = Annotated[list[Row], Field(max_length=100_000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, body: Any) -> Any:
        try:
            return whole_value(body)
        except RecursionError:
            raise ValueError("a value is nested too deeply") from None


class NewCase(_Body):
    """One case: at least one of its fields."""

    id: Name | None = None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)


class NewCases(_Body):
    """Cases for review: rows of an example's fields."""

    cases: Rows


class NewFeedback(_Body):
    """Feedback to learn: rows of an example's fields with `value`, `rationale` and `source`.

    Without any, what is pending is learned. A row without a source is yours. A row replaces the
    earlier one of the same id and source. If a case is in the queue, for example because it was
    judged and kept, the id is enough.
    """

    feedback: Rows = Field(default_factory=list)
    skip_invalid: bool = False
    max_cost: Annotated[float, Field(gt=0, description="Dollars.")] | None = None


class Withdrawal(_Body):
    """Feedback to forget: by case (`t-17`), by key (`t-17@ana`) or by source.

    If several are given, all must hold.
    """

    keys: list[Key] = Field(default_factory=list, max_length=10_000)
    source: Name | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError(
                f"name feedback by one of {', '.join(type(self).model_fields)}"
            )
        return self


class Erasure(Withdrawal):
    """Feedback to erase from every version; `matching` is all whose case or words hold a text."""

    matching: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


_Start = Callable[[str, Mapping[str, Any]], Job]


def _starting(
    request: Request, response: Response, judge: JudgeName, server: Here, person: Asking
) -> _Start:
    def begin(kind: str, arguments: Mapping[str, Any]) -> Job:
        job = server.jobs.start(kind, judge, arguments, asked_by=person.name)
        address = request.url_for("show_job", judge=judge, job=job.id)
        response.headers["location"] = address.path
        return job

    return begin


Begin = Annotated[_Start, Depends(_starting)]
"""A parameter of a route: `begin("align", arguments)` asks for work on the path's judge."""


@router.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request) -> dict[str, Any]:
    """Return the API's description, OpenAPI 3.1."""
    return cast("dict[str, Any]", request.app.openapi())


@router.get("/me", tags=["people"], response_model_exclude={"id"})
def show_me(person: Asking) -> Person:
    """Show who you are.

    The name is the source of your feedback, `role` is what you may do, and `by` is how you are
    known.
    """
    return person


@router.get("/judges", tags=["judges"])
def list_judges(server: Here) -> list[JudgeSummary]:
    """List the judges in their latest versions, by name."""
    return list(server.registry.list())


@of_judge.post("/judge", tags=["judging"])
async def judge_one(
    judge: JudgeName,
    case: NewCase,
    server: Here,
    person: Asking,
    keep: Annotated[
        bool,
        Query(
            description="Keep the case and its verdict for review, and for feedback by its id."
        ),
    ] = False,
) -> Judgment:
    """Judge one case now. If the model fails, the reply is a problem with the reason.

    If the case waits for your review, you have now seen the verdict, so your answer no longer
    counts as blind. A case that is kept without an `id` gets one made of its content; the judgment
    has it. Only owners may keep cases, as on the pages.
    """
    if keep and not person.owner:
        raise Problem(
            403,
            "a case that is kept is added to the queue, which is for owners: judge it without keep",
        )
    latest = await asyncio.to_thread(server.judges.latest, judge)
    example = Example(**{"id": "item"} | case.model_dump(exclude_none=True))
    if keep and case.id is None:
        made_id = f"c-{example.content_hash[:16]}"
        example = msgspec.structs.replace(example, id=made_id)
    judgment = await latest.judge.ajudge(example)
    kept = [(example, judgment)] if keep else []
    ranks = await useful_ranks(Usefulness(latest.judge), kept)
    await asyncio.to_thread(_note, server, latest, person.name, example, kept, ranks)
    return judgment


def _note(
    server: Server,
    latest: Loaded,
    person: str,
    example: Example,
    kept: Sequence[tuple[Example, Judgment]],
    ranks: Mapping[str, float],
) -> None:
    """Keep a case with its verdict if it is to be kept, and note who was told the verdict.

    From then on this person's answer on the case does not count as blind.
    """
    judge = latest.judge
    content = example.content_hash
    with server.store.read() as connection:
        same = ids_with_content(connection, judge.name, content)
    if not (kept or same):
        return  # most requests are about no case of the queue, and should not lock
    with server.store.write() as connection:
        if kept:
            add_cases(connection, judge.name, [example], memory=judge.memory)
            same = ids_with_content(connection, judge.name, content)
            if example.id not in same:
                raise Problem(
                    409,
                    f"another case has the id {example.id!r}, or the same content has another id",
                )
            store_judgments(connection, judge, latest.version, kept, ranks)
        for case in cases_of(connection, judge.name, same):
            mark_seen(connection, case, person)


def _own_source(person: Person, source: str) -> str:
    """Return the source, if the person may hand in its feedback."""
    if not (person.owner or same_person(source, person.name)):
        raise Problem(
            403,
            f"a reviewer hands in feedback as {person.name!r} alone; "
            f"that of {source[:100]!r} needs an owner",
        )
    return source


@of_judge.post("/cases", status_code=202, tags=["review"], dependencies=[OWNER])
def put_cases(judge: JudgeName, body: NewCases, begin: Begin, server: Here) -> Job:
    """Put cases in the queue, and judge those that are not judged.

    The job's result has how many were `added`; how many were `known`, with the same content; and
    the ids of those that were left out, because their id has other content, as `changed`. `apart`
    answers were given to other content under the ids of added cases, and count for that alone.
    """
    asked = server.judges.latest(judge).judge
    parts = named_parts(asked.instructions)
    cases = (
        list(Examples.of(body.cases, columns=asked.columns, fields=parts))
        if body.cases
        else []
    )
    with server.store.write() as connection:
        arrival = add_cases(connection, judge, cases, memory=asked.memory)
    return begin("queue", {"arrival": arrival.counts})


@of_judge.post("/align", status_code=202, tags=["learning"])
def align_judge(
    judge: JudgeName, body: NewFeedback, begin: Begin, server: Here, person: Asking
) -> Job:
    """Learn from experts' feedback: a new version. A reviewer hands in their own.

    Feedback on cases that are held out to measure the judge is refused, under whatever id: 409,
    with the ids as `held_out`. So is feedback on other content than the queue has under an id, with
    the ids as `changed`.
    """
    rows = [_handed_in(row, person) for row in body.feedback]
    objects = [row for row in rows if isinstance(row, dict)]
    asked = server.judges.latest(judge).judge
    ids = [_id_of(row, asked) for row in objects]
    with server.store.read() as connection:
        measuring = measuring_names(connection, judge)
        queued = {case.case_id: case for case in cases_of(connection, judge, ids)}
    for case_id, row in zip(ids, objects, strict=True):
        if case_id in queued:  # nobody has to send a case again that is known
            row.update({**queued[case_id].example.content, **row})
    held_out = set(ids) & measuring
    changed = set()
    with suppress(InputError):  # rows that cannot be read are the job's to refuse
        for said in read_feedback(rows, columns=asked.columns, skip_invalid=True).rows:
            known = queued.get(said.id)
            if not measuring.isdisjoint((said.id, said.content_hash)):
                held_out.add(said.id)
            elif known is not None and known.content_hash != said.content_hash:
                changed.add(said.id)
    _check_contents(held_out, changed)
    return begin("align", {**body.model_dump(), "feedback": rows})


def _id_of(row: Mapping[str, Any], judge: Judge) -> str:
    """Return the id of a row as feedback is read: of the judge's column, without blanks."""
    column = judge.columns.get("id", "id")
    return str(row.get(column, row.get("id"))).strip()


def _check_contents(held_out: Collection[str], changed: Collection[str]) -> None:
    """Raise Problem 409 for feedback on cases that never teach, or on another text."""
    if held_out:
        problem = (
            "some of these cases are held out to measure the judge: leave them out"
        )
        raise Problem(409, problem, held_out=sorted(held_out))
    if changed:
        problem = "the queue has other content under some of these ids: give other ids"
        raise Problem(409, problem, changed=sorted(changed))


def _handed_in(row: Any, person: Person) -> Any:
    """Return a row with its source; a row without one is the person's who hands it in."""
    if not isinstance(row, dict):
        return row
    source = str(row.get("source") or person.name)
    return {**row, "source": _own_source(person, source)}


@of_judge.post("/unalign", status_code=202, tags=["learning"])
def unalign_judge(body: Withdrawal, begin: Begin, person: Asking) -> Job:
    """Forget feedback from the next version on; older versions keep it.

    A reviewer gives their own name as `source`.
    """
    if not (person.owner or same_person(body.source, person.name)):
        raise Problem(
            403,
            f"a reviewer withdraws their own feedback: give `source` as {person.name!r}",
        )
    return begin("unalign", body.model_dump())


@of_judge.post("/erase", status_code=202, tags=["learning"], dependencies=[OWNER])
def erase(body: Erasure, begin: Begin) -> Job:
    """Take feedback out of every version, for good; the job's result is the receipt."""
    return begin("erase", body.model_dump())


@of_judge.get("/jobs/{job}", tags=["jobs"])
def show_job(judge: JudgeName, job: JobId, server: Here, person: Asking) -> Job:
    """Show one job: its state, how far it is, and what it gave."""
    row = server.jobs.find(job)
    if row is None or row.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    if person.owner:
        return row
    return replace(row, result=_open_result(row, person.name))


def _open_result(job: Job, person: str) -> Any:
    """Return what a reviewer may know of a job's result.

    That is everything about a queue and about their own trials. About learning, it is the version
    and what became of their own feedback.
    """
    own_trial = job.kind == "try" and job.asked_by == person
    if job.result is None or job.kind in ("queue", "pull") or own_trial:
        return job.result
    rows = []
    for row in job.result.get("rows", ()):
        key = row.get("key")
        if key and same_person(FeedbackKey.parse(key).source, person):
            rows.append(row)
    return {"version": job.result.get("version"), "rows": rows}


router.include_router(of_judge)
