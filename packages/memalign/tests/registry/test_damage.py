"""A registry that is damaged, read for long, or written by many says so in a sentence, and what is whole stays whole."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign import Registry
from memalign.errors import JudgeNotFound, RegistryError
from memalign.registry.bundle import bundle_of
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
        "UPDATE memalign_rows SET body = replace(body, 'comment', ?) WHERE kind = 'annotation'",
        "cOmment",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_wherever_it_is_met(tmp_path: Path, what: str) -> None:
    registry = made(path := tmp_path / "memalign.db")
    statement, value = DAMAGE[what]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, [value])
    uses: list[Any] = [
        lambda: registry.load("helpfulness"),
        lambda: registry.align(
            "helpfulness", [row("t-3", "ana", "cold")], optimizer=optimizer(*models())
        ),
        lambda: registry.export("helpfulness"),
        lambda: registry.erase("helpfulness", ["t-1"], dry_run=True),
        registry.list,
    ]
    met = [error for use in uses if (error := raised(use)) is not None]
    assert met
    assert all(
        "damaged" in str(error) for error in met if isinstance(error, RegistryError)
    )


def raised(use: Callable[[], Any]) -> ma.MemalignError | None:
    try:
        use()
    except ma.MemalignError as error:
        return error
    return None


@pytest.mark.parametrize(
    "changes",
    [
        {"model": True},
        {"model": []},
        {"embedding_model": 3},
        {"retrieval_k": "x"},
        {"parameters": 7},
        {"value_type": 1},
    ],
)
def test_a_bundle_that_was_signed_over_nonsense_is_refused(
    changes: dict[str, Any],
) -> None:
    from memalign.registry.bundle import _checksum

    document = bundle_of(judge())
    document["judge"] |= changes
    document["checksum"] = _checksum(
        {name: value for name, value in document.items() if name != "checksum"}
    )
    with pytest.raises(ma.MemalignError):
        ma.load_bundle(document)


def test_a_judge_is_kept_in_a_file_from_python(tmp_path: Path) -> None:
    one = judge(memory_of(case("t-1", "ana")))
    ma.write_bundle(one, tmp_path / "tone.json")
    assert ma.load_bundle(tmp_path / "tone.json") == one


@pytest.mark.parametrize("out", ["-", "/dev/stdout"])
def test_a_bundle_goes_down_a_pipe(tmp_path: Path, out: str) -> None:
    made(path := tmp_path / "memalign.db")
    command = [
        sys.executable,
        "-m",
        "memalign",
        "export",
        "helpfulness",
        "-o",
        out,
        "--registry",
        str(path),
    ]
    ended = subprocess.run(
        command, capture_output=True, cwd=tmp_path, timeout=120, check=True
    )
    text = ended.stdout.decode()
    document, _ = json.JSONDecoder().raw_decode(text)
    assert ma.load_bundle(document) == Registry(path).load("helpfulness")
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
    with closing(sqlite3.connect(place.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memalign_rows").fetchone()
        with pytest.raises(
            RegistryError,
            match=r"another process has been reading for more than 0\.3 s",
        ):
            hasty.align(
                "helpfulness",
                [row("t-1", "ana", "cold")],
                optimizer=optimizer(chat, embedding),
            )
        assert chat.requests == []
        reader.execute("ROLLBACK")
    assert (
        hasty.align(
            "helpfulness",
            [row("t-1", "ana", "cold")],
            optimizer=optimizer(chat, embedding),
        ).version
        == 2
    )


def test_writers_who_meet_all_get_through(place: Place) -> None:
    place.registry().create(
        judge(memory_of(*(case(f"t-{n}", "ana") for n in range(12))))
    )
    errors = list[ma.MemalignError | None]()

    def write(number: int) -> None:
        errors.append(
            raised(lambda: place.registry().lock("helpfulness", f"t-{number}"))
        )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [None] * 12
    assert len(place.registry().load("helpfulness").memory.locks) == 12


def test_nobody_waits_while_an_erasure_is_planned_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer with no patience gets through at every moment at which no row is written."""
    registry = made(tmp_path / "memalign.db")
    hasty = Registry(tmp_path / "memalign.db", busy_timeout=0.01)
    written = list[int]()

    def writes(name: str) -> None:
        function = getattr(
            sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2]
        )

        def beside(*arguments: Any, **options: Any) -> Any:
            written.append(hasty.save(judge(name=f"other-{len(written)}")))
            return function(*arguments, **options)

        monkeypatch.setattr(name, beside)

    for name in (
        "erase.select",
        "erase._receipt",
        "erase_check._in_registry",
        "erase_check.in_other_tables",
    ):
        writes(f"memalign.registry.{name}")
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.complete
    assert len(written) >= 4


def test_a_plan_that_somebody_overtook_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memalign.registry import erase

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
