"""Review: one case at a time, the expert's answer first, then the judge's beside it."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, cast

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy import Connection

from memalign.errors import InputError, InvalidValue
from memalign_server.pages.content import blocks_of
from memalign_server.pages.rendering import link, render, speaking, told
from memalign_server.pages.verdicts import choices_of
from memalign_server.people.access import Asking
from memalign_server.problems import Problem, Refused
from memalign_server.review.answers import (
    LONGEST,
    Answer,
    Review,
    State,
    disagreement_count,
    disagreements,
    review_of,
    save,
    say_drafts,
    undo,
)
from memalign_server.review.blind import reviewed
from memalign_server.review.cases import QueuedCase, case_of, next_cases, progress_of
from memalign_server.review.drafts import draft_of, end_draft, save_draft
from memalign_server.review.evidence import evidence_of
from memalign_server.review.judges import Loaded
from memalign_server.review.teaching import teachable_count
from memalign_server.server import JUDGE, Here

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_STATES = ("answered", "skipped", "unclear")
_SHOWN_FINDINGS = 12


@router.get("/review")
def review_page(
    request: Request, judge: str, server: Here, person: Asking, case: str | None = None, again: bool = False
) -> Response:
    """The case that comes next, or the one that is named."""
    loaded = server.judges.latest(judge)
    with server.store.read() as connection:
        if case is not None:
            found = case_of(connection, judge, case)
            if found is None:
                raise Refused("case '{case}' is not in the queue: it was erased or removed", case=case)
        else:
            found = next(iter(next_cases(connection, judge, person.name, n=1, again=again)), None)
        said = review_of(connection, judge, person.name, found.example.id) if found else None
        mine = _standing(connection, loaded, person.name)
        mine["disagreements"] = disagreement_count(connection, judge, person.name)
        open_card = said is not None and said.state == "answered"
        first = (
            _revealed(connection, request, loaded, cast("QueuedCase", found), cast("Review", said))
            if open_card
            else (_asked(connection, request, loaded, found, said, person.name) if found else None)
        )
        ahead = (
            _next(connection, request, loaded, person.name, without=found.example.id, again=again) if found else None
        )
    return render(
        request,
        "review.html",
        judge=judge,
        page="review",
        instructions=loaded.judge.instructions,
        card=first,
        revealed=open_card,
        ahead=ahead,
        again=again,
        oob=False,
        running=server.jobs.recent(judge, active=True),
        **mine,
    )


@router.get("/review/next")
def next_case(
    request: Request, judge: str, server: Here, person: Asking, without: str = "", again: bool = False
) -> Response:
    """The card of the case after the one that is shown, to be there before it is needed."""
    loaded = server.judges.latest(judge)
    with server.store.read() as connection:
        card = _next(connection, request, loaded, person.name, without=without, again=again)
    return HTMLResponse("") if card is None else render(request, "card.html", judge=judge, card=card, again=again)


@router.post("/review")
def save_answer(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    case: Annotated[str, Form()],
    form: Annotated[str, Form(max_length=64)],
    state: Annotated[str, Form()] = "answered",
    value: Annotated[str, Form()] = "",
    rationale: Annotated[str, Form()] = "",
    revision: Annotated[int, Form(ge=0)] = 0,
) -> Response:
    """Keep an answer; then show what the judge said, or the next case after a skip."""
    loaded = server.judges.latest(judge)
    kind = loaded.judge.value_type
    problem: InputError | None = None
    outcome, said = "", None
    parts = request.headers.get("hx-request") == "true"
    if state not in _STATES:
        raise Refused("'{given}' is none of {allowed}", given=state, allowed=", ".join(_STATES))
    with server.store.write() as connection:
        before = review_of(connection, judge, person.name, case)
        if not value and before is not None and before.value is not None and state == "answered":
            value = str(before.value)  # words are added to a verdict that stays
        try:
            answer = Answer(
                state=cast("State", state),
                value=value if value.strip() else None,
                rationale=rationale,
                form=form,
                revision=revision,
            )
            saved = save(connection, judge, person.name, case, answer, kind=kind)
            outcome, said = saved.outcome, saved.review
            if outcome == "saved":
                end_draft(connection, judge, person.name, case)
        except (InputError, InvalidValue) as error:
            problem = error
        found = case_of(connection, judge, case)
    if found is None:
        raise _gone(case)
    if not parts and problem is None and outcome != "conflict":
        shown = case if state == "answered" else None
        return RedirectResponse(link(judge, "review", case=shown), 303)
    if outcome in ("saved", "repeated") and state != "answered":
        with server.store.read() as connection:
            card = _next(connection, request, loaded, person.name)
            mine = _standing(connection, loaded, person.name)
        if card is None:
            return HTMLResponse("", headers={"HX-Redirect": link(judge, "review")})
        return render(request, "answered.html", judge=judge, card=card, revealed=False, again=False, **mine)
    if outcome in ("saved", "repeated") and said is not None:
        with server.store.read() as connection:
            card = _revealed(connection, request, loaded, found, said)
            mine = _standing(connection, loaded, person.name)
        return render(request, "answered.html", judge=judge, card=card, revealed=True, again=False, **mine)
    # Refused: the same card again, with what was typed. Only somebody who has answered may see more than the case.
    with server.store.read() as connection:
        current = review_of(connection, judge, person.name, case)
        card = _asked(connection, request, loaded, found, current, person.name)
    card |= {
        "problem": None if problem is None else told(speaking(request), problem),
        "conflict": said if outcome == "conflict" else None,
        "words": rationale,
    }
    status = 409 if outcome == "conflict" else 422
    return render(request, "card.html", status=status, judge=judge, card=card, again=False)


@router.post("/review/undo")
def undo_answer(request: Request, judge: str, server: Here, person: Asking, case: Annotated[str, Form()]) -> Response:
    """Take back an answer that was not taught yet, and ask again."""
    loaded = server.judges.latest(judge)
    with server.store.write() as connection:
        undo(connection, judge, person.name, case, kind=loaded.judge.value_type)
        found = case_of(connection, judge, case)
        said = review_of(connection, judge, person.name, case)
        mine = _standing(connection, loaded, person.name)
        card = None if found is None else _asked(connection, request, loaded, found, said, person.name)
    if found is None or request.headers.get("hx-request") != "true":
        return RedirectResponse(link(judge, "review", case=case if found else None), 303)
    return render(request, "answered.html", judge=judge, card=card, revealed=False, again=False, **mine)


@router.post("/review/words")
def save_words(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    case: Annotated[str, Form()],
    words: Annotated[str, Form()] = "",
    revision: Annotated[int, Form(ge=0)] = 0,
    done: Annotated[bool, Form()] = False,
) -> Response:
    """Keep what the person has typed on a case; `done` gives it to their answer, where they have given a verdict.

    The answer has the draft's `revision`. Over another one than that which stands: 409, with the `words` that stand.
    """
    kind = server.judges.latest(judge).judge.value_type
    problem = None
    with server.store.write() as connection:
        if case_of(connection, judge, case) is None:
            raise _gone(case)
        said = review_of(connection, judge, person.name, case)
        saved = save_draft(connection, judge, person.name, case, words, revision=revision)
        stands = saved.draft.words
        if stands is None and said is not None and said.state == "answered":
            stands = said.rationale
        if saved.outcome == "conflict" and (stands or "") != words.strip():
            return JSONResponse({"revision": saved.draft.revision, "words": stands or ""}, 409)
        if done and say_drafts(connection, judge, person.name, case, kind=kind):
            long = Refused("your words have {n} characters; keep them under {most}", n=len(words), most=LONGEST)
            problem = told(speaking(request), long)
        draft = draft_of(connection, judge, person.name, case)
    return JSONResponse({"revision": draft.revision, "problem": problem})


@router.get("/settle")
def settle_page(request: Request, judge: str, server: Here, person: Asking) -> Response:
    """Cases on which the person and somebody else disagree, with both answers."""
    loaded = server.judges.latest(judge)
    with server.store.read() as connection:
        found = disagreements(connection, judge, person.name)
    shown = [(each, blocks_of(each.case.example, loaded.judge.value_type)) for each in found]
    return render(request, "settle.html", judge=judge, page="review", found=shown)


def _standing(connection: Connection, loaded: Loaded, person: str) -> dict[str, Any]:
    """How far the person is, what answers prove so far, and how many the judge has not learned."""
    name = loaded.judge.name
    return {
        "progress": progress_of(connection, name, person),
        "evidence": evidence_of(connection, name, loaded.judge.value_type),
        "untaught": teachable_count(connection, name, person),
    }


def _next(
    connection: Connection,
    request: Request,
    loaded: Loaded,
    person: str,
    *,
    without: str = "",
    again: bool = False,
) -> dict[str, Any] | None:
    """The card of the most useful case for a person, and not of the one that is shown; None where there is none left."""
    name = loaded.judge.name
    for case in next_cases(connection, name, person, n=1, without=[without] if without else [], again=again):
        return _asked(connection, request, loaded, case, review_of(connection, name, person, case.example.id), person)
    return None


def _gone(case: str) -> Problem:
    return Problem(410, "case '{case}' is not in the queue: it was erased or removed", parts={"case": case})


def _asked(
    connection: Connection, request: Request, loaded: Loaded, case: QueuedCase, said: Review | None, person: str
) -> dict[str, Any]:
    """What a card needs before an answer: nothing of the judge's verdict and of other people's."""
    language = speaking(request)
    draft = draft_of(connection, loaded.judge.name, person, case.example.id)
    rationale = "" if said is None else said.rationale or ""
    return {
        "id": case.example.id,
        "blocks": blocks_of(case.example, loaded.judge.value_type),
        "disputed": case.disputed,
        "choices": choices_of(loaded.judge.value_type, language),
        "kind": loaded.judge.value_type,
        "form": secrets.token_hex(8),
        "revision": 0 if said is None else said.revision,
        "words": rationale if draft.words is None else draft.words,
        "rationale": rationale,
        "draft_revision": draft.revision,
        "problem": None,
        "conflict": None,
    }


def _revealed(
    connection: Connection, request: Request, loaded: Loaded, case: QueuedCase, said: Review
) -> dict[str, Any]:
    """What a card shows after an answer: the judge's verdict, its findings, and other people's answers."""
    found = reviewed(connection, loaded.judge, said.person, case)
    texts = {each.id: each.text for each in loaded.judge.memory.guidelines}
    findings = () if found.judgment is None else found.judgment.findings[:_SHOWN_FINDINGS]
    return _asked(connection, request, loaded, case, said, said.person) | {
        "said": said,
        "judgment": found.judgment,
        "problem_judging": case.problem,
        "version": case.version,
        "agree": found.agree,
        "others": found.others,
        "findings": findings,
        "texts": texts,
        "largest": max((abs(each.contribution or 0.0) for each in findings), default=0.0) or 1.0,
    }
