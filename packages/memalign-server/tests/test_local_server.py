"""A server without accounts: open to this machine, and to nobody who pretends to be on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


def test_everything_is_open_on_this_machine(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get("/api/v1/judges").json()] == ["tone"]


def test_a_rebound_name_is_refused(local: TestClient) -> None:
    assert local.get("/api/v1/judges", headers={"host": "evil.example"}).status_code == 421


def test_every_answer_has_the_safe_headers(local: TestClient) -> None:
    for path in ("/health", "/api/v1/judges", "/nowhere"):
        headers = local.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_an_unknown_judge_is_a_problem(local: TestClient) -> None:
    answer = local.post("/api/v1/judges/nobody/teach")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error"] == "JudgeNotFound"


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"])
def test_a_proxy_opens_no_server_without_accounts(local: TestClient, header: str) -> None:
    for path in ("/", "/judges/tone/review", "/api/v1/judges"):
        refused = local.get(path, headers={header: "for=203.0.113.7", "host": "127.0.0.1:8321"})
        assert refused.status_code == 403, path
        assert "memalign serve --add-owner" in refused.text, path
    assert local.get("/api/v1/judges").status_code == 200
