"""Learned: what the judge made of a person's words, what that changed, and the person's say over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from memalign import Judge
from memalign.align import dismiss_conflict
from memalign.errors import InputError
from memalign.judge.rules import rule_sentence
from memalign.keys import name_key, same_person
from memalign.memory import Annotation, Memory
from memalign.types import FeedbackKey, Guideline
from memalign_server.learned.service import (
    MOST,
    Turn,
    confirmed,
    rephrased,
    today_of,
    turns_of,
    withdrawal_of,
)
from memalign_server.learned.teaching import choice_of, untaught_words
from memalign_server.pages.content import case_text
from memalign_server.pages.rendering import error_text, link, render
from memalign_server.pages.verdicts import question_of
from memalign_server.people.access import Asking, is_part
from memalign_server.people.service import Person
from memalign_server.problems import Problem, Refused
from memalign_server.review.service import say_drafts
from memalign_server.server import JUDGE, Here, Server
from memalign_server.store.answers import previous_case
from memalign_server.store.cases import cases_of, find_cases, progress_of, turned_unanswered
from memalign_server.work.jobs import Job

__all__ = ["LATER", "ask_to_teach", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

LATER = "memalign_later"
"""The cookie that says at how many explained answers a person put teaching off."""
ENOUGH = 3
"""Explained answers from which on a person is asked whether to teach."""
_LEARNING = ("teach", "align", "unalign", "refresh", "erase")


# -- teaching ----------------------------------------------------------------------------------------------------------


def ask_to_teach(request: Request, waiting: int) -> bool:
    """Whether so many explained answers are a reason to ask the person: three, and three more each time they wait."""
    later = request.cookies.get(LATER, "")
    return waiting >= ENOUGH + (int(later) if later.isdecimal() and len(later) < 10 else 0)


@router.get("/teach")
def teach_card(
    request: Request, judge: str, server: Here, person: Asking, job: str | None = None
) -> Response:
    """The card between two cases: what the person explained, and whether to teach it; then how that goes."""
    running = None if job is None else _job(server, judge, job)
    if running is not None and running.state == "done":
        return RedirectResponse(_page_of(running), 303)
    loaded = server.judges.latest(judge).judge
    with server.store.read() as connection:
        waiting = untaught_words(connection, judge, person.name).get("waiting", [])
        progress = progress_of(connection, judge, person.name)
        previous = previous_case(connection, judge, person.name)
    words = [comment.rationale for comment in waiting]
    words += [
        old.rationale
        for old in loaded.memory.pending
        if same_person(old.source, person.name) and old.rationale
    ]
    if running is None and not words:
        return RedirectResponse(link(judge, "review"), 303)
    return render(
        request,
        "teach.html",
        judge=judge,
        page="review",
        question=question_of(loaded),
        words=words,
        progress=progress,
        previous=previous,
        job=running,
    )


@router.post("/teach")
def teach_judge(judge: str, server: Here, person: Asking) -> Response:
    """Begin to teach the judge what counts, unless that waits already; with words that were typed on answers."""
    kind = server.judges.latest(judge).judge.value_type
    with server.store.write() as connection:
        say_drafts(connection, judge, person.name, kind=kind)
    queued = [
        job
        for job in server.jobs.recent(judge, active=True)
        if job.kind == "teach" and job.state == "queued"
    ]
    job = queued[0] if queued else server.jobs.start("teach", judge, {}, asked_by=person.name)
    answer = RedirectResponse(_page_of(job), 303)
    answer.delete_cookie(LATER, path=link(judge, ""))
    return answer


@router.post("/teach/later")
def teach_later(judge: str, server: Here, person: Asking) -> Response:
    """Go on reviewing: the person is asked again after three more explained answers."""
    with server.store.read() as connection:
        waiting = len(untaught_words(connection, judge, person.name).get("waiting", ()))
    answer = RedirectResponse(link(judge, "review"), 303)
    answer.set_cookie(LATER, str(waiting), path=link(judge, ""), httponly=True, samesite="lax")
    return answer


# -- work --------------------------------------------------------------------------------------------------------------


@router.get("/jobs/{job}")
def job_progress(
    request: Request, judge: str, job: str, server: Here, phase: str = "", done: int = 0
) -> Response:
    """How far a job is, for the part of a page that asks every second: nothing until it has moved on from there.

    Once the job has ended, the browser is sent to the page of its result.
    """
    running = _job(server, judge, job)
    if running.ended:
        return RedirectResponse(_page_of(running), 303)
    if (running.phase, running.done) == (phase, done):
        return Response(status_code=204)
    return render(request, "working.html", judge=judge, job=running)


def _start(server: Server, judge: str, person: Person, kind: str, **arguments: Any) -> Response:
    """Start work, and show it."""
    return RedirectResponse(
        _page_of(server.jobs.start(kind, judge, arguments, asked_by=person.name)), 303
    )


def _page_of(job: Job) -> str:
    """The page that shows a job, while it runs and when it has ended."""
    if job.kind == "erase":
        return link(job.judge, f"receipts/{job.id}")
    if job.kind in ("queue", "pull"):
        return link(job.judge, "setup", open="cases", job=job.id)
    return link(
        job.judge, "teach" if job.kind == "teach" and job.state != "done" else "learned", job=job.id
    )


def _job(server: Server, judge: str, job: str) -> Job:
    row = server.jobs.find(job)
    if row is None or row.judge != judge:
        raise Refused("there is no job '{job}' of '{judge}'", job=job, judge=judge)
    return row


# -- the screen --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of some words of the reader.

    Attributes:
        id: The guideline's id, or why the words taught nothing.
        comments: The words, the latest first.
        taught: Whether the judge has them in memory, so that they can be taken back.
        guideline: What the judge understood; None for nothing.
        turns: The cases that the guideline bears on, as they are judged since.
    """

    id: str
    comments: Sequence[Annotation]
    taught: bool
    guideline: Guideline | None
    turns: Sequence[Turn]


def _rows(
    memory: Memory, person: str, turns: Sequence[Turn], idle: Mapping[str, Sequence[Annotation]]
) -> list[Row]:
    """A row for each guideline that the reader's words are behind, and for each reason why words taught nothing."""
    active = {rule.id: rule for rule in memory.semantic}
    words = {reason: list(comments) for reason, comments in idle.items()}
    for entry in memory.ledger():
        comment = memory.annotation(entry.key)
        if (
            comment is not None
            and same_person(comment.source, person)
            and comment.rationale is not None
        ):
            rules = entry.guideline_ids if entry.state in ("learned", "merged") else ()
            for name in [rule for rule in rules if rule in active] or [entry.state]:
                words.setdefault(name, []).append(comment)
    rows = []
    for name, comments in words.items():
        comments.sort(key=_time, reverse=True)
        cases = {comment.id for comment in comments}
        concerned = [
            turn for turn in turns if name in turn.guidelines or turn.case.case_id in cases
        ]
        row = Row(
            id=name,
            comments=comments,
            taught=name not in idle,
            guideline=active.get(name),
            turns=concerned,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: _time(row.comments[0]), reverse=True)


def _time(comment: Annotation) -> str:
    return comment.created_at or ""


@router.get("/learned")
def learned_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    job: str | None = None,
    better: str | None = None,
    take: str | None = None,
    find: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """What the reader's words became; with `better` one guideline in other words, with `take` words to take back."""
    work = None if job is None else _job(server, judge, job)
    trial = (
        work if work is not None and work.kind == "try" and work.asked_by == person.name else None
    )
    if trial is not None and trial.state == "done":
        return _better(request, server, judge, person, trial.result, job=trial)
    if better is not None:
        return _better(request, server, judge, person, {"guideline": better}, job=trial)
    loaded = server.judges.latest(judge).judge
    memory = loaded.memory
    with server.store.read() as connection:
        turns = turns_of(connection, loaded, person.name)
        today = today_of(connection, judge, person.name)
        awaiting = turned_unanswered(connection, judge, person.name, most=MOST)
        idle = untaught_words(connection, judge, person.name)
        waiting_cases = progress_of(connection, judge, person.name).waiting
        results = find_cases(connection, loaded, find)
        queued = {
            case.case_id for case in cases_of(connection, judge, [case.id for case in results])
        }
    waiting = len(idle.pop("waiting", ()))
    rows = _rows(memory, person.name, turns, idle)
    return render(
        request,
        "learned.html",
        judge=judge,
        page="learned",
        job=work,
        running=next(
            (other for other in server.jobs.recent(judge, active=True) if other.kind in _LEARNING),
            None,
        ),
        rows=rows,
        first=next(
            (row.id for row in rows if row.guideline and not _named(person, row.guideline.people)),
            None,
        ),
        take=take,
        withdrawal_of=withdrawal_of,
        choice_of=choice_of,
        conflicts=_conflicts(memory, person),
        turns=turns,
        memory=memory,
        rule_sentence=rule_sentence,
        value_type=loaded.value_type,
        people_of=_people_of,
        may_change=_may_change,
        today=today,
        awaiting=awaiting,
        waiting=waiting,
        waiting_cases=waiting_cases,
        example_of=lambda case: None if (known := memory.case(case)) is None else known.example,
        find=find,
        results=results,
        queued=queued,
        case_text=case_text,
    )


def _people_of(memory: Memory, *rules: Guideline) -> set[str]:
    """Whose guidelines are: whose wording each is, else whose words are behind it."""
    return {
        name
        for rule in rules
        for name in rule.people or {key.source for key in memory.sources_of(rule)}
    }


def _may_change(memory: Memory, person: Person, rule: Guideline) -> bool:
    """Whether a person may change a sentence: their own, a model's that their words are behind, and owners any."""
    people = _people_of(memory, rule)
    alone = all(same_person(person.name, name) for name in people) and bool(people)
    return person.owner or alone or (not rule.people and _named(person, people))


def _named(person: Person, people: Collection[str]) -> bool:
    """Whether one of the names is this person's."""
    return any(same_person(person.name, name) for name in people)


# -- a person's say ----------------------------------------------------------------------------------------------------


def _own_keys(memory: Memory, person: Person, name: str) -> list[FeedbackKey]:
    """The keys of the reader's words in a row, which the judge has in memory."""
    row = next((row for row in _rows(memory, person.name, (), {}) if row.id == name), None)
    if row is None:
        raise Refused("the judge has changed since: look at the page again")
    return [comment.key for comment in row.comments]


@router.post("/learned/confirm")
def confirm(
    judge: str, server: Here, person: Asking, guideline: Annotated[str, Form()]
) -> Response:
    """Make the wording of a guideline the person's, because it says what they meant."""
    _own_keys(server.judges.latest(judge).judge.memory, person, guideline)
    server.registry.update(judge, lambda old: confirmed(old, guideline, by=person.name))
    return RedirectResponse(link(judge, "learned"), 303)


def _changeable(server: Server, judge: str, guideline: str, person: Person) -> Judge:
    """The newest version, whose guideline the person may change."""
    latest = server.judges.latest(judge).judge
    if not _may_change(latest.memory, person, latest.memory.guideline(guideline)):
        raise Problem(403, "somebody else wrote or confirmed this sentence: ask them, or an owner")
    return latest


def _better(
    request: Request,
    server: Server,
    judge: str,
    person: Person,
    wording: Mapping[str, Any],
    *,
    job: Job | None = None,
    problem: str | None = None,
) -> Response:
    """One guideline and a person's wording: before, while and after it is tried, or as it was typed, with a problem."""
    memory = _changeable(server, judge, wording["guideline"], person).memory
    rule = memory.guideline(wording["guideline"])
    wording = {"text": rule.text, "cases": (), "problem": None, **wording}
    with server.store.read() as connection:
        cases = cases_of(connection, judge, [outcome["id"] for outcome in wording["cases"]])
    return render(
        request,
        "better.html",
        status=200 if problem is None else 422,
        judge=judge,
        page="learned",
        job=job,
        problem=problem,
        rule=rule,
        wording=wording,
        words=[
            memory.annotation(key)
            for key in memory.sources_of(rule)
            if same_person(key.source, person.name)
        ],
        texts={case.case_id: case_text(case.example) for case in cases},
    )


@router.post("/learned/better")
def say_better(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    guideline: Annotated[str, Form()],
    text: Annotated[str, Form(max_length=2000)],
    action: Annotated[str, Form()],
    tried: Annotated[str, Form()] = "",
) -> Response:
    """Try a person's wording of a guideline, or keep it as it was `tried`: it is theirs from then on."""
    wording: dict[str, Any] = {"guideline": guideline, "text": text}
    try:
        rephrased(_changeable(server, judge, guideline, person), **wording, by=person.name)
    except InputError as error:
        return _better(request, server, judge, person, wording, problem=error_text(request, error))
    if action == "keep" and text.split() == tried.split():
        server.registry.update(judge, lambda old: rephrased(old, **wording, by=person.name))
        return _start(
            server, judge, person, "refresh"
        )  # what people see next, and what they answered
    job = server.jobs.start("try", judge, {**wording, "person": person.name}, asked_by=person.name)
    address = link(judge, "learned", job=job.id, better=guideline)
    if not is_part(request):
        return RedirectResponse(address, 303)
    answer = _better(request, server, judge, person, wording, job=job)
    answer.headers["x-address"] = address
    return answer


@router.post("/learned/take-back")
def take_back(
    judge: str,
    server: Here,
    person: Asking,
    row: Annotated[str, Form()],
    keep: Annotated[bool, Form()] = False,
) -> Response:
    """Take the person's words of a row back, from the next version on; with `keep` their own sentence stays."""
    memory = server.judges.latest(judge).judge.memory
    keys = _own_keys(memory, person, row)
    withdrawal = withdrawal_of(memory, keys, person.name)
    staying = [*withdrawal.stays, *(withdrawal.in_question if keep else ())]
    return _start(
        server,
        judge,
        person,
        "unalign",
        keys=[str(key) for key in keys],
        keep=staying,
        words=True,
        by=person.name,
    )


# -- comments that contradict each other -------------------------------------------------------------------------------


def _conflicts(memory: Memory, person: Person) -> list[tuple[list[Annotation], list[str]]]:
    """The contradicting comments that concern the reader, with the keys that they may choose: `""` lets all hold."""
    conflicts = []
    for conflict in memory.open_conflicts:
        sides = [
            side
            for key in conflict.feedback
            if (side := memory.annotation(key)) is not None and side.rationale
        ]
        people = {name_key(side.source) for side in sides}
        reader = name_key(person.name)
        settles = person.owner or people == {reader}
        if len(sides) > 1 and (settles or reader in people):
            holds = [
                str(side.key)
                for side in sides
                if settles or people - {name_key(side.source)} == {reader}
            ]
            conflicts.append((sides, [*holds, ""] if settles else holds))
    return conflicts


@router.post("/learned/conflict")
def settle_conflict(
    judge: str,
    server: Here,
    person: Asking,
    key: Annotated[list[str], Form()],
    holds: Annotated[str, Form()] = "",
) -> Response:
    """Choose which of several comments holds: the others are out of force, and stay; without a choice all hold."""
    conflicts = _conflicts(server.judges.latest(judge).judge.memory, person)
    choices = next(
        (choices for sides, choices in conflicts if [str(side.key) for side in sides] == key), None
    )
    if choices is None:
        raise Refused("the judge has changed since: look at the page again")
    if holds not in choices:
        raise Problem(403, "this is for owners: ask one")
    if holds:
        others = [name for name in key if name != holds]
        choice = {"by": person.name, "holder": FeedbackKey.parse(holds).source}
        return _start(server, judge, person, "unalign", keys=others, words=True, **choice)
    server.registry.update(judge, lambda old: dismiss_conflict(old, key, by=person.name))
    return RedirectResponse(link(judge, "learned"), 303)
