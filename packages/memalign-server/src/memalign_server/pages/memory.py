"""Memory: the guidelines, the cases behind them, and one's own feedback."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from memalign import Guideline, Judge, Memory
from memalign.align import edit_guideline
from memalign_server.pages.content import blocks_of
from memalign_server.pages.rendering import link, render
from memalign_server.people.access import Asking
from memalign_server.problems import Refused
from memalign_server.review.blind import hidden_from
from memalign_server.review.finding import find_cases
from memalign_server.server import JUDGE, Here

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_MOST = 100  # rows of the ledger on one page
_RULES = 40  # guidelines on one page


@router.get("/memory")
def memory_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    find: Annotated[str, Query(max_length=500)] = "",
    rule: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    """What the judge has learned, from whom, and what became of the reader's own feedback.

    Of many guidelines those are shown that stand beside `rule`.
    """
    loaded = server.judges.latest(judge)
    memory = loaded.judge.memory
    rules, first = _rules_beside(memory, rule)
    shown = rules[first : first + _RULES]
    mine = [each for each in memory.ledger() if each.key.source == person.name]
    with server.store.read() as connection:
        found = find_cases(connection, loaded.judge, find)
        hidden = hidden_from(connection, judge, person.name, [case.id for case in found])
    return render(
        request,
        "memory.html",
        judge=judge,
        page="memory",
        version=loaded.version,
        rules=shown,
        first=first,
        total=len(rules),
        earlier=rules[first - _RULES].id if first else None,
        later=rules[first + _RULES].id if first + _RULES < len(rules) else None,
        texts={each.id: each.text for each in memory.guidelines},
        find=find,
        found=[
            (case, memory.case(case.id), blocks_of(case, loaded.judge.value_type), case.id in hidden) for case in found
        ],
        mine=mine[:_MOST],
        more=max(0, len(mine) - _MOST),
        said=memory.annotation,
        memory=memory,
        cases=len(memory.cases),
        pieces=len(memory),
    )


@router.post("/guidelines")
def change_guideline(
    judge: str,
    server: Here,
    person: Asking,
    guideline: Annotated[str, Form()],
    action: Annotated[str, Form()],
    text: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "",
) -> Response:
    """Give a guideline other words, take it out of use or back into it."""
    options: dict[str, dict[str, object]] = {
        "edit": {"text": text},
        "retire": {"retired": True},
        "restore": {"retired": False},
    }
    if action not in options:
        raise Refused("'{given}' is none of {allowed}", given=action, allowed=", ".join(options))

    def change(old: Judge) -> Judge:
        return edit_guideline(old, guideline, by=person.name, **options[action])  # type: ignore[arg-type]  # each as its action needs

    server.registry.update(judge, change)
    elsewhere = back.startswith("/judges/") and not back.startswith(link(judge, "memory"))
    return RedirectResponse(f"{back if elsewhere else link(judge, 'memory', rule=guideline)}#{guideline}", 303)


@router.post("/withdraw")
def withdraw(judge: str, server: Here, person: Asking, key: Annotated[list[str], Form()]) -> Response:
    """Take feedback back, from the next version on; others' needs an owner."""
    keys = server.judges.latest(judge).judge.memory.keys(*key)
    if not person.owner and {each.source for each in keys} - {person.name}:
        raise Refused("you can withdraw your own feedback; an owner can withdraw that of others")
    job = server.jobs.start("unalign", judge, {"keys": [str(each) for each in keys]}, asked_by=person.name)
    return RedirectResponse(link(judge, "changed", job=job.id), 303)


def _rules_beside(memory: Memory, rule: str) -> tuple[list[Guideline], int]:
    """All guidelines, those in force first, and the place of the first one of the page that shows `rule`."""
    order = {"active": 0, "superseded": 1, "retired": 2, "barred": 2}
    rules = sorted(memory.guidelines, key=lambda rule: (order[memory.status(rule)], rule.number))
    place = next((place for place, each in enumerate(rules) if each.id == rule), 0)
    return rules, place - place % _RULES
