"""Checking, explaining, comparing and verifying over HTTP: what the command line says, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign.evaluation import review_feedback
from server_support import world
from server_support.reviewing import CASES
from test_jobs import FEEDBACK, ended

JUDGE = "/api/v1/judges/tone"


@pytest.fixture
def taught(local: world.Browser) -> world.Browser:
    assert done(local, "align", feedback=FEEDBACK)["version"] == 2
    return local


def done(client: Any, path: str, **asked: Any) -> Any:
    job = client.post(f"{JUDGE}/{path}", json=asked)
    assert job.status_code == 202, job.text
    found = ended(client, job.json())
    assert found["state"] == "done", found["problem"]
    return found["result"]


def test_feedback_is_checked_before_it_is_learned(taught: world.Browser, tmp_path: Path) -> None:
    rows = [{**FEEDBACK[0], "source": "ben", "value": True}, {**FEEDBACK[1], "value": "maybe"}]
    found = taught.post(f"{JUDGE}/check", json={"feedback": rows})
    assert found.status_code == 200
    judge = world.opened(f"sqlite:///{tmp_path / 'memalign.db'}").load("tone")
    expected = review_feedback(rows, judge.value_type, judge)
    assert found.json()["status"] == expected.status == {"new": 1}
    assert [each["line"] for each in found.json()["invalid"]] == [2]
    assert len(taught.get(f"{JUDGE}/versions").json()["items"]) == 2


def test_a_judgment_is_explained_by_its_version(taught: world.Browser) -> None:
    run = done(taught, "judgments", examples=CASES[:1])
    taught.post(f"{JUDGE}/guidelines", json={"text": "A reply names a day."})
    asked = {"example": CASES[0], "judgment": run["judgments"][0]}
    for more in ({"signature": run["judge"]}, {"version": 2}, {}):
        told = taught.post(f"{JUDGE}/explain", json={**asked, **more})
        assert told.status_code == 200, told.text
        assert (told.json()["version"], told.json()["same_prompt"]) == (2, True)
        assert "My order is three weeks late." in told.json()["prompt"]["user"]
        assert "names a day" not in told.json()["prompt"]["system"]
    assert taught.post(f"{JUDGE}/explain", json={**asked, "version": 3}).status_code == 422
    assert taught.post(f"{JUDGE}/explain", json={"example": CASES[0]}).status_code == 422
    assert taught.post(f"{JUDGE}/explain", json={**asked, "signature": "tone@none"}).status_code == 422


def test_a_reviewed_case_is_explained_after_the_answer(shared: world.Shared) -> None:
    reviewer = shared.by_token("reviewer")
    done(reviewer, "review/cases", cases=CASES[:2])
    assert reviewer.post(f"{JUDGE}/explain", json={"case": "late"}).status_code == 409
    reviewer.put(f"{JUDGE}/review/cases/late/answer", json={"value": False})
    told = reviewer.post(f"{JUDGE}/explain", json={"case": "late"}).json()
    assert (told["id"], told["version"], told["judgment"]["value"]) == ("late", 1, True)
    assert reviewer.post(f"{JUDGE}/explain", json={"case": "none"}).status_code == 404


def test_a_receipt_is_verified(taught: world.Browser) -> None:
    receipt = done(taught, "erase", keys=["t-1"])
    told = taught.post(f"{JUDGE}/verify", json={"receipt": receipt}).json()
    assert (told["holds"], told["genuine"], told["unchanged"], told["back"]) == (True, True, True, [])
    forged = {**receipt, "keys": ["t-2@ana"]}
    assert taught.post(f"{JUDGE}/verify", json={"receipt": forged}).json()["genuine"] is False
    for none in ({}, {"judge": "tone"}, {**receipt, "signature": None}, {**receipt, "judge": "other"}):
        assert taught.post(f"{JUDGE}/verify", json={"receipt": none}).status_code == 422
