"""A server without accounts: open to this machine, and to nobody who pretends to be on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


def test_everything_is_open_on_this_machine(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get("/api/v1/judges").json()["items"]] == ["tone"]
    assert local.get("/api/v1/judges/tone").json()["version"] == 1


def test_a_rebound_name_is_refused(local: TestClient) -> None:
    assert local.get("/api/v1/judges", headers={"host": "evil.example"}).status_code == 421


def test_every_answer_has_the_safe_headers(local: TestClient) -> None:
    for path in ("/health", "/api/v1/judges", "/nowhere"):
        headers = local.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_an_unknown_judge_is_a_problem(local: TestClient) -> None:
    answer = local.get("/api/v1/judges/nobody")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error"] == "JudgeNotFound"
