"""Addresses and files that cannot be a registry: a clear error, and nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign import Registry
from memalign.errors import (
    ConfigurationError,
    MemalignError,
    RegistryError,
    RegistryTooNew,
)
from tests.support.places import OnSQLite
from tests.support.registry import case, judge, memory_of


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (
            "sqlite:///notes.txt",
            RegistryError,
            r"notes\.txt is not a registry: the file is no SQLite database",
        ),
        (
            "sqlite:///no/where/m.db",
            RegistryError,
            "cannot open the registry no/where/m.db: its folder must exist",
        ),
        (
            "sqlite:judges.db",
            ConfigurationError,
            "is not a registry's URL; one looks like sqlite:///memalign.db",
        ),
        ("sqlite://", ConfigurationError, "a registry in memory keeps nothing"),
        ("sqlite:///m.db?mode=ro", ConfigurationError, "takes no options"),
        (
            "mysql://host/db",
            ConfigurationError,
            "registries on mysql are not supported; use sqlite",
        ),
        (
            "postgresql+psycopg2://ana@host/db",
            ConfigurationError,
            r"on postgresql\+psycopg2 are not supported",
        ),
        (
            "postgresql://ana:pw@host:port/db?password=pw",
            ConfigurationError,
            "is not a registry's URL",
        ),
        ("postgres:/ana:pw@host/db", ConfigurationError, "is not a registry's URL"),
    ],
)
def test_an_address_of_no_registry_is_refused(
    tmp_path: Path, url: str, error: type[Exception], message: str
):
    notes = "these are notes, and they are long enough to be no SQLite header " * 20
    (tmp_path / "notes.txt").write_text(notes)
    with pytest.raises(error, match=message) as caught:
        Registry(url)
    assert "pw" not in str(caught.value)
    (left,) = tmp_path.iterdir()
    assert (left.name, left.read_text()) == ("notes.txt", notes)


def test_another_format_is_refused_by_name(path: Path):
    Registry(f"sqlite:///{path}").create(judge())
    OnSQLite(path).execute(
        "UPDATE memalign_meta SET value = '7' WHERE name = 'schema_version'"
    )
    before = path.read_bytes()
    said = "its schema is version 7, this one reads up to version 1; upgrade"
    with pytest.raises(RegistryTooNew, match=said):
        Registry(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_damaged_row_or_file_is_named_and_others_read(path: Path):
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge(memory_of(*(case(f"t-{n}", "ana") for n in range(50)))))
    registry.create(judge(name="tone"))
    OnSQLite(path).execute(
        "UPDATE memalign_rows SET body = ? WHERE kind = 'annotation'", b"{not json"
    )
    with pytest.raises(RegistryError, match="a row of kind annotation is damaged"):
        registry.load("helpfulness")
    assert registry.load("tone") == judge(name="tone")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x07" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(RegistryError):
        registry.load("helpfulness")


def test_a_bare_path_is_a_registry_too(tmp_path: Path):
    Registry("judges.db").create(judge())
    there = Registry(f"sqlite:///{tmp_path / 'judges.db'}")
    assert there.load("helpfulness") == judge()


def test_an_error_never_prints_feedback(path: Path):
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge())
    OnSQLite(path).execute(
        "CREATE TRIGGER full BEFORE INSERT ON memalign_versions "
        "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    with pytest.raises(MemalignError, match="the disk is full") as caught:
        registry.save(judge(memory_of(case("t-1", "ana"))), note="a secret")
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
