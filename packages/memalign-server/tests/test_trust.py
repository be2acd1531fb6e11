"""The page Trust: one sentence from the cases held out, and nothing of a case that the reader
has not answered."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from memalign_server.review.disputes import settle
from memalign_server.store.tables import queue, reviews
from memalign_server.work.judging import Work
from server_support import world
from server_support.reviewing import (
    answer,
    call,
    card,
    expect,
    hold_out,
    numbered,
    post,
    put_in,
    send,
    wait,
    words_of,
    work,
)

TRUST = "/judges/tone/trust"
CASES = numbered(16)
IDS = [str(case["id"]) for case in CASES]


def page(client: TestClient) -> str:
    """What the page says, without its marks."""
    return words_of(expect(client.get(TRUST), 200)).replace(" .", ".")


def heading(client: TestClient) -> str:
    page = client.get(TRUST).text
    (words,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page, flags=re.DOTALL)
    return unescape(words).strip()


def agreed(client: TestClient, cases: int, on: int, who: str = "you") -> bool:
    """Whether the heading says how often the judge agreed with them."""
    seen = f"On {cases} cases it had never learned from"
    return heading(client) == f"{seen}, it agreed with {who} on {on}."


def figures(client: TestClient) -> dict[str, Any]:
    """What is in the file of figures about the cases held out."""
    file: dict[str, Any] = client.get(f"{TRUST}/figures.json").json()
    shown: dict[str, Any] = file["held_out_cases"]
    return shown


def answer_all(client: TestClient, values: str, start: int = 0) -> None:
    """Answer the cases in their order: `yynn` are two times yes and two times no."""
    for number, letter in enumerate(values, start):
        answer(client, f"c-{number}", value="true" if letter == "y" else "false")


@pytest.fixture
def ana_and_ben(shared: world.Shared) -> tuple[TestClient, TestClient]:
    """Two people at a queue of sixteen cases that are held out; the judge says yes of all."""
    return held_out(shared.signed_in("owner")), shared.signed_in("reviewer")


@pytest.fixture
def queued(local: TestClient) -> TestClient:
    return held_out(local)


def held_out(client: TestClient) -> TestClient:
    put_in(client, CASES)
    hold_out(client, *IDS)
    return client


def test_one_sentence_says_how_often_it_agreed(queued: TestClient) -> None:
    answer_all(queued, "yyyyyyyyyynn")
    assert agreed(queued, 12, 10)
    html = queued.get(TRUST).text
    words = page(queued)
    assert "83%; between 51 and 97 is likely." in words
    assert "Before" not in words  # it has not been taught
    assert 'aria-label="Now: 83 percent, between 51 and 97 is likely."' in html
    assert "It is most often wrong here" in words
    assert "“Reply 11.” it said Yes, you said No" in words
    assert "style=" not in html


@pytest.mark.parametrize(
    ("answers", "says", "button"),
    [
        (0, "10 more answers and you will know.", "Review 10"),
        (9, "1 more answer and you will know.", "Review 1"),
    ],
)
def test_too_few_answers_say_how_many_are_missing(
    queued: TestClient, answers: int, says: str, button: str
) -> None:
    answer_all(queued, "y" * answers)
    assert heading(queued) == says
    words = page(queued)
    assert f"You have answered {answers} of them; 10 are enough for a first" in words
    assert words.endswith(button)


@world.ON_BOTH
def test_as_many_answers_as_the_button_says_are_enough(local: TestClient) -> None:
    others = []
    for case in CASES:
        others.append(case | {"id": f"d{case['id']}", "inputs": "?"})
    put_in(local, others)
    answer_all(held_out(local), "yyyy")
    (button,) = re.findall(r'href="([^"]+)">Review 6<', local.get(TRUST).text)
    shown = card(local.get(button))
    for _ in range(6):
        assert shown["case"].startswith("c-")
        send(local, shown, value="true")
        shown = card(local.get("/judges/tone/review"))
    assert shown["case"].startswith("dc-")
    assert agreed(local, 10, 10)
    assert figures(local)["now"]["agreed"] == 10


def test_only_what_is_held_out_counts(local: TestClient) -> None:
    put_in(local, CASES)
    hold_out(local, "c-0", "c-1")
    answer_all(local, "y" * 16)
    assert heading(local) == "There are too few cases for a figure."


ROW = {
    "id": "t-1",
    "inputs": "Where?",
    "outputs": "There.",
    "value": False,
    "rationale": "Show sympathy first.",
}


def test_the_number_before_teaching_stands_beside_it_and_goes_with_its_question(
    place: str,
) -> None:
    with world.site(place, script=world.turning) as client:
        held_out(client)
        answer_all(client, "nnnnnnnnnyyy")
        assert agreed(client, 12, 3)
        call(client, "align", feedback=[ROW])
        wait(client)
        assert agreed(client, 12, 9)
        assert "Before you taught it: 25% of 12." in page(client)
        chart = (
            'aria-label="Before: 25 percent, between 7 and 57 is likely. '
            'Now: 75 percent, between 43 and 93 is likely."'
        )
        assert chart in client.get(TRUST).text
        assert figures(client)["before_teaching"]["agreed"] == 3
        assert figures(client)["now"]["agreed"] == 9
        work(client, "setup/question", question="Is it kind?", model="scripted")
        assert heading(client).startswith("On 12 cases")
        assert "Before you taught it" not in page(client)
        assert figures(client)["before_teaching"] == {"cases": 0}


def test_an_older_version_that_answers_late_changes_nothing(queued: TestClient) -> None:
    server = world.server_of(queued)
    job = Work(
        registry=server.registry,
        store=server.store,
        judge="tone",
        arguments={},
        progress=lambda *_: None,
    )
    examples = [case.example for case in world.stored(queued, queue.select())]
    for version in (3, 2):
        asyncio.run(job.judge_cases(world.judge_of(queued), version, examples))
    assert {case.version for case in world.stored(queued, queue.select())} == {3}


def test_a_case_whose_content_was_taught_proves_nothing(local: TestClient) -> None:
    said = {"id": "archive", "value": False, "rationale": "Cold.", "source": "olga"}
    world.registry_of(local).align("tone", [CASES[0] | said])
    answer_all(held_out(local), "yy")
    assert heading(local) == "9 more answers and you will know."


def test_an_answer_after_the_verdict_was_shown_changes_nothing(
    queued: TestClient,
) -> None:
    answer_all(queued, "yyyyyyyyyyn")
    answer_all(queued, "y", start=10)  # now that they have read what the judge says
    assert agreed(queued, 11, 10)
    assert "It is most often wrong here" not in page(queued)
    answer_all(queued, "nnnnnnnnnn")
    assert agreed(queued, 11, 10)


def test_cases_on_which_people_differ_count_once_an_owner_has_settled_them(
    ana_and_ben: tuple[TestClient, TestClient],
) -> None:
    ana, ben = ana_and_ben
    answer_all(ana, "yyyyyyyyyyyn")
    answer_all(ben, "yynny")
    assert agreed(ana, 10, 9, "your team")
    assert "You and reviewer agree on 3 of 5." in page(ana)
    assert "You and owner agree on 3 of 5." in page(ben)
    for case, holder in (("c-2", "reviewer"), ("c-3", "")):
        with world.server_of(ana).store.write() as connection:
            settle(connection, "tone", case, holder, by="local")
    assert agreed(ana, 11, 9, "your team")


def test_nobody_reads_of_a_case_that_they_have_not_answered(
    ana_and_ben: tuple[TestClient, TestClient],
) -> None:
    ana, ben = ana_and_ben
    answer_all(ana, "nnnnnnnnnnnn")
    assert "it said Yes, you said No" in page(ana)
    words = page(ben)
    assert agreed(ben, 12, 0, "your team")
    assert "it said" not in words
    assert "Reply" not in words
    answer_all(ben, "n")
    assert "“Reply 0.” it said Yes, you said No" in page(ben)
    assert "Reply 1." not in page(ben)


def test_scores_that_nearly_agree_are_the_same_answer(place: str) -> None:
    def scored(_: Any) -> dict[str, Any]:
        return {"rationale": "So so.", "value": 0.7}

    world.opened(place).create(
        world.judge("tone").replace(feedback_value_type="float:0..1")
    )
    with world.client(place, script=scored) as client:
        team = world.Shared(client.app)  # type: ignore[arg-type]  # a FastAPI
        world.link(place, "ana")  # an owner
        ana = team.signed_in("ana")
        ben = team.signed_in("ben")
        held_out(ana)
        for case in IDS[:11]:
            answer(ana, case, value="0.70")
            answer(ben, case, value="0.71" if case != "c-0" else "0.95")
            if case == "c-1":  # too few for a figure: it tells their number alone
                few = {"now": {"cases": 1}, "before_teaching": {"cases": 0}}
                assert figures(ana) == few
        assert agreed(ana, 10, 10, "your team")
        assert "You and ben agree on 10 of 11." in page(ana)


def test_whoever_has_read_the_others_answers_or_a_trial_proves_nothing(
    shared: world.Shared,
) -> None:
    owner, reviewer, zoe = map(shared.signed_in, ("owner", "reviewer", "zoe"))
    held_out(owner)
    # On the first case.
    trial = {"judge": "tone", "question": "Is it kind?", "model": "scripted"}
    post(owner, "/judges/try", **trial)
    answer(reviewer, "c-1", value="false")
    answer(zoe, "c-1", value="true")
    for person in (reviewer, zoe):
        post(person, "/judges/tone/review/differ", case="c-1")
    assert "Which holds?" in owner.get("/judges/tone/review").text
    answer_all(owner, "yyy")
    blind = select(reviews.c.case_id).where(
        reviews.c.person == "owner", reviews.c.blind_value.is_not(None)
    )
    assert world.stored(owner, blind) == [("c-2",)]


def test_whoever_answers_nothing_reads_how_far_the_others_agree(
    shared: world.Shared,
) -> None:
    owner, reviewer, zoe = map(shared.signed_in, ("owner", "reviewer", "zoe"))
    put_in(owner, CASES)
    answer_all(reviewer, "yynn")
    answer_all(zoe, "yyy")
    assert "reviewer and zoe agree on 2 of 3." in page(owner)


def test_what_a_colleague_answered_is_not_asked_for_a_figure_again(
    ana_and_ben: tuple[TestClient, TestClient],
) -> None:
    ana, ben = ana_and_ben
    hold_out(ana, *IDS[:4])
    answer_all(ana, "yyy")
    words = page(ben)
    assert "Review 1 About 24 more cases are needed" in words, words
    assert card(ben.get(f"{TRUST}/review"))["case"] == IDS[3]
    world.change(ana, reviews.update().values(blind_value=None))  # as of a file
    assert "Review 4 About 24 more cases are needed" in page(ben)
