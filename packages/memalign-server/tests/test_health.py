"""`/health` says no where nothing can be answered, and says in the log why."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from server_support import world
from server_support.reviewing import expect


def removed(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    file.write_bytes(b"This is a letter and no database." * 1000)


def replaced_by_another_registry(file: Path) -> None:
    other = file.with_name("other")
    other.mkdir()
    with world.site(other):
        pass
    shutil.copy(other / "memalign.db", file)


def replaced_by_a_backup_without_the_server(file: Path) -> None:
    other = file.with_name("other")
    other.mkdir()
    world.registry(other)
    shutil.copy(other / "memalign.db", file)


def replaced_by_a_database_of_something_else(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE notes (text)")


FATES = [
    removed,
    emptied,
    overwritten,
    replaced_by_another_registry,
    replaced_by_a_backup_without_the_server,
    replaced_by_a_database_of_something_else,
]


@pytest.mark.parametrize("fate", FATES)
def test_without_its_registry_a_server_is_not_healthy(
    fate: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "memalign.db"
    with world.site(tmp_path) as client:
        assert client.get("/health").json() == {"status": "ok"}
        shutil.copy(file, tmp_path / "kept.db")
        fate(file)
        with caplog.at_level(logging.ERROR, "memalign_server"):
            expect(client.get("/health"), 503, "the database does not answer")
        assert str(tmp_path) in caplog.text, "the log names it"
        assert str(tmp_path) not in client.get("/health").text, (
            "a stranger learns no path"
        )
        shutil.copy(tmp_path / "kept.db", file)
        assert client.get("/health").json() == {"status": "ok"}, "it is back"
