"""`memalign serve`: what it refuses to start, and why."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from memalign_server.command import _listening
from memalign_server.people.service import list_people
from memalign_server.settings import OpenIdProvider
from memalign_server.store import Store
from server_support import world
from tests.cli.conftest import invoke


def test_the_first_owner_gets_a_link_and_later_another(tmp_path: Path) -> None:
    serve = "serve --add-owner Ana --public-url https://judges.example.org"
    first = invoke(serve, code=0)
    assert re.fullmatch(r"https://judges\.example\.org/join/[\w-]{43}\n", first.out)
    second = invoke("serve --add-owner ana")
    assert second.out.startswith("http://127.0.0.1:8321/join/")
    with Store("sqlite:///memalign.db").read() as connection:
        (ana,) = list_people(connection)
    assert (ana.name, ana.role) == ("Ana", "owner")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        says = f"cannot listen on 127.0.0.1 port {port}"
        invoke("serve --port", port, code=2, says=says)


@pytest.mark.parametrize("model", ["", "openai:m@http://127.0.0.1:9/v1"])
def test_a_server_without_a_model_says_so_at_its_start(
    model: str, tmp_path: Path
) -> None:
    environment = os.environ | {"MEMALIGN_MODEL": model, "OPENAI_BASE_URL": ""}
    command = world.serve_command(f"sqlite:///{tmp_path / 'm.db'}")
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        assert "memalign is at http://127.0.0.1:" in running.stderr.readline()
        if not model:
            said = running.stderr.readline()
            assert "no model is chosen: set a provider's key" in said
        running.terminate()
        assert "no model" not in running.stderr.read()


def test_parts_of_an_answer_do_not_wait() -> None:
    # asyncio sends at once (TCP_NODELAY) where a socket has its protocol; else the next part
    # waits 40 ms.
    with contextlib.closing(_listening("127.0.0.1", 0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # Others are not let in without people.
        ("--host 0.0.0.0", "memalign serve --add-owner NAME"),
        ("--public-url https://a.example.org", "memalign serve --add-owner NAME"),
        ("--public-url a.example.org", "https://"),
        ("--registry mysql://x/y", "mysql"),
        ("--port 99999", "--port"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: str, words: str) -> None:
    invoke(f"serve {options}", code=2, says=words)


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ({"API_TOKEN": "guess"}, "openssl rand -hex 32"),
        ({"API_TOKEN_FILE": None}, "cannot be read"),
        ({"API_TOKEN_FILE": ""}, "which is empty"),
        ({"API_TOKEN_FILE": "\n"}, "which is empty"),
        ({"API_TOKEN_FILE": "a token that is long enough for programs\n"}, ""),
        (
            {"API_TOKEN_FILE": "a token", "API_TOKEN": "a token that is long enough"},
            "is set too",
        ),
    ],
)
def test_secrets_are_read_from_files_and_checked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    secrets: dict[str, str | None],
    words: str,
) -> None:
    monkeypatch.setenv("MEMALIGN_API_TOKEN", "")  # what is set by a file goes with it
    for name, text in secrets.items():
        if (is_file := name.endswith("_FILE")) and text is not None:
            (tmp_path / "token").write_text(text)
        monkeypatch.setenv(
            f"MEMALIGN_{name}", str(tmp_path / "token") if is_file else str(text)
        )
    invoke("serve --add-owner ana", code=2 if words else 0, says=words)


@pytest.mark.parametrize("missing", ["ISSUER", "CLIENT", "CLIENT_SECRET", "REVIEWERS"])
def test_a_provider_needs_every_variable_and_a_list(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "ISSUER": "https://x",
        "CLIENT": "memalign",
        "CLIENT_SECRET": "s",
        "REVIEWERS": "@X.org, 7",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"MEMALIGN_OPENID_{name}", value)
    provider = OpenIdProvider.of_environment()
    assert provider is not None
    assert provider.reviewers == {"@x.org", "7"}
    monkeypatch.delenv(f"MEMALIGN_OPENID_{missing}")
    invoke("serve --add-owner ana", code=2, says="MEMALIGN_OPENID_REVIEWERS")
