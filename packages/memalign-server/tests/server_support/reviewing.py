"""A queue of cases on a server, and a person's forms on its pages."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from typing import TYPE_CHECKING, Any

from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

CASES: list[dict[str, Any]] = [
    {"id": "late", "inputs": "My order is three weeks late.", "outputs": "It is in transit."},
    {"id": "twice", "inputs": "I was charged twice!", "outputs": "One charge will be reversed."},
    {"id": "lamp", "inputs": "The lamp arrived broken.", "outputs": "Send a photo to support."},
    {"id": "thanks", "inputs": "Thanks!", "outputs": "Glad to hear it! Any time."},
    {"id": "shop", "inputs": "Is there a shop in Porto?", "outputs": "Rua de Cedofeita 120."},
]


def put_in(client: TestClient, cases: list[dict[str, Any]] | None = None, *, judge: str = "tone") -> None:
    """Upload cases and wait until they are judged."""
    lines = "\n".join(json.dumps(each) for each in (CASES if cases is None else cases))
    answer = client.post(
        f"/judges/{judge}/setup/cases",
        files={"file": ("cases.jsonl", lines)},
        data={"what": "cases"},
        follow_redirects=False,
    )
    assert answer.status_code == 303, answer.text
    wait(client, judge)


def wait(client: TestClient, judge: str = "tone") -> None:
    """Until no job of the judge is under way."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not client.app.state.server.jobs.recent(judge, active=True):  # type: ignore[attr-defined]  # a FastAPI
            return
        time.sleep(0.05)
    raise AssertionError("jobs never ended")


def post(client: TestClient, path: str, *, parts: bool = False, **fields: Any) -> Any:
    """Send a form of a page, `parts` as htmx does."""
    headers = {"hx-request": "true"} if parts else {}
    return client.post(path, data=fields, headers=headers, follow_redirects=False)


def card(page: Any) -> dict[str, Any]:
    """The hidden fields of the form on a page's first card."""
    text = page if isinstance(page, str) else page.text
    fields = re.findall(r'name="(case|form|revision)" value="([^"]*)"', text)
    return {name: unescape(value) for name, value in fields}


def answer(client: TestClient, case: str, *, judge: str = "tone", **said: Any) -> Any:
    """Open a case and send its form, as htmx does."""
    shown = card(client.get(f"/judges/{judge}/review", params={"case": case, "front": "true"}))
    return send(client, shown, judge=judge, **said)


def send(client: TestClient, shown: dict[str, str], *, judge: str = "tone", **said: Any) -> Any:
    """Send the form of a card as htmx does."""
    return client.post(f"/judges/{judge}/review", data={**shown, **said}, headers={"hx-request": "true"})
