"""A team shares one queue: who is served what, however many come, leave, skip or lose their
browser."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign.align import write_guideline
from memalign.evaluation import Usefulness, next_cases
from memalign_server.review.sharing import OPEN_SECONDS
from memalign_server.store import erasing
from memalign_server.store.answers import count_answers
from memalign_server.store.cases import next_cases as queued_next
from memalign_server.store.tables import queue, reviews
from server_support import world
from server_support.reviewing import (
    answer,
    card,
    expect,
    hold_out,
    numbered,
    post,
    put_in,
    send,
)

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest

NAMES = ("Ana", "Ben", "Carla", "Davi", "Eva")
REVIEW = "/judges/tone/review"


class Clock:
    """A clock that stands until it is put on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(shared: world.Shared) -> Clock:
    """The clock by which that server's cases are open."""
    shared.server.opened.clock = made = Clock()
    return made


class Expert:
    """Somebody at their browser, who holds a case until they have answered it."""

    def __init__(self, shared: world.Shared, name: str) -> None:
        self.name = name
        self.client = shared.signed_in(name)
        self.shown: dict[str, str] = {}

    def look(self) -> str | None:
        """The id of the case that they are served; None at the end."""
        self.shown = card(self.client.get(REVIEW))
        return self.shown.get("case")

    def say(self, **said: Any) -> None:
        assert send(self.client, self.shown, **said).status_code in (200, 303)


def answers_by_case(client: TestClient) -> Counter[str]:
    query = select(reviews.c.case_id).where(reviews.c.state == "answered")
    return Counter(row.case_id for row in world.stored(client, query))


@pytest.fixture
def ana(shared: world.Shared) -> Expert:
    return Expert(shared, "Ana")


@pytest.fixture
def ben(shared: world.Shared) -> Expert:
    return Expert(shared, "Ben")


def test_five_experts_share_two_hundred_cases(
    shared: world.Shared,
    owner: TestClient,
    clock: Clock,
    draws: Callable[[int | None], None],
) -> None:
    """A sixth joins late, a browser dies, and cases are skipped: at most 260 answers, and no
    two on one case."""
    draws(None)
    put_in(owner, numbered(200))
    query = select(queue.c.case_id).where(queue.c.held_out == 1)
    measuring = {row.case_id for row in world.stored(owner, query)}
    assert len(measuring) == 50
    assert steps_until_all_is_answered(shared, clock, measuring) > 250
    given = answers_by_case(owner)
    assert len(given) == 200
    assert sum(given.values()) <= 260
    assert given == {case: 1 + (case in measuring) for case in given}


def steps_until_all_is_answered(
    shared: world.Shared, clock: Clock, measuring: Collection[str]
) -> int:
    """Let one expert after the other answer and look; at no moment do too many look at one case."""
    chance = random.Random(5)
    team = [Expert(shared, name) for name in NAMES]
    idle = set[str]()
    holding: dict[str, str] = {}  # who has which case on their screen
    steps = 0
    while len(idle) < len(team) or holding:
        steps += 1
        if steps == 100:
            team.append(Expert(shared, "Fabio"))
        if steps == 150:
            dead = team.pop(0)  # with a case on the screen that nobody will answer
            assert dead.name in holding
        if len(idle) == len(team):  # what the dead browser holds is free by now
            clock.now += OPEN_SECONDS + 1
            holding.clear()
            idle.clear()
        expert = chance.choice(team)
        if holding.pop(expert.name, None) is not None:
            said = {"state": "skipped"} if chance.random() < 0.05 else {"value": "true"}
            expert.say(**said)
        case = expert.look()
        if case is None:
            idle.add(expert.name)
            continue
        idle.clear()
        holding[expert.name] = case
        most = 1 + (case in measuring)
        assert Counter(holding.values())[case] <= most, f"{case} is open for {holding}"
    return steps


def test_experts_who_ask_at_once_are_served_different_cases(
    shared: world.Shared, owner: TestClient
) -> None:
    put_in(owner, numbered(20))
    team = [Expert(shared, name) for name in NAMES]
    with ThreadPoolExecutor(len(team)) as pool:
        for _ in range(4):
            served = list(pool.map(Expert.look, team))
            assert len(set(served)) == len(team)
            for expert in team:
                expert.say(value="true")
    assert [*map(Expert.look, team)] == [None] * 5
    given = answers_by_case(owner)
    assert len(given) == sum(given.values()) == 20


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_the_owner_says_how_many_answers_a_case_wants(
    shared: world.Shared, owner: TestClient, wanted: int
) -> None:
    put_in(owner, numbered(4))
    hold_out(owner, "c-3")
    expect(post(owner, "/judges/tone/setup/answers", wanted=wanted), 303)
    page = owner.get("/judges/tone/setup?open=cases")
    expect(page, 200, f'value="{wanted}" checked')
    team = [Expert(shared, name) for name in NAMES]
    for _ in range(4):
        for expert in team:
            if expert.look() is not None:
                expert.say(value="true")
    given = dict.fromkeys(("c-0", "c-1", "c-2"), wanted)
    assert answers_by_case(owner) == given | {"c-3": max(wanted, 2)}


def test_a_number_of_answers_is_one_two_or_three_and_the_owners(
    owner: TestClient, ana: Expert
) -> None:
    for wanted in (0, 4, "many"):
        expect(post(owner, "/judges/tone/setup/answers", wanted=wanted), 422)
    expect(post(ana.client, "/judges/tone/setup/answers", wanted=2), 403)


def test_a_case_is_free_again_after_ten_minutes_and_a_late_answer_is_kept(
    owner: TestClient, ana: Expert, ben: Expert, clock: Clock
) -> None:
    put_in(owner, numbered(1))
    assert (ana.look(), ben.look()) == ("c-0", None)
    clock.now = OPEN_SECONDS - 1
    assert ben.look() is None
    clock.now = OPEN_SECONDS + 1
    assert ben.look() == "c-0"
    ben.say(value="false")
    ana.say(value="true")  # she comes back from lunch: what she says is not lost
    assert answers_by_case(owner) == {"c-0": 2}


def test_who_loads_the_page_again_keeps_their_case(
    owner: TestClient, ana: Expert, ben: Expert
) -> None:
    put_in(owner, numbered(6))
    first = ana.look()
    assert ben.look() != first
    assert ana.look() == ana.look() == first


def test_what_one_skips_comes_to_another_and_is_not_asked_again_once_it_has_its_answer(
    owner: TestClient, ana: Expert, ben: Expert
) -> None:
    put_in(owner, numbered(1))
    ana.look()
    ana.say(state="skipped")
    assert "See the 1 that you skipped" in ana.client.get(REVIEW).text
    assert (ana.look(), ben.look()) == (None, "c-0")
    ben.say(value="true")
    assert card(ana.client.get(REVIEW, params={"again": "true"})) == {}
    assert "that you skipped" not in ana.client.get(REVIEW).text


def test_a_case_opened_by_its_address_is_served_to_nobody_else(
    owner: TestClient, ana: Expert, ben: Expert
) -> None:
    put_in(owner, numbered(2))
    ana.client.get(REVIEW, params={"case": "c-0"})
    assert ben.look() == "c-1"


def test_a_case_wants_an_answer_again_when_its_answer_is_erased(
    shared: world.Shared, owner: TestClient, ana: Expert, ben: Expert
) -> None:
    put_in(owner, numbered(1))
    answer(ana.client, "c-0", value="true")
    assert ben.look() is None
    shared.server.registry.erase("tone", source="Ana")
    assert ben.look() == "c-0"


@world.ON_BOTH
def test_an_answer_in_the_middle_of_an_erasure_is_counted(
    owner: TestClient,
    ana: Expert,
    ben: Expert,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_in(owner, numbered(1))
    answer(ana.client, "c-0", value="false", rationale="It is cold.")
    answering = list[threading.Thread]()

    def answer_of_ben() -> None:
        answer(ben.client, "c-0", value="true")

    def answered_meanwhile(*arguments: Any) -> None:
        count_answers(*arguments)
        said = threading.Thread(target=answer_of_ben)
        said.start()
        said.join(1.0)  # it waits for the erasure, or is quick
        answering.append(said)

    monkeypatch.setattr(erasing, "count_answers", answered_meanwhile)
    world.opened(place).erase("tone", source="Ana")
    for said in answering:
        said.join()
    assert world.case_row(owner, "c-0").answers == 1


def test_the_page_and_the_command_have_one_order(place: str) -> None:
    """Equal cases come by chance on the page too, and the one that the judge is torn about
    comes first."""

    def torn(request: ChatRequest) -> dict[str, Any]:
        findings = []
        if "Question 7?" in request.user:
            for name in ("G1", "G2"):
                finding = {"guideline": name, "evidence": "Question 7?"}
                findings.append(finding | {"value": name == "G1"})
        return {"findings": findings, "rationale": "So it is.", "value": True}

    registry = world.registry(place, script=torn)
    for words in ("Be warm.", "Be short."):
        written = partial(write_guideline, text=words, by="olga")
        registry.update("tone", written)
    with world.client(place, script=torn) as client:
        put_in(client, numbered(12))
        judge = world.judge_of(client)
        rows = world.stored(client, select(queue).where(queue.c.held_out == 0))
        judged = [(row.example, row.judgment) for row in rows]
        scores = asyncio.run(Usefulness(judge)(judged))
        assert [row.rank for row in rows] == pytest.approx(scores, abs=1e-12)
        with world.server_of(client).store.read() as connection:
            served = queued_next(connection, "tone", "Ana", n=12)
        order = [case.case_id for case in served if not case.held_out]
        first = next_cases(judge, numbered(12), n=1).cases[0].id
        assert (order[0], first) == ("c-7", "c-7")
        assert order != sorted(order, key=lambda name: int(name[2:]))


def test_what_waits_for_somebody_is_what_is_left_for_them(
    owner: TestClient, ana: Expert, ben: Expert
) -> None:
    put_in(owner, numbered(3))
    answer(ana.client, "c-0", value="true")
    assert "Case 1 of 2" in ben.client.get(REVIEW).text
