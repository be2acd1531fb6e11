"""The question that experts decide: made, changed, and tried on a model before it is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from memalign import Judge, aio
from memalign.errors import (
    AccessDenied,
    ConfigurationError,
    InputError,
    MemalignError,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.memory import Memory
from memalign.models import open_judging_model
from memalign.types import Example
from memalign.values import ValueType
from memalign_server.pages.rendering import error_text, link, render
from memalign_server.pages.verdicts import question_of
from memalign_server.people.access import HAND, OWNER, Asking
from memalign_server.people.service import Person
from memalign_server.problems import Refused, about
from memalign_server.review.service import mark_seen
from memalign_server.server import JUDGE, Here
from memalign_server.setup.routes import Screen, Setup
from memalign_server.setup.service import delete_judge, rename_judge
from memalign_server.store.cases import ask_again, list_cases

router = APIRouter(prefix="/judges", dependencies=[OWNER])

_PATIENCE = 12.0  # seconds that a trial may take: browsers are told to wait for fifteen
_FIELDS = "Request:\n{{ inputs }}\n\nReply:\n{{ outputs }}"
_PAIR_FIELDS = "Request:\n{{ inputs }}\n\nReplies A and B:\n{{ outputs }}"
_NAME_WORDS = 6
_FAULTS: Mapping[type[Exception], str] = {
    TimeoutError: "slow",
    ModelUnavailable: "down",
    RateLimited: "busy",
    AccessDenied: "refused",
    ModelRejected: "refused",
    ConfigurationError: "unusable",
    InputError: "unclear",
}
"""What can be wrong with a model, the surest first; `tried.html` says it in words."""
_NO_KEY = re.compile(r"needs a key|a provider's key|(KEY|TOKEN). environment")


class Draft(BaseModel):
    """What a person wrote into the block of the question."""

    model_config = ConfigDict(str_strip_whitespace=True)
    question: str = Field("", max_length=2000)
    kind: str = Field("", max_length=200)
    model: str = Field("", max_length=500)
    instructions: str = Field("", max_length=100_000)
    name: str = Field("", max_length=200)
    judge: str = Field("", max_length=200)


Drafted = Annotated[Draft, Form()]


@router.post("")
def create_judge(server: Here, person: Asking, draft: Drafted) -> Response:
    """Create a judge with an empty memory, and go on to its cases."""
    taken = {judge.name for judge in server.registry.list()}
    judge = _new(draft, person, taken)
    with about("name"):
        server.registry.create(judge)
    return RedirectResponse(link(judge.name, "setup", open="cases"), 303)


@router.post("/{judge}/setup/question", dependencies=[JUDGE])
def save_question(setup: Screen, draft: Drafted) -> Response:
    """Keep a changed question as a new version.

    It judges the open cases again, and those that measure the judge.
    """
    fixed = setup.fixed
    saved = setup.server.registry.update(
        setup.judge, lambda latest: _changed(latest, draft, setup.person, fixed=fixed)
    )
    if saved.version == saved.parent:
        return setup.go("setup")
    with setup.write() as connection:
        ask_again(connection, setup.judge)
    return setup.go("setup", job=setup.start("queue").id)


@router.post("/{judge}/setup/name", dependencies=[JUDGE])
def rename(setup: Screen, name: Annotated[str, Form(max_length=200)]) -> Response:
    """Give the judge another name; addresses with the old one lead nowhere from then on."""
    server = setup.server
    with about("name"):
        rename_judge(server.registry, server.jobs, setup.judge, name)
    return RedirectResponse(link(name.strip(), "setup"), 303)


@router.post("/{judge}/delete", dependencies=[JUDGE, HAND])
def delete(setup: Screen, name: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete the judge with its cases and answers, once its name was typed."""
    server = setup.server
    delete_judge(server.registry, server.jobs, setup.judge, typed=name)
    return RedirectResponse("/judges", 303)


@router.post("/try")
def try_question(
    request: Request, server: Here, person: Asking, draft: Drafted
) -> Response:
    """Ask a model once, about the first case or an invented one; or say what is wrong."""
    case = None
    judgment = None
    fault = ""
    detail = ""
    try:
        if draft.judge:
            setup = Setup(request, draft.judge, server, person)
            judge = _changed(setup.latest, draft, person, fixed=setup.fixed)
            with server.store.read() as connection:
                case = next(iter(list_cases(connection, judge, most=1)), None)
        else:
            judge = _new(draft, person, ())
        # Without its memory, for what an expert has said of a case is answered without the model.
        once = _asked_once(judge)
        trial = once.ajudge(case.example if case else _invented(judge))
        judgment = aio.run(asyncio.wait_for(trial, _PATIENCE))
        if case is not None:
            with server.store.write() as connection:
                mark_seen(connection, case, person.name)
    except (MemalignError, TimeoutError) as error:
        fault = _fault_of(error)
        detail = error_text(request, error)
    return render(
        request,
        "tried.html",
        judgment=judgment,
        invented=case is None,
        fault=fault,
        detail=detail,
    )


def _fault_of(error: Exception) -> str:
    """Return what is wrong with a model, as `tried.html` names it."""
    if _NO_KEY.search(str(error)):
        return "key"
    for kind, fault in _FAULTS.items():
        if isinstance(error, kind):
            return fault
    return "unusable"


def _asked_once(judge: Judge) -> Judge:
    """Return the judge without its memory, with a model that is not asked again if it fails."""
    model = open_judging_model(judge)
    ready = getattr(model, "ready", None)
    if ready is not None:
        # Its library takes seconds to load, and the model is not slow for that.
        aio.run(ready())
    once = getattr(model, "once", None)
    if once is not None:
        model = once()
    return judge.replace(memory=Memory(), model=model)


def _new(draft: Draft, person: Person, taken: Collection[str]) -> Judge:
    """Return the judge of a draft; without a name it gets one from its question."""
    if not (draft.question or draft.instructions):
        raise Refused("write the question first", field="question")
    _check_address(draft.model, None, person)
    kind = ValueType.of(draft.kind or "bool")
    fields = _PAIR_FIELDS if kind.choices else _FIELDS
    with about("instructions" if draft.instructions else "question"):
        judge = Judge(
            name=_free_name(draft.question, taken),
            instructions=draft.instructions or f"{draft.question}\n\n{fields}",
            feedback_value_type=kind,
        )
    with about("name"):
        judge = judge.replace(name=draft.name or judge.name)
    with about("model"):
        return judge.replace(model=draft.model or None)


def _free_name(question: str, taken: Collection[str]) -> str:
    """Return a name of the question's first words, with a number if a judge has it."""
    words = re.findall(r"\w+", question.lower())
    stem = "-".join(words[:_NAME_WORDS])[:60] or "judge"
    name = stem
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def _changed(judge: Judge, draft: Draft, person: Person, *, fixed: bool) -> Judge:
    """Return the judge with what the draft changes; its memory stays."""
    text = draft.instructions.replace("\r\n", "\n") or judge.instructions
    old = question_of(judge)
    if draft.question in text:  # as "" is
        pass
    elif old in text:
        text = text.replace(old, draft.question, 1)
    else:
        text = f"{draft.question}\n\n{text}"
    kind = ValueType.of(draft.kind) if draft.kind else judge.value_type
    if fixed and kind != judge.value_type:
        raise Refused(
            "answers were given already, so the kind of answer stays: "
            "make a new judge for another one",
            field="kind",
        )
    _check_address(draft.model, judge.model_name, person)
    with about("instructions" if draft.instructions else "question"):
        judge = judge.replace(instructions=text, feedback_value_type=kind)
    if draft.model == (judge.model_name or ""):
        return judge
    with about("model"):
        return judge.replace(model=draft.model or None)


def _check_address(model: str, present: str | None, person: Person) -> None:
    if person.by != "open" and "://" in model and model != present:
        raise Refused(
            "nothing made here can name a model's address: the server's keys would go there. "
            "Whoever runs the server can, with `memalign create`",
            field="model",
        )


def _invented(judge: Judge) -> Example:
    """Return a case that nobody wrote, with everything that a judge may read."""
    request = "When does my order arrive?"
    reply = "It left us today and arrives on Thursday."
    pair = {"A": reply, "B": "Please wait."} if judge.value_type.choices else reply
    turns = [
        {"role": "user", "content": request},
        {"role": "assistant", "content": reply},
    ]
    return Example(
        id="invented",
        inputs=request,
        outputs=pair,
        expectations=reply,
        conversation=turns,
    )
