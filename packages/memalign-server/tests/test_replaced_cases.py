"""What was said of one text never counts for another one that has its id by now, and is not
lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign.registry import Selection
from memalign.types import Judgment
from memalign_server.learned.teaching import lessons_of, mark_taught
from memalign_server.review.service import mark_seen
from memalign_server.store.answers import answer_of
from memalign_server.store.cases import case_of, store_judgments
from memalign_server.store.tables import queue, reviews
from server_support import world
from server_support.reviewing import (
    CASES,
    answer,
    call,
    card,
    ended,
    expect,
    hold_out,
    learned,
    post,
    put_in,
    send,
    shows,
    upload,
    wait,
    words_of,
    work,
)

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PAGE = "/judges/tone/cases"
LATE = CASES[0]
OTHER = {**LATE, "outputs": "We are sorry, it comes on Thursday."}
WORDS = "Cold."


def replace(client: TestClient, case: dict[str, Any], *, by: str = "file") -> Any:
    """Take a case out and put another one in under its id; what the server says of that."""
    post(client, f"{PAGE}/take-out", case=case["id"])
    if by == "api":
        return ended(client, call(client, "cases", cases=[case]).json())
    page = upload(client, json.dumps(case), "again.jsonl")
    wait(client)
    return client.get(page.headers["location"])


def test_blanks_around_an_id_pass_no_other_text(queued: TestClient) -> None:
    for case_id in ("late", " late ", "late\n"):
        said = {**OTHER, "id": case_id, "value": False, "source": "ana"}
        refused = call(queued, "align", feedback=[said])
        expect(refused, 409)
        assert refused.json()["changed"] == ["late"]
        hold_out(queued, "late")
        refused = call(queued, "align", feedback=[said])
        assert refused.json()["held_out"] == ["late"]
        hold_out(queued)


def test_a_kind_of_answer_stays_where_an_answered_text_was_replaced(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale=WORDS)
    question = {"question": "Is it warm?", "kind": "int:1..5", "model": "scripted"}
    for case in (LATE, OTHER):
        replace(queued, case)
        expect(post(queued, "/judges/tone/setup/question", **question), 422)


def test_a_choice_on_one_text_leaves_what_was_learned_of_another(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="true", rationale="Fine.")
    said = {**OTHER, "value": False, "rationale": WORDS, "source": "ana"}
    world.registry_of(queued).align("tone", [said])
    chosen = queue.update().where(queue.c.case_id == "late")
    world.change(queued, chosen.values(settled="local", settled_by="local"))
    work(queued, "teach")
    assert "late@ana" in learned(queued)


ZEBEDEE = "My neighbour Zebedee says it is cold."


def said_in(client: TestClient) -> list[str]:
    """The words in the table of answers."""
    return [row.rationale for row in world.stored(client, select(reviews.c.rationale))]


@world.ON_BOTH
def test_an_erased_text_takes_the_answer_that_holds_it_alone(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale=ZEBEDEE)
    replace(queued, OTHER)
    answer(queued, "late", value="true", rationale="Warm.")
    page = post(queued, "/judges/tone/find", matching="Zebedee")
    shows(words_of(page.text), f"“{ZEBEDEE} · Warm.”")
    receipt = world.registry_of(queued).erase("tone", matching="Zebedee")
    assert (receipt.counts, receipt.left) == ("1 comment", ())
    assert said_in(queued) == ["Warm."]
    assert world.case_row(queued, "late").example.outputs == OTHER["outputs"]


def test_a_person_takes_what_a_text_beside_it_spares(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale=ZEBEDEE)
    replace(queued, OTHER)
    answer(queued, "late", value="true", rationale="Warm.")
    registry = world.registry_of(queued)
    both = [Selection(matching="Zebedee"), Selection(source="local")]
    assert registry.erase("tone", also=both).left == ()
    assert said_in(queued) == []


@pytest.mark.parametrize("selection", [{"selectors": "late"}, {"source": "local"}])
def test_a_person_and_an_id_take_all_that_was_said_of_every_text(
    queued: TestClient, selection: dict[str, Any]
) -> None:
    answer(queued, "late", value="false", rationale=ZEBEDEE)
    replace(queued, OTHER)
    answer(queued, "late", value="true", rationale="Warm.")
    assert world.registry_of(queued).erase("tone", **selection).left == ()
    assert said_in(queued) == []


@world.ON_BOTH
def test_what_was_said_of_an_erased_text_goes_whatever_id_it_had(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale="It never says sorry.")
    post(queued, f"{PAGE}/take-out", case="late")
    put_in(queued, [{**LATE, "id": "again"}])
    answer(queued, "thanks", value="true", rationale="Warm.")
    receipt = world.registry_of(queued).erase("tone", "again")
    assert (receipt.counts, receipt.left) == ("1 case and 1 comment", ())
    assert said_in(queued) == ["Warm."]


def test_what_was_said_of_a_text_stays_while_another_case_has_it(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale=WORDS)
    work(queued, "teach")
    post(queued, f"{PAGE}/take-out", case="late")
    put_in(queued, [{**LATE, "id": "again"}])
    world.registry_of(queued).erase("tone", "again")
    assert said_in(queued) == [WORDS]


def test_words_out_of_force_are_shown_after_their_text_is_replaced(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale=WORDS)
    world.change(queued, reviews.update().values(overruled_by="Ana", overruled_for=""))
    replace(queued, OTHER)
    shows(words_of(queued.get("/judges/tone/learned").text), f"“{WORDS}”")


@world.ON_BOTH
def test_an_answer_counts_for_the_text_alone_of_which_it_was_said(
    queued: TestClient,
) -> None:
    answer(queued, "late", value="false", rationale=WORDS)
    page = replace(queued, OTHER)
    shows(page.text, "1 answer was given to another text under the same id.")
    shows(queued.get(PAGE).text, "0 of them answered.")
    front = queued.get("/judges/tone/review", params={"case": "late"}).text
    shows(front, 'name="revision" value="0"')
    assert WORDS not in front
    work(queued, "teach")
    assert learned(queued) == {}
    shows(words_of(queued.get("/judges/tone/learned").text), f"“{WORDS}”", "taken out")
    answer(queued, "late", value="true", rationale="Warm.")
    said = select(reviews.c.value, reviews.c.rationale).order_by(reviews.c.created_at)
    rows = [tuple(row) for row in world.stored(queued, said)]
    assert rows == [(False, WORDS), (True, "Warm.")], "both are kept"
    replace(queued, LATE)
    shows(queued.get(PAGE).text, "1 of them answered.")
    work(queued, "teach")
    (lesson,) = world.judge_of(queued).memory.annotations()
    assert lesson.rationale == WORDS


def test_a_program_is_told_of_answers_to_another_text(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale=WORDS)
    answer(queued, "twice", value="false")
    assert replace(queued, OTHER, by="api")["result"]["apart"] == 1
    assert replace(queued, LATE, by="api")["result"]["apart"] == 0


def test_a_blind_answer_measures_the_text_alone_of_which_it_was_given(
    queued: TestClient,
) -> None:
    hold_out(queued, "late")
    answer(queued, "late", value="false")
    figures = "/judges/tone/trust/figures.json"
    assert queued.get(figures).json()["held_out_cases"]["now"]["cases"] == 1
    replace(queued, OTHER)
    hold_out(queued, "late")
    assert queued.get(figures).json()["held_out_cases"]["now"]["cases"] == 0


def test_a_form_that_shows_another_text_saves_nothing(queued: TestClient) -> None:
    shown = card(queued.get("/judges/tone/review", params={"case": "late"}))
    answer(queued, "twice", value="false", rationale="Rude.")
    turned = card(queued.get("/judges/tone/review", params={"case": "twice"}))
    for row in (OTHER, {**CASES[1], "outputs": "No."}):
        replace(queued, row)
    answer(queued, "twice", value="true")
    expect(send(queued, shown, value="false"), 410)
    words = post(queued, "/judges/tone/review/words", **turned, words="Very rude.")
    expect(words, 410)
    assert "late" not in [row.case_id for row in world.stored(queued, select(reviews))]
    query = select(reviews.c.draft).where(reviews.c.draft.is_not(None))
    assert world.stored(queued, query) == []


def test_feedback_of_a_program_cannot_give_a_queued_id_another_text(
    queued: TestClient,
) -> None:
    row = {"id": "late", "value": False, "rationale": WORDS, "source": "ana"}
    refused = call(queued, "align", feedback=[row | {"outputs": "Soon."}])
    expect(refused, 409)
    assert refused.json()["changed"] == ["late"]
    hold_out(queued)
    for same in (row, {**row, "source": "ben", "outputs": LATE["outputs"]}):
        job = call(queued, "align", feedback=[same]).json()
        assert ended(queued, job)["state"] == "done"
    assert {*learned(queued)} == {"late@ana", "late@ben"}


def test_an_answer_given_while_another_text_is_taught_is_not_taken_for_taught(
    queued: TestClient,
) -> None:
    hold_out(queued)
    answer(queued, "late", value="false", rationale=WORDS)
    store = world.server_of(queued).store
    with store.read() as connection:
        lessons = lessons_of(connection, "tone")
    replace(queued, OTHER)
    hold_out(queued)
    answer(queued, "late", value="true", rationale="Warm.")
    mark_taught(store, "tone", lessons)
    with store.read() as connection:
        (waiting,) = lessons_of(connection, "tone")
    assert waiting.feedback.rationale == "Warm."


def test_words_typed_on_a_case_that_was_taken_out_stop_no_teaching(
    queued: TestClient,
) -> None:
    hold_out(queued)
    shown = card(answer(queued, "late", value="false").text)
    post(queued, "/judges/tone/review/words", **shown, words=WORDS)
    answer(queued, "twice", value="false", rationale="Rude.")
    post(queued, f"{PAGE}/take-out", case="late")
    work(queued, "teach")
    assert [*learned(queued)] == ["twice@local"]
    shows(words_of(queued.get("/judges/tone/learned").text), f"“{WORDS}”", "taken out")


def test_a_verdict_on_a_text_is_not_kept_for_another(queued: TestClient) -> None:
    server = world.server_of(queued)
    latest = server.judges.latest("tone")
    with server.store.read() as connection:
        before = case_of(connection, "tone", "late")
    assert before is not None
    replace(queued, OTHER)
    late = Judgment(id="late", value=False, rationale="It is of the other text.")
    with server.store.write() as connection:
        store_judgments(
            connection,
            latest.judge,
            latest.version,
            [(before.example, late)],
            {"late": 0.0},
        )
        mark_seen(connection, before, "local")
    assert world.case_row(queued, "late").judgment.value is True
    answer(queued, "late", value="false")
    with server.store.read() as connection:
        own = answer_of(connection, "tone", "local", "late")
    assert own is not None
    assert own.blind_value is False, "nobody has told them the verdict on this text"


def test_words_that_are_set_apart_are_found_and_erased(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale="Quite cold.")
    replace(queued, OTHER)
    found = post(queued, "/judges/tone/find", matching="quite cold").text
    shows(found, 'value="comment:late@local"', "<mark>Quite cold</mark>")
    work(queued, "erase", matching="quite cold", tick="comment:late@local")
    url = world.registry_of(queued).url
    assert world.tables_with(url, "quite cold") == set()
    assert world.case_row(queued, "late").example.outputs == OTHER["outputs"]
