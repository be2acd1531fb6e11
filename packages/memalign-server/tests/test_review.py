"""Review: the expert's verdict first, saved once and at once; then the judge's beside it."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event, select

from memalign import Example
from memalign.errors import ModelError
from memalign_server.store.cases import add_cases
from memalign_server.store.tables import queue
from server_support import world
from server_support.reviewing import (
    CASES,
    answer,
    card,
    expect,
    hold_out,
    post,
    put_in,
    send,
    wait,
    work,
)
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest

IDS = [case["id"] for case in CASES]
REASON = "It answers the question."  # what the scripted judge says of every case


def test_the_judges_verdict_comes_after_yours_which_is_saved_once(
    queued: TestClient,
) -> None:
    question = "Is the reply warm and helpful?"
    page = expect(queued.get("/judges/tone/review"), 200, question)
    assert REASON not in page
    for value in ("perhaps", ""):
        refused = send(queued, card(page), value=value)
        assert REASON not in expect(refused, 422, 'role="alert"')
    for _ in range(2):
        turned = send(queued, card(page), value="false")
        expect(turned, 200, f"You say No. The judge said Yes:</b> “{REASON}”")
    assert "Case 2 of 5" in queued.get("/judges/tone/review").text
    expect(answer(queued, "thanks", value="true"), 200, "You both say Yes.")


def test_people_who_differ_see_each_other_and_an_owner_settles_once(
    shared: world.Shared, owner: TestClient
) -> None:
    reviewer = shared.signed_in("reviewer")
    zoe = shared.signed_in("zoe")
    put_in(owner)

    def offered() -> list[str]:
        page = owner.get("/judges/tone/review")
        expect(page, 200, "reviewer and zoe differ. Which holds?", "data-kept>")
        return re.findall(r'name="holder" value="([^"]+)"', page.text)

    answer(reviewer, "late", value="false", rationale="It is cold.")
    assert "It is cold." not in zoe.get("/judges/tone/review?case=late").text
    answer(zoe, "late", value="true")
    # Without words there is no colon.
    for person, words in ((reviewer, "zoe says Yes</b>"), (zoe, "It is cold.")):
        page = person.get("/judges/tone/review")
        expect(page, 200, words, 'data-key="k"', "data-kept>")
        post(person, "/judges/tone/review/differ", **card(page))
    # An owner is asked.
    assert "Which holds?" not in reviewer.get("/judges/tone/review").text
    before = offered()
    answer(zoe, "late", value="true", rationale="It is warm.")
    settle = "/judges/tone/review/settle"
    post(owner, settle, case="late", holder=before[1])
    # Zoe has said something else since.
    assert world.case_row(owner, "late").settled is None
    for holder in offered():
        post(owner, settle, case="late", holder=holder)
        assert world.case_row(owner, "late").settled == "reviewer"


def test_without_scripts_forms_are_enough(queued: TestClient) -> None:
    late = "/judges/tone/review?case=late"
    fields = card(queued.get(late))
    turned = post(queued, "/judges/tone/review", **fields, value="false")
    page = expect(queued.get(turned.headers["location"]), 200, REASON)
    form = {"words": "Show sympathy first.", "go": "next"}
    on = post(queued, "/judges/tone/review/words", **card(page), **form)
    expect(on, 303)
    assert on.headers["location"] == "/judges/tone/review"
    expect(queued.get(late), 200, "Show sympathy first.")


def test_a_case_that_checks_the_judge_has_no_field(queued: TestClient) -> None:
    hold_out(queued, *IDS)
    page = answer(queued, "late", value="false", rationale="By a program.")
    checks = "This case checks the judge, so it is not taught."
    turned = expect(page, 200, "You say No. The judge said Yes:", checks)
    assert "<textarea" not in turned
    expect(post(queued, "/judges/tone/review/words", **card(page), go="next"), 303)
    # A foot without a field leaves the words that are there.
    assert world.answer_row(queued, "late").rationale == "By a program."


def test_the_judge_is_asked_when_somebody_answers_first(place: str) -> None:
    answering = threading.Event()

    def slow(request: ChatRequest) -> dict[str, Any]:
        assert answering.wait(PATIENCE)
        return world.answer(request)

    with world.site(place, script=slow) as client:
        with world.server_of(client).store.write() as connection:
            add_cases(connection, "tone", [Example.from_dict(CASES[0])])
        foot = "/judges/tone/review/foot?case=late"
        page = answer(client, "late", value="false")
        expect(page, 200, "The judge is reading it…")
        expect(page, 200, f'data-poll="{foot}&amp;wait=true"')
        expect(client.get(f"{foot}&wait=true"), 204)
        answering.set()
        wait(client)
        expect(client.get(f"{foot}&wait=true"), 200, REASON)


@pytest.mark.parametrize(
    ("kind", "question", "buttons", "note"),
    [
        ("bool", "Is it warm?", {"Yes": "Y", "No": "N"}, ""),
        (
            "int:1..5",
            "1 = cold, 5 = warm",
            {n: n for n in "12345"},
            "1 = cold, 5 = warm",
        ),
        (
            "A|B|tie",
            "Which?",
            {"A is better": "A", "B is better": "B", "Equal": "E"},
            "",
        ),
        ("good|bad|broken", "How?", {"good": "1", "bad": "2", "broken": "3"}, ""),
        ("int:1..10", "How warm?", {n: n[-1] for n in ("1", "9", "10")}, ""),
        ("int:0..100", "How many errors?", {"Save": ""}, "From 0 to 100"),
        ("str", "What is wrong?", {"Save": ""}, "Your answer"),
    ],
)
def test_keys_are_the_letters_of_the_buttons(
    local: TestClient, kind: str, question: str, buttons: dict[str, str], note: str
) -> None:
    instructions = f"{question}\n{{{{ outputs }}}}"
    judge = world.judge("other").replace(
        instructions=instructions, feedback_value_type=kind
    )
    world.registry_of(local).create(judge)
    put_in(local, [{"id": "x", "outputs": {"A": "Hi.", "B": "Hello."}}], judge="other")
    page = local.get("/judges/other/review").text
    assert note in page
    for text, key in buttons.items():
        (button,) = re.findall(
            rf'<button class="verdict[^>]*>{text}\b.*?</button>', page
        )
        assert re.findall(r"<kbd[^>]*>(.)</kbd>", button) == ([key] if key else [])


def test_what_a_forgotten_rule_was_in_view_of_is_judged_again(
    local: TestClient,
) -> None:
    def judgments() -> list[Any]:
        rows = world.stored(local, select(queue))
        return [getattr(row.judgment, "guideline_ids", None) for row in rows]

    registry = world.registry_of(local)
    registry.align("tone", world.ROWS)
    put_in(local)
    assert judgments() == [()] * len(IDS)  # no guideline was named
    registry.erase("tone", ["t-1"])
    assert judgments() == [None] * len(IDS)


def test_a_lesson_shows_what_the_judge_had_said(place: str) -> None:
    prompts: list[str] = []

    def teaching(request: ChatRequest) -> dict[str, Any]:
        if "changes" not in request.schema["properties"]:
            return {"rationale": REASON, "value": False}
        prompts.append(request.user)
        return world.answer(request)

    with world.site(place, script=teaching) as client:
        put_in(client)

        def lesson(**answers: tuple[str, str]) -> str:
            """The prompt of a teaching after these answers."""
            prompts.clear()
            for case, (value, words) in answers.items():
                answer(client, case, value=value, rationale=words)
            work(client, "teach")
            return "".join(prompts)

        prompt = lesson(thanks=("true", "Warm."), lamp=("false", "Cold."))
        said = f'judge: false because "{REASON}"\nexpert: true\n'
        assert said in prompt
        assert "judge: false\nexpert: false\n" in prompt
        # The next cases were judged again by the version that learned.
        prompt = lesson(twice=("true", "Helpful."))
        assert f'{said}expert\'s comment: "Helpful."' in prompt
        # Of a case that it was taught it says what it was taught. What it had said before
        # that stays.
        prompt = lesson(lamp=("true", "Not cold."))
        assert f'{said}expert\'s comment: "Not cold."' in prompt


def test_a_model_that_is_down_loses_no_answer(place: str) -> None:
    with world.site(
        place, script=lambda _request: ModelError("the model is down")
    ) as client:
        put_in(client)
        page = answer(client, "late", value="false")
        expect(page, 200, "The judge is reading it…")
        wait(client)
        foot = client.get("/judges/tone/review/foot?case=late&wait=true")
        expect(foot, 200, "The judge could not be asked. Your answer counts.")
        assert "Case 2 of 5" in client.get("/judges/tone/review").text


def test_a_page_asks_the_database_few_things(queued: TestClient) -> None:
    answer(queued, "late", value="false")
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    for query in ("", "?case=late"):
        statements.clear()
        event.listen(Engine, "before_cursor_execute", note)
        assert queued.get(f"/judges/tone/review{query}").status_code == 200
        event.remove(Engine, "before_cursor_execute", note)
        assert sum(statement.startswith("SELECT") for statement in statements) <= 17


def test_a_case_that_is_gone_leads_on_to_the_review(queued: TestClient) -> None:
    way_on = '<a class="button main-button" href="/judges/tone/review">Go on reviewing'
    queued.headers["accept"] = "text/html"
    expect(queued.get("/judges/tone/review?case=gone"), 410, way_on)
    for nowhere in ("/judges/none/review", "/nowhere"):
        assert "Go on reviewing" not in expect(queued.get(nowhere), 404)
