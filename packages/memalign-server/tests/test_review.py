"""Review: the expert's verdict first, saved once and at once; then the judge's beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from memalign_server.review.cases import cases_of
from memalign_server.store import Store
from server_support import reviewing, world
from server_support.reviewing import answer, card, post, put_in, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi.testclient import TestClient

    from memalign import Judgment
    from memalign.models.base import ChatRequest

REASON = "It answers the question."  # what the scripted judge says of every case


@pytest.fixture
def queued(local: TestClient) -> TestClient:
    put_in(local)
    return local


def test_the_judges_verdict_is_hidden_before_yours(queued: TestClient) -> None:
    before = queued.get("/judges/tone/review")
    assert "My order is three weeks late." in before.text
    assert REASON not in before.text
    assert "The judge</dt>" not in before.text
    after = answer(queued, "late", value="false")
    assert REASON in after.text
    assert "The judge</dt>" in after.text


def quoting(request: ChatRequest) -> dict[str, Any]:
    """A model that names the first guideline, quotes the item, and then one that is not shown."""
    properties = request.schema["properties"]
    if "findings" not in properties:
        return world.answer(request)
    name = properties["findings"]["items"]["properties"]["guideline"]["enum"][0]
    findings = [
        {"guideline": name, "evidence": "Send a photo", "value": False},
        {"guideline": "G999", "evidence": "support", "value": True},
    ]
    return {"findings": findings, "rationale": REASON, "value": False}


def test_your_rule_is_shown_with_the_words_of_the_case(tmp_path: Path) -> None:
    registry = world.registry(tmp_path, script=quoting)
    registry.align("tone", world.ROWS)
    with TestClient(world.server(tmp_path, script=quoting), base_url=world.ADDRESS) as client:
        put_in(client)
        page = answer(client, "lamp", value="true").text
        rule = registry.load("tone").memory.semantic[0]
        assert f">{rule.id}</b> {rule.text}" in page
        assert "<q>Send a photo</q>" in page
        assert "G999" not in page
        # The model quotes what this case does not have.
        assert "<q>" not in answer(client, "shop", value="true").text


def test_what_a_forgotten_rule_was_in_view_of_is_judged_again(tmp_path: Path) -> None:
    registry = world.registry(tmp_path, script=quoting)
    registry.align("tone", world.ROWS)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:  # names no guideline that applies
        put_in(client)
        ids = [case["id"] for case in reviewing.CASES]

        def judgments() -> list[Judgment | None]:
            with Store(registry.url).read() as connection:
                return [case.judgment for case in cases_of(connection, "tone", ids)]

        before = judgments()
        assert [each is not None and each.guideline_ids for each in before] == [()] * len(ids)
        registry.erase("tone", ["t-1"])
        assert judgments() == [None] * len(ids)


def test_the_next_case_is_loaded_already(queued: TestClient) -> None:
    page = queued.get("/judges/tone/review").text
    ahead = page.partition('<template id="ahead">')[2]
    assert 'name="case"' in ahead
    assert REASON not in ahead


def test_one_form_saves_once(queued: TestClient) -> None:
    shown = card(queued.get("/judges/tone/review"))
    first, second = (send(queued, shown, value="false", rationale="Cold.") for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200)
    assert "1 answered" in queued.get("/judges/tone/review").text


def test_two_tabs_do_not_overwrite_each_other(queued: TestClient) -> None:
    one, other = (card(queued.get("/judges/tone/review", params={"case": "late"})) for _ in range(2))
    assert send(queued, one, value="false").status_code == 200
    refused = send(queued, other, value="true")
    assert refused.status_code == 409
    assert "You have answered this case in another window: No." in refused.text
    again = card(refused)
    assert send(queued, again, value="true").status_code == 200
    assert "Yes" in queued.get("/judges/tone/review", params={"case": "late"}).text


def test_a_wrong_verdict_is_refused_with_its_words(queued: TestClient) -> None:
    refused = answer(queued, "late", value="perhaps", rationale="I am not sure")
    assert refused.status_code == 422
    assert "I am not sure" in refused.text
    assert REASON not in refused.text


def test_skipped_cases_come_back_when_asked(queued: TestClient) -> None:
    for case in reviewing.CASES[:-1]:
        answer(queued, case["id"], state="skipped")
    assert card(queued.get("/judges/tone/review"))["case"] == "shop"
    answer(queued, "shop", value="true")
    assert "Look at the skipped ones" in queued.get("/judges/tone/review").text
    assert card(queued.get("/judges/tone/review?again=true"))["case"] == "late"


def test_cases_that_come_back_are_saved(queued: TestClient) -> None:
    for case in reviewing.CASES[1:]:
        answer(queued, case["id"], state="skipped")
    answer(queued, "late", value="true")
    post(queued, "/judges/tone/review/undo", case="late", parts=True)
    ahead = queued.get("/judges/tone/review?again=true").text.partition('<template id="ahead">')[2]
    for page in (ahead, queued.get("/judges/tone/review/next").text):
        assert send(queued, card(page), value="false").status_code == 200


def test_an_undone_answer_is_asked_again(queued: TestClient) -> None:
    answer(queued, "late", value="false")
    post(queued, "/judges/tone/review/undo", case="late", parts=True)
    assert "0 answered" in queued.get("/judges/tone/review").text
    # It was shown what the judge says: whatever comes now is no evidence.
    assert "10 more answers" in answer(queued, "late", value="true").text


def test_blind_answers_count_towards_a_figure(queued: TestClient) -> None:
    assert "10 more answers and there is an unseen-case figure" in queued.get("/judges/tone/review").text
    assert "9 more answers" in answer(queued, "late", value="false").text
    assert "9 more answers" in answer(queued, "late", value="true").text  # changed after it was shown


def test_without_scripts_a_form_is_enough(queued: TestClient) -> None:
    shown = card(queued.get("/judges/tone/review"))
    answered = queued.post("/judges/tone/review", data={**shown, "value": "false"}, follow_redirects=False)
    assert answered.status_code == 303
    page = queued.get(answered.headers["location"])
    assert REASON in page.text


def test_taught_words_become_a_guideline(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale="Show sympathy first.")
    answer(queued, "thanks", value="true")
    assert "2 answers wait" in queued.get("/judges/tone/review").text
    job = post(queued, "/judges/tone/teach").headers["location"]
    reviewing.wait(queued)
    page = queued.get(job).text
    assert "You taught it this" in page
    assert "A reply must show sympathy before facts" in page
    assert "late@local" in page
    assert "wait" not in queued.get("/judges/tone/review").text.partition('id="waiting"')[2].partition("</span>")[0]


def test_a_lesson_shows_what_the_judge_had_said(tmp_path: Path) -> None:
    asked: list[str] = []

    def teaching(request: ChatRequest) -> dict[str, Any]:
        if "changes" not in request.schema["properties"]:
            return {"rationale": REASON, "value": False}
        asked.append(request.user)
        return world.answer(request)

    world.registry(tmp_path, script=teaching)
    with TestClient(world.server(tmp_path, script=teaching), base_url=world.ADDRESS) as client:
        put_in(client)
        answer(client, "thanks", value="true", rationale="Warm.")
        answer(client, "lamp", value="false", rationale="Cold.")
        post(client, "/judges/tone/teach")
        reviewing.wait(client)
        shown = "".join(asked)
        assert f'judge: false because "{REASON}"\nexpert: true\n' in shown
        assert "judge: false\nexpert: false\n" in shown
        # The next cases were judged again by the version that learned.
        asked.clear()
        answer(client, "twice", value="true", rationale="Helpful.")
        post(client, "/judges/tone/teach")
        reviewing.wait(client)
        assert f'judge: false because "{REASON}"\nexpert: true\nexpert\'s comment: "Helpful."' in "".join(asked)
        # Of a case that it was taught it says what it was taught. What it had said before that stays.
        asked.clear()
        answer(client, "lamp", value="true", rationale="Not cold at all.")
        post(client, "/judges/tone/teach")
        reviewing.wait(client)
        assert f'judge: false because "{REASON}"\nexpert: true\nexpert\'s comment: "Not cold at all."' in "".join(asked)


def test_answers_that_cannot_be_learned_wait(queued: TestClient) -> None:
    put_in(queued, [{"id": "short", "inputs": "Hello?"}, {"id": "long", "inputs": "Hi.", "outputs": "Hello."}])
    answer(queued, "short", value="false")
    answer(queued, "late", value="false")
    job = post(queued, "/judges/tone/teach").headers["location"]
    reviewing.wait(queued)
    assert "1 answer cannot be learned: the judge&#39;s instructions name {{ outputs }}" in queued.get(job).text
    assert "1 answer waits" in queued.get("/judges/tone/review").text


def turning(request: Any) -> dict[str, Any]:
    """A judge that turns strict once it has learned a guideline."""
    said = world.answer(request)
    if "changes" not in request.schema["properties"]:
        said["value"] = "sympathy" not in request.system.lower() or "glad" in request.user.lower()
    return said


@pytest.fixture
def turned(tmp_path: Any) -> Any:
    from fastapi.testclient import TestClient

    world.registry(tmp_path, script=turning)
    with TestClient(world.server(tmp_path, script=turning), base_url=world.ADDRESS) as client:
        put_in(client)
        answer(client, "late", value="false", rationale="Show sympathy first.")
        post(client, "/judges/tone/teach")
        reviewing.wait(client)
        yield client


def test_turned_verdicts_show_when_they_are_answered(turned: TestClient) -> None:
    page = turned.get("/judges/tone/changed").text
    assert "fixed" in page
    assert "Answer it first" in page
    assert "<b>twice</b></a>" not in page  # a link beside both verdicts
    answer(turned, "twice", value="true")
    page = turned.get("/judges/tone/changed").text
    assert "<b>twice</b></a>" in page


def failing(request: Any) -> Any:
    from memalign.errors import ModelError

    return ModelError("the model is down")


def test_a_model_that_is_down_loses_nothing(tmp_path: Any) -> None:
    from fastapi.testclient import TestClient

    world.registry(tmp_path)
    with TestClient(world.server(tmp_path, script=failing), base_url=world.ADDRESS) as client:
        put_in(client)
        assert answer(client, "late", value="false", rationale="Cold.").status_code == 200
        job = post(client, "/judges/tone/teach").headers["location"]
        reviewing.wait(client)
        assert "the model is down" in client.get(job).text
        assert "1 answered" in client.get("/judges/tone/review").text


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
    post(many, "/judges/tone/teach")
    reviewing.wait(many)
    cases = many.get("/judges/tone/download/cases.jsonl").text.splitlines()
    judged = {row["id"]: row["version"] for row in map(json.loads, cases)}
    for _ in range(12):
        case = card(many.get("/judges/tone/review"))["case"]
        assert judged[case] == 2
        answer(many, case, value="false")
