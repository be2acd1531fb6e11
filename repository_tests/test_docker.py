"""Dockerfile and compose.yaml: what they name is there, nobody has more rights than needed, and no secret is in them.

No image is built here; `test_wheels` builds and runs the packages.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from checkout import ROOT

from memalign_server.settings import SECRETS

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVER = COMPOSE["services"]["server"]
POSTGRES = COMPOSE["services"]["postgres"]
KEYS = {
    "build",
    "cap_drop",
    "depends_on",
    "env_file",
    "environment",
    "healthcheck",
    "image",
    "ports",
    "read_only",
}
KEYS |= {"restart", "secrets", "security_opt", "tmpfs", "volumes"}
"""Those of Compose that the services use: a misspelt one would stop `docker compose up`."""


def stage(name: str) -> list[str]:
    """The lines of a stage of the Dockerfile; the last one has no name."""
    stages = [
        text.splitlines()
        for text in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)
    ]
    return (
        next(lines for lines in stages if lines[0].endswith(f" AS {name}"))
        if name
        else stages[-1]
    )


@pytest.mark.parametrize(
    ("name", "command"),
    [("", 'CMD ["--help"]'), ("server", 'CMD ["serve", "--host", "0.0.0.0"]')],
)
def test_an_image_runs_without_rights(name: str, command: str) -> None:
    assert set(re.findall(r"^FROM (\S+:\S+)", DOCKERFILE, re.MULTILINE)) == {
        "python:3.12-slim"
    }
    lines = stage(name)
    assert {"VOLUME /data", 'ENTRYPOINT ["memalign"]', command} <= set(
        lines[lines.index("USER memalign") :]
    )
    assert not [
        line for line in lines[lines.index("USER memalign") :] if line.startswith("RUN")
    ]
    assert any(
        "MEMALIGN_REGISTRY=sqlite:////data/memalign.db" in line
        for line in stage("base")
    )


@pytest.mark.parametrize(
    ("lock", "package"), [("runtime", "memalign"), ("server", "memalign-server")]
)
def test_an_image_installs_the_locked_versions(lock: str, package: str) -> None:
    lines = stage("build" if lock == "runtime" else "build-server")
    (install,) = (line for line in lines if f"-r requirements/{lock}.txt" in line)
    assert "--no-deps --require-hashes" in install
    assert any(
        line.endswith(f"--no-deps --no-build-isolation ./packages/{package}")
        for line in lines
    )
    assert re.search(
        r"^hatchling==",
        (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8"),
        re.MULTILINE,
    )


def test_what_an_image_copies_is_in_the_build_context() -> None:
    nothing, *seen = (ROOT / ".dockerignore").read_text("utf-8").split()
    paths = [path.removeprefix("!") for path in seen if path.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE)
    assert nothing == "*"
    assert all(
        (ROOT / path).exists() and path.startswith(tuple(copied)) for path in paths
    )
    assert all(any(path.startswith(source) for path in paths) for source in copied)
    assert not [path for path in paths if "tests" in path]


def test_what_compose_names_is_declared() -> None:
    for service in COMPOSE["services"].values():
        assert service.keys() <= KEYS
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(
            COMPOSE["volumes"]
        )
    assert SERVER["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "pg_isready" in POSTGRES["healthcheck"]["test"][1]
    assert "@postgres/" in SERVER["environment"]["MEMALIGN_REGISTRY"]


def test_no_secret_stands_in_compose() -> None:
    settings = POSTGRES["environment"] | SERVER["environment"]
    assert [
        name for name in settings if re.search("PASSWORD$|SECRET$|KEY$", name)
    ] == []
    assert {
        name.removesuffix("_FILE")
        for name in SERVER["environment"]
        if name.endswith("_FILE")
    } <= set(SECRETS)
    paths = {
        path.rpartition("/")[2]
        for name, path in settings.items()
        if name.endswith("_FILE")
    }
    assert paths == set(COMPOSE["secrets"])


def test_the_server_of_compose_is_a_target_without_rights() -> None:
    lines = stage(SERVER["build"]["target"])
    port = SERVER["ports"][0].rpartition(":")[2]
    assert f"EXPOSE {port}" in lines
    assert SERVER["ports"][0].startswith("${MEMALIGN_LISTEN:-127.0.0.1:"), (
        "others reach it when somebody says so"
    )
    assert any(f"127.0.0.1:{port}/health" in line for line in lines)
    assert (SERVER["cap_drop"], SERVER["read_only"], SERVER["volumes"]) == (
        ["ALL"],
        True,
        ["data:/data"],
    )
    assert SERVER["security_opt"] == ["no-new-privileges:true"]
