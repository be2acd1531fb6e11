"""Dockerfile and compose.yaml: what they name is there, nobody has more rights than needed,
and no secret is in them.

No image is built here; `test_wheels` builds and runs the packages.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from checkout import ROOT, text_of

from memalign_server.settings import SECRETS

DOCKERFILE = text_of("Dockerfile").replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load(text_of("compose.yaml"))
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
    "restart",
    "secrets",
    "security_opt",
    "tmpfs",
    "volumes",
}
"""Those of Compose that the services use: a misspelt one would stop `docker compose up`."""


STAGES: dict[str, list[str]] = {}
"""The lines of each stage of the Dockerfile by its name; the last one has none."""
for text in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE):
    first, *lines = text.splitlines()
    STAGES[first.partition(" AS ")[2]] = lines


@pytest.mark.parametrize(
    ("name", "command"),
    [("", 'CMD ["--help"]'), ("server", 'CMD ["serve", "--host", "0.0.0.0"]')],
)
def test_an_image_runs_without_rights(name: str, command: str) -> None:
    images = re.findall(r"^FROM (\S+:\S+)", DOCKERFILE, re.MULTILINE)
    assert set(images) == {"python:3.12-slim"}
    lines = STAGES[name]
    without_rights = lines[lines.index("USER memalign") :]
    assert "VOLUME /data" in without_rights
    assert 'ENTRYPOINT ["memalign"]' in without_rights
    assert command in without_rights
    assert "RUN" not in [line.partition(" ")[0] for line in without_rights]
    assert "MEMALIGN_REGISTRY=sqlite:////data/memalign.db" in str(STAGES["base"])


@pytest.mark.parametrize(
    ("lock", "name", "package"),
    [
        ("runtime", "build", "memalign"),
        ("server", "build-server", "memalign-server"),
    ],
)
def test_an_image_installs_the_locked_versions(
    lock: str, name: str, package: str
) -> None:
    lines = "\n".join(STAGES[name])
    (install,) = re.findall(rf".*-r requirements/{lock}\.txt.*", lines)
    assert "--no-deps --require-hashes" in install
    options = "--no-deps --no-build-isolation"
    assert f"{options} ./packages/{package}\n" in f"{lines}\n"
    assert "\nhatchling==" in text_of(f"requirements/{lock}.txt")


def test_what_an_image_copies_is_in_the_build_context() -> None:
    nothing, *seen = text_of(".dockerignore").split()
    paths = [path.removeprefix("!") for path in seen if path.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE)
    assert nothing == "*"
    for path in paths:
        assert (ROOT / path).exists()
        assert path.startswith(tuple(copied))
        assert "tests" not in path
    for source in copied:
        assert any(path.startswith(source) for path in paths), source


def test_what_compose_names_is_declared() -> None:
    for service in COMPOSE["services"].values():
        assert service.keys() <= KEYS
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in COMPOSE["volumes"]
    assert SERVER["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "pg_isready" in POSTGRES["healthcheck"]["test"][1]
    assert "@postgres/" in SERVER["environment"]["MEMALIGN_REGISTRY"]


def test_no_secret_stands_in_compose() -> None:
    settings = POSTGRES["environment"] | SERVER["environment"]
    in_files = set[str]()
    for name, value in settings.items():
        assert not name.endswith(("PASSWORD", "SECRET", "KEY"))
        if name.endswith("_FILE"):
            in_files.add(value.rpartition("/")[2])
            of_server = name in SERVER["environment"]
            assert not of_server or name.removesuffix("_FILE") in SECRETS
    assert in_files == set(COMPOSE["secrets"])


def test_the_server_of_compose_is_a_target_without_rights() -> None:
    lines = STAGES[SERVER["build"]["target"]]
    address, _, port = SERVER["ports"][0].rpartition(":")
    # Others reach it if somebody says so.
    assert address.startswith("${MEMALIGN_LISTEN:-127.0.0.1:")
    assert f"EXPOSE {port}" in lines
    assert f"127.0.0.1:{port}/health" in str(lines)
    assert SERVER["cap_drop"] == ["ALL"]
    assert SERVER["read_only"] is True
    assert SERVER["volumes"] == ["data:/data"]
    assert SERVER["security_opt"] == ["no-new-privileges:true"]
