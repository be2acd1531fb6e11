"""Stopped after any statement, the registry opens at the last committed version, and that one is whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memalign import Registry
from memalign.align.forget import forget
from tests.support.registry import (
    Stopped,
    all_versions,
    case,
    intact,
    judge,
    memory_of,
    models,
    optimizer,
    row,
    stopping,
)

MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ana", "bob"), case("t-3", "bob"))

STEPS: dict[str, Callable[[Registry], Any]] = {
    "create": lambda registry: registry.create(judge(MEMORY, name="another")),
    "save": lambda registry: registry.save(judge(memory_of(case("t-1", "ana"), case("t-9", "eva")))),
    "rollback": lambda registry: registry.rollback("helpfulness", 1),
    "erase": lambda registry: registry.erase("helpfulness", ["t-2"], rederive=False),
    "delete": lambda registry: registry.delete("helpfulness"),
}


@pytest.fixture
def made(path: Path) -> Path:
    registry = Registry(f"sqlite:///{path}")
    registry.create(judge(MEMORY))
    registry.save(judge(forget(MEMORY, ["t-1@ana"])), action="unalign")
    return path


@pytest.mark.parametrize("name", STEPS)
def test_stopped_before_any_statement_it_is_as_before_or_as_after(made: Path, name: str):
    def state(registry: Registry) -> list[Any]:
        return [(s.name, all_versions(registry, s.name), registry.ledger(s.name)) for s in registry.list()]

    url = f"sqlite:///{made}"
    before = state(Registry(url))
    done = made.with_name("done.db")
    shutil.copy(made, done)
    STEPS[name](Registry(f"sqlite:///{done}"))
    after = [names for names, *_ in state(Registry(f"sqlite:///{done}"))]
    committed = 0
    for statement in range(1, 200):
        copy = made.with_name("copy.db")
        shutil.copy(made, copy)
        registry = Registry(f"sqlite:///{copy}")
        try:
            with stopping(registry, statement):
                STEPS[name](registry)
            break  # it ran through: every statement was stopped once
        except Stopped:
            opened = Registry(f"sqlite:///{copy}")
            assert intact(copy)
            if state(opened) == before:
                assert committed == 0, "what was committed once stays committed"
                STEPS[name](opened)  # and it can be done again
            else:
                committed += 1
                assert [names for names, *_ in state(opened)] == after
    else:
        pytest.fail("it never ran through")
    assert statement > 4


def test_stopped_in_an_align_nothing_is_learned_or_all_of_it(path: Path):
    chat, embedding = models()
    url = f"sqlite:///{path}"
    rows = [row("t-1", "ana", "too cold"), row("t-2", "bob", "too long")]
    Registry(url).create(judge(model=chat, embedding_model=embedding))
    for statement in range(1, 100):
        registry = Registry(url, models=[chat, embedding])
        try:
            with stopping(registry, statement):
                registry.align("helpfulness", rows, optimizer=optimizer(chat, embedding))
        except Stopped:
            assert intact(path)
            assert len(Registry(url).history("helpfulness")) == 1
        else:
            break
    assert statement > 6
    learned = Registry(url).load("helpfulness").memory
    assert {voice.state for voice in learned.voices()} == {"learned"}
    assert len(learned.semantic) == 2


def test_a_registry_whose_creation_was_stopped_is_created_by_the_next(tmp_path: Path):
    from memalign.registry.database import Database

    path = tmp_path / "new.db"
    original = Database._create

    def stopped(self: Database, connection: Any) -> None:
        original(self, connection)
        raise Stopped

    Database._create = stopped  # type: ignore[method-assign]
    try:
        with pytest.raises(Stopped):
            Registry(f"sqlite:///{path}")
    finally:
        Database._create = original  # type: ignore[method-assign]
    assert Registry(f"sqlite:///{path}").list() == ()


KILLED = textwrap.dedent(
    """
    import os, sys
    from sqlalchemy import event
    from memalign import Registry
    path, statement, step = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    registry = Registry(f"sqlite:///{path}")
    count = 0
    def tick(*_):
        global count
        count += 1
        if count == statement:
            os._exit(9)
    event.listen(registry._database.engine, "after_cursor_execute", tick)
    event.listen(registry._database.engine, "commit", tick)
    if step == "erase":
        registry.erase("helpfulness", ["t-2"], rederive=False)
    else:
        registry.rollback("helpfulness", 1)
    """
)


@pytest.mark.parametrize(("step", "statement"), [("erase", 12), ("rollback", 7)])
def test_a_killed_process_leaves_the_last_committed_version(made: Path, step: str, statement: int):
    before = all_versions(Registry(f"sqlite:///{made}"))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(made), str(statement), step], check=False)
    assert killed.returncode == 9
    opened = Registry(f"sqlite:///{made}")  # rolls the journal back, if one was left
    assert all_versions(opened) == before
    assert intact(made)
