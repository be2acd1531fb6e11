"""A queue of cases on a server, and a person's forms on its pages."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
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


def numbered(number: int) -> list[RawRow]:
    """So many cases, whose ids are c-0, c-1 and so on."""
    cases = list[RawRow]()
    for n in range(number):
        cases.append(
            {"id": f"c-{n}", "inputs": f"Question {n}?", "outputs": f"Reply {n}."}
        )
    return cases


def upload(
    client: TestClient,
    text: str | bytes,
    name: str = "june.csv",
    *,
    what: str = "cases",
    judge: str = "tone",
    **form: Any,
) -> Any:
    """Send a file as the page does: to show it, or to add its cases."""
    path = f"/judges/{judge}/setup/cases"
    file = {"file": (name, text)}
    data = {"what": what, **form}
    return client.post(path, files=file, data=data, follow_redirects=False)


def added(client: TestClient, text: str, **form: Any) -> str:
    """The page after a file's cases were added."""
    answer = upload(client, text, **form)
    return str(client.get(answer.headers["location"]).text)


def put_in(
    client: TestClient, cases: Sequence[RawRow] = CASES, *, judge: str = "tone"
) -> None:
    """Upload cases and wait until they are judged."""
    lines = "\n".join(map(json.dumps, cases))
    expect(upload(client, lines, "cases.jsonl", judge=judge), 303)
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
    """The words of a page or of a part of one, in their order."""
    main = re.sub(r".*<main[^>]*>|</main>.*", "", html, flags=re.DOTALL)
    text = re.sub(r"<svg.*?</svg>|<[^>]+>", " ", main, flags=re.DOTALL)
    return " ".join(unescape(text).split())


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


def work(client: TestClient, page: str, *, judge: str = "tone", **fields: Any) -> str:
    """Press a button that begins a job; the page to which it leads once that has ended."""
    begun = post(client, f"/judges/{judge}/{page}", **fields)
    expect(begun, 303)
    wait(client, judge)
    return str(client.get(begun.headers["location"]).text)


def call(client: Any, path: str, **body: Any) -> Any:
    """Ask the API for something about the judge."""
    return client.post(f"/api/v1/judges/tone/{path}", json=body)


def ended(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """A job as the API shows it, once it has ended."""

    path = f"/api/v1/judges/{job['judge']}/jobs/{job['id']}"

    def found() -> dict[str, Any] | None:
        shown: dict[str, Any] = client.get(path).json()
        return shown if shown["state"] in ("done", "failed") else None

    return eventually(found)


def learned(client: TestClient) -> dict[str, str]:
    """The state of each piece of feedback, by its key."""
    ledger = world.judge_of(client).memory.ledger()
    return {str(entry.key): entry.state for entry in ledger}


def job_ended(jobs: Jobs, job: str) -> Job:
    def found() -> Job | None:
        shown = jobs.find(job)
        return shown if shown is not None and shown.ended else None

    return eventually(found)


def hold_out(client: TestClient, *cases: str) -> None:
    """Let these cases be held out, and no others."""
    chosen = case((queue.c.case_id.in_(cases), 1), else_=0)
    world.change(client, queue.update().values(held_out=chosen))


def post(client: TestClient, path: str, *, parts: Any = False, **fields: Any) -> Any:
    """Send a form of a page as a person does who presses its button; `parts` as the page's
    script does."""
    headers = {"x-part": "true"} if parts else {}
    return client.post(path, data=fields, headers=headers, follow_redirects=False)


def card(page: Any) -> dict[str, Any]:
    """The hidden fields of the form on a page's first card."""
    text = page if isinstance(page, str) else page.text
    names = "case|content|form|revision|answer"
    fields = re.findall(rf'name="({names})" value="([^"]*)"', text)
    return {name: unescape(value) for name, value in fields}


def answer(
    client: TestClient, case_id: str, *, judge: str = "tone", **said: Any
) -> Any:
    """Open a case and send its form, as the page's script does."""
    query = {"case": case_id, "front": "true"}
    page = client.get(f"/judges/{judge}/review", params=query)
    return send(client, card(page), judge=judge, **said)


def send(
    client: TestClient, shown: dict[str, str], *, judge: str = "tone", **said: Any
) -> Any:
    """Send the form of a card as the page's script does."""
    return client.post(
        f"/judges/{judge}/review", data={**shown, **said}, headers={"x-part": "true"}
    )
