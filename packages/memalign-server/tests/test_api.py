"""The command line's operations over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server_support import world
from test_jobs import FEEDBACK, ended

API = "/api/v1/judges"


@pytest.fixture
def taught(local: world.Browser) -> world.Browser:
    ended(local, local.post(f"{API}/tone/align", json={"feedback": FEEDBACK}).json())
    return local


def items(client: Any, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Every item of a list, piece by piece."""
    cursor: str | None = None
    while True:
        found = client.get(path, params={**query, **({"cursor": cursor} if cursor else {})}).json()
        yield from found["items"]
        cursor = found["next"]
        if cursor is None:
            return


def test_a_judge_is_made_changed_and_deleted(local: world.Browser) -> None:
    made = {
        "name": "new",
        "instructions": "Good? {{ outputs }}",
        "value_type": "int:1..5",
        "model": "local:qwen2.5-coder-0.5b",
    }
    created = local.post(API, json=made)
    assert created.status_code == 201
    assert created.json()["value_type"] == "int:1..5"
    assert local.post(API, json=made).status_code == 409
    assert local.patch(f"{API}/new", json={"instructions": "Better? {{ outputs }}"}).json()["version"] == 2
    assert local.get(f"{API}/new", params={"version": 1}).json()["instructions"] == "Good? {{ outputs }}"
    changed = local.get(f"{API}/new/diff", params={"one": 1, "other": 2}).json()
    assert "Better?" in str(changed)
    assert local.post(f"{API}/new/rollback", params={"to": 1}).json() == {"judge": "new", "version": 3, "parent": 2}
    assert local.delete(f"{API}/new").json()["versions"] == 3
    assert local.get(f"{API}/new").status_code == 404


def test_wrong_input_says_what_to_do(local: world.Browser) -> None:
    wrong = local.post(API, json={"name": "x", "instructions": "no field", "value_type": "bool", "model": "local:m"})
    assert wrong.status_code == 422
    assert wrong.json()["error"] in ("InvalidInstructions", "ConfigurationError")
    missing = local.post(API, json={"name": "x"}).json()
    assert {fault["at"] for fault in missing["faults"]} == {"body.instructions", "body.value_type"}
    assert local.post(API, json={"nmae": "x"}).status_code == 422


def test_one_case_is_judged_now(local: world.Browser) -> None:
    judged = local.post(f"{API}/tone/judge", json={"inputs": "Hello?", "outputs": "Hi!"})
    assert judged.status_code == 200
    assert (judged.json()["id"], judged.json()["value"]) == ("item", True)
    assert local.post(f"{API}/tone/judge", json={"inputs": "Hello?"}).status_code == 422


def test_a_model_that_fails_is_a_problem(tmp_path: Path) -> None:
    from memalign.errors import ModelUnavailable, RateLimited

    world.registry(tmp_path)
    for error, status in ((ModelUnavailable("no answer"), 502), (RateLimited("too many"), 503)):
        app = world.server(tmp_path, script=lambda _request, error=error: error)
        with world.Browser(app, base_url=world.ADDRESS) as client:
            failed = client.post(f"{API}/tone/judge", json={"inputs": "a", "outputs": "b"})
            assert (failed.status_code, failed.json()["error"]) == (status, type(error).__name__)


def test_many_cases_are_judged_as_a_job(local: world.Browser) -> None:
    cases = [{"id": f"c-{n}", "inputs": "Hello?", "outputs": f"Hi {n}!"} for n in range(5)]
    done = ended(local, local.post(f"{API}/tone/judgments", json={"examples": cases}).json())
    assert [each["id"] for each in done["result"]["judgments"]] == [f"c-{n}" for n in range(5)]


def test_a_file_of_the_server_is_no_feedback(local: world.Browser) -> None:
    # Names of files are read as files by the library; from outside only rows may come.
    assert local.post(f"{API}/tone/align", json={"feedback": "/etc/passwd"}).status_code == 422
    assert local.post(f"{API}/tone/judgments", json={"examples": "/etc/passwd"}).status_code == 422


def test_feedback_is_overwritten_and_withdrawn(taught: world.Browser) -> None:
    changed = [{**FEEDBACK[0], "rationale": "It promises nothing."}]
    assert ended(taught, taught.post(f"{API}/tone/align", json={"feedback": changed}).json())["state"] == "done"
    ended(taught, taught.post(f"{API}/tone/unalign", json={"keys": ["t-1@ana"]}).json())
    states = {each["key"]: each["state"] for each in items(taught, f"{API}/tone/ledger")}
    assert states == {"t-1@ana": "withdrawn", "t-2@ana": "learned"}


def test_an_erasure_gives_a_receipt_that_verifies(taught: world.Browser, tmp_path: Path) -> None:
    import json

    preview = taught.post(f"{API}/tone/erase/preview", json={"keys": ["t-1"]}).json()
    assert (preview["keys"], preview["dry_run"]) == (["t-1@ana"], True)
    receipt = ended(taught, taught.post(f"{API}/tone/erase", json={"keys": ["t-1"]}).json())["result"]
    assert "no trace found" in receipt["searched"]
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    verified = world.opened(f"sqlite:///{tmp_path / 'memalign.db'}").verify(tmp_path / "receipt.json")
    assert verified.genuine
    assert b"It is in transit." not in (tmp_path / "memalign.db").read_bytes()


def test_guidelines_are_written_and_edited(local: world.Browser) -> None:
    check = {"question": "Does the reply name a day?", "value": True}
    made = local.post(f"{API}/tone/guidelines", json={"text": "A reply names a day.", "checks": [check]}).json()
    assert (made["id"], made["origin"]) == ("G1", "local")
    edited = local.patch(f"{API}/tone/guidelines/G1", json={"pinned": True, "text": "A reply names a date."}).json()
    assert (edited["text"], edited["pinned"]) == ("A reply names a date.", True)
    assert local.patch(f"{API}/tone/guidelines/G1", json={}).status_code == 422
    assert local.get(f"{API}/tone/guidelines/G7").status_code == 404


def test_cases_are_locked_and_unlocked(taught: world.Browser) -> None:
    assert taught.put(f"{API}/tone/locks/t-1").json()["locks"] == ["t-1"]
    assert taught.get(f"{API}/tone/locks").json()["locks"] == ["t-1"]
    assert taught.delete(f"{API}/tone/locks/t-1").json()["locks"] == []
    assert taught.put(f"{API}/tone/locks/t-9").status_code == 404


def test_a_judge_travels_as_a_bundle(taught: world.Browser) -> None:
    bundle = taught.get(f"{API}/tone/bundle").json()
    made = taught.post(f"{API}/import", json={"bundle": bundle, "name": "copy"})
    assert made.json() == {"judge": "copy", "version": 1, "parent": 1}
    assert taught.post(f"{API}/import", json={"bundle": bundle}).status_code == 409
    assert taught.post(f"{API}/import", json={"bundle": {"no": "bundle"}, "name": "x"}).status_code == 422


# -- lists by pieces -----------------------------------------------------------------------------------------------


def test_lists_come_by_pieces_in_order(local: world.Browser) -> None:
    for number in range(7):
        local.post(f"{API}/tone/guidelines", json={"text": f"A reply names thing {number}."})
    numbers = [each["id"] for each in items(local, f"{API}/tone/guidelines", limit=3)]
    assert numbers == [f"G{n}" for n in range(1, 8)]
    versions = [each["number"] for each in items(local, f"{API}/tone/versions", limit=2)]
    assert versions == list(range(8, 0, -1))


def test_a_list_that_grows_repeats_nothing(local: world.Browser) -> None:
    for number in range(4):
        local.post(f"{API}/tone/guidelines", json={"text": f"A reply names thing {number}."})
    first = local.get(f"{API}/tone/versions", params={"limit": 2}).json()
    local.post(f"{API}/tone/guidelines", json={"text": "A reply names one thing more."})
    second = local.get(f"{API}/tone/versions", params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["number"] for each in first["items"] + second["items"]] == [5, 4, 3, 2]


@pytest.mark.parametrize("cursor", ["x", "!!!", "e30", "WzFd", "W10"])
def test_a_cursor_of_nobody_is_refused(local: world.Browser, cursor: str) -> None:
    assert local.get(f"{API}/tone/versions", params={"cursor": cursor}).status_code == 400


# -- applications: verdicts that are kept, and thumbs ----------------------------------------------------------------


def kept(client: Any, **more: Any) -> str:
    judged = client.post(f"{API}/tone/judge", params={"keep": True}, json={"inputs": "Hm?", "outputs": "No.", **more})
    assert judged.status_code == 200, judged.text
    return str(judged.json()["id"])


def test_a_thumb_down_becomes_feedback_that_is_learned(local: world.Browser) -> None:
    case = kept(local)
    said = local.post(f"{API}/tone/cases/{case}/thumb", json={"up": False, "rationale": "Cold.", "source": "app-7"})
    assert said.json() == {"case": case, "source": "app-7", "value": False, "rationale": "Cold."}
    assert ended(local, local.post(f"{API}/tone/teach").json())["state"] == "done"
    (learned,) = items(local, f"{API}/tone/ledger")
    assert (learned["key"], learned["state"]) == (f"{case}@app-7", "learned")


def test_a_second_thumb_replaces_the_first(local: world.Browser) -> None:
    case = kept(local, id="a-1")
    for up in (True, False, True):
        said = local.post(f"{API}/tone/cases/{case}/thumb", json={"up": up})
        assert (said.status_code, said.json()["value"]) == (200, up)


def test_a_thumb_needs_a_verdict_that_is_kept(local: world.Browser) -> None:
    local.post(f"{API}/tone/judge", json={"id": "a-1", "inputs": "Hm?", "outputs": "No."})
    assert local.post(f"{API}/tone/cases/a-1/thumb", json={"up": True}).status_code == 404


def test_an_id_is_kept_for_one_content(local: world.Browser) -> None:
    kept(local, id="a-1")
    other = {"id": "a-1", "inputs": "Hm?", "outputs": "Yes."}
    assert local.post(f"{API}/tone/judge", params={"keep": True}, json=other).status_code == 409


def test_a_reviewers_thumb_is_their_own(shared: world.Shared) -> None:
    reviewer = shared.by_token("reviewer")
    case = kept(reviewer)
    assert reviewer.post(f"{API}/tone/cases/{case}/thumb", json={"up": True, "source": "owner"}).status_code == 403
    assert reviewer.post(f"{API}/tone/cases/{case}/thumb", json={"up": True}).json()["source"] == "reviewer"
