"""Review: one case at a time, the expert's answer first; then the foot shows the judge's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form
from fastapi.responses import Response

from memalign.errors import InputError, InvalidValue
from memalign_server.learned.teaching import LATER, is_time_to_teach, waiting_words
from memalign_server.pages.rendering import MEASURING, error_text
from memalign_server.pages.screens import Text
from memalign_server.people.access import OWNER, Json
from memalign_server.problems import Refused
from memalign_server.review import disputes, remembered, service
from memalign_server.review.disputes import Difference
from memalign_server.review.screen import Reviewing, Screen
from memalign_server.review.service import NewAnswer
from memalign_server.server import JUDGE
from memalign_server.store import Transaction
from memalign_server.store.answers import answer_of
from memalign_server.store.cases import next_cases
from memalign_server.store.rows import QueuedCase
from memalign_server.trust.service import is_measured

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_PASSED = ("skipped", "unclear")
_SOON = 4
"""Cases from the one that is shown: if an older version judged one of them, the newest is asked."""


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What the review shows a person.

    Attributes:
        card: The case; None where none waits.
        waiting: The difference that the person is asked about.
        is_behind: Whether an older version judged one of the cases that come soon.
    """

    card: QueuedCase | None
    waiting: Difference | None = None
    is_behind: bool = False


@router.get("/review")
def review_page(
    screen: Screen,
    case: str | None = None,
    front: bool = False,
    again: bool = False,
    word: bool = False,
) -> Response:
    """Show the case that is named, or what comes next for a person.

    Next is a case on which they and a colleague differ, one that waits for an owner, the question
    whether to teach what they explained, or a case to answer. `again` asks for those that they
    skipped or were not sure of; `front` and `word` are those of `Reviewing.foot`.
    """
    _ = screen.working  # read before this transaction is open
    with screen.read() as connection:
        shown = _shown(screen, connection, case, again=again)
        if shown is None:
            return screen.go("teach")
        card = shown.card
        waiting = shown.waiting
        if waiting is not None:
            foot = screen.difference(connection, waiting)
        elif card is not None:
            foot = screen.foot(connection, card, front=front, word=word)
        else:
            foot = screen.no_case(connection)
        parts = screen.page(connection, card, foot)
    if waiting is not None and waiting.own is None:
        _note_seen(screen, waiting.case)
    if card is not None and shown.is_behind:
        screen.ask_judge(card.case_id)
    parts["done"] = remembered.done_last(screen.request) if case is None else None
    parts["put_off"] = len(remembered.put_off(screen.request))
    return screen.render("review.html", **parts)


def _shown(
    screen: Reviewing, connection: Transaction, case: str | None, *, again: bool
) -> _Shown | None:
    """Return the case that is named or comes next, or None to ask whether to teach."""
    if case is not None:
        return _named(screen, connection, case)
    waiting = _difference(screen, connection)
    if waiting is not None:
        return _Shown(card=waiting.case, waiting=waiting)
    if not again and _explained_enough(screen, connection):
        return None
    return _next(screen, connection, again=again)


def _named(screen: Reviewing, connection: Transaction, case: str) -> _Shown:
    """Return a case that is named; one that the person has not answered is theirs to answer now."""
    card = screen.case(connection, case)
    own = answer_of(connection, screen.judge, screen.name, case)
    if own is None or own.state != "answered":
        screen.server.opened.open(screen.judge, case, screen.name)
    return _Shown(card=card)


def _difference(screen: Reviewing, connection: Transaction) -> Difference | None:
    """Return a difference that waits for this person's choice, as one of two or as an owner."""
    judge = screen.judge
    kind = screen.kind
    later = remembered.put_off(screen.request)
    waiting = disputes.difference(
        connection, judge, screen.name, kind=kind, put_off=later
    )
    if waiting is None and screen.person.owner:
        return disputes.open_settlement(connection, judge, kind=kind, put_off=later)
    return waiting


def _explained_enough(screen: Reviewing, connection: Transaction) -> bool:
    """Return whether the person is asked now whether to teach what they explained."""
    explained = waiting_words(connection, screen.judge, screen.name)
    return is_time_to_teach(len(explained), screen.request.cookies.get(LATER, ""))


def _next(screen: Reviewing, connection: Transaction, *, again: bool) -> _Shown:
    """Return the case that comes next, which nobody else is shown for a while."""
    judge = screen.judge
    person = screen.name
    measuring = MEASURING in screen.request.cookies
    if measuring:
        measuring = not is_measured(connection, judge, screen.kind)
    opened = screen.server.opened
    with opened.turn(judge, person) as turn:
        coming = next_cases(
            connection,
            judge,
            person,
            n=_SOON,
            again=_PASSED if again else (),
            measuring=measuring,
            turn=turn,
        )
        if coming:
            opened.open(judge, coming[0].case_id, person)
    if not coming:
        return _Shown(card=None)
    version = screen.loaded.version
    is_behind = any(one.is_behind(version) and one.problem is None for one in coming)
    return _Shown(card=coming[0], is_behind=is_behind)


def _note_seen(screen: Reviewing, case: QueuedCase) -> None:
    """Note that an owner has read what others say: their own answer is not blind any more."""
    with screen.write() as connection:
        service.mark_seen(connection, case, screen.name)


@router.get("/review/foot")
def turned_foot(
    screen: Screen, case: str, word: bool = False, wait: bool = False
) -> Response:
    """Show the foot of an answered case; `wait` answers nothing until the judge has answered."""
    parts = screen.foot_of(case, word=word)
    if parts["foot"] != "turned.html":
        raise Refused("answer this case first")
    if wait and parts["asked"]:
        return Response(status_code=204)
    return screen.render("turned.html", **parts)


@router.post("/review")
def save_answer(
    screen: Screen,
    case: Text,
    form: Annotated[str, Form(max_length=64)],
    content: Text = "",
    state: Annotated[Literal["answered", "skipped", "unclear"], Form()] = "answered",
    value: Text = "",
    rationale: Annotated[str | None, Form()] = None,
    revision: Annotated[int, Form(ge=0)] = 0,
) -> Response:
    """Keep an answer; then turn the foot over, or go on to the next case after a skip."""
    answer = NewAnswer(
        state=state,
        value=value.strip() or None,
        rationale=rationale,
        form=form,
        revision=revision,
    )
    conflict = None
    problem = None
    with screen.write() as connection:
        card = screen.case(connection, case, content)
        try:
            conflict = service.save(
                connection, screen.judge, screen.name, case, answer, kind=screen.kind
            )
        except (InputError, InvalidValue) as error:
            problem = error_text(screen.request, error)
    if problem is not None:
        return _front_again(screen, case, 422, problem=problem)
    if conflict is not None:
        return _front_again(screen, case, 409, conflict=conflict)
    screen.server.opened.close(screen.judge, case, screen.name)
    if state != "answered":
        return screen.next()
    if not screen.is_part:
        return screen.next(case=case)
    if card.judgment is None:
        screen.ask_judge(case)
    parts = screen.foot_of(case) | {"turned": True}
    return screen.render(parts["foot"], **parts)


def _front_again(screen: Reviewing, case: str, status: int, **why: Any) -> Response:
    """Show the side on which a case is answered again, with why its answer was not kept."""
    parts = screen.foot_of(case, front=True) | why
    return screen.render(parts["foot"], status=status, **parts)


@router.post("/review/words")
def save_words(
    screen: Screen,
    case: Text,
    content: Text = "",
    words: Annotated[str | None, Form()] = None,
    revision: Annotated[int, Form(ge=0)] = 0,
    answer: Annotated[int | None, Form(ge=0)] = None,
    go: Literal["", "next", "back", "leave"] = Form(""),
) -> Response:
    """Keep what a person has typed on a case; if they go on, it becomes their answer's.

    Words about another verdict than that of now, from an older window, are shown again before they
    count. The answer to a script has the draft's `revision` and its `words`, to which another
    window may have added.
    """
    is_theirs = True
    with screen.write() as connection:
        screen.case(connection, case, content)
        # A foot without a field says nothing of words that are there.
        if words is not None:
            is_theirs = service.save_draft(
                connection,
                screen.judge,
                screen.name,
                case,
                words,
                revision=revision,
                answer=answer,
            )
        if go and is_theirs:
            service.say_drafts(
                connection, screen.judge, screen.name, case, kind=screen.kind
            )
        own = answer_of(connection, screen.judge, screen.name, case)
    if own is None:
        raise Refused("answer this case first")
    if not is_theirs and go != "leave":
        parts = screen.foot_of(case)
        return screen.render(parts["foot"], status=409, **parts)
    if go == "back":
        return screen.next(case=case, front="true")
    if go == "next" or not screen.is_part:
        return screen.next()
    return Json({"revision": own.draft_revision, "words": own.words})


@router.post("/review/differ")
def choose(
    screen: Screen, case: Text, content: Text = "", theirs: Text = ""
) -> Response:
    """Take a colleague's answer, named with its revision (`3:Ben`), or keep one's own.

    An answer that has changed since it was shown is shown again.
    """
    revision, other = _revision_and_name(theirs)
    with screen.write() as connection:
        screen.case(connection, case, content)
        before = answer_of(connection, screen.judge, screen.name, case)
        if other:
            is_done = disputes.take_over(
                connection,
                screen.judge,
                screen.name,
                case,
                other,
                kind=screen.kind,
                revision=revision,
            )
        else:
            is_done = disputes.keep_answer(connection, screen.judge, screen.name, case)
    if before is None or not is_done:
        return screen.next()
    what = "taken" if other else "kept"
    done = {"case": case, "what": what, "who": other, "value": before.value}
    return _done(screen, done)


@router.post("/review/settle", dependencies=[OWNER])
def settle(
    screen: Screen, case: Text, content: Text = "", holder: Text = ""
) -> Response:
    """Choose whose answer on a case holds (`3:Ben`); nobody's leaves the case out.

    What another owner has settled meanwhile stays, and an answer that has changed since it was read
    is shown again.
    """
    revision, name = _revision_and_name(holder)
    with screen.write() as connection:
        queued = screen.case(connection, case, content)
        if not queued.disputed:
            return screen.next()
        if name:
            answer = answer_of(connection, screen.judge, name, case)
            if answer is None or answer.revision != revision:
                return screen.next()
        disputes.settle(connection, screen.judge, case, name, by=screen.name)
    return _done(screen, {"case": case, "what": "settled", "who": name})


@router.post("/review/undo")
def undo(screen: Screen) -> Response:
    """Take back what the person has just chosen on a difference; it is shown again."""
    done = remembered.done_last(screen.request)
    with screen.write() as connection:
        disputes.undo(connection, screen.judge, screen.name, done, kind=screen.kind)
    answer = screen.next()
    remembered.DONE.forget(answer, screen.judge)
    return answer


@router.get("/review/later")
def put_off(screen: Screen, case: str | None = None) -> Response:
    """Put a difference off for an hour; without a case none is put off any more."""
    answer = screen.next()
    if case is None:
        remembered.PUT_OFF.forget(answer, screen.judge)
    else:
        cases = [*remembered.put_off(screen.request), case]
        remembered.PUT_OFF.keep(answer, screen.judge, cases)
    return answer


def _done(screen: Reviewing, done: dict[str, Any]) -> Response:
    """Go on, and remember what was chosen so that it can be undone."""
    answer = screen.next()
    remembered.DONE.keep(answer, screen.judge, done)
    return answer


def _revision_and_name(text: str) -> tuple[int, str]:
    """Return the revision and the name in `3:Ben`; another revision fits no answer."""
    revision, _, name = text.partition(":")
    is_number = revision.isdecimal() and len(revision) < 10
    return int(revision) if is_number else -1, name
