"""The API, `/api/v1`: eight routes for applications and for programs that teach, in OpenAPI's words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, cast

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memalign import Example, Judgment
from memalign.errors import InputError
from memalign.io import Examples, read_feedback
from memalign.registry import JudgeSummary
from memalign.registry.residue import strings
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Problem
from memalign_server.review.cases import add_cases, measuring_names
from memalign_server.server import JUDGE, Here
from memalign_server.work.jobs import Job

PREFIX = "/api/v1"

router = APIRouter(dependencies=[OWNER])
of_judge = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

JudgeName = Annotated[str, Path(max_length=200, description="The judge's name.")]
JobId = Annotated[str, Path(max_length=32, description="The job's id.")]
Key = Annotated[str, Field(min_length=1, max_length=2000, examples=["t-17@ana"])]
Rows = Annotated[list[dict[str, Any]], Field(max_length=100_000)]
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _holds_characters(cls, body: Any) -> Any:
        if any(map(_NO_CHARACTER.search, strings(body))):
            raise ValueError("a text has a null or half a surrogate pair, which no database keeps")
        return body


class Case(_Body):
    """One case: at least one of its fields."""

    id: Annotated[str, Field(min_length=1, max_length=500)] = "item"
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)


class Cases(_Body):
    """Cases for review: rows of an example's fields."""

    cases: Rows


class NewFeedback(_Body):
    """Feedback to learn: rows of an example's fields with `value`, `rationale` and `source`. None: what is pending.

    A row without a source is yours. A row replaces the earlier one of the same id and source.
    """

    feedback: Rows = Field(default_factory=list)
    skip_invalid: bool = False
    max_cost: Annotated[float, Field(gt=0, description="Dollars.")] | None = None


class Withdrawal(_Body):
    """Feedback to forget: by case (`t-17`), by key (`t-17@ana`) or by source. Of several, all must hold."""

    keys: list[Key] = Field(default_factory=list, max_length=10_000)
    source: Annotated[str, Field(min_length=1, max_length=500)] | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError(f"name feedback by one of {', '.join(type(self).model_fields)}")
        return self


class Erasure(Withdrawal):
    """Feedback to erase from every version; `matching` is all whose case or words hold a text."""

    matching: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


def _beginning(
    request: Request, response: Response, judge: JudgeName, server: Here, person: Asking
) -> Callable[[str, Mapping[str, Any]], Job]:
    def begin(kind: str, arguments: Mapping[str, Any]) -> Job:
        job = server.jobs.start(kind, judge, arguments, asked_by=person.name)
        response.headers["location"] = request.url_for("show_job", judge=judge, job=job.id).path
        return job

    return begin


Begin = Annotated[Callable[[str, Mapping[str, Any]], Job], Depends(_beginning)]
"""A parameter of a route: `begin("align", arguments)` asks for work on the path's judge."""


@router.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request) -> dict[str, Any]:
    """The API's description, OpenAPI 3.1."""
    return cast("dict[str, Any]", request.app.openapi())


@router.get("/judges", tags=["judges"])
def list_judges(server: Here) -> list[JudgeSummary]:
    """The judges in their latest versions, by name."""
    return list(server.registry.list())


@of_judge.post("/judge", tags=["judging"])
async def judge_one(judge: JudgeName, case: Case, server: Here) -> Judgment:
    """Judge one case now. A model that fails is a problem with its reason."""
    latest = await asyncio.to_thread(server.judges.latest, judge)
    return await latest.judge.ajudge(Example(**case.model_dump(exclude_none=True)))


@of_judge.post("/cases", status_code=202, tags=["review"])
def put_cases(judge: JudgeName, body: Cases, begin: Begin, server: Here) -> Job:
    """Put cases in the queue, and judge those that are not judged. Content that is in it already stays as it is."""
    columns = server.judges.latest(judge).judge.columns
    cases = list(Examples.of(body.cases, columns=columns)) if body.cases else []
    with server.store.write() as connection:
        add_cases(connection, judge, cases)
    return begin("queue", {})


@of_judge.post("/teach", status_code=202, tags=["learning"])
def teach_answers(begin: Begin) -> Job:
    """Let the judge learn what people said on the pages and has not learned yet."""
    return begin("teach", {})


@of_judge.post("/align", status_code=202, tags=["learning"])
def align_judge(judge: JudgeName, body: NewFeedback, begin: Begin, server: Here, person: Asking) -> Job:
    """Learn from experts' feedback, or from what users of an application think of a verdict: a new version.

    Feedback on cases that are held out to measure the judge is refused, under whatever id: 409, with the ids as
    `held_out`.
    """
    rows = [{**row, "source": row.get("source") or person.name} for row in body.feedback]
    with server.store.read() as connection:
        measuring = measuring_names(connection, judge)
    held_out = {id_ for row in rows if (id_ := str(row.get("id"))) in measuring}
    if measuring:
        with suppress(InputError):  # rows that cannot be read are the job's to refuse
            columns = server.judges.latest(judge).judge.columns
            read = read_feedback(rows, columns=columns, skip_invalid=True).rows
            held_out |= {row.id for row in read if row.content_hash in measuring}
    if held_out:
        problem = "some of these cases are held out to measure the judge: leave them out"
        raise Problem(409, problem, held_out=sorted(held_out))
    return begin("align", {**body.model_dump(), "feedback": rows})


@of_judge.post("/unalign", status_code=202, tags=["learning"])
def unalign_judge(body: Withdrawal, begin: Begin) -> Job:
    """Forget feedback from the next version on; older versions keep it."""
    return begin("unalign", body.model_dump())


@of_judge.post("/erase", status_code=202, tags=["learning"])
def erase(body: Erasure, begin: Begin) -> Job:
    """Take feedback out of every version, for good; the job's result is the receipt."""
    return begin("erase", body.model_dump())


@of_judge.get("/jobs/{job}", tags=["jobs"])
def show_job(judge: JudgeName, job: JobId, server: Here) -> Job:
    """One job: its state, how far it is, and what it gave."""
    row = server.jobs.find(job)
    if row is None or row.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return row


router.include_router(of_judge)
