"""The eight routes of the API: judging for applications, learning and forgetting, for owners and programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memalign.errors import ModelUnavailable, RateLimited
from server_support import reviewing, world
from server_support.reviewing import CASES
from test_jobs import FEEDBACK, ended, learned

API = "/api/v1/judges"
TONE = f"{API}/tone"


def done(client: Any, path: str, **given: Any) -> Any:
    job = client.post(f"{TONE}/{path}", json=given)
    assert job.status_code == 202, job.text
    found = ended(client, job.json())
    assert found["state"] == "done", found["problem"]
    return found["result"]


@pytest.fixture
def taught(local: TestClient) -> TestClient:
    assert done(local, "align", feedback=FEEDBACK)["version"] == 2
    return local


def test_the_description_has_eight_operations(local: TestClient) -> None:
    paths = local.get("/api/v1/openapi.json").json()["paths"].values()
    assert sorted(method["operationId"] for methods in paths for method in methods.values()) == [
        "align_judge", "erase", "judge_one", "list_judges", "put_cases", "show_job", "teach_answers", "unalign_judge",
    ]  # fmt: skip


def test_one_case_is_judged_now(local: TestClient) -> None:
    judged = local.post(f"{TONE}/judge", json={"inputs": "Hello?", "outputs": "Hi!"})
    assert judged.status_code == 200
    assert (judged.json()["id"], judged.json()["value"]) == ("item", True)
    assert local.post(f"{TONE}/judge", json={"inputs": "Hello?"}).status_code == 422
    wrong = local.post(f"{TONE}/judge", json={"inputs": "Hello?", "ouptuts": "Hi!"})
    assert (wrong.status_code, "body.ouptuts" in wrong.json()["detail"]) == (422, True)


def test_a_model_that_fails_is_a_problem(tmp_path: Path) -> None:
    world.registry(tmp_path)
    for error, status in ((ModelUnavailable("no answer"), 502), (RateLimited("too many"), 503)):
        app = world.server(tmp_path, script=lambda _request, error=error: error)
        with TestClient(app, base_url=world.ADDRESS) as client:
            failed = client.post(f"{TONE}/judge", json={"inputs": "a", "outputs": "b"})
            assert (failed.status_code, failed.json()["error"]) == (status, type(error).__name__)


def test_feedback_is_replaced_and_withdrawn(taught: TestClient) -> None:
    done(taught, "align", feedback=[{**FEEDBACK[0], "rationale": "It promises nothing."}])
    done(taught, "unalign", keys=["t-1@ana"])
    assert learned(taught) == {"t-1@ana": "withdrawn", "t-2@ana": "learned"}


def test_an_erasure_leaves_a_receipt_and_no_word(taught: TestClient, tmp_path: Path) -> None:
    receipt = done(taught, "erase", keys=["t-1"])
    assert (receipt["complete"], receipt["left"]) == (True, [])
    assert receipt["counts"].startswith("1 case, 1 comment")
    assert "t-1" not in str(receipt)
    assert b"It is in transit." not in (tmp_path / "memalign.db").read_bytes()


def test_a_file_of_the_server_is_no_feedback(local: TestClient) -> None:
    # Names of files are read as files by the library; from outside only rows may come.
    assert local.post(f"{TONE}/align", json={"feedback": "/etc/passwd"}).status_code == 422
    assert local.post(f"{TONE}/cases", json={"cases": "/etc/passwd"}).status_code == 422


@pytest.mark.parametrize("path", ["erase", "unalign"])
def test_to_forget_nothing_is_refused(path: str, local: TestClient) -> None:
    bodies: list[dict[str, list[str]]] = [{}, {"keys": []}]
    for body in bodies:
        refused = local.post(f"{TONE}/{path}", json=body)
        assert (refused.status_code, "name feedback by one of keys, source" in refused.json()["detail"]) == (422, True)
    assert local.app.state.server.jobs.recent("tone") == []  # type: ignore[attr-defined]  # a FastAPI


def test_no_program_teaches_what_only_measures(local: TestClient, draws: Callable[[int], None]) -> None:
    draws(0)  # the first of each four is held out
    done(local, "cases", cases=[{"id": "a-1", "inputs": "Hm?", "outputs": "No."}])
    refused = local.post(f"{TONE}/align", json={"feedback": [{"id": "a-1", "value": False}, FEEDBACK[0]]})
    assert (refused.status_code, refused.json()["held_out"]) == (409, ["a-1"])
    copy = {"id": "copy", "inputs": "Hm?", "outputs": "No.", "value": False}
    refused = local.post(f"{TONE}/align", json={"feedback": [copy]})
    assert (refused.status_code, refused.json().get("held_out")) == (409, ["copy"])


def test_cases_of_a_program_are_reviewed_on_the_page_and_taught(local: TestClient) -> None:
    assert done(local, "cases", cases=CASES) == {"judged": 5, "failed": 0, "problem": None}
    reviewing.answer(local, "late", value="false", rationale="Cold.")
    assert "Case 2 of 5" in local.get("/judges/tone/review").text
    assert done(local, "teach")["lessons"] == 1
    assert learned(local) == {"late@local": "learned"}


def test_the_api_is_for_owners_and_programs(shared: world.Shared) -> None:
    assert shared.signed_in("reviewer").get(API).status_code == 403
    assert [shared.signed_in("owner").get(API).status_code, shared.program().get(API).status_code] == [200, 200]


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
def test_what_no_database_holds_is_no_error_of_ours(text: str, local: TestClient) -> None:
    for method, path, body in (
        ("POST", "judge", '{"inputs": "T", "outputs": "T", "id": "T"}'),
        ("POST", "cases", '{"cases": [{"id": "T", "inputs": "T", "outputs": "T"}]}'),
        ("POST", "align", '{"feedback": [{"id": "T", "value": true, "rationale": "T", "source": "T"}]}'),
        ("POST", "unalign", '{"keys": ["T"], "source": "T"}'),
        ("POST", "erase", '{"keys": ["T"], "matching": "T"}'),
        ("GET", "jobs/%00", ""),
    ):
        headers = {"content-type": "application/json"}
        response = local.request(method, f"{TONE}/{path}", content=body.replace("T", text), headers=headers)
        assert response.status_code < 500, (path, response.text)
