"""Files that cannot be a registry: a clear error, and nothing changed."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from memalign import MemAlign, Registry
from memalign.errors import ConfigurationError, MemalignError, RegistryError, RegistryTooNew
from memalign.registry.database import Database
from memalign.testing import ScriptedChatModel
from tests.support.places import OnSQLite
from tests.support.registry import case, judge, memory_of


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("sqlite:///notes.txt", RegistryError, r"notes\.txt is not a registry: the file is no SQLite database"),
        ("sqlite:///no/where/m.db", RegistryError, "the folder .*no/where does not exist; create it first"),
        ("sqlite:///.", RegistryError, "it is a folder; name a file in it"),
        ("sqlite:judges.db", ConfigurationError, "is not a registry's URL; one looks like sqlite:///memalign.db"),
        ("", ConfigurationError, "is not a registry's URL; one looks like sqlite:///memalign.db"),
        ("sqlite://", ConfigurationError, "a registry in memory keeps nothing"),
        ("sqlite:///:memory:", ConfigurationError, "a registry in memory keeps nothing"),
        ("mysql://host/db", ConfigurationError, "registries on mysql are not supported; use sqlite"),
        ("sqlite:///m.db?mod=ro", ConfigurationError, "SQLite knows no option mod"),
        ("sqlite:///m.db?readonly=1", ConfigurationError, "SQLite knows no option readonly"),
        ("sqlite:///m.db?mode=ro&timeout_ms=3", ConfigurationError, "SQLite knows no option timeout_ms"),
    ],
)
def test_a_url_that_names_no_registry_is_refused(tmp_path: Path, url: str, error: type[Exception], message: str):
    notes = "these are notes, and they are long enough to be no SQLite header " * 20
    (tmp_path / "notes.txt").write_text(notes)
    with pytest.raises(error, match=message):
        Registry(url)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("notes.txt", notes)]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_named(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(RegistryError, match="read-only"):
        Registry(f"sqlite:///{tmp_path}/memalign.db")


@pytest.mark.parametrize(
    ("name", "url"),
    [("memalign.db", "sqlite:///file:{path}?mode=ro&uri=true"), ("50% of it#1.db", "sqlite:///{path}?mode=ro")],
)
def test_a_read_only_registry_refuses_to_be_written_before_anything_is_paid(tmp_path: Path, name: str, url: str):
    path = tmp_path / name
    Registry(f"sqlite:///{path}").create(judge())
    model = ScriptedChatModel(lambda _: {"changes": []})
    registry = Registry(url.format(path=path))
    assert registry.load("helpfulness") == judge()
    refused = r"cannot write to the registry .*: .* read-only; nothing was changed"
    with pytest.raises(RegistryError, match=refused):
        registry.save(judge(model="openai:gpt-5"))
    with pytest.raises(RegistryError, match=refused):
        registry.align("helpfulness", ROWS, optimizer=MemAlign(reflection_model=model))
    assert not model.requests
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def changed(path: Path, statement: str, *values: object) -> None:
    """Somebody else's statement."""
    OnSQLite(path).execute(statement, *values)


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        ("7", RegistryTooNew, "its schema is version 7, this one reads up to version 1; upgrade memalign"),
        ("0", RegistryError, "has a registry of the format '0', which this memalign cannot read"),
        ("early", RegistryError, "has a registry of the format 'early', which this memalign cannot read"),
    ],
)
def test_another_format_is_refused_by_name(path: Path, version: str, error: type[Exception], message: str):
    Registry(f"sqlite:///{path}").create(judge())
    changed(path, "UPDATE memalign_meta SET value = ? WHERE name = 'schema_version'", version)
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        Registry(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_damaged_row_or_file_is_named_and_others_read(path: Path):
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge(memory_of(*(case(f"t-{n}", "ana") for n in range(50)))))
    registry.create(judge(name="tone"))
    changed(path, "UPDATE memalign_rows SET body = ? WHERE kind = 'annotation'", b"{not json")
    with pytest.raises(RegistryError, match="a row of kind annotation is damaged"):
        registry.load("helpfulness")
    assert registry.load("tone") == judge(name="tone")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x07" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(RegistryError):
        registry.load("helpfulness")


def test_somebody_elses_database_keeps_its_tables(tmp_path: Path):
    path = tmp_path / "app.db"
    changed(path, "CREATE TABLE meta (id INTEGER)")
    Registry(f"sqlite:///{path}").create(judge())
    names = {name for (name,) in OnSQLite(path).execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "meta" in names
    assert all(name == "meta" or name.startswith(("memalign_", "sqlite_")) for name in names)  # sqlite_ is SQLite's own


def test_a_bare_path_is_a_registry_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Registry("judges.db").create(judge())
    assert Registry(f"sqlite:///{tmp_path / 'judges.db'}").load("helpfulness").name == "helpfulness"


def test_an_error_never_prints_feedback(path: Path):
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge())
    changed(path, "DROP TABLE memalign_rows")
    with pytest.raises(MemalignError) as caught:
        registry.save(judge(memory_of(case("t-1", "ana", says="a secret"))))
    shown = f"{caught.value} {caught.value.__cause__}"
    assert "secret" not in shown


ROWS = [{"id": "t-1", "inputs": "q", "outputs": "a", "value": True, "rationale": "Warm.", "source": "ana"}]


def test_a_disk_that_is_full_asks_no_model(path: Path, monkeypatch: pytest.MonkeyPatch):
    model = ScriptedChatModel(lambda _: {"changes": []})
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge())
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(RegistryError, match=r"1\.0 MB left.*make room first"):
        registry.align("helpfulness", ROWS, optimizer=MemAlign(reflection_model=model))
    assert not model.requests
    assert registry.load("helpfulness").memory.episodic == ()


def test_looking_whether_it_can_be_written_changes_nothing(path: Path):
    Registry(f"sqlite:///{path}").create(judge())
    before = path.read_bytes()
    Database(f"sqlite:///{path}", busy_timeout=5.0).check_writable()
    assert path.read_bytes() == before
