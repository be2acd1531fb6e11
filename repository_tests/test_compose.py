"""compose.yaml: what it says fits the Dockerfile and the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from memalign_server.settings import SECRETS

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVER, POSTGRES = COMPOSE["services"]["server"], COMPOSE["services"]["postgres"]
DOCKER = shutil.which("docker")


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
