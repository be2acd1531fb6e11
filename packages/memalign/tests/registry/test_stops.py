"""Stopped after any statement, the registry opens at the last committed version, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign import Judge, Registry
from memalign.align import edit_guideline
from memalign.memory import Memory
from memalign.memory.forget import forget
from tests.support import killing
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import words_in
from tests.support.places import KINDS, Place, place_of
from tests.support.programs import ROOT, program
from tests.support.registry import (
    Stopped,
    all_versions,
    case,
    erase,
    judge,
    keys_of,
    memory_of,
    stopping,
)
from tests.support.seeds import seeds
from tests.support.world import World

MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ana", "bob"), case("t-3", "bob"))

STEPS: dict[str, Callable[[Registry], Any]] = {
    "create": lambda registry: registry.create(judge(MEMORY, name="another")),
    "save": lambda registry: registry.save(
        judge(memory_of(case("t-1", "ana"), case("t-9", "eva")))
    ),
    "rollback": lambda registry: registry.rollback("helpfulness", 1),
    "erase": lambda registry: erase(registry, "t-2"),
    "delete": lambda registry: registry.delete("helpfulness"),
}


@pytest.fixture
def made(place: Place) -> Place:
    registry = place.registry()
    registry.create(judge(MEMORY))
    registry.save(judge(forget(MEMORY, keys("t-1@ana"))), action="unalign")
    return place


@pytest.mark.parametrize("name", STEPS)
def test_a_stop_before_any_statement_leaves_whole_versions(made: Place, name: str):
    before = state_of(made.registry())
    done = made.copy()
    STEPS[name](done.registry())
    after = state_of(done.registry()).keys()
    committed = 0
    copy = made.copy()
    for statement in range(1, 200, made.stride):
        registry = copy.registry()
        try:
            with stopping(registry, statement):
                STEPS[name](registry)
            break  # it ran through: every statement was stopped once
        except Stopped:
            assert copy.intact()
            found = state_of(copy.registry())
            if found == before:
                # It is done again in the same place, and gets one statement further.
                assert committed == 0, "what was committed once stays committed"
            else:
                committed += 1
                assert found.keys() == after
                copy = made.copy()
    else:
        pytest.fail("it never ran through")
    assert statement > 4


def state_of(registry: Registry) -> dict[str, Any]:
    """All versions and the ledger of each judge."""
    found = {}
    for summary in registry.list():
        name = summary.name
        found[name] = (all_versions(registry, name), registry.ledger(name))
    return found


def test_the_next_opening_finishes_a_stopped_creation(place: Place):
    from memalign.registry.database import Database

    url = place.another().url
    original = Database._create

    def stopped(self: Database, connection: Any, tables: Any) -> None:
        original(self, connection, tables)
        raise Stopped

    Database._create = stopped  # type: ignore[method-assign]
    try:
        with pytest.raises(Stopped):
            Registry(url)
    finally:
        Database._create = original  # type: ignore[method-assign]
    assert Registry(url).list() == ()


KILLED = textwrap.dedent(
    """
    import os, sys
    from sqlalchemy import event
    from memalign import Registry
    url, statement = sys.argv[1], int(sys.argv[2])
    registry = Registry(url)
    count = 0
    def tick(*_):
        global count
        count += 1
        if count == statement:
            os._exit(9)
    event.listen(registry._database.engine, "after_cursor_execute", tick)
    event.listen(registry._database.engine, "commit", tick)
    registry.erase("helpfulness", ["t-2"], rederive=False)
    """
)


def test_a_killed_process_leaves_the_last_committed_version(made: Place):
    before = all_versions(made.registry())
    killed = subprocess.run([sys.executable, "-c", KILLED, made.url, "12"], check=False)
    assert killed.returncode == 9
    opened = made.registry()  # rolls the journal back, if one was left
    assert all_versions(opened) == before
    assert made.intact()


# -- a memory with everything in it: doubles, a locked case ---

LEARNING: dict[str, Callable[[Registry], Any]] = {
    "align": lambda registry: registry.align(
        killing.NAME, [*killing.BATCHES[1], *killing.BATCHES[2]]
    ),
    "unalign": lambda registry: registry.unalign(killing.NAME, "t-a"),
    "erase": lambda registry: registry.erase(killing.NAME, ["t-s"]),
    "edit": lambda registry: registry.update(
        killing.NAME,
        lambda judge: edit_guideline(
            judge, "G1", by="dora", text="Mind the tone.", pinned=True
        ),
    ),
}


MODELS = killing.models(World())


def opened(place: Place) -> Registry:
    return place.registry(models=MODELS)


@pytest.fixture(
    scope="module",
    params=[
        KINDS[0],
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:]),
    ],
)
def learned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with place_of(request.param, tmp_path_factory.mktemp("learned")) as place:
        yield taught(place)


def taught(place: Place) -> Place:
    killing.create(place.url)
    registry = opened(place)
    registry.align(killing.NAME, killing.BATCHES[0])
    memory = registry.load(killing.NAME).memory
    assert set(map(memory.status, memory.guidelines)) == {"active", "superseded"}
    return place


@pytest.mark.parametrize("name", LEARNING)
def test_a_stop_leaves_the_last_committed_version_whole(
    learned: Place, name: str
) -> None:
    copy = learned.copy()
    before = all_versions(opened(copy), killing.NAME)
    LEARNING[name](opened(copy))
    after = all_versions(opened(copy), killing.NAME)
    assert len(after) > len(before)
    whole = [*before.values(), *after.values()]
    check_all(whole)
    stopped_before_the_commit = False
    for statement in range(1, 300, learned.stride):
        copy = learned.copy()
        registry = opened(copy)
        try:
            with stopping(registry, statement):
                LEARNING[name](registry)
            break
        except Stopped:
            assert copy.intact()
            found = all_versions(opened(copy), killing.NAME)
            if len(found) == len(before):
                stopped_before_the_commit = True
                assert found == before
            else:
                check_all(found.values(), known=whole)
                another_align_does_the_rest(copy, after[max(after)].memory)
            # Feedback is there whole or not at all.
            assert keys_in_head(found) in (keys_in_head(before), keys_in_head(after))
    else:
        pytest.fail("it never ran through")
    assert statement > 5
    assert stopped_before_the_commit


def check_all(versions: Iterable[Judge], known: Iterable[Judge] = ()) -> None:
    """Check the memory of every version but the known ones."""
    for version in versions:
        if version not in known:
            check_memory(version)


def keys_in_head(found: dict[int, Judge]) -> set[str]:
    return keys_of(found[max(found)])


def another_align_does_the_rest(place: Place, after: Memory) -> None:
    """Check a stop after the commit: survivors of an erasure may wait to be learned again."""
    left = opened(place)
    erased = "erase" in {info.action for info in left.history(killing.NAME)}
    assert left.align(killing.NAME).judge.memory.hash == after.hash
    if erased:
        if not place.overwrites:
            left.compact()  # what whoever was stopped had still to do
        assert "word777" not in words_in(place.bytes().decode("latin-1"))


def killed(folder: Path, seeds: range) -> None:
    made = folder / "made.db"
    killing.create(f"sqlite:///{made}")
    run = subprocess.run(
        [*program("tests.support.killing"), str(made), *map(str, seeds)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip().endswith(f"{len(seeds)} killed, 0 failures")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_a_random_kill_leaves_exactly_what_was_committed(tmp_path: Path) -> None:
    killed(tmp_path, seeds(8))


@pytest.mark.endurance
@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_killed_at_fifty_more(tmp_path: Path) -> None:
    killed(tmp_path, seeds(50, after=8))
