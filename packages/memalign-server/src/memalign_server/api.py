"""The API, `/api/v1`: twelve routes for applications, and for programs that review and teach. OpenAPI describes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from memalign import Example, Judge, Judgment
from memalign.types import FeedbackKey
from memalign.values import Value
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Problem
from memalign_server.review.answers import LONGEST, Answer, Review, review_of, save
from memalign_server.review.blind import mark_seen, reviewed
from memalign_server.review.cases import (
    CaseState,
    QueuedCase,
    add_cases,
    case_of,
    list_cases,
    next_cases,
    store_judgments,
)
from memalign_server.server import JUDGE, Here, Server
from memalign_server.store.columns import new_id
from memalign_server.work.jobs import Job

__all__ = ["PREFIX", "ROUTERS"]

PREFIX = "/api/v1"

description: APIRouter = APIRouter(tags=["description"])
router: APIRouter = APIRouter()
of_judge: APIRouter = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

Label = bool | int | float | str | None
JudgeName = Annotated[str, Path(max_length=200, description="The judge's name.")]
CaseId = Annotated[str, Path(min_length=1, max_length=500, description="The case's id.")]
JobId = Annotated[str, Path(max_length=32, description="The job's id.")]
Key = Annotated[str, Field(min_length=1, max_length=2000, examples=["t-17@ana"])]
Rows = Annotated[list[dict[str, Any]], Field(max_length=100_000)]
Words = Annotated[str, Field(max_length=LONGEST)]


# -- what comes in -----------------------------------------------------------------------------------------------------


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CaseGiven(_Given):
    """One case: at least one of its fields."""

    id: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)


class CasesGiven(_Given):
    """Cases for review: rows of an example's fields."""

    cases: Rows


class AnswerGiven(_Given):
    """What you say of a case: all of it, for it replaces what you said before.

    An answered one has a `value`, or words. `revision` is that of the answer that you saw: 0 for the first one.
    What comes twice with one `form`, a random text of yours, is saved once.
    """

    state: Literal["answered", "skipped", "unclear"] = "answered"
    value: Label = None
    rationale: Words = ""
    revision: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    form: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class ThumbGiven(_Given):
    """What somebody says of a verdict that was kept: `up` agrees. Words, and the right value, say more than a thumb.

    Of a verdict that is no yes or no, a thumb down needs a `value` or a `rationale`. `source` is who says so; you, without.
    """

    up: bool
    value: Label = None
    rationale: Words = ""
    source: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class FeedbackGiven(_Given):
    """Feedback to learn: rows of an example's fields with `value`, `rationale` and `source`. None: what is pending.

    A row without a source is yours. A row of a known id and source replaces the earlier one.
    """

    feedback: Rows = Field(default_factory=list)
    skip_invalid: bool = False
    max_cost: Annotated[float, Field(gt=0, description="Dollars.")] | None = None


class WithdrawalGiven(_Given):
    """Feedback to forget: by case (`t-17`), by key (`t-17@ana`) or by source."""

    keys: list[Key] = Field(default_factory=list, max_length=10_000)
    source: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class ErasureGiven(WithdrawalGiven):
    """Feedback to erase from every version; `matching` all whose case or words hold a text. Of several, all must hold."""

    matching: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


# -- what goes out -----------------------------------------------------------------------------------------------------


class Me(BaseModel):
    """Who asks: the name is the source of your feedback, `role` what you may do. `by` is open, session or token."""

    name: str
    role: Literal["owner", "reviewer"]
    by: Literal["open", "session", "token"]


class JudgeShown(BaseModel):
    """One judge, in its latest version."""

    name: str
    versions: int
    latest: int
    value_type: str
    model: str | None
    cases: int
    feedback: int
    guidelines: int
    pending: int
    updated_at: str


class AnswerShown(BaseModel):
    """What one person said of a case. `taught` says that the judge has learned it as it stands."""

    person: str
    state: Literal["answered", "skipped", "unclear", "undone"]
    value: Label
    rationale: str | None
    revision: int
    taught: bool
    updated_at: str


class CaseShown(BaseModel):
    """One case of the queue. While it is `hidden`, `judgment` is null and `others` is empty: you are asked first.

    `agree` says whether you and the judge say the same; `problem` why it could not be judged.
    """

    id: str
    example: dict[str, Any]
    hidden: bool
    mine: AnswerShown | None
    judgment: Judgment | None
    version: int | None
    agree: bool | None
    others: list[AnswerShown]
    problem: str | None


class CasesShown(BaseModel):
    """A piece of the queue; `next` is the `after` of the piece that follows, null for none."""

    items: list[CaseShown]
    next: int | None


class ThumbShown(BaseModel):
    """The feedback that a thumb made; the judge learns it at the next `teach`."""

    case: str
    source: str
    value: Label
    rationale: str | None


# -- long work ---------------------------------------------------------------------------------------------------------


def _beginning(
    request: Request, answer: Response, judge: JudgeName, server: Here, person: Asking
) -> Callable[[str, Mapping[str, Any]], Job]:
    def begin(kind: str, arguments: Mapping[str, Any]) -> Job:
        job = server.jobs.start(kind, judge, arguments, asked_by=person.name)
        answer.headers["location"] = request.url_for("show_job", judge=judge, job=job.id).path
        return job

    return begin


Begin = Annotated[Callable[[str, Mapping[str, Any]], Job], Depends(_beginning)]
"""A parameter of a route: `begin("align", arguments)` asks for work on the path's judge; the answer says where its job is."""


# -- who, and which judges ---------------------------------------------------------------------------------------------


@description.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request) -> dict[str, Any]:
    """The API's description, OpenAPI 3.1."""
    described: dict[str, Any] = request.app.openapi()
    return described


@router.get("/me", tags=["people"])
def show_me(person: Asking) -> Me:
    """Who you are, and what you may do."""
    return Me(name=person.name, role=person.role.value, by=person.by)


@router.get("/judges", tags=["judges"])
def list_judges(server: Here) -> list[JudgeShown]:
    """The judges, by name."""
    return [JudgeShown(**judge.to_dict()) for judge in server.registry.list()]


# -- judging -----------------------------------------------------------------------------------------------------------


@of_judge.post("/judge", tags=["judging"])
async def judge_one(
    judge: JudgeName,
    given: CaseGiven,
    server: Here,
    person: Asking,
    keep: Annotated[bool, Query(description="Keep the case and its verdict for review, and for a thumb.")] = False,
) -> Judgment:
    """Judge one case now. A model that fails is a problem with its reason.

    Of a case that waits for review you have seen the verdict then: your answer on it is no blind one.
    A case that is kept and has no `id` gets one made of its content; the judgment has it.
    """
    latest = await asyncio.to_thread(server.judges.latest, judge)
    fields = {name: value for name, value in given.model_dump().items() if value is not None}
    example = Example(**{"id": "item"} | fields)
    if keep and given.id is None:
        example = msgspec.structs.replace(example, id=f"c-{example.content_hash[:16]}")
    judgment = await latest.judge.ajudge(example)
    await asyncio.to_thread(mark_seen, server.store, judge, person.name, [example.content_hash])
    if keep:
        await asyncio.to_thread(_keep, server, latest.judge, latest.version, example, judgment)
    return judgment


def _keep(server: Server, judge: Judge, version: int, example: Example, judgment: Judgment) -> None:
    with server.store.write() as connection:
        add_cases(connection, judge.name, [example])
        queued = case_of(connection, judge.name, example.id)
        if queued is None or queued.example.content_hash != example.content_hash:
            raise Problem(409, f"another case has the id {example.id!r}, or the same content has another id")
        store_judgments(connection, judge, version, [(example, judgment, None)])


@of_judge.post("/cases/{case}/thumb", tags=["judging"])
def thumb_case(judge: JudgeName, case: CaseId, given: ThumbGiven, server: Here, person: Asking) -> ThumbShown:
    """Agree with a kept verdict, or not; a second thumb of the same source replaces the first."""
    source = given.source or person.name
    if source != person.name and not person.owner:
        raise Problem(403, f"a reviewer speaks as {person.name!r} alone; a thumb of {source!r} needs an owner")
    kind = server.judges.latest(judge).judge.value_type
    with server.store.write() as connection:
        queued = case_of(connection, judge, case)
        if queued is None or queued.judgment is None:
            raise Problem(404, f"no verdict is kept on case {case!r}: judge it with keep=true first")
        before = review_of(connection, judge, source, case)
        answer = Answer(
            state="answered",
            value=_thumbed(given, queued.judgment.value),
            rationale=given.rationale,
            form=new_id(),
            revision=0 if before is None else before.revision,
            seen=True,
        )
        review = save(connection, judge, source, case, answer, kind=kind).review
    return ThumbShown(case=case, source=source, value=review.value, rationale=review.rationale)


def _thumbed(given: ThumbGiven, verdict: Value | None) -> Value | None:
    """The label that a thumb stands for; None for a thumb down that leaves it open."""
    if given.value is not None:
        return given.value
    if given.up:
        return verdict
    return not verdict if isinstance(verdict, bool) else None


# -- reviewing ---------------------------------------------------------------------------------------------------------


@of_judge.post("/cases", status_code=202, tags=["review"])
def put_cases(given: CasesGiven, begin: Begin) -> Job:
    """Put cases in the queue and judge those there that are not judged. Content that is there already stays as it is."""
    return begin("queue", {"examples": given.cases})


@of_judge.get("/cases", tags=["review"])
def list_review_cases(
    judge: JudgeName,
    server: Here,
    person: Asking,
    state: Annotated[CaseState | None, Query(description="What they are for you; open ones wait for you.")] = None,
    order: Annotated[
        Literal["added", "useful"], Query(description="`useful`: open or skipped ones, the most useful first.")
    ] = "added",
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
    after: Annotated[int, Query(ge=0, le=2**62, description="`next` of the piece before; in the order `added`.")] = 0,
) -> CasesShown:
    """Cases of the queue. The next one for you is `?order=useful&limit=1`."""
    latest = server.judges.latest(judge).judge
    if order == "useful" and (state not in (None, "open", "skipped") or after):
        raise Problem(422, "the order `useful` is for cases that are open or skipped, and has no `after`")
    with server.store.read() as connection:
        if order == "useful":
            cases = next_cases(connection, judge, person.name, n=limit, again=state == "skipped")
        else:
            cases = list_cases(connection, judge, person.name, state=state, after=after, limit=limit + 1)
        items = [_case(connection, latest, person.name, case) for case in cases[:limit]]
    return CasesShown(items=items, next=cases[limit - 1].number if len(cases) > limit else None)


@of_judge.put("/cases/{case}/answer", tags=["review"])
def answer_case(judge: JudgeName, case: CaseId, given: AnswerGiven, server: Here, person: Asking) -> CaseShown:
    """Answer a case, skip it, or say that you cannot tell; the case then shows what the judge said.

    An answer over another `revision` than the one that stands changes nothing: 409, with what stands as `mine`.
    """
    latest = server.judges.latest(judge).judge
    answer = Answer(
        state=given.state,
        value=given.value,
        rationale=given.rationale,
        revision=given.revision,
        form=given.form or new_id(),
    )
    with server.store.write() as connection:
        queued = case_of(connection, judge, case)
        if queued is None:
            raise Problem(404, f"case {case!r} is not in the queue of {judge!r}: it was erased or never put in")
        saved = save(connection, judge, person.name, case, answer, kind=latest.value_type)
        if saved.outcome != "conflict":
            return _case(connection, latest, person.name, queued)
    raise Problem(
        409,
        f"your answer on {case!r} has changed elsewhere; it is revision {saved.review.revision} now: look at it, "
        "and send that `revision`",
        mine=_answer(saved.review).model_dump(),
    )


def _case(connection: Connection, judge: Judge, person: str, case: QueuedCase) -> CaseShown:
    shown = reviewed(connection, judge, person, case)
    return CaseShown(
        id=case.example.id,
        example=case.example.to_dict(),
        hidden=shown.hidden,
        mine=None if shown.said is None else _answer(shown.said),
        judgment=shown.judgment,
        version=case.version,
        agree=shown.agree,
        others=[_answer(review) for review in shown.others],
        problem=case.problem,
    )


def _answer(review: Review) -> AnswerShown:
    names = ("person", "state", "value", "rationale", "revision", "updated_at")
    taught = bool(review.taught) and not review.untaught
    return AnswerShown(**{name: getattr(review, name) for name in names}, taught=taught)


# -- learning and forgetting: each a job -------------------------------------------------------------------------------


@of_judge.post("/teach", status_code=202, tags=["learning"])
def teach_answers(begin: Begin) -> Job:
    """Let the judge learn what people said on the pages and by thumbs, and has not learned yet."""
    return begin("teach", {})


@of_judge.post("/align", status_code=202, tags=["learning"])
def align_judge(given: FeedbackGiven, begin: Begin, person: Asking) -> Job:
    """Learn from experts' feedback: a new version. A reviewer hands in their own."""
    rows = [row if row.get("source") else {**row, "source": person.name} for row in given.feedback]
    if not person.owner and (others := {str(row["source"])[:100] for row in rows if row["source"] != person.name}):
        raise Problem(403, f"a reviewer speaks as {person.name!r} alone; feedback of {min(others)!r} needs an owner")
    return begin("align", {**given.model_dump(), "feedback": rows})


@of_judge.post("/unalign", status_code=202, tags=["learning"])
def unalign_judge(given: WithdrawalGiven, begin: Begin, person: Asking) -> Job:
    """Forget feedback from the next version on; older versions keep it. A reviewer gives their own name as `source`."""
    if not person.owner and given.source != person.name:
        raise Problem(403, f"a reviewer withdraws their own feedback: give `source` as {person.name!r}")
    return begin("unalign", given.model_dump())


@of_judge.post("/erase", status_code=202, tags=["learning"], dependencies=[OWNER])
def erase(given: ErasureGiven, begin: Begin) -> Job:
    """Take feedback out of every version, for good; the job's result is the signed receipt."""
    return begin("erase", given.model_dump())


@of_judge.get("/jobs/{job}", tags=["jobs"])
def show_job(judge: JudgeName, job: JobId, server: Here, person: Asking) -> Job:
    """One job: its state, how far it is, and what it gave."""
    found = server.jobs.find(job)
    if found is None or found.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return found if person.owner else replace(found, result=_open_result(found, person.name))


def _open_result(job: Job, person: str) -> Any:
    """What anybody may know of a job's result: counts of a queue; of learning the version, and one's own feedback."""
    if job.result is None or job.kind in ("queue", "pull"):
        return job.result
    keyed = [row for row in job.result.get("rows", ()) if row.get("key")]
    rows = [row for row in keyed if FeedbackKey.parse(row["key"]).source == person]
    return {"version": job.result.get("version"), "rows": rows}


ROUTERS: list[APIRouter] = [description, router, of_judge]
"""In the order of the description."""
