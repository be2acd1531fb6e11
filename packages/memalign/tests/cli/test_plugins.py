"""Commands of other packages: found by their entry points, loaded when they are named, missed with a hint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import typer

from memalign.cli import app as commands
from tests.cli.conftest import Run


@dataclass
class Entry:
    """An entry point of the group `memalign.commands`."""

    app: Any
    name: str = "extra"
    loaded: list[str] = field(default_factory=list)

    def load(self) -> Any:
        self.loaded.append(self.name)
        if isinstance(self.app, Exception):
            raise self.app
        return self.app


def installed(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    monkeypatch.setattr(commands, "entry_points", lambda **_: entries)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> Entry:
    made = typer.Typer(help="Something more.", no_args_is_help=True)

    @made.command("run")
    def run(number: int) -> int:
        """Run it."""
        return number

    @made.command("stop")
    def stop() -> int:
        """Stop it."""
        return 0

    entry = Entry(app=made)
    installed(monkeypatch, entry)
    return entry


def test_a_missing_package_names_its_install_command(memalign: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    for arguments in (("serve",), ("serve", "--port", "8080"), ("serve", "--help")):
        refused = memalign(*arguments)
        assert refused.code == 2
        assert refused.out == ""
        assert "package memalign-server" in refused.err
        assert "pip install" in refused.err
    assert memalign("serve", "--port", "8080", "--json").json["error"]["type"] == "ConfigurationError"
    assert "serve Serve the experts' review pages and an HTTP API." in " ".join(memalign("--help").out.split())


def test_a_plugin_loads_only_when_it_is_named(memalign: Run, extra: Entry) -> None:
    assert memalign("list").code == 0
    assert memalign("align", "--help").code == 0
    assert extra.loaded == []
    assert memalign("extra", "run", "1").code == 1
    assert extra.loaded == ["extra"]


def test_the_overview_shows_the_commands_of_plugins(memalign: Run, extra: Entry) -> None:
    assert "Something more." in memalign("--help").out
    assert "extra" in memalign("extra", "--help").out


def test_a_broken_plugin_breaks_no_other_command(memalign: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Entry(app=ImportError("no module named starlette"), name="serve"))
    assert memalign("list").code == 0
    refused = memalign("serve")
    assert refused.code == 2
    assert "no module named starlette" in refused.err


def test_the_reference_needs_no_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.main import get_command

    installed(monkeypatch)
    root: Any = get_command(commands.app)
    assert "memalign-server" in root.get_command(None, "serve").help
    assert "serve" in root.list_commands(None)
