"""The review over HTTP: blind first, revised safely, and told to nobody by a side door."""

from __future__ import annotations

from typing import Any

import pytest

from memalign_server.review.turning import Turn, readable_first
from server_support import reviewing, world
from server_support.reviewing import CASES
from test_api import items
from test_jobs import ended

JUDGE = "/api/v1/judges/tone"
REVIEW = f"{JUDGE}/review"
VERDICT = "It answers the question."  # what the scripted judge says of every case


def put_in(client: Any) -> None:
    done = ended(client, client.post(f"{REVIEW}/cases", json={"cases": CASES}).json())
    assert done["result"] == {"added": 5, "known": 0, "judged": 5, "failed": 0, "problem": None}


def say(client: Any, case: str, value: Any = False, **more: Any) -> Any:
    return client.put(f"{REVIEW}/cases/{case}/answer", json={"value": value, **more})


@pytest.fixture
def queued(local: world.Browser) -> world.Browser:
    put_in(local)
    return local


@pytest.fixture
def two(shared: world.Shared) -> tuple[Any, Any, Any]:
    """A reviewer, an owner and a viewer of one queue."""
    owner = shared.by_token("owner")
    put_in(owner)
    return shared.by_token("reviewer"), owner, shared.by_token("viewer")


def test_an_answer_comes_before_the_verdict(queued: world.Browser) -> None:
    (first,) = queued.get(f"{REVIEW}/next").json()
    assert first["hidden"]
    assert (first["mine"], first["judgment"], first["others"]) == (None, None, [])
    for shown in (f"{REVIEW}/cases/{first['id']}", f"{REVIEW}/cases", f"{REVIEW}/next?n=5"):
        assert VERDICT not in queued.get(shown).text
    answered = say(queued, first["id"]).json()
    assert (answered["hidden"], answered["judgment"]["rationale"], answered["agree"]) == (False, VERDICT, False)
    assert (answered["mine"]["value"], answered["mine"]["revision"]) == (False, 1)
    assert queued.get(f"{REVIEW}/next").json()[0]["id"] != first["id"]


def test_skipping_shows_no_verdict(queued: world.Browser) -> None:
    for state in ("skipped", "unclear"):
        shown = queued.put(f"{REVIEW}/cases/late/answer", json={"state": state, "revision": state != "skipped"})
        assert (shown.status_code, shown.json()["hidden"]) == (200, True)
        assert VERDICT not in shown.text
    assert say(queued, "late", revision=2).json()["hidden"] is False
    progress = queued.get(f"{REVIEW}/progress").json()
    assert (progress["answered"], progress["left"], progress["blind"], progress["missing"]) == (1, 4, 1, 9)
    assert progress["agreement"] is None


def test_an_older_revision_changes_nothing(queued: world.Browser) -> None:
    say(queued, "late", False, rationale="Cold.")
    stale = say(queued, "late", True)
    assert stale.status_code == 409
    assert (stale.json()["mine"]["value"], stale.json()["mine"]["revision"]) == (False, 1)
    edited = say(queued, "late", True, revision=1).json()["mine"]
    assert (edited["value"], edited["rationale"], edited["revision"]) == (True, None, 2)
    undo = f"{REVIEW}/cases/late/answer"
    assert queued.delete(undo, params={"revision": 1}).status_code == 409
    assert queued.delete(undo, params={"revision": 2}).json()["hidden"] is True
    assert queued.delete(undo).status_code == 404


def test_an_answer_sent_twice_is_kept_once(queued: world.Browser) -> None:
    first, again = (say(queued, "late", form="one").json() for _ in range(2))
    assert first == again
    assert queued.get(f"{REVIEW}/cases/late").json()["mine"]["revision"] == 1


def test_wrong_answers_say_what_is_wrong(queued: world.Browser) -> None:
    assert say(queued, "late", "perhaps").status_code == 422
    assert say(queued, "late", None).json()["detail"] == "choose a verdict, or write why, or skip the case"
    assert say(queued, "nothing").status_code == 404
    assert queued.get(f"{REVIEW}/cases/late").json()["mine"] is None


def test_cases_are_listed_by_pieces_and_state(queued: world.Browser) -> None:
    say(queued, "late")
    say(queued, "lamp", True)
    queued.put(f"{REVIEW}/cases/shop/answer", json={"state": "skipped"})
    listed = f"{REVIEW}/cases"
    assert [each["id"] for each in items(queued, listed, limit=2)] == [each["id"] for each in CASES]
    assert [each["id"] for each in items(queued, listed, limit=1, state="answered")] == ["late", "lamp"]
    assert [each["id"] for each in items(queued, listed, state="open")] == ["twice", "thanks"]
    assert [each["id"] for each in queued.get(f"{REVIEW}/next?again=true").json()] == ["shop"]
    assert [each["id"] for each in items(queued, listed, people="false", judged="true")] == ["late"]
    assert queued.get(listed, params={"people": "false"}).status_code == 422


def test_a_verdict_asked_for_is_no_blind_one(queued: world.Browser) -> None:
    late = {name: CASES[0][name] for name in ("inputs", "outputs")}
    queued.put(f"{REVIEW}/cases/late/answer", json={"state": "skipped"})
    assert queued.post(f"{JUDGE}/judge", json=late).json()["value"] is True
    ended(queued, queued.post(f"{JUDGE}/judgments", json={"examples": CASES[1:2]}).json())
    assert say(queued, "late", revision=1).status_code == 200
    assert say(queued, "twice").status_code == 200
    queued.post(f"{JUDGE}/cases/lamp/thumb", json={"up": True})
    assert queued.get(f"{REVIEW}/progress").json()["blind"] == 0
    say(queued, "shop")
    assert queued.get(f"{REVIEW}/progress").json()["blind"] == 1


def test_no_side_door_tells_a_reviewer(two: tuple[Any, Any, Any]) -> None:
    reviewer, owner, viewer = two
    for case in ("late", "twice"):
        say(owner, case, rationale="Never so cold.")
    assert ended(owner, owner.post(f"{JUDGE}/teach").json())["state"] == "done"
    job = ended(owner, owner.post(f"{JUDGE}/judgments", json={"examples": CASES}).json())["id"]
    doors = (
        f"{REVIEW}/cases",
        f"{REVIEW}/cases/late",
        f"{REVIEW}/cases?people=false&judged=true",
        f"{REVIEW}/next?n=5",
        f"{REVIEW}/disagreements",
        f"{JUDGE}/jobs",
        f"{JUDGE}/jobs/{job}",
        f"{JUDGE}/bundle",
        f"{JUDGE}/diff?one=1&other=2",
        "/judges/tone/history?a=1&b=2",
        "/judges/tone/download/cases.jsonl",
        "/judges/tone/download/feedback.jsonl",
        "/judges/tone/download/judge.json",
        "/judges/tone/cases?case=late",
        "/judges/tone/memory?find=three weeks",
    )
    for door in doors:
        told = reviewer.get(door).text
        assert VERDICT not in told, door
        assert "Never so cold." not in told, door
    assert list(items(reviewer, f"{REVIEW}/cases", people="false", judged="true")) == []
    assert "<h2>late" not in reviewer.get("/judges/tone/cases?people=false&judged=true").text
    assert VERDICT in owner.get("/judges/tone/download/cases.jsonl").text
    assert VERDICT in viewer.get(f"{JUDGE}/jobs/{job}").text  # who is never asked may read
    assert "Never so cold." in say(reviewer, "late").text


def test_a_disagreement_is_settled_by_an_answer(two: tuple[Any, Any, Any]) -> None:
    reviewer, owner, _ = two
    say(owner, "late", False, rationale="Cold.")
    say(reviewer, "late", True)
    (found,) = items(reviewer, f"{REVIEW}/disagreements")
    assert [(each["person"], each["value"]) for each in found["answers"]] == [("owner", False), ("reviewer", True)]
    assert reviewer.get(f"{REVIEW}/progress").json()["disagreements"] == 1
    assert owner.get(f"{REVIEW}/next?n=1").json()[0]["id"] != "late"
    say(reviewer, "late", False, revision=1)
    assert list(items(owner, f"{REVIEW}/disagreements")) == []


def turning(request: Any) -> dict[str, Any]:
    """A judge that turns strict once it has learned a guideline."""
    said = world.answer(request)
    if "changes" not in request.schema["properties"]:
        said["value"] = "sympathy" not in request.system.lower() or "glad" in request.user.lower()
    return said


def test_what_changed_is_accepted_or_objected_to(tmp_path: Any) -> None:
    world.registry(tmp_path, script=turning)
    with world.Browser(world.server(tmp_path, script=turning), base_url=world.ADDRESS) as client:
        put_in(client)
        say(client, "late", rationale="Show sympathy first.")
        ended(client, client.post(f"{JUDGE}/teach").json())
        (change,) = items(client, f"{JUDGE}/changes")
        assert change["version"] == 2
        assert change["turned"] >= 2
        shown = client.get(f"{JUDGE}/changes/2").json()
        assert [each["text"] for each in shown["guidelines"]] == ["A reply must show sympathy before facts (F1)."]
        turned = {each["case"]: each for each in shown["turned"]}
        late, other = turned["late"], turned["twice"]
        assert (late["effect"], late["before"], late["after"], late["hidden"]) == ("fixed", True, False, False)
        assert (other["effect"], other["before"], other["hidden"]) == (None, None, True)
        place = f"{JUDGE}/changes/2/cases"
        assert client.put(f"{place}/twice", json={"decision": "accepted"}).status_code == 409
        kept = client.put(f"{place}/late", json={"decision": "accepted"}).json()
        assert (kept["decision"], kept["decided_by"]) == ("accepted", "local")
        assert client.put(f"{place}/nothing", json={"decision": "accepted"}).status_code == 422
        spoke = list(items(client, f"{REVIEW}/cases", guideline="G1"))
        assert {each["id"] for each in spoke} <= {each["id"] for each in CASES}


def test_a_hidden_turns_place_tells_nothing() -> None:
    effects: tuple[Any, ...] = ("broken", "turned", "fixed", "fixed")
    found = [
        Turn(case_id=name, before=True, after=False, label=None, effect=effects[n]) for n, name in enumerate("dcba")
    ]
    assert [each.case_id for each in readable_first(found, {"d", "a"})] == ["c", "b", "a", "d"]


def test_guidelines_like_a_text_are_named(queued: world.Browser) -> None:
    queued.post(f"{JUDGE}/guidelines", json={"text": "A reply names the day of delivery."})
    like = queued.get(f"{REVIEW}/similar", params={"words": "The reply should name the day of delivery"}).json()
    assert [each["id"] for each in like] == ["G1"]


def test_pages_and_api_are_one_review(queued: world.Browser) -> None:
    say(queued, "twice", True)
    reviewing.answer(queued, "late", value="false", rationale="Cold.")
    assert "2 answered" in queued.get("/judges/tone/review").text
    shown = queued.get(f"{REVIEW}/cases/late").json()["mine"]
    assert (shown["value"], shown["rationale"], shown["taught"]) == (False, "Cold.", False)


def test_a_taught_answer_is_withdrawn_not_undone(queued: world.Browser) -> None:
    say(queued, "late", rationale="Cold.")
    ended(queued, queued.post(f"{JUDGE}/teach").json())
    assert queued.get(f"{REVIEW}/cases/late").json()["mine"]["taught"] is True
    assert queued.get(f"{REVIEW}/progress").json()["untaught"] == 0
    assert queued.delete(f"{REVIEW}/cases/late/answer").status_code == 422
