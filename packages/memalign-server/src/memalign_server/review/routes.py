"""Review: one case at a time, the expert's answer first; then the foot turns over and shows the judge's."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign.errors import InputError, InvalidValue
from memalign_server.learned.routes import ask_to_teach
from memalign_server.learned.teaching import untaught_words
from memalign_server.pages.content import blocks_of, is_pair
from memalign_server.pages.rendering import MEASURING, error_text, link, render, speaking
from memalign_server.pages.verdicts import choices_of, question_of, scale_ends, verdict_text
from memalign_server.people.access import OWNER, Asking, Json, is_part
from memalign_server.problems import Problem, Refused
from memalign_server.review import disputes, service
from memalign_server.review.service import NewAnswer, mark_seen, same_value, save_draft
from memalign_server.server import JUDGE, Here, Loaded
from memalign_server.store import Transaction
from memalign_server.store.answers import answer_of, previous_case
from memalign_server.store.cases import case_of, next_cases, progress_of
from memalign_server.store.rows import QueuedCase
from memalign_server.trust.service import is_measured
from memalign_server.work.jobs import Job

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_PASSED = ("skipped", "unclear")
_SOON = 4  # cases from the one that is shown: where an older version judged one of them, the newest one is asked


@dataclass(frozen=True)
class Reviewing:
    """The review of one judge's cases by the person who asks."""

    request: Request
    judge: str
    server: Here
    person: Asking

    @cached_property
    def loaded(self) -> Loaded:
        """The judge as it is now."""
        return self.server.judges.latest(self.judge)

    @cached_property
    def working(self) -> list[Job]:
        """The jobs under way: the judge may be reading cases."""
        return self.server.jobs.recent(self.judge, active=True)

    @property
    def is_part(self) -> bool:
        """Whether a script asks, for a part of the page."""
        return is_part(self.request)

    def go(self, **query: object) -> Response:
        """Send a browser on to the review."""
        return RedirectResponse(link(self.judge, "review", **query), 303)

    def ask(self, case: str) -> None:
        """Have the judge asked about a case now, unless a job is under way that asks about all that wait."""
        if not any(
            job.kind in ("queue", "pull")
            for job in self.server.jobs.recent(self.judge, active=True)
        ):
            self.server.jobs.start("queue", self.judge, {"first": case}, asked_by=self.person.name)

    def common(self, connection: Transaction, card: QueuedCase | None) -> dict[str, Any]:
        """What every foot needs; `previous` is the case before this one."""
        language, kind = speaking(self.request), self.loaded.judge.value_type
        return {
            "judge": self.judge,
            "card": card,
            "form": secrets.token_hex(8),
            "verdict": lambda value: verdict_text(kind, value, language),
            "previous": previous_case(
                connection, self.judge, self.person.name, card.case_id if card else None
            ),
            "turned": False,
            "width": "wide" if card and is_pair(card.example, self.loaded.judge) else "page-720",
            "problem": None,
            "conflict": None,
        }

    def foot_of(self, case: str, *, front: bool = False, word: bool = False) -> dict[str, Any]:
        """What the foot of a named case needs, as it is now."""
        _ = self.loaded, self.working  # read before this connection is open
        with self.server.store.read() as connection:
            return self.foot(
                connection, _named(connection, self.judge, case), front=front, word=word
            )

    def foot(
        self, connection: Transaction, card: QueuedCase, *, front: bool, word: bool
    ) -> dict[str, Any]:
        """What a case's foot needs: before an answer nothing of the judge's verdict, after it what both say.

        `front` shows the side on which an answered case is answered, `word` its field although both agree.
        """
        judge, parts = self.loaded.judge, self.common(connection, card)
        own = answer_of(connection, self.judge, self.person.name, card.case_id)
        if front or own is None or own.state != "answered" or own.value is None:
            return parts | {
                "foot": "front.html",
                "own": own,
                "kind": judge.value_type,
                "choices": choices_of(judge.value_type, speaking(self.request)),
                "ends": scale_ends(judge),
                "revision": 0 if own is None else own.revision,
            }
        judgment, words = card.judgment, own.words
        agree = judgment is not None and same_value(judgment.value, own.value, judge.value_type)
        return parts | {
            "foot": "turned.html",
            "own": own,
            "judgment": judgment,
            "agree": agree,
            "field": not card.held_out
            and (word or bool(words) or (judgment is not None and not agree)),
            "words": words,
            "stale": own.is_stale,
            "answer": own.revision,
            "revision": own.draft_revision,
            "asked": judgment is None and bool(self.working),
        }


Screen = Annotated[Reviewing, Depends()]


@router.get("/review")
def review_page(
    screen: Screen,
    case: str | None = None,
    front: bool = False,
    again: bool = False,
    word: bool = False,
) -> Response:
    """The case that is named, to answer or with the judge's verdict; else what comes next for a person.

    That is a case on which they and a colleague differ, one that waits for an owner, the question whether to teach what
    they explained, or the next case. `again` is one that they skipped or were not sure of. `word` opens the field
    although both agree.
    """
    judge, name, loaded, _ = screen.judge, screen.person.name, screen.loaded, screen.working
    kind, card, waiting, template, behind = loaded.judge.value_type, None, None, None, False
    put_off = _put_off(screen)
    with screen.server.store.read() as connection:
        if case is not None:
            card = _named(connection, judge, case)
            if (own := answer_of(connection, judge, name, case)) is None or own.state != "answered":
                screen.server.opened.open(judge, case, name)
        elif waiting := disputes.difference(connection, judge, name, kind=kind, put_off=put_off):
            template = "differ.html"
        elif screen.person.owner and (
            waiting := disputes.open_settlement(connection, judge, kind=kind, put_off=put_off)
        ):
            template = "settle.html"
        elif not again and ask_to_teach(
            screen.request, len(untaught_words(connection, judge, name).get("waiting", ()))
        ):
            return RedirectResponse(link(judge, "teach"), 303)
        else:
            measuring = MEASURING in screen.request.cookies and not is_measured(
                connection, judge, kind
            )
            with screen.server.opened.turn(judge, name) as turn:
                coming = next_cases(
                    connection,
                    judge,
                    name,
                    n=_SOON,
                    again=_PASSED if again else (),
                    measuring=measuring,
                    turn=turn,
                )
                card = next(iter(coming), None)
                if card is not None:
                    screen.server.opened.open(judge, card.case_id, name)
            behind = any(
                ahead.is_behind(loaded.version) and ahead.problem is None for ahead in coming
            )
        if waiting is not None:
            card = waiting.case
        if card is None or waiting is not None:
            parts = screen.common(connection, card) | {"foot": template, "waiting": waiting}
            keys = [choice.key for choice in choices_of(kind, speaking(screen.request))]
            parts["keep_key"] = (
                "" if "K" in keys else "K"
            )  # no key of a verdict does anything else here
        else:
            parts = screen.foot(connection, card, front=front, word=word)
        parts["progress"] = progress = progress_of(connection, judge, name)
        parts["number"] = service.position(
            connection, judge, name, progress, card.case_id if card else None
        )
    if (
        card is not None and template == "settle.html"
    ):  # who reads what others say answers it blind no more
        with screen.server.store.write() as connection:
            mark_seen(connection, judge, name, card.case_id)
    if card is not None and behind:
        screen.ask(card.case_id)
    question, blocks = (
        question_of(loaded.judge),
        blocks_of(card.example, loaded.judge) if card else [],
    )
    news: dict[str, Any] = {
        "done": None if case is not None else _cookie(screen, _UNDO, {}),
        "put_off": len(put_off),
    }
    return render(
        screen.request,
        "review.html",
        page="review",
        question=question,
        blocks=blocks,
        **news,
        **parts,
    )


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
        answer = NewAnswer(
            state=state,
            value=value.strip() or None,
            rationale=rationale,
            form=form,
            revision=revision,
        )
        try:
            conflict = service.save(connection, judge, name, case, answer, kind=kind)
        except (InputError, InvalidValue) as error:
            problem = error_text(screen.request, error)
    status = 409 if conflict else 422 if problem else 200
    if status == 200:
        screen.server.opened.close(judge, case, name)
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
    answer: Annotated[int | None, Form(ge=0)] = None,
    go: Literal["", "next", "back", "leave"] = Form(""),
) -> Response:
    """Keep what a person has typed on a case; where they go on, it becomes their answer's.

    Words about another verdict than that of now, from an older window, are shown again before they count. The answer to
    a script has the draft's `revision` and its `words`, which another window may have added to.
    """
    judge, name, kind = screen.judge, screen.person.name, screen.loaded.judge.value_type
    is_theirs = True
    with screen.server.store.write() as connection:
        _named(connection, judge, case)
        if words is not None:  # a foot without a field says nothing of words that are there
            is_theirs = save_draft(
                connection, judge, name, case, words, revision=revision, answer=answer
            )
        if go and is_theirs:
            service.say_drafts(connection, judge, name, case, kind=kind)
        own = answer_of(connection, judge, name, case)
    if own is None:
        raise Refused("answer this case first")
    if not is_theirs and go != "leave":
        parts = screen.foot_of(case)
        return render(screen.request, parts["foot"], status=409, **parts)
    if go == "back":
        return screen.go(case=case, front="true")
    if go == "next" or not screen.is_part:
        return screen.go()
    return Json({"revision": own.draft_revision, "words": own.words})


@router.post("/review/differ")
def choose(
    screen: Screen, case: Annotated[str, Form()], theirs: Annotated[str, Form()] = ""
) -> Response:
    """Take over a colleague's answer, `theirs` being its revision and who gave it (`3:Ben`); else keep one's own."""
    judge, name, kind = screen.judge, screen.person.name, screen.loaded.judge.value_type
    revision, other = _revision_and_name(theirs)
    with screen.server.store.write() as connection:
        _named(connection, judge, case)
        before = answer_of(connection, judge, name, case)
        if other:
            disputes.take_over(connection, judge, name, case, other, kind=kind, revision=revision)
        else:
            disputes.keep_answer(connection, judge, name, case)
        after = answer_of(connection, judge, name, case)
    if before is None or after is None or (other and after.revision == before.revision):
        return screen.go()  # their answer has changed since it was shown: it is shown again
    return _with_undo(
        screen,
        {"case": case, "what": "taken" if other else "kept", "who": other, "value": before.value},
    )


@router.post("/review/settle", dependencies=[OWNER])
def settle(
    screen: Screen, case: Annotated[str, Form()], holder: Annotated[str, Form()] = ""
) -> Response:
    """Choose whose answer on a case holds, its revision before the name (`3:Ben`); nobody's leaves the case out.

    What another owner has settled meanwhile stays, and an answer that has changed since it was read is shown again.
    """
    revision, name = _revision_and_name(holder)
    with screen.server.store.write() as connection:
        queued = _named(connection, screen.judge, case)
        answer = answer_of(connection, screen.judge, name, case) if name else None
        is_current = bool(queued.disputed) and (
            not name or (answer is not None and answer.revision == revision)
        )
        if is_current:
            disputes.settle(connection, screen.judge, case, name, by=screen.person.name)
    return (
        _with_undo(screen, {"case": case, "what": "settled", "who": name})
        if is_current
        else screen.go()
    )


@router.post("/review/undo")
def undo(screen: Screen) -> Response:
    """Take back what the person has just chosen on a difference; it is shown again."""
    with screen.server.store.write() as connection:
        done = _cookie(screen, _UNDO, {})
        disputes.undo(
            connection, screen.judge, screen.person.name, done, kind=screen.loaded.judge.value_type
        )
    answer = screen.go()
    answer.delete_cookie(_UNDO, path=link(screen.judge, "review"))
    return answer


@router.get("/review/later")
def put_off(screen: Screen, case: str | None = None) -> Response:
    """Put a difference off for an hour; without a case none is put off any more."""
    answer = screen.go()
    path = link(screen.judge, "review")
    if case is None:
        answer.delete_cookie(_PUT_OFF, path=path)
        return answer
    cases = [*_put_off(screen), case][-_MOST_PUT_OFF:]
    answer.set_cookie(
        _PUT_OFF, _for_cookie(cases), max_age=3600, path=path, httponly=True, samesite="lax"
    )
    return answer


_UNDO = "memalign_undo"
_PUT_OFF = "memalign_put_off"
_MOST_PUT_OFF = 20
_LONGEST_COOKIE = 3500  # characters; a browser drops a longer one


def _for_cookie(value: object) -> str:
    text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
    return text if len(text) <= _LONGEST_COOKIE else ""


def _cookie(screen: Reviewing, name: str, default: Any) -> Any:
    """The value of a cookie of these pages; the default if there is none, or it is none of ours."""
    try:
        value = json.loads(base64.urlsafe_b64decode(screen.request.cookies.get(name, "")))
    except ValueError:
        return default
    return value if isinstance(value, type(default)) else default


def _put_off(screen: Reviewing) -> list[str]:
    return [case for case in _cookie(screen, _PUT_OFF, []) if isinstance(case, str)]


def _with_undo(screen: Reviewing, done: dict[str, Any]) -> Response:
    """Go on, and remember for two minutes what was chosen."""
    answer = screen.go()
    path = link(screen.judge, "review")
    answer.set_cookie(
        _UNDO, _for_cookie(done), max_age=120, path=path, httponly=True, samesite="lax"
    )
    return answer


def _revision_and_name(text: str) -> tuple[int, str]:
    revision, _, name = text.partition(":")
    return int(revision) if revision.isdecimal() and len(revision) < 10 else -1, name


def _named(connection: Transaction, judge: str, case: str) -> QueuedCase:
    queued = case_of(connection, judge, case)
    if queued is None:
        raise Problem(410, "this case is not in the queue any more: it was erased or removed")
    return queued
