"""A registry that is damaged, read for long, or written by many says so in a sentence."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign import Registry
from memalign.errors import JudgeNotFound, RegistryError
from memalign.registry import erase, erase_check
from tests.support.places import OnSQLite, Place
from tests.support.registry import case, judge, memory_of, models, optimizer, row


def made(path: Path) -> Registry:
    registry = Registry(path)
    registry.create(judge(memory_of(case("t-1", "ana"), case("t-2", "ben"))))
    return registry


DEEP = b"[" * 100_000
DAMAGE: dict[str, tuple[str, bytes | str]] = {
    "a body of brackets": (
        "UPDATE memalign_rows SET body = ? WHERE kind = 'case'",
        DEEP,
    ),
    "a setting of brackets": (
        "UPDATE memalign_rows SET body = ? WHERE kind = 'judge'",
        DEEP,
    ),
    "an unknown kind": (
        "UPDATE memalign_rows SET kind = ? WHERE kind = 'guideline'",
        "guidekine",
    ),
    "an id that is no number": (
        "UPDATE memalign_rows SET body = ? WHERE kind = 'guideline'",
        b'{"id":"G?","text":"x"}',
    ),
    "a state that is no list": (
        "UPDATE memalign_rows SET body = ? WHERE key = 'locks'",
        b"7",
    ),
    "an unknown state": ("UPDATE memalign_rows SET key = ? WHERE key = 'locks'", "lox"),
    "a setting that is missing": (
        "DELETE FROM memalign_rows WHERE kind = 'judge' AND key <> ?",
        "model",
    ),
    "a key that is none": (
        "UPDATE memalign_rows SET key = ? || key WHERE kind = 'annotation'",
        '"',
    ),
    "a changed letter": (
        "UPDATE memalign_rows SET body = replace(body, 'comment', ?) "
        "WHERE kind = 'annotation'",
        "cOmment",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_wherever_it_is_met(tmp_path: Path, what: str) -> None:
    registry = made(path := tmp_path / "memalign.db")
    statement, value = DAMAGE[what]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, [value])
    rows = [row("t-3", "ana", "cold")]
    uses: list[Any] = [
        lambda: registry.load("helpfulness"),
        lambda: registry.align("helpfulness", rows, optimizer=optimizer(*models())),
        lambda: registry.export("helpfulness"),
        lambda: registry.erase("helpfulness", ["t-1"], dry_run=True),
        registry.list,
    ]
    met = list(filter(None, map(raised, uses)))
    assert met
    for error in met:
        assert "damaged" in str(error) or not isinstance(error, RegistryError)


def raised(use: Callable[[], Any]) -> ma.MemalignError | None:
    try:
        use()
    except ma.MemalignError as error:
        return error
    return None


@pytest.mark.parametrize("out", ["-", "/dev/stdout"])
def test_a_bundle_goes_down_a_pipe(tmp_path: Path, out: str) -> None:
    registry = made(path := tmp_path / "memalign.db")
    command = f"-m memalign export helpfulness -o {out} --registry"
    ended = subprocess.run(
        [sys.executable, *command.split(), path],
        capture_output=True,
        cwd=tmp_path,
        timeout=120,
        check=True,
    )
    document, _ = json.JSONDecoder().raw_decode(ended.stdout.decode())
    assert ma.load_bundle(document) == registry.load("helpfulness")
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    "name", [r"C:\Users\me\memalign.db", "my reg ä.db", "50%25.db"]
)
def test_a_registry_that_is_not_there_is_named_as_it_was_written(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(JudgeNotFound) as error:
        Registry(f"{tmp_path}/{name}", create=False)
    assert name.replace("%25", "%") in str(error.value) or name in str(error.value)


def test_an_align_beside_a_long_reader_pays_for_nothing(tmp_path: Path) -> None:
    chat, embedding = models()
    place = OnSQLite(tmp_path / "memalign.db")
    place.registry().create(judge(model=chat, embedding_model=embedding))
    hasty = place.registry(models=[chat, embedding], busy_timeout=0.3)
    rows = [row("t-1", "ana", "cold")]
    learner = optimizer(chat, embedding)
    said = r"another process has been reading for more than 0\.3 s"
    with closing(sqlite3.connect(place.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memalign_rows").fetchone()
        with pytest.raises(RegistryError, match=said):
            hasty.align("helpfulness", rows, optimizer=learner)
        assert chat.requests == []
        reader.execute("ROLLBACK")
    assert hasty.align("helpfulness", rows, optimizer=learner).version == 2


def test_writers_who_meet_all_get_through(place: Place) -> None:
    names = [f"t-{n}" for n in range(12)]
    place.registry().create(judge(memory_of(*(case(name, "ana") for name in names))))

    def write(name: str) -> None:
        place.registry().lock("helpfulness", name)

    with ThreadPoolExecutor(12) as writers:
        list(writers.map(write, names))
    assert len(place.registry().load("helpfulness").memory.locks) == 12


def test_nobody_waits_while_an_erasure_is_planned_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer with no patience gets through at every moment at which no row is written."""
    registry = made(tmp_path / "memalign.db")
    hasty = Registry(tmp_path / "memalign.db", busy_timeout=0.01)
    written = list[int]()

    def writes(module: Any, name: str) -> None:
        function = getattr(module, name)

        def beside(*arguments: Any, **options: Any) -> Any:
            written.append(hasty.save(judge(name=f"other-{len(written)}")))
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, beside)

    writes(erase, "select")
    writes(erase, "_receipt")
    writes(erase_check, "_in_registry")
    writes(erase_check, "in_other_tables")
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.complete
    assert len(written) >= 4


def test_a_plan_that_somebody_overtook_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = made(tmp_path / "memalign.db")
    aside = Registry(tmp_path / "memalign.db")
    plan = erase.plan_erasure
    calls = list[int]()

    def overtaken(*arguments: Any) -> Any:
        made_plan = plan(*arguments)
        if not calls:
            aside.save(judge(memory_of(case("t-1", "ana", "cy"), case("t-2", "ben"))))
        calls.append(1)
        return made_plan

    monkeypatch.setattr(erase, "plan_erasure", overtaken)
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert len(calls) == 2
    assert {str(key) for key in receipt.keys} == {"t-1@ana", "t-1@cy"}
    assert receipt.complete
