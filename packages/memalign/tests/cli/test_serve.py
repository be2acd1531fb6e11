"""The server's command: loaded when it is named, missed with a hint, and no harm to the others."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import Run, missing


def test_a_missing_server_names_its_install_command(memalign: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memalign_server.command", None)
    for arguments in (("serve",), ("serve", "--port", "8080"), ("serve", "--help")):
        refused = memalign(*arguments)
        assert (refused.code, refused.out) == (2, "")
        assert not missing(refused.err, "needs the package memalign-server", "pip install")
    assert memalign("serve", "--port", "8080", "--json").json["error"]["type"] == "ConfigurationError"
    assert "serve Serve the experts' review pages and an HTTP API." in " ".join(memalign("--help").out.split())
