"""Erase a person: find a text everywhere, tick what goes, erase it, and the receipt.

A text to look for is sent as a form and kept nowhere: logs keep addresses. The page that answers a form holds it until
it is left, so that what an erasure leaves behind can be erased with one button.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse, Response
from pydantic import StringConstraints

from memalign.content.walk import texts_in
from memalign.errors import UnknownKey
from memalign.keys import name_key, same_person
from memalign.memory.text_search import Finder
from memalign.registry import Receipt
from memalign.types import FeedbackKey, canonical_json
from memalign_server.erase.service import planned
from memalign_server.pages.rendering import error_text, link, render
from memalign_server.pages.texts import is_word_in
from memalign_server.people.access import HAND, OWNER, inert, is_part
from memalign_server.people.service import list_people
from memalign_server.problems import Refused
from memalign_server.server import JUDGE, Here, Server
from memalign_server.setup.routes import Screen, Setup
from memalign_server.store.answers import all_answers, people_who_answered
from memalign_server.store.cases import cases_of
from memalign_server.store.jobs import change_receipt
from memalign_server.store.team import check_team_keeps_owner
from memalign_server.work.jobs import Job

__all__ = ["Mention", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

_MOST = 100  # mentions with a tick of their own; the others have one together
_LINE = 72  # characters of each
_MORE = {False: "rest", True: "rest-apart"}
_COUNT = re.compile(r" \((\d+) rows?\)$")
_PLACES = {
    "memalign_server_queue.": "cases",
    "memalign_server_reviews.": "comments",
    "memalign_server_people.": "people",
    "memalign_server_": "notes",
}
_OURS = {"cases", "comments", "notes"}
"""What one more erasure takes; a name of the team, the question itself and tables of others stay."""
_CHECKED_BY = "HMAC-SHA256 by the server's secret; Set up, Erase a person, Check a receipt says whether it was changed"

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000), Form()]
Ticks = Annotated[list[str], Form(default_factory=list)]


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A case, a comment or a learned sentence that holds a text, or a member of the team who has it for a name.

    Attributes:
        kind: What it is; `note` where only notes of work mention the text.
        name: The id of the case, sentence or member, or the key of the comment.
        taught: Whether the judge has learned the case.
        whose: The person who wrote it; empty for the one who asks.
        line: What is shown of its words; empty where only an earlier state has them.
        apart: Whether it is a case that does not hold the text: nobody says anything else of it.
        inside: Whether it holds the text in longer words alone, such as "Ana" in "Analysis".
    """

    kind: Literal["case", "comment", "sentence", "member", "note"]
    name: str = ""
    taught: bool = False
    whose: str = ""
    line: str = ""
    apart: bool = False
    inside: bool = False

    @property
    def tick(self) -> str:
        """What its tick sends."""
        return f"{self.kind}:{self.name}"


# -- find and erase ----------------------------------------------------------------------------------------------------


@router.post("/find")
def find_mentions(setup: Screen, matching: Text = "") -> Response:
    """Everything that holds a text, taught or not, with a tick for each; what does not hold it has none yet."""
    mentions = _mentions(setup, matching)
    groups: dict[str, Any] = {
        "found": Counter(mention.kind for mention in mentions if not mention.apart)
    }
    for name, apart in (("mentions", False), ("others", True)):
        group = [mention for mention in mentions if mention.apart is apart]
        groups |= {name: group[:_MOST], f"more_{name}": max(0, len(group) - _MOST)}
    ticks = [mention.tick for mention in mentions if not mention.apart and not mention.inside]
    counts = (
        _planned_counts(setup, _arguments(setup, matching, mentions, ticks))
        if ticks
        else Counter[str]()
    )
    return setup.render("erase", matching=matching, counts=counts, **groups)


@router.post("/erase/ticks")
def count_ticks(setup: Screen, tick: Ticks, matching: Text = "") -> Response:
    """The button that erases, with the number of all that would go."""
    counts, problem = Counter[str](), ""
    try:
        arguments = _arguments(setup, matching, _mentions(setup, matching), tick)
        counts = _planned_counts(setup, arguments) if tick else counts
    except Refused as error:
        problem = error_text(setup.request, error)
    return render(setup.request, "ticks.html", judge=setup.judge, counts=counts, problem=problem)


@router.post("/erase", dependencies=[HAND])
def erase_mentions(
    setup: Screen, tick: Ticks, matching: Text = "", whole: Annotated[bool, Form()] = False
) -> Response:
    """Erase what is ticked, for good; the `whole` of what holds the text for what an erasure has left."""
    mentions = _mentions(setup, matching)
    if not mentions or not (whole or tick):
        raise Refused("nothing is ticked, so nothing was erased")
    arguments = _arguments(setup, matching, mentions, tick, whole=whole)
    with setup.server.store.read() as connection:
        check_team_keeps_owner(connection, arguments["leaves"])
    job = setup.start("erase", **arguments)
    address = link(setup.judge, f"receipts/{job.id}")
    if not is_part(setup.request):
        return RedirectResponse(address, 303)
    answer = _receipt_page(setup.request, job, matching=matching)
    answer.headers["x-address"] = address  # which loads without the text
    return answer


def _arguments(
    setup: Setup,
    matching: str,
    mentions: Sequence[Mention],
    ticks: Sequence[str] = (),
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Return the arguments of the job that erases what is ticked: what has no tick stays.

    If all that holds the text is ticked, the text is looked for again everywhere, in whatever was written meanwhile.
    """
    ticked, unticked = list[Mention](), list[Mention]()
    places = {True: 0, False: 0}
    for mention in mentions:
        is_more = (
            places[mention.apart] >= _MOST and _MORE[mention.apart] in ticks and not mention.inside
        )
        is_ticked = mention.tick in ticks or is_more or (whole and not mention.apart)
        places[mention.apart] += 1
        (ticked if is_ticked else unticked).append(mention)
    _check_leaving(ticked, unticked)
    arguments: dict[str, Any] = {
        "leaves": [mention.name for mention in ticked if mention.kind == "member"],
        "cases_kept": [mention.name for mention in unticked if mention.kind == "case"],
    }
    if all(mention.apart or mention.kind == "member" for mention in unticked):
        return arguments | {"matching": matching, "sources": _sources(setup, matching)}
    named = [mention for mention in ticked if mention.kind in ("case", "comment")]
    rules = {mention.name for mention in ticked if mention.kind == "sentence"}
    arguments["keys"] = [
        str(FeedbackKey(m.name, "")) if m.kind == "case" else m.name for m in named
    ]
    arguments["sentences"] = [
        rule.text for rule in setup.latest.memory.guidelines if rule.id in rules
    ]
    gone = _gone(setup, arguments)
    return arguments | {
        "kept": sum(mention.name not in gone for mention in unticked if not mention.apart)
    }


def _check_leaving(ticked: Sequence[Mention], unticked: Sequence[Mention]) -> None:
    """Raise InputError if somebody leaves with what they said, and something that they said has no tick."""
    leaving = [mention.line for mention in ticked if mention.kind == "member"]
    for mention in unticked:
        if mention.kind == "comment":
            source = FeedbackKey.parse(mention.name).source
            if any(same_person(source, name) for name in leaving):
                raise Refused(
                    "{name} leaves with all that they said: tick every comment of theirs, or remove them under "
                    "Experts, where their words stay",
                    name=source,
                )


def _gone(setup: Setup, arguments: dict[str, Any]) -> set[str]:
    """The names of all that an erasure would take, with what goes along."""
    receipt = planned(setup.server.registry, setup.server.store, setup.judge, arguments)
    return (
        set() if receipt is None else {*receipt.cases, *map(str, receipt.keys), *receipt.guidelines}
    )


def _planned_counts(setup: Setup, arguments: dict[str, Any]) -> Counter[str]:
    """How many cases, comments and sentences a job would erase, and how many people it would take out of the team."""
    receipt = planned(setup.server.registry, setup.server.store, setup.judge, arguments)
    counts = Counter({"member": len(arguments["leaves"])})
    if receipt is not None:
        counts.update(
            case=len(receipt.cases), comment=len(receipt.keys), sentence=len(receipt.guidelines)
        )
    return counts


def _mentions(setup: Setup, text: str) -> list[Mention]:
    """What goes with a text, or with a person of that name: cases, comments on other cases, sentences that hold it."""
    finder, memory, receipts, sources = (
        Finder(text),
        setup.latest.memory,
        list[Receipt](),
        _sources(setup, text),
    )
    selections: list[dict[str, Any]] = [
        {"matching": text},
        *({"source": source} for source in sources),
    ]
    for selection in selections:
        with suppress(UnknownKey):
            receipts.append(setup.server.registry.erase(setup.judge, **selection, dry_run=True))
    cases = sorted({case for receipt in receipts for case in receipt.cases})
    keys = sorted({key for receipt in receipts for key in receipt.keys})
    rules = {rule for receipt in receipts for rule in receipt.guidelines}
    words = {note.key: [note.rationale or ""] for note in memory.annotations()}
    with setup.server.store.read() as connection:
        examples = {case.case_id: case.example for case in cases_of(connection, setup.judge, cases)}
        members = [row for row in list_people(connection) if row.name_key == name_key(text)]
        for answer in all_answers(connection, setup.judge):
            comments = [text for text in (answer.rationale, answer.draft) if text]
            words.setdefault(FeedbackKey(answer.case_id, answer.person), []).extend(comments)
    mentions = [Mention(kind="member", name=row.id, line=row.name) for row in members]
    holding = _holding(setup, text, cases)
    for case_id in cases:
        learned = memory.case(case_id)
        example = examples.get(case_id) or (learned and learned.example)
        texts = [*texts_in(example.outputs), *texts_in(example.content), case_id] if example else []
        inside = _is_inside(texts, text) and case_id in holding
        about: dict[str, Any] = {
            "taught": bool(learned),
            "apart": case_id not in holding,
            "inside": inside,
        }
        mentions.append(Mention(kind="case", name=case_id, line=_line(texts, finder), **about))
    for key in keys:
        comments = words.get(key, [])
        if key.id not in holding or key.source in sources or any(map(finder.holds, comments)):
            whose = "" if same_person(key.source, setup.person.name) else key.source
            inside = key.source not in sources and _is_inside(comments, text)
            line = _line(comments, finder)
            mentions.append(
                Mention(kind="comment", name=str(key), whose=whose, line=line, inside=inside)
            )
    for rule in memory.guidelines:
        if rule.id in rules and finder.holds(rule.text):
            whose = ", ".join(
                sorted(rule.people or {key.source for key in memory.sources_of(rule)})
            )
            inside = _is_inside([rule.text], text)
            line = _line([rule.text], finder)
            mentions.append(
                Mention(kind="sentence", name=rule.id, whose=whose, line=line, inside=inside)
            )
    return mentions or [Mention(kind="note")] * bool(receipts)


def _is_inside(texts: Sequence[str], wanted: str) -> bool:
    """Return whether some text holds what was looked for, and each one in longer words alone."""
    finder = Finder(wanted)
    holding = [text for text in texts if finder.holds(text)]
    return bool(holding) and not any(is_word_in(text, wanted) for text in holding)


def _holding(setup: Setup, text: str, cases: Sequence[str]) -> set[str]:
    """Those of the cases that go with a text which hold it themselves: they go although others may be kept."""
    with suppress(UnknownKey):
        return set(
            setup.server.registry.erase(setup.judge, matching=text, keep=cases, dry_run=True).cases
        )
    return set()


def _sources(setup: Setup, text: str) -> list[str]:
    """The people of this name who said something."""
    with setup.server.store.read() as connection:
        names = set(people_who_answered(connection, setup.judge))
    names |= {note.source for note in setup.latest.memory.annotations()}
    return sorted(name for name in names if same_person(name, text))


def _line(texts: Sequence[str], finder: Finder) -> str:
    """The beginning of the first text that holds what is looked for, from a little before it where that is far in."""
    text = " ".join(next(filter(finder.holds, texts), next(iter(texts), "")).split())
    at = text.lower().find(" ".join(finder.text.lower().split()))
    start = text.rfind(" ", 0, at - _LINE // 3) + 1 if at > _LINE // 2 else 0
    return f"{'…' if start else ''}{text[start : start + _LINE]}{'…' if start + _LINE < len(text) else ''}"


# -- the receipt -------------------------------------------------------------------------------------------------------


def _erasure(judge: str, job: str, server: Here) -> Job:
    erasure = server.jobs.find(job)
    if erasure is None or erasure.judge != judge or erasure.kind != "erase":
        raise Refused("there is no erasure '{job}' of '{judge}'", job=job, judge=judge)
    return erasure


Erasure = Annotated[Job, Depends(_erasure)]


@router.get("/receipts/{job}")
def receipt_page(request: Request, erasure: Erasure) -> Response:
    """The receipt of an erasure, or how far it is."""
    return _receipt_page(request, erasure)


@router.post("/receipts/{job}")
def save_reference(
    setup: Screen, erasure: Erasure, reference: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Keep the reference under which the receipt is filed."""
    result = {**_receipt(erasure), "reference": reference.strip()}
    with setup.server.store.write() as connection:
        change_receipt(connection, erasure.id, result)
    return setup.redirect(f"receipts/{erasure.id}")


@router.get("/receipts/{job}/file")
def receipt_file(server: Here, erasure: Erasure) -> Response:
    """The receipt as a file whose signature shows a change."""
    facts = {
        "receipt": erasure.id,
        "by": erasure.asked_by,
        **_receipt(erasure),
        "checked_by": _CHECKED_BY,
    }
    text = (
        json.dumps({**facts, "signature": _signature(server, facts)}, ensure_ascii=False, indent=2)
        + "\n"
    )
    headers = {"content-disposition": f'attachment; filename="receipt-{erasure.id}.json"'}
    return Response(inert(text), media_type="application/json", headers=headers)


@router.post("/receipts")
def check_receipt(setup: Screen, file: Annotated[UploadFile, File()]) -> Response:
    """Whether a signed file is as this server wrote it."""
    try:
        facts = json.loads(file.file.read())
        genuine = hmac.compare_digest(facts.pop("signature"), _signature(setup.server, facts))
    except (ValueError, KeyError, TypeError, AttributeError):
        genuine = False
    return setup.render("erase", genuine=genuine)


def _signature(server: Server, facts: dict[str, Any]) -> str:
    return hmac.new(server.store.secret, canonical_json(facts).encode(), hashlib.sha256).hexdigest()


def _receipt(erasure: Job) -> dict[str, Any]:
    if not erasure.result:
        raise Refused("this erasure has no receipt: it has not ended, or failed")
    return dict(erasure.result)


def _receipt_page(request: Request, job: Job, *, matching: str = "") -> Response:
    """The page of an erasure; `matching` only in the answer to the form that began it."""
    receipt = job.result or {}
    places = [_place(place) for place in receipt.get("left", ())]
    places += [("elsewhere", name, 1) for name in receipt.get("elsewhere", ())]
    again = not receipt.get("kept") and not _OURS.isdisjoint(kind for kind, _, _ in places)
    context: dict[str, Any] = {
        "receipt": receipt,
        "places": places,
        "again": again,
        "matching": matching,
    }
    return render(request, "receipt.html", judge=job.judge, page="setup", job=job, **context)


def _place(place: str) -> tuple[str, str, int]:
    """What lies at a place that a receipt names, the place, and in how many rows."""
    kind = next((kind for prefix, kind in _PLACES.items() if place.startswith(prefix)), "other")
    number = _COUNT.search(place)
    return "question" if ", the " in place else kind, place, int(number[1]) if number else 1
