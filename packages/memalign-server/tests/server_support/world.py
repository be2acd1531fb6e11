"""A registry with one judge, a scripted model behind it, and a server over both."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy import insert, select

from memalign import Judge, Registry
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign_server import Settings, create_app
from memalign_server.api import PREFIX, ROUTERS
from memalign_server.app import all_routers
from memalign_server.people import accounts
from memalign_server.people.passwords import hashed
from memalign_server.people.roles import Role
from memalign_server.people.tokens import make_token
from memalign_server.server import Server
from memalign_server.store import FIRST_TEAM, Store
from memalign_server.store.people_tables import team_judges, teams, users

if TYPE_CHECKING:
    from fastapi import FastAPI

ADDRESS = "http://127.0.0.1:8321"
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


class Browser(TestClient):
    """A browser: it keeps cookies, and sends forms with what their page holds."""

    def csrf(self, page: str = "/sign-in") -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.get(page).text)
        assert found
        return found[1]

    def fill(self, path: str, page: str = "/sign-in", **fields: str) -> Any:
        """Fill in a form of a page."""
        return self.post(path, data={"csrf": self.csrf(page), **fields}, follow_redirects=False)

    def sign_in(self, name: str, password: str, **fields: str) -> Any:
        return self.fill("/sign-in", name=name, password=password, **fields)


class Shared:
    """A server with accounts: `viewer`, `reviewer`, `owner` of team main, which has the judge `tone`, and `stranger`,
    who owns another team, which has the judge `other`."""

    passwords: ClassVar[dict[str, str]] = {
        name: f"four plain words {number}" for number, name in enumerate(("viewer", "reviewer", "owner", "stranger"))
    }

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.server: Server = app.state.server
        with self.server.store.read() as connection:
            self.users = {row.name: row.id for row in connection.execute(select(users.c.name, users.c.id))}

    def token(self, name: str, role: Role = Role.OWNER) -> str:
        with self.server.store.write() as connection:
            return make_token(connection, self.users[name], name="test", role=role, days=1)[1]

    def by_token(self, name: str, role: Role = Role.OWNER) -> TestClient:
        """A program with a token of this person's."""
        return TestClient(self.app, base_url=ADDRESS, headers={"authorization": f"Bearer {self.token(name, role)}"})

    def browser(self, **settings: Any) -> Browser:
        """A browser that nobody has signed in with."""
        return Browser(self.app, base_url=ADDRESS, headers={"accept": "text/html, */*"}, **settings)

    def signed_in(self, name: str) -> Browser:
        browser = self.browser()
        assert browser.sign_in(name, self.passwords[name]).status_code == 303
        return browser


def people(folder: Path) -> Path:
    """A registry with two judges, and accounts; made once, for hashing passwords takes its time on purpose."""
    populate(f"sqlite:///{folder / 'memalign.db'}")
    return folder / "memalign.db"


def populate(url: str) -> None:
    """Two judges, of two teams, and people of each role."""
    there = opened(url)
    for name in ("tone", "other"):
        there.create(judge(name))
    store = Store(there.url)
    made = {"owner": accounts.add_owner(store, "owner", Shared.passwords["owner"])}
    hashes = {name: hashed(password) for name, password in Shared.passwords.items()}
    with store.write() as connection:
        for name in ("viewer", "reviewer", "stranger"):
            made[name] = accounts.add_user(connection, name, password_hash=hashes[name])
        for role in (Role.VIEWER, Role.REVIEWER):
            accounts.set_role(connection, made[role.word], FIRST_TEAM, role)
        connection.execute(insert(teams).values(id="others", name="others", created_at=""))
        accounts.set_role(connection, made["stranger"], "others", Role.OWNER)
        connection.execute(insert(team_judges).values(judge="other", team="others"))


@contextmanager
def shared_server(made: Path, folder: Path, **settings: Any) -> Iterator[Shared]:
    """A server that others can reach over a copy of what `people` made, as long as it is used."""
    shutil.copy(made, folder / "memalign.db")
    app = server(folder, **{"host": "0.0.0.0", **settings})
    with TestClient(app, base_url=ADDRESS):
        yield Shared(app)


def routes() -> dict[str, tuple[str, APIRoute]]:
    """Every route by its name, with its whole path."""
    found: dict[str, tuple[str, APIRoute]] = {}
    for router in all_routers():
        prefix = PREFIX if router in ROUTERS else ""
        found |= {
            route.name: (f"{prefix}{route.path}", route) for route in router.routes if isinstance(route, APIRoute)
        }
    return found


def asked(client: TestClient, route: tuple[str, APIRoute]) -> Any:
    """The answer to a request with nothing in it; behind the guard it fits no route's body, and no judge is there."""
    named = {"judge": "absent", "team": FIRST_TEAM}
    path = re.sub(r"\{(\w+)(:\w+)?\}", lambda name: named.get(name[1], "none"), route[0])
    client.cookies.clear()
    return client.request(min(route[1].methods or {"GET"}), path, follow_redirects=False)


def names_a_team(route: tuple[str, APIRoute]) -> bool:
    return "{judge}" in route[0] or "{team}" in route[0]


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
