"""Review: one case at a time, the expert's answer first; then the foot turns over and shows the judge's."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from sqlalchemy import Connection

from memalign.errors import InputError, InvalidValue
from memalign_server.pages.content import blocks_of
from memalign_server.pages.learned import ask_to_teach
from memalign_server.pages.rendering import MEASURING, error_text, link, render, speaking
from memalign_server.pages.verdicts import choices_of, question_of, scale_ends, verdict_text
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Problem, Refused
from memalign_server.review import answers, disputes
from memalign_server.review.answers import LONGEST, Answer, draft_of, mark_seen, review_of, reviewed, save_draft
from memalign_server.review.cases import QueuedCase, case_of, next_cases, progress_of
from memalign_server.review.evidence import is_measured
from memalign_server.review.teaching import teachable_count
from memalign_server.server import JUDGE, Here, Loaded

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_SOON = 4  # cases from the one that is shown: where an older version judged one of them, the newest one is asked


@dataclass(frozen=True)
class Reviewing:
    """The review of one judge's cases by the person who asks."""

    request: Request
    judge: str
    server: Here
    person: Asking

    @property
    def loaded(self) -> Loaded:
        """The judge as it is now."""
        return self.server.judges.latest(self.judge)

    @property
    def busy(self) -> bool:
        """Whether the judge may be reading cases."""
        return bool(self.server.jobs.recent(self.judge, active=True))

    @property
    def is_part(self) -> bool:
        """Whether a script asks, for a part of the page."""
        return self.request.headers.get("hx-request") == "true"

    def go(self, **query: object) -> Response:
        """Send a browser on to the review; a script learns where, so that it can keep what was typed meanwhile."""
        to = link(self.judge, "review", **query)
        return Response(headers={"HX-Redirect": to}) if self.is_part else RedirectResponse(to, 303)

    def ask(self, case: str) -> None:
        """Have the judge asked about a case now, unless a job is under way that asks about all that wait."""
        if not any(job.kind in ("queue", "pull") for job in self.server.jobs.recent(self.judge, active=True)):
            self.server.jobs.start("queue", self.judge, {"first": case}, asked_by=self.person.name)

    def common(self, connection: Connection, loaded: Loaded, card: QueuedCase | None) -> dict[str, Any]:
        """What every foot needs; `previous` is the case before this one."""
        language, judge = speaking(self.request), loaded.judge
        previous = answers.previous_case(connection, judge.name, self.person.name, card.example.id if card else None)
        return {
            "judge": judge.name,
            "card": card,
            "form": secrets.token_hex(8),
            "verdict": lambda value: verdict_text(judge.value_type, value, language),
            "previous": previous,
            "turned": False,
            "problem": None,
            "conflict": None,
        }

    def foot_of(self, case: str, *, front: bool = False, word: bool = False) -> dict[str, Any]:
        """What the foot of a named case needs, as it is now."""
        loaded, busy = self.loaded, self.busy
        with self.server.store.read() as connection:
            card = _named(connection, self.judge, case)
            return self.foot(connection, loaded, card, front=front, word=word, busy=busy)

    def foot(
        self, connection: Connection, loaded: Loaded, card: QueuedCase, *, front: bool, word: bool, busy: bool
    ) -> dict[str, Any]:
        """What a case's foot needs: before an answer nothing of the judge's verdict, after it what both say.

        `front` shows the side on which an answered case is answered, `word` its field although both agree. `busy` says
        that the judge may be reading it.
        """
        judge = loaded.judge
        view = reviewed(connection, judge, self.person.name, card)
        parts = self.common(connection, loaded, card)
        own = view.own
        if front or own is None or own.value is None or view.hidden:
            return parts | {
                "foot": "front.html",
                "own": own,
                "kind": judge.value_type,
                "choices": choices_of(judge.value_type, speaking(self.request)),
                "ends": scale_ends(judge),
                "revision": 0 if own is None else own.revision,
            }
        draft = draft_of(connection, judge.name, self.person.name, card.example.id)
        words = (own.rationale or "") if draft.words is None else draft.words
        differ = view.judgment is not None and not view.agree
        return parts | {
            "foot": "turned.html",
            "own": own,
            "judgment": view.judgment,
            "agree": view.agree,
            "field": not card.held_out and (word or bool(words) or differ),
            "words": words,
            "revision": draft.revision,
            "asked": view.judgment is None and busy,
        }


Screen = Annotated[Reviewing, Depends()]


@router.get("/review")
def review_page(
    screen: Screen, case: str | None = None, front: bool = False, again: bool = False, word: bool = False
) -> Response:
    """The case that is named, to answer or with the judge's verdict; else what comes next for a person.

    That is a case on which they and a colleague differ, one that waits for an owner, the question whether to teach what
    they explained, or the next case. `again` is one that they skipped. `word` opens the field although both agree.
    """
    judge, name, loaded = screen.judge, screen.person.name, screen.loaded
    kind = loaded.judge.value_type
    card: QueuedCase | None = None
    waiting: disputes.Difference | None = None
    template, behind = None, False
    busy = screen.busy
    with screen.server.store.read() as connection:
        if case is not None:
            card = _named(connection, judge, case)
        elif differing := disputes.differences(connection, judge, name, kind=kind, limit=1):
            waiting, template = differing[0], "differ.html"
        elif screen.person.owner and (open_ones := disputes.open_settlements(connection, judge, kind=kind, limit=1)):
            waiting, template = open_ones[0], "settle.html"
        elif not again and ask_to_teach(screen.request, teachable_count(connection, judge, name)):
            return RedirectResponse(link(judge, "teach"), 303)
        else:
            measuring = MEASURING in screen.request.cookies and not is_measured(connection, judge, kind)
            coming = next_cases(connection, judge, name, n=_SOON, again=again, measuring=measuring)
            card = next(iter(coming), None)
            behind = any(ahead.is_behind(loaded.version) and ahead.problem is None for ahead in coming)
        if waiting is not None:
            card = waiting.case
        if card is None or waiting is not None:
            parts = screen.common(connection, loaded, card) | {"foot": template, "waiting": waiting}
        else:
            parts = screen.foot(connection, loaded, card, front=front, word=word, busy=busy)
        parts["progress"] = progress = progress_of(connection, judge, name)
        case_id = card.example.id if card else None
        parts["number"] = answers.position(connection, judge, name, progress, case_id)
    if card is not None and template == "settle.html":  # who reads what others say answers it blind no more
        mark_seen(screen.server.store, judge, name, card.example.content_hash)
    if card is not None and behind:
        screen.ask(card.example.id)
    question = question_of(loaded.judge)
    blocks = blocks_of(card.example, loaded.judge) if card else []
    return render(screen.request, "review.html", page="review", question=question, blocks=blocks, **parts)


@router.get("/review/foot")
def turned_foot(screen: Screen, case: str, word: bool = False, wait: bool = False) -> Response:
    """The foot of a case that the person has answered; `word` opens its field, `wait` answers once the judge has."""
    parts = screen.foot_of(case, word=word)
    if parts["foot"] != "turned.html":
        raise Refused("answer this case first")
    if wait and parts["asked"]:
        return Response(status_code=204)
    return render(screen.request, "turned.html", **parts)


@router.post("/review")
def save_answer(
    screen: Screen,
    case: Annotated[str, Form()],
    form: Annotated[str, Form(max_length=64)],
    state: Annotated[Literal["answered", "skipped", "unclear"], Form()] = "answered",
    value: Annotated[str, Form()] = "",
    rationale: Annotated[str | None, Form()] = None,
    revision: Annotated[int, Form(ge=0)] = 0,
) -> Response:
    """Keep an answer; then turn the foot over, or go on to the next case after a skip."""
    judge, name, kind = screen.judge, screen.person.name, screen.loaded.judge.value_type
    problem, conflict = None, None
    with screen.server.store.write() as connection:
        card = _named(connection, judge, case)
        before = review_of(connection, judge, name, case)
        words = rationale if rationale is not None else (before and before.rationale) or ""
        try:
            answer = Answer(state=state, value=value.strip() or None, rationale=words, form=form, revision=revision)
            saved = answers.save(connection, judge, name, case, answer, kind=kind)
            conflict = saved.review if saved.outcome == "conflict" else None
        except (InputError, InvalidValue) as error:
            problem = error_text(screen.request, error)
    status = 409 if conflict else 422 if problem else 200
    if status == 200:
        if state != "answered" or not screen.is_part:
            return screen.go(case=case if state == "answered" else None)
        if card.judgment is None:
            screen.ask(case)
    parts = screen.foot_of(case, front=status != 200)
    parts |= {"problem": problem, "conflict": conflict, "turned": True}
    return render(screen.request, parts["foot"], status=status, **parts)


@router.post("/review/words")
def save_words(
    screen: Screen,
    case: Annotated[str, Form()],
    words: Annotated[str | None, Form()] = None,
    revision: Annotated[int, Form(ge=0)] = 0,
    go: Literal["", "next", "back", "leave"] = Form(""),
) -> Response:
    """Keep what a person has typed on a case; where they go on, it becomes their answer's.

    The answer to a script has the draft's `revision` and its `words`, which another window may have added to.
    """
    judge, name, kind = screen.judge, screen.person.name, screen.loaded.judge.value_type
    with screen.server.store.write() as connection:
        _named(connection, judge, case)
        if words is None:  # a foot without a field says nothing of words that are there
            draft = draft_of(connection, judge, name, case)
        else:
            draft = save_draft(connection, judge, name, case, words, revision=revision)
        too_long = go and answers.say_drafts(connection, judge, name, case, kind=kind)
        revision = draft_of(connection, judge, name, case).revision
    if too_long and go != "leave":
        length = len((draft.words or "").strip())
        error = Refused("your words have {n} characters; keep them under {most}", n=length, most=LONGEST)
        parts = screen.foot_of(case, word=True) | {"problem": error_text(screen.request, error)}
        return render(screen.request, parts["foot"], status=422, **parts)
    if go == "back":
        return screen.go(case=case, front="true")
    if go == "next" or not screen.is_part:
        return screen.go()
    return JSONResponse({"revision": revision, "words": draft.words or ""})


@router.post("/review/differ")
def choose(screen: Screen, case: Annotated[str, Form()], theirs: Annotated[str, Form()] = "") -> Response:
    """Take over a colleague's answer, `theirs` being its revision and who gave it (`3:Ben`); else keep one's own."""
    judge, name, kind = screen.judge, screen.person.name, screen.loaded.judge.value_type
    revision, _, other = theirs.partition(":")
    with screen.server.store.write() as connection:
        _named(connection, judge, case)
        if not other:
            disputes.keep_answer(connection, judge, name, case)
        elif revision.isdecimal() and len(revision) < 10:
            disputes.take_over(connection, judge, name, case, other, kind=kind, revision=int(revision))
    return screen.go()


@router.post("/review/settle", dependencies=[OWNER])
def settle(screen: Screen, case: Annotated[str, Form()], holder: Annotated[str, Form()] = "") -> Response:
    """Choose whose answer on a case holds, its revision before the name (`3:Ben`); nobody's leaves the case out.

    What another owner has settled meanwhile stays, and an answer that has changed since it was read is shown again.
    """
    revision, _, name = holder.partition(":")
    judge = screen.judge
    with screen.server.store.write() as connection:
        queued = _named(connection, judge, case)
        answer = review_of(connection, judge, name, case) if name else None
        if queued.disputed and (not name or (answer is not None and str(answer.revision) == revision)):
            disputes.settle(connection, judge, case, name)
    return screen.go()


def _named(connection: Connection, judge: str, case: str) -> QueuedCase:
    queued = case_of(connection, judge, case)
    if queued is None:
        raise Problem(410, "this case is not in the queue any more: it was erased or removed")
    return queued
