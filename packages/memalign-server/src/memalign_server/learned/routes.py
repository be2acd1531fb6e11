"""Learned: what the judge made of a person's words, what that changed, and their say over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import RedirectResponse, Response

from memalign.align import dismiss_conflict
from memalign.errors import InputError
from memalign.judge import rule_sentence
from memalign.keys import same_person
from memalign.memory import Annotation, Memory
from memalign.types import Example, FeedbackKey, Guideline
from memalign_server.learned.conflicts import Conflict, conflicts_of
from memalign_server.learned.service import (
    MOST,
    LearnedRow,
    confirmed,
    is_named,
    may_change,
    people_of,
    rephrased,
    rows_of,
    turned_cases,
    withdrawal_of,
)
from memalign_server.learned.teaching import (
    LATER,
    choice_of,
    untaught_words,
    waiting_words,
)
from memalign_server.pages.rendering import error_text, link
from memalign_server.pages.screens import JudgeScreen, Text
from memalign_server.pages.verdicts import question_of
from memalign_server.problems import Problem, Refused
from memalign_server.review.service import say_drafts
from memalign_server.server import JUDGE
from memalign_server.store.answers import previous_case, today_of
from memalign_server.store.cases import (
    cases_of,
    find_cases,
    progress_of,
    turned_unanswered,
)
from memalign_server.work.jobs import Job

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_LEARNING: Final = ("teach", "align", "unalign", "refresh", "erase")
"""Kinds of jobs that change what the judge knows."""


class Learning(JudgeScreen):
    """What one judge learned, for the person who asks."""

    @property
    def memory(self) -> Memory:
        """Its memory as it is now."""
        return self.loaded.judge.memory

    def show(self, job: Job) -> RedirectResponse:
        """Send a browser on to the page that shows a job."""
        return RedirectResponse(_page_of(job), 303)

    def job(self, job: str) -> Job:
        """Return a job of this judge. Raises InputError for any other."""
        found = self.server.jobs.find(job)
        if found is None or found.judge != self.judge:
            raise Refused(
                "there is no job '{job}' of '{judge}'", job=job, judge=self.judge
            )
        return found

    def running(self) -> Job | None:
        """Return a job under way that changes what the judge knows."""
        for job in self.working:
            if job.kind in _LEARNING:
                return job
        return None

    def may_change(self, rule: Guideline) -> bool:
        """Return whether the person may change a sentence."""
        return may_change(self.memory, rule, self.name, is_owner=self.person.owner)

    def conflicts(self) -> list[Conflict]:
        """Return the conflicts of comments that concern the person."""
        return conflicts_of(self.memory, self.name, is_owner=self.person.owner)

    def own_keys(self, row: str) -> list[FeedbackKey]:
        """Return the keys of the person's words in a row, which the judge has in memory."""
        for known in rows_of(self.memory, self.name):
            if known.id == row:
                return [comment.key for comment in known.comments]
        raise Refused("the judge has changed since: look at the page again")


Screen = Annotated[Learning, Depends()]


def _page_of(job: Job) -> str:
    """Return the page that shows a job, while it runs and when it has ended."""
    if job.kind == "erase":
        return link(job.judge, f"receipts/{job.id}")
    if job.kind in ("queue", "pull"):
        return link(job.judge, "setup", open="cases", job=job.id)
    teaches = job.kind == "teach" and job.state != "done"
    return link(job.judge, "teach" if teaches else "learned", job=job.id)


# -- teaching --------------------------------------------------------------------------


@router.get("/teach")
def teach_card(screen: Screen, job: str | None = None) -> Response:
    """Show between two cases what the person explained, and ask whether to teach it."""
    running = None if job is None else screen.job(job)
    if running is not None and running.state == "done":
        return screen.show(running)
    judge = screen.judge
    with screen.read() as connection:
        waiting = waiting_words(connection, judge, screen.name)
        progress = progress_of(connection, judge, screen.name)
        previous = previous_case(connection, judge, screen.name)
    pending = [
        old for old in screen.memory.pending if same_person(old.source, screen.name)
    ]
    words = [comment.rationale for comment in (*waiting, *pending) if comment.rationale]
    if running is None and not words:
        return screen.go("review")
    return screen.render(
        "teach.html",
        page="review",
        question=question_of(screen.loaded.judge),
        words=words,
        progress=progress,
        previous=previous,
        job=running,
    )


@router.post("/teach")
def teach_judge(screen: Screen) -> Response:
    """Begin to teach the judge what counts, unless that waits already; what is typed is said."""
    with screen.write() as connection:
        say_drafts(connection, screen.judge, screen.name, kind=screen.kind)
    for job in screen.working:
        if job.kind == "teach" and job.state == "queued":
            break
    else:
        job = screen.start("teach")
    answer = screen.show(job)
    answer.delete_cookie(LATER, path=link(screen.judge, ""))
    return answer


@router.post("/teach/later")
def teach_later(screen: Screen) -> Response:
    """Go on reviewing: the person is asked again after three more explained answers."""
    with screen.read() as connection:
        words = waiting_words(connection, screen.judge, screen.name)
    answer = screen.go("review")
    path = link(screen.judge, "")
    answer.set_cookie(LATER, str(len(words)), path=path, httponly=True, samesite="lax")
    return answer


@router.get("/jobs/{job}")
def job_progress(screen: Screen, job: str, phase: str = "", done: int = 0) -> Response:
    """Show how far a job is; answer nothing until it has moved on from there.

    Once the job has ended, the browser is sent to the page of its result.
    """
    running = screen.job(job)
    if running.ended:
        return screen.show(running)
    if (running.phase, running.done) == (phase, done):
        return Response(status_code=204)
    return screen.render("working.html", job=running)


# -- the page --------------------------------------------------------------------------


@router.get("/learned")
def learned_page(
    screen: Screen,
    job: str | None = None,
    better: str | None = None,
    take: str | None = None,
    find: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show what the reader's words became.

    `better` names a guideline to say in other words, `take` a row whose words to take back.
    """
    work = None if job is None else screen.job(job)
    trial = work if work is not None and _is_own_trial(work, screen.name) else None
    if trial is not None and trial.state == "done":
        return _better(screen, trial.result, job=trial)
    if better is not None:
        return _better(screen, {"guideline": better}, job=trial)
    parts = _learned(screen) | _found(screen, find)
    return screen.render("learned.html", page="learned", job=work, take=take, **parts)


def _is_own_trial(job: Job, person: str) -> bool:
    return job.kind == "try" and job.asked_by == person


def _learned(screen: Learning) -> dict[str, Any]:
    """Return what the page shows of the reader's words and cases, and of the judge's memory."""
    judge = screen.judge
    with screen.read() as connection:
        turns = turned_cases(connection, screen.loaded.judge, screen.name)
        idle = untaught_words(connection, judge, screen.name)
        facts = {
            "turns": turns,
            "today": today_of(connection, judge, screen.name),
            "awaiting": turned_unanswered(connection, judge, screen.name, most=MOST),
            "waiting_cases": progress_of(connection, judge, screen.name).waiting,
        }
    waiting = len(idle.pop("waiting", ()))
    memory = screen.memory
    rows = rows_of(memory, screen.name, turns, idle)
    return facts | {
        "memory": memory,
        "rows": rows,
        "first": _first_unconfirmed(rows, screen.name),
        "waiting": waiting,
        "running": screen.running(),
        "conflicts": screen.conflicts(),
        "value_type": screen.kind,
        "rule_sentence": rule_sentence,
        "withdrawal_of": withdrawal_of,
        "choice_of": choice_of,
        "people_of": people_of,
        "may_change": screen.may_change,
        "example_of": lambda case: _example_of(memory, case),
    }


def _first_unconfirmed(rows: Sequence[LearnedRow], person: str) -> str | None:
    """Return the row whose sentence a person has not confirmed, the latest words first."""
    for row in rows:
        rule = row.guideline
        if rule is not None and not is_named(person, rule.people):
            return row.id
    return None


def _example_of(memory: Memory, case: str) -> Example | None:
    known = memory.case(case)
    return None if known is None else known.example


def _found(screen: Learning, find: str) -> dict[str, Any]:
    """Return the cases that hold a text, and which of them are in the queue."""
    with screen.read() as connection:
        results = find_cases(connection, screen.loaded.judge, find)
        queued = cases_of(connection, screen.judge, [case.id for case in results])
    return {
        "find": find,
        "results": results,
        "queued": {case.case_id for case in queued},
    }


# -- a person's say --------------------------------------------------------------------


@router.post("/learned/confirm")
def confirm(screen: Screen, guideline: Text) -> Response:
    """Make the wording of a guideline the person's, because it says what they meant."""
    screen.own_keys(guideline)
    registry = screen.server.registry
    registry.update(screen.judge, lambda old: confirmed(old, guideline, by=screen.name))
    return screen.go("learned")


@router.post("/learned/better")
def say_better(
    screen: Screen,
    guideline: Text,
    text: Annotated[str, Form(max_length=2000)],
    action: Text,
    tried: Text = "",
) -> Response:
    """Try a person's wording of a guideline, or keep it as it was `tried`: it is theirs then."""
    wording: dict[str, Any] = {"guideline": guideline, "text": text}
    try:
        _changeable(screen, guideline)
        rephrased(screen.loaded.judge, guideline, text, by=screen.name)
    except InputError as error:
        return _better(screen, wording, problem=error_text(screen.request, error))
    if action == "keep" and text.split() == tried.split():
        registry = screen.server.registry
        registry.update(
            screen.judge, lambda old: rephrased(old, guideline, text, by=screen.name)
        )
        return screen.show(
            screen.start("refresh")
        )  # what people see next, and what they answered
    job = screen.start("try", person=screen.name, **wording)
    page = {"job": job.id, "better": guideline}
    if not screen.is_part:
        return screen.go("learned", **page)
    answer = _better(screen, wording, job=job)
    answer.headers["x-address"] = link(screen.judge, "learned", **page)
    return answer


def _changeable(screen: Learning, guideline: str) -> Guideline:
    """Return a guideline that the person may change. Raises Problem 403 for another's."""
    rule = screen.memory.guideline(guideline)
    if not screen.may_change(rule):
        raise Problem(
            403, "somebody else wrote or confirmed this sentence: ask them, or an owner"
        )
    return rule


def _better(
    screen: Learning,
    wording: Mapping[str, Any],
    *,
    job: Job | None = None,
    problem: str | None = None,
) -> Response:
    """Show a guideline and a person's wording: untried, on trial, tried, or with its problem."""
    rule = _changeable(screen, wording["guideline"])
    wording = {"text": rule.text, "cases": (), "problem": None, **wording}
    with screen.read() as connection:
        ids = [outcome["id"] for outcome in wording["cases"]]
        cases = cases_of(connection, screen.judge, ids)
    return screen.render(
        "better.html",
        status=200 if problem is None else 422,
        page="learned",
        job=job,
        problem=problem,
        rule=rule,
        wording=wording,
        words=_own_words(screen.memory, rule, screen.name),
        examples={case.case_id: case.example for case in cases},
    )


def _own_words(memory: Memory, rule: Guideline, person: str) -> list[Annotation]:
    """Return what a person said that is behind a guideline."""
    words = []
    for key in memory.sources_of(rule):
        comment = memory.annotation(key)
        if comment is not None and same_person(key.source, person):
            words.append(comment)
    return words


@router.post("/learned/take-back")
def take_back(
    screen: Screen, row: Text, keep: Annotated[bool, Form()] = False
) -> Response:
    """Take the person's words of a row back; with `keep` their own sentence stays."""
    keys = screen.own_keys(row)
    withdrawal = withdrawal_of(screen.memory, keys, screen.name)
    staying = [*withdrawal.stays, *(withdrawal.in_question if keep else ())]
    names = [str(key) for key in keys]
    job = screen.start("unalign", keys=names, keep=staying, words=True, by=screen.name)
    return screen.show(job)


@router.post("/learned/conflict")
def settle_conflict(
    screen: Screen,
    key: Annotated[list[str], Form()],
    holds: Text = "",
) -> Response:
    """Choose which of several comments holds; without a choice all hold.

    The others are out of force, and stay with those who wrote them.
    """
    conflict = next((one for one in screen.conflicts() if one.keys == key), None)
    if conflict is None:
        raise Refused("the judge has changed since: look at the page again")
    if holds not in conflict.choices:
        raise Problem(403, "this is for owners: ask one")
    if holds:
        others = [name for name in key if name != holds]
        holder = FeedbackKey.parse(holds).source
        choice = {"keys": others, "words": True, "by": screen.name, "holder": holder}
        return screen.show(screen.start("unalign", **choice))
    registry = screen.server.registry
    registry.update(
        screen.judge, lambda old: dismiss_conflict(old, key, by=screen.name)
    )
    return screen.go("learned")
