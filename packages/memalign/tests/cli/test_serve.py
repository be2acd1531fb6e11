"""The server's command: loaded when it is named, missed with a hint, and no harm to the others."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from memalign.cli import app as commands
from tests.cli.conftest import Run


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: None)


@pytest.mark.usefixtures("missing")
def test_a_missing_package_names_its_install_command(memalign: Run) -> None:
    for arguments in (("serve",), ("serve", "--port", "8080"), ("serve", "--help")):
        refused = memalign(*arguments)
        assert refused.code == 2
        assert refused.out == ""
        assert "package memalign-server" in refused.err
        assert "pip install" in refused.err
    assert memalign("serve", "--port", "8080", "--json").json["error"]["type"] == "ConfigurationError"
    assert "serve Serve the experts' review pages and an HTTP API." in " ".join(memalign("--help").out.split())


@pytest.mark.usefixtures("missing")
def test_the_reference_needs_no_server() -> None:
    from typer.main import get_command

    root: Any = get_command(commands.app)
    assert "memalign-server" in root.get_command(None, "serve").help
    assert "serve" in root.list_commands(None)


def test_a_server_that_cannot_be_loaded_breaks_no_other_command(memalign: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "memalign_server.command", None)
    assert memalign("list").code == 0
    refused = memalign("serve")
    assert refused.code == 2
    assert "could not be loaded" in refused.err
