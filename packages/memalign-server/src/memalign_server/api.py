"""The API, `/api/v1`: twelve routes for applications, and for programs that review and teach, in OpenAPI's words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, cast

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memalign import Example, Judge, Judgment
from memalign.errors import InputError
from memalign.evaluation import Usefulness
from memalign.io import Examples, read_feedback
from memalign.judge import named_parts
from memalign.keys import FeedbackKey, same_person
from memalign.registry import JudgeSummary
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.service import PROGRAM, Person, spelled
from memalign_server.problems import Problem
from memalign_server.review.service import LONGEST, NewAnswer, mark_seen, same_value, save
from memalign_server.server import JUDGE, Here, Loaded, Server
from memalign_server.store import Transaction
from memalign_server.store.answers import answer_of, answers_on
from memalign_server.store.cases import (
    THUMB,
    add_cases,
    case_of,
    cases_in_order,
    ids_with_content,
    measuring_names,
    next_cases,
    store_judgments,
)
from memalign_server.store.rows import Answer, QueuedCase
from memalign_server.store.tables import new_id, whole_value
from memalign_server.work.jobs import Job
from memalign_server.work.judging import useful_ranks

PREFIX = "/api/v1"

router = APIRouter()
of_judge = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

Label = bool | int | float | str | None
JudgeName = Annotated[str, Path(max_length=200, description="The judge's name.")]
CaseId = Annotated[str, Path(min_length=1, max_length=500, description="The case's id.")]
JobId = Annotated[str, Path(max_length=32, description="The job's id.")]
Key = Annotated[str, Field(min_length=1, max_length=2000, examples=["t-17@ana"])]
Rows = Annotated[list[dict[str, Any]], Field(max_length=100_000)]
Words = Annotated[str, Field(max_length=LONGEST)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, body: Any) -> Any:
        try:
            return whole_value(body)
        except RecursionError:
            raise ValueError("a value is nested too deeply") from None


class Case(_Body):
    """One case: at least one of its fields."""

    id: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)


class Cases(_Body):
    """Cases for review: rows of an example's fields."""

    cases: Rows


class CaseAnswer(_Body):
    """Your answer on a case, which replaces the one before: a `value`, or words, unless you skip it or cannot tell.

    `revision` is that of the answer that you saw: 0 for the first one. An answer that comes twice with one `form`, a
    random text of yours, is saved once.
    """

    state: Literal["answered", "skipped", "unclear"] = "answered"
    value: Label = None
    rationale: Words = ""
    revision: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    form: Annotated[str, Field(min_length=1, max_length=64, default_factory=new_id)]


class Thumb(_Body):
    """What somebody thinks of a verdict that was kept: `up` agrees. Words, and the right value, say more than a thumb.

    Unless the verdict is yes or no, a thumb down needs a `value` or a `rationale`. `source` is whose thumb it is; you,
    without.
    """

    up: bool
    value: Label = None
    rationale: Words = ""
    source: Annotated[str, Field(min_length=1, max_length=200)] | None = None


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


class AnswerState(BaseModel):
    """One person's answer on a case. `taught` says that the judge has learned it as it is now."""

    person: str
    state: Literal["answered", "skipped", "unclear", "undone"]
    value: Label
    rationale: str | None
    revision: int
    taught: bool
    updated_at: str


class ReviewCase(BaseModel):
    """One case of the queue. While it is `hidden`, `judgment` is null and `others` is empty: you are asked first.

    `own` is your answer, and `agree` whether the judge says the same; `problem` is why it could not be judged.
    """

    id: str
    example: dict[str, Any]
    hidden: bool
    own: AnswerState | None
    judgment: Judgment | None
    version: int | None
    agree: bool | None
    others: list[AnswerState]
    problem: str | None


class ReviewCases(BaseModel):
    """A piece of the queue; `next` is the `after` of the piece that follows, null at the end."""

    items: list[ReviewCase]
    next: int | None


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


@router.get("/me", tags=["people"], response_model_exclude={"id"})
def show_me(person: Asking) -> Person:
    """Who you are: the name is the source of your feedback, `role` what you may do, `by` how you are known."""
    return person


@router.get("/judges", tags=["judges"])
def list_judges(server: Here) -> list[JudgeSummary]:
    """The judges in their latest versions, by name."""
    return list(server.registry.list())


@of_judge.post("/judge", tags=["judging"])
async def judge_one(
    judge: JudgeName,
    case: Case,
    server: Here,
    person: Asking,
    keep: Annotated[
        bool, Query(description="Keep the case and its verdict for review, and for a thumb.")
    ] = False,
) -> Judgment:
    """Judge one case now. A model that fails is a problem with its reason.

    Of a case that waits for review you have seen the verdict then: your answer on it is no blind one. A case that is
    kept and has no `id` gets one made of its content; the judgment has it. As on the pages, owners add cases to the
    queue: a reviewer keeps none.
    """
    if keep and not person.owner:
        raise Problem(
            403,
            "a case that is kept is added to the queue, which is for owners: judge it without keep",
        )
    latest = await asyncio.to_thread(server.judges.latest, judge)
    example = Example(**{"id": "item"} | case.model_dump(exclude_none=True))
    if keep and case.id is None:
        example = msgspec.structs.replace(example, id=f"c-{example.content_hash[:16]}")
    judgment = await latest.judge.ajudge(example)
    ranks = await useful_ranks(Usefulness(latest.judge), [(example, judgment)]) if keep else {}
    await asyncio.to_thread(
        _note, server, latest, person.name, example, judgment if keep else None, ranks
    )
    return judgment


def _note(
    server: Server,
    latest: Loaded,
    person: str,
    example: Example,
    judgment: Judgment | None,
    ranks: Mapping[str, float],
) -> None:
    """Keep a case and its verdict, if there is one to keep; who was told a verdict answers the case blind no more."""
    judge = latest.judge.name
    with server.store.read() as connection:
        same = ids_with_content(connection, judge, example.content_hash)
    if judgment is None and not same:
        return  # most requests are about no case of the queue, and should not lock
    with server.store.write() as connection:
        if judgment is not None:
            add_cases(connection, judge, [example])
            same = ids_with_content(connection, judge, example.content_hash)
            if example.id not in same:
                raise Problem(
                    409,
                    f"another case has the id {example.id!r}, or the same content has another id",
                )
            store_judgments(connection, latest.judge, latest.version, [(example, judgment)], ranks)
        for case_id in same:
            mark_seen(connection, judge, person, case_id)


@of_judge.post("/cases/{case}/thumb", tags=["judging"])
def thumb_case(
    judge: JudgeName, case: CaseId, thumb: Thumb, server: Here, person: Asking
) -> AnswerState:
    """Agree with a kept verdict, or not; a second thumb of the same source replaces the first.

    The judge learns it at the next `teach`, unless the case is the one in four that only measures the judge. What the
    source has said in the review is never replaced: 409.
    """
    given = _own_source(person, thumb.source or person.name)
    kind = server.judges.latest(judge).judge.value_type
    with server.store.write() as connection:
        source = spelled(connection, given)
        queued = case_of(connection, judge, case)
        if queued is None or queued.judgment is None:
            raise Problem(
                404, f"no verdict is kept on case {case!r}: judge it with keep=true first"
            )
        value, verdict = thumb.value, queued.judgment.value
        if value is None and (thumb.up or isinstance(verdict, bool)):
            value = verdict if thumb.up else not verdict
        before = answer_of(connection, judge, source, case)
        if not (
            before is None
            or before.state == "undone"
            or before.form == THUMB
            or source == PROGRAM.name
        ):
            raise Problem(
                409, f"{source!r} has reviewed case {case!r}: what they said there is kept as it is"
            )
        revision, words = 0 if before is None else before.revision, thumb.rationale
        answer = NewAnswer(
            state="answered", value=value, rationale=words, form=THUMB, revision=revision, seen=True
        )
        save(connection, judge, source, case, answer, kind=kind)
        kept = answer_of(connection, judge, source, case)
    assert kept is not None
    return _answer(kept)


def _own_source(person: Person, source: str) -> str:
    """The source, if the person may hand in its feedback."""
    if not (person.owner or same_person(source, person.name)):
        problem = f"a reviewer hands in feedback as {person.name!r} alone; that of {source[:100]!r} needs an owner"
        raise Problem(403, problem)
    return source


@of_judge.post("/cases", status_code=202, tags=["review"], dependencies=[OWNER])
def put_cases(judge: JudgeName, body: Cases, begin: Begin, server: Here) -> Job:
    """Put cases in the queue, and judge those that are not judged. Content that is in it already stays as it is."""
    asked = server.judges.latest(judge).judge
    parts = named_parts(asked.instructions)
    cases = list(Examples.of(body.cases, columns=asked.columns, fields=parts)) if body.cases else []
    with server.store.write() as connection:
        add_cases(connection, judge, cases)
    return begin("queue", {})


@of_judge.get("/cases", tags=["review"])
def list_review_cases(
    judge: JudgeName,
    server: Here,
    person: Asking,
    state: Annotated[
        Literal["open", "answered", "skipped", "unclear"] | None,
        Query(description="What they are for you; open ones wait for you."),
    ] = None,
    order: Annotated[
        Literal["added", "useful"],
        Query(description="`useful`: open or skipped ones in the order of the pages."),
    ] = "added",
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
    after: Annotated[
        int,
        Query(ge=0, le=2**31 - 1, description="`next` of the piece before; in the order `added`."),
    ] = 0,
) -> ReviewCases:
    """Cases of the queue. The next one for you is `?order=useful&limit=1`."""
    latest = server.judges.latest(judge).judge
    if order == "useful" and (state not in (None, "open", "skipped") or after):
        raise Problem(
            422, "the order `useful` is for cases that are open or skipped, and has no `after`"
        )
    with server.store.read() as connection:
        if order == "useful":
            with server.opened.turn(judge, person.name) as turn:
                cases = next_cases(
                    connection,
                    judge,
                    person.name,
                    n=limit,
                    again=(state,) if state == "skipped" else (),
                    turn=turn,
                )
                for case in cases:
                    server.opened.open(judge, case.case_id, person.name)
        else:
            cases = cases_in_order(
                connection, judge, person.name, state=state, after=after, most=limit + 1
            )
        items = [_review_case(connection, latest, person.name, case) for case in cases[:limit]]
    return ReviewCases(items=items, next=cases[limit - 1].number if len(cases) > limit else None)


@of_judge.put("/cases/{case}/answer", tags=["review"])
def answer_case(
    judge: JudgeName, case: CaseId, answer: CaseAnswer, server: Here, person: Asking
) -> ReviewCase:
    """Answer a case, skip it, or say that you cannot tell; after an answer the case shows what the judge said.

    An answer over another `revision` than that of now changes nothing: 409, with your answer of now as `own`.
    """
    latest = server.judges.latest(judge).judge
    with server.store.write() as connection:
        queued = case_of(connection, judge, case)
        if queued is None:
            raise Problem(
                404,
                f"case {case!r} is not in the queue of {judge!r}: it was erased or never put in",
            )
        form = NewAnswer(**answer.model_dump())
        stays = save(connection, judge, person.name, case, form, kind=latest.value_type)
        if stays is None:
            server.opened.close(judge, case, person.name)
            return _review_case(connection, latest, person.name, queued)
    raise Problem(
        409,
        f"your answer on {case!r} has changed elsewhere; it is revision {stays.revision} now: look at it, and send "
        "that `revision`",
        own=_answer(stays).model_dump(),
    )


def _review_case(
    connection: Transaction, judge: Judge, person: str, case: QueuedCase
) -> ReviewCase:
    """Return a case as a person may see it."""
    own = answer_of(connection, judge.name, person, case.case_id)
    review = ReviewCase(
        id=case.case_id,
        example=case.example.to_dict(),
        hidden=own is None or own.state != "answered",
        own=None if own is None else _answer(own),
        judgment=None,
        version=case.version,
        agree=None,
        others=[],
        problem=case.problem,
    )
    if own is None or review.hidden:
        return review
    agree = None
    if case.judgment is not None and case.judgment.value is not None and own.value is not None:
        agree = same_value(case.judgment.value, own.value, judge.value_type)
    answers = answers_on(connection, judge.name, case.case_id)
    others = [_answer(answer) for answer in answers if answer.person != person]
    shown = {"judgment": case.judgment, "agree": agree, "others": others}
    return review.model_copy(update=shown)


def _answer(answer: Answer) -> AnswerState:
    fields = {name: getattr(answer, name) for name in AnswerState.model_fields}
    fields["taught"] = bool(answer.taught) and not answer.is_untaught
    return AnswerState(**fields)


@of_judge.post("/teach", status_code=202, tags=["learning"])
def teach_answers(begin: Begin) -> Job:
    """Let the judge learn what people said on the pages and by thumbs, and has not learned yet."""
    return begin("teach", {})


@of_judge.post("/align", status_code=202, tags=["learning"])
def align_judge(
    judge: JudgeName, body: NewFeedback, begin: Begin, server: Here, person: Asking
) -> Job:
    """Learn from experts' feedback: a new version. A reviewer hands in their own.

    Feedback on cases that are held out to measure the judge is refused, under whatever id: 409, with the ids as
    `held_out`.
    """
    rows = [
        {**row, "source": _own_source(person, str(row.get("source") or person.name))}
        for row in body.feedback
    ]
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
def unalign_judge(body: Withdrawal, begin: Begin, person: Asking) -> Job:
    """Forget feedback from the next version on; older versions keep it. A reviewer gives their own name as `source`."""
    if not (person.owner or same_person(body.source, person.name)):
        raise Problem(
            403, f"a reviewer withdraws their own feedback: give `source` as {person.name!r}"
        )
    return begin("unalign", body.model_dump())


@of_judge.post("/erase", status_code=202, tags=["learning"], dependencies=[OWNER])
def erase(body: Erasure, begin: Begin) -> Job:
    """Take feedback out of every version, for good; the job's result is the receipt."""
    return begin("erase", body.model_dump())


@of_judge.get("/jobs/{job}", tags=["jobs"])
def show_job(judge: JudgeName, job: JobId, server: Here, person: Asking) -> Job:
    """One job: its state, how far it is, and what it gave."""
    row = server.jobs.find(job)
    if row is None or row.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return row if person.owner else replace(row, result=_open_result(row, person.name))


def _open_result(job: Job, person: str) -> Any:
    """What anybody may know of a job's result: counts of a queue; of learning the version, and one's own feedback."""
    if (
        job.result is None
        or job.kind in ("queue", "pull")
        or (job.kind == "try" and job.asked_by == person)
    ):
        return job.result
    keyed = [row for row in job.result.get("rows", ()) if row.get("key")]
    rows = [row for row in keyed if same_person(FeedbackKey.parse(row["key"]).source, person)]
    return {"version": job.result.get("version"), "rows": rows}


router.include_router(of_judge)
