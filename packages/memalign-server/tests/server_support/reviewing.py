"""A queue of cases on a server, and a person's forms on its pages."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from html import unescape
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import case

from memalign_server.store.tables import queue
from server_support import world
from tests.support.patience import PATIENCE
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign_server.work.jobs import Job, Jobs

T = TypeVar("T")
CASES: list[RawRow] = [
    {
        "id": "late",
        "inputs": "My order is three weeks late.",
        "outputs": "It is in transit.",
    },
    {
        "id": "twice",
        "inputs": "I was charged twice!",
        "outputs": "One charge will be reversed.",
    },
    {
        "id": "lamp",
        "inputs": "The lamp arrived broken.",
        "outputs": "Send a photo to support.",
    },
    {"id": "thanks", "inputs": "Thanks!", "outputs": "Glad to hear it! Any time."},
    {
        "id": "shop",
        "inputs": "Is there a shop in Porto?",
        "outputs": "Rua de Cedofeita 120.",
    },
]

FEEDBACK = [{**row, "source": "ana"} for row in world.ROWS]


def put_in(
    client: TestClient, cases: list[RawRow] | None = None, *, judge: str = "tone"
) -> None:
    """Upload cases and wait until they are judged."""
    lines = "\n".join(json.dumps(case) for case in (CASES if cases is None else cases))
    file = {"file": ("cases.jsonl", lines)}
    path = f"/judges/{judge}/setup/cases"
    answer = client.post(
        path, files=file, data={"what": "cases"}, follow_redirects=False
    )
    assert answer.status_code == 303, answer.text
    wait(client, judge)


def expect(answer: Any, status: int, *words: str) -> str:
    """The text of an answer, which has this status and these words."""
    assert answer.status_code == status, answer.text
    shows(answer.text, *words)
    return str(answer.text)


def shows(page: str, *words: str) -> None:
    """A page has all these words."""
    assert [part for part in words if part not in page] == [], page


def words_of(html: str) -> str:
    """The words of a page, in their order."""
    main = html.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    return " ".join(
        unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", main, flags=re.DOTALL)).split()
    )


def eventually(happened: Callable[[], T | None]) -> T:
    """Ask again and again until there is something, and return it."""
    until = time.monotonic() + PATIENCE
    while not (result := happened()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
    return result


def wait(client: TestClient, judge: str = "tone") -> None:
    """Until no job of the judge is under way."""
    jobs = world.server_of(client).jobs
    eventually(lambda: not jobs.recent(judge, active=True))


def ended(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """A job as the API shows it, once it has ended."""

    def found() -> dict[str, Any] | None:
        shown: dict[str, Any] = client.get(
            f"/api/v1/judges/{job['judge']}/jobs/{job['id']}"
        ).json()
        return shown if shown["state"] in ("done", "failed") else None

    return eventually(found)


def learned(client: TestClient) -> dict[str, str]:
    """The state of each piece of feedback, by its key."""
    memory = world.server_of(client).judges.latest("tone").judge.memory
    return {str(entry.key): entry.state for entry in memory.ledger()}


def job_ended(jobs: Jobs, job: str) -> Job:
    return eventually(
        lambda: found if (found := jobs.find(job)) is not None and found.ended else None
    )


def hold_out(client: TestClient, *cases: str) -> None:
    """Let these cases be held out, and no others."""
    world.change(
        client,
        queue.update().values(held_out=case((queue.c.case_id.in_(cases), 1), else_=0)),
    )


def post(client: TestClient, path: str, *, parts: bool = False, **fields: Any) -> Any:
    """Send a form of a page as a person does who presses its button; `parts` as the page's script does."""
    headers = {"x-part": "true"} if parts else {}
    return client.post(path, data=fields, headers=headers, follow_redirects=False)


def card(page: Any) -> dict[str, Any]:
    """The hidden fields of the form on a page's first card."""
    text = page if isinstance(page, str) else page.text
    fields = re.findall(
        r'name="(case|content|form|revision|answer)" value="([^"]*)"', text
    )
    return {name: unescape(value) for name, value in fields}


def answer(
    client: TestClient, case_id: str, *, judge: str = "tone", **said: Any
) -> Any:
    """Open a case and send its form, as the page's script does."""
    shown = card(
        client.get(f"/judges/{judge}/review", params={"case": case_id, "front": "true"})
    )
    return send(client, shown, judge=judge, **said)


def send(
    client: TestClient, shown: dict[str, str], *, judge: str = "tone", **said: Any
) -> Any:
    """Send the form of a card as the page's script does."""
    return client.post(
        f"/judges/{judge}/review", data={**shown, **said}, headers={"x-part": "true"}
    )
