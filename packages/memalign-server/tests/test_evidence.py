"""What the page Trust counts: answers on cases that the judge had not learned from, a case once."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from memalign import Judge, ValueType
from memalign.evaluation import review_feedback
from memalign.testing import HashEmbedding
from server_support import reviewing, world
from server_support.reviewing import answer, card, post, put_in, wait
from test_review import turning

if TYPE_CHECKING:
    from collections.abc import Iterator

TRUST = "/judges/tone/trust"


def missing(client: TestClient) -> int:
    """How many more answers the page Trust asks for."""
    return int(re.findall(r"(\d+) more answers? and there is a figure", client.get(TRUST).text)[0])


def teach(client: TestClient) -> None:
    post(client, "/judges/tone/teach")
    wait(client)


@pytest.fixture
def ana_and_ben(shared: world.Shared) -> tuple[TestClient, TestClient]:
    """Two people at one queue."""
    ana, ben = shared.signed_in("owner"), shared.signed_in("reviewer")
    put_in(ana)
    return ana, ben


def test_a_case_that_a_colleague_taught_proves_nothing(ana_and_ben: tuple[TestClient, TestClient]) -> None:
    ana, ben = ana_and_ben
    answer(ana, "late", value="false", rationale="Show sympathy first.")
    assert missing(ana) == 9
    teach(ana)  # the case is judged again, with her label in the prompt
    answer(ben, "late", value="false")
    assert missing(ben) == 9
    answer(ben, "twice", value="false")
    assert missing(ben) == 8


def test_a_case_that_was_taught_under_another_id_proves_nothing(local: TestClient) -> None:
    late = {**reviewing.CASES[0], "id": "from-the-archive", "value": False, "rationale": "Cold.", "source": "olga"}
    files = {"file": ("feedback.jsonl", json.dumps(late))}
    local.post("/judges/tone/data", files=files, data={"what": "feedback"})
    wait(local)
    put_in(local)
    answer(local, "late", value="false")
    assert missing(local) == 10
    answer(local, "twice", value="false")
    assert missing(local) == 9


def test_a_case_that_the_command_line_taught_proves_nothing(local: TestClient, tmp_path: Path) -> None:
    said = {**reviewing.CASES[0], "value": False, "rationale": "Cold.", "source": "olga"}
    world.opened(f"sqlite:///{tmp_path / 'memalign.db'}").align("tone", [said])
    put_in(local)
    answer(local, "late", value="false")
    assert missing(local) == 10


def test_two_answers_on_a_case_are_one_case(ana_and_ben: tuple[TestClient, TestClient]) -> None:
    ana, ben = ana_and_ben
    cases = [{**reviewing.CASES[0], "id": f"c-{n}", "inputs": f"Order {n} is late."} for n in range(10)]
    put_in(ana, cases)
    for n in range(10):
        answer(ana, f"c-{n}", value="true" if n < 8 else "false")  # the judge says true
        answer(ben, f"c-{n}", value="true")
    page = ana.get(TRUST).text
    assert "90%" in page  # 8 cases on which both agree with the judge, and two on which one of them does
    assert "10 cases" in page
    assert "60% to 98%" in page


@contextmanager
def scoring(tmp_path: Path, value_type: str, verdict: float) -> Iterator[list[TestClient]]:
    """Two people at the queue of a judge that gives every case the same number."""

    def scored(_: Any) -> dict[str, Any]:
        return {"rationale": "So so.", "value": verdict}

    registry = world.registry(tmp_path, script=scored, judges=())
    registry.create(
        Judge(
            name="tone",
            instructions=world.INSTRUCTIONS,
            feedback_value_type=value_type,
            model="scripted",
            embedding_model=HashEmbedding().name,
        )
    )
    with TestClient(app := world.server(tmp_path, script=scored), base_url=world.ADDRESS):
        people = [TestClient(app, base_url=world.ADDRESS, headers={"accept": "text/html"}) for _ in range(2)]
        for person, name in zip(people, ("ana", "ben"), strict=True):
            person.post(world.link(registry.url, name))
        put_in(people[0])
        yield people


def test_scores_that_nearly_agree_are_no_disagreement(tmp_path: Path) -> None:
    with scoring(tmp_path, "float:0..1", 0.7) as people:
        for person, near, far in zip(people, ("0.70", "0.71"), ("0.1", "0.9"), strict=True):
            answer(person, "late", value=near)
            answer(person, "twice", value=far)
        page = people[0].get("/judges/tone/settle").text
    assert "charged twice" in page
    assert "three weeks late" not in page


def test_people_agree_on_the_page_as_far_as_check_says(tmp_path: Path) -> None:
    labels = {"late": (1, 2), "twice": (5, 5), "lamp": (1, 1), "thanks": (1, 5)}
    rows = [
        {**case, "value": value, "source": who}
        for case in reviewing.CASES
        for who, value in zip(("ana", "ben"), labels.get(case["id"], ()), strict=False)
    ]
    expected = review_feedback(rows, ValueType.of("int:1..5")).alpha
    with scoring(tmp_path, "int:1..5", 3) as people:
        for place, person in enumerate(people):
            for case, values in labels.items():
                answer(person, case, value=str(values[place]))
        page = people[0].get(TRUST).text
    assert expected is not None
    assert f"\N{GREEK SMALL LETTER ALPHA} {expected:.2f}" in page
    assert "on 4 cases that two or more answered" in page


@pytest.fixture
def many(tmp_path: Path) -> Iterator[TestClient]:
    """Sixty judged cases, of a judge that turns strict once it has learned a guideline."""
    world.registry(tmp_path, script=turning)
    with TestClient(world.server(tmp_path, script=turning), base_url=world.ADDRESS) as client:
        put_in(client, [{"id": f"c-{n}", "inputs": f"Order {n} is late.", "outputs": f"Wait {n}."} for n in range(60)])
        yield client


def test_the_next_answers_test_what_was_taught(many: TestClient) -> None:
    for _ in range(30):  # more than are looked at again
        case = card(many.get("/judges/tone/review"))["case"]
        answer(many, case, value="false", rationale="Show sympathy first.")
    teach(many)
    cases = many.get("/judges/tone/download/cases.jsonl").text.splitlines()
    judged = {row["id"]: row["version"] for row in map(json.loads, cases)}
    for _ in range(12):
        case = card(many.get("/judges/tone/review"))["case"]
        assert judged[case] == 2
        answer(many, case, value="false")
