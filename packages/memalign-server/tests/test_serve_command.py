"""`memalign serve`: what it refuses to start, and why."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import pytest

from memalign_server.command import _listening
from memalign_server.people.people import list_people
from memalign_server.settings import OpenIdProvider
from memalign_server.store import Store
from tests.cli.conftest import invoke


def test_others_are_not_let_in_without_people(tmp_path: Path) -> None:
    for options in (("--host", "0.0.0.0"), ("--public-url", "https://judges.example.org")):
        refused = invoke("serve", *options)
        assert refused.code == 2
        assert "memalign serve --add-owner NAME" in refused.err


def test_the_first_owner_gets_a_link_and_later_another(tmp_path: Path) -> None:
    first = invoke("serve", "--add-owner", "Ana", "--public-url", "https://judges.example.org")
    assert first.code == 0
    assert re.fullmatch(r"https://judges\.example\.org/join/[\w-]{43}\n", first.out)
    second = invoke("serve", "--add-owner", "ana")
    assert second.out.startswith("http://127.0.0.1:8321/join/")
    with Store("sqlite:///memalign.db").read() as connection:
        assert [(row.name, row.role) for row in list_people(connection)] == [("Ana", "owner")]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = invoke("serve", "--port", str(port))
    assert refused.code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.err


def test_parts_of_an_answer_do_not_wait() -> None:
    # asyncio sends at once (TCP_NODELAY) where a socket has its protocol; else the next part waits 40 ms.
    with contextlib.closing(_listening("127.0.0.1", 0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--public-url", "judges.example.org"), "https://"),
        (("--registry", "mysql://x/y"), "mysql"),
        (("--port", "99999"), "--port"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: tuple[str, str], said: str, tmp_path: Path) -> None:
    refused = invoke("serve", *options)
    assert (refused.code, said in refused.err) == (2, True)


def test_secrets_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMALIGN_API_TOKEN", "")  # what is set below goes with it
    monkeypatch.setenv("MEMALIGN_API_TOKEN_FILE", str(tmp_path / "token"))
    assert "cannot be read" in invoke("serve", "--add-owner", "ana").err
    (tmp_path / "token").write_text("a token that is long enough for programs\n")
    assert invoke("serve", "--add-owner", "ana").code == 0
    both = invoke("serve", "--add-owner", "ben")  # the command before this one set it
    assert (both.code, "is set too" in both.err) == (2, True)


def test_a_short_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMALIGN_API_TOKEN", "guess")
    refused = invoke("serve", "--add-owner", "ana")
    assert (refused.code, "openssl rand -hex 32" in refused.err) == (2, True)


@pytest.mark.parametrize("missing", ["ISSUER", "CLIENT", "CLIENT_SECRET", "REVIEWERS"])
def test_a_provider_needs_every_variable_and_a_list(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"ISSUER": "https://x", "CLIENT": "memalign", "CLIENT_SECRET": "s", "REVIEWERS": "@X.org, 7"}
    for name, value in values.items():
        monkeypatch.setenv(f"MEMALIGN_OPENID_{name}", value)
    provider = OpenIdProvider.of_environment()
    assert provider is not None
    assert provider.reviewers == {"@x.org", "7"}
    monkeypatch.delenv(f"MEMALIGN_OPENID_{missing}")
    refused = invoke("serve", "--add-owner", "ana")
    assert (refused.code, "MEMALIGN_OPENID_REVIEWERS" in refused.err) == (2, True)


@pytest.mark.parametrize("held", ["", "\n"])
def test_an_empty_secret_file_is_refused(held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    (tmp_path / "key").write_text(held)
    refused = invoke("serve", "--add-owner", "ana")
    assert (refused.code, "which is empty" in refused.err) == (2, True)
