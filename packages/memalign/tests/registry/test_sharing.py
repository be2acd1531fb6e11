"""Several people at once: everybody's feedback ends in memory, and nobody waits for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memalign import MemAlign, Registry
from memalign.errors import RegistryError, UnknownKey, VersionConflict
from memalign.registry.erase import Selection, Selectors, _Plan
from tests.support.keys import keys
from tests.support.patience import PATIENCE
from tests.support.places import Place
from tests.support.registry import case, judge, keys_of, memory_of, models, optimizer, row


@pytest.fixture
def url(place: Place) -> str:
    return place.url


def test_two_aligns_at_once_both_end_in_memory(url: str):
    chat, embedding = models()
    Registry(url).create(judge(model=chat, embedding_model=embedding))
    ready = threading.Barrier(3)
    problems: list[Exception] = []

    def align(who: str) -> None:
        registry = Registry(url, models=[chat, embedding])
        ready.wait()
        try:
            for n in range(2):
                registry.align(
                    "helpfulness",
                    [row(f"{who}-{n}", who, f"comment {n} of {who}")],
                    optimizer=optimizer(chat, embedding),
                    attempts=20,
                )
        except Exception as error:  # noqa: BLE001  # told in the main thread
            problems.append(error)

    people = [threading.Thread(target=align, args=(who,)) for who in ("ana", "bob", "eva")]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert problems == []
    loaded = Registry(url).load("helpfulness")
    assert keys_of(loaded) == {f"{who}-{n}@{who}" for who in ("ana", "bob", "eva") for n in range(2)}
    assert len(Registry(url).history("helpfulness")) == 7
    assert len({g.id for g in loaded.memory.guidelines}) == 6


class Interrupted(MemAlign):
    """An optimizer beside which somebody else always commits first."""

    async def align(self, judge: Any, feedback: Any = (), **options: Any) -> Any:
        aside, number = OTHER["registry"], OTHER["count"]
        if number < OTHER["until"]:
            OTHER["count"] += 1
            aside.update("helpfulness", lambda j: j.replace(retrieval_k=number + 1))
        return await super().align(judge, feedback, **options)


OTHER: dict[str, Any] = {}


def test_an_overtaken_align_learns_on_the_new_head(url: str):
    chat, embedding = models()
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    OTHER.update(registry=registry, count=0, until=2)
    learner = Interrupted(reflection_model=chat, embedding_model=embedding, shard_size=1)
    result = registry.align("helpfulness", iter([row("t-1", "ana", "too cold")]), optimizer=learner)
    assert result.judge.retrieval_k == 2
    assert keys_of(registry.load("helpfulness")) == {"t-1@ana"}
    assert [v.action for v in registry.history("helpfulness")] == ["create", "edit", "edit", "align"]


@pytest.mark.parametrize("step", ["align", "unalign", "update", "lock", "rollback", "nothing"])
def test_a_result_names_its_own_version(url: str, monkeypatch: pytest.MonkeyPatch, step: str):
    chat, embedding = models()
    learner = optimizer(chat, embedding)
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    rows = [row("t-1", "ana", "too cold")]
    registry.align("helpfulness", rows, optimizer=learner)
    steps: dict[str, Any] = {
        "align": lambda: registry.align("helpfulness", [row("t-2", "ana", "too long")], optimizer=learner),
        "unalign": lambda: registry.unalign("helpfulness", "t-1", optimizer=learner),
        "update": lambda: registry.update("helpfulness", lambda j: j.replace(retrieval_k=3)),
        "lock": lambda: registry.lock("helpfulness", "t-1"),
        "rollback": lambda: registry.rollback("helpfulness", 1),
        "nothing": lambda: registry.align("helpfulness", rows, optimizer=learner),
    }
    write, aside = registry._database.write, Registry(url)

    @contextmanager
    def overtaken(lock: str = "") -> Iterator[Any]:
        with write(lock) as connection:
            yield connection
        if len(aside.history("helpfulness")) == 3:  # right after the step's own version
            aside.update("helpfulness", lambda j: j.replace(parameters={"seed": 1}))

    monkeypatch.setattr(registry._database, "write", overtaken)
    result = steps[step]()
    assert (result.parent, result.version) == ((2, 2) if step == "nothing" else (2, 3))
    assert registry.load("helpfulness", result.version) == result.judge
    assert len(registry.history("helpfulness")) == (2 if step == "nothing" else 4)


def test_an_align_always_overtaken_gives_up_saying_so(url: str):
    chat, embedding = models()
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    OTHER.update(registry=registry, count=0, until=99)
    learner = Interrupted(reflection_model=chat, embedding_model=embedding, shard_size=1)
    with pytest.raises(VersionConflict, match="3 times in a row; nothing was changed"):
        registry.align("helpfulness", [row("t-1", "ana", "too cold")], optimizer=learner, attempts=3)
    assert keys_of(registry.load("helpfulness")) == set()


@pytest.mark.parametrize("times", [1, 2])
def test_an_overtaken_erase_takes_what_came_meanwhile_too(
    url: str, place: Place, monkeypatch: pytest.MonkeyPatch, times: int
):
    registry, aside, select, count = Registry(url), Registry(url, busy_timeout=5.0), _Plan._select, 0
    registry.create(judge(memory_of(case("t-1", "ana"), case("t-7", "ana", says="a secret of the clinic"))))

    def overtaken(self: _Plan, selectors: Selectors) -> Selection:
        nonlocal count
        count += 1
        if count <= times:  # nobody waits for an erase that still finds out what to do
            more = memory_of(case("t-1", "ana"), case("t-7", "ana", f"bob{count}", says="a secret of the clinic"))
            aside.save(judge(more))
        return select(self, selectors)

    monkeypatch.setattr(_Plan, "_select", overtaken)
    receipt = registry.erase("helpfulness", ["t-7"], rederive=False)
    assert receipt.complete
    assert receipt.keys == keys("t-7@ana", *(f"t-7@bob{n + 1}" for n in range(times)))
    assert [version.action for version in registry.history("helpfulness")] == ["create", *["save"] * times, "erase"]
    assert b"secret of the clinic" not in place.bytes()


def test_an_overtaken_edit_is_made_again(url: str):
    registry = Registry(url)
    registry.create(judge())
    calls = []

    def edit(current: Any) -> Any:
        calls.append(current)
        if len(calls) == 1:
            registry.update("helpfulness", lambda j: j.replace(model="openai:gpt-5"))
        return current.replace(retrieval_k=9)

    edited = registry.update("helpfulness", edit).judge
    assert (edited.model, edited.retrieval_k) == ("openai:gpt-5", 9)
    assert registry.load("helpfulness") == edited


def test_aligning_the_same_feedback_again_commits_nothing(url: str):
    chat, embedding = models()
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    rows = [row("t-1", "ana", "too cold")]
    registry.align("helpfulness", rows, optimizer=optimizer(chat, embedding))
    asked = len(chat.requests)
    assert not registry.align("helpfulness", rows, optimizer=optimizer(chat, embedding)).changed
    assert len(registry.history("helpfulness")) == 2
    assert len(chat.requests) == asked


def test_unaligned_feedback_stays_in_older_versions(url: str):
    chat, embedding = models()
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    learner = optimizer(chat, embedding)
    registry.align("helpfulness", [row("t-1", "ana", "too cold"), row("t-2", "bob", "too long")], optimizer=learner)
    registry.unalign("helpfulness", "t-1", optimizer=learner)
    assert keys_of(registry.load("helpfulness")) == {"t-2@bob"}
    assert keys_of(registry.load("helpfulness", 2)) == {"t-1@ana", "t-2@bob"}
    assert [v.action for v in registry.history("helpfulness")] == ["create", "align", "unalign"]
    with pytest.raises(UnknownKey):
        registry.unalign("helpfulness", "t-1", optimizer=learner)


async def test_the_async_calls_work_inside_a_running_loop(url: str):
    chat, embedding = models()
    registry = Registry(url, models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    learner = optimizer(chat, embedding)
    await registry.aalign("helpfulness", [row("t-1", "ana", "too cold")], optimizer=learner)
    assert (await registry.aunalign("helpfulness", source="ana", optimizer=learner)).removed == keys("t-1@ana")


def test_a_reader_sees_the_committed_head_during_writes(url: str):
    registry = Registry(url)
    registry.create(judge(memory_of(case("t-1", "ana"))))
    with registry._database.write():
        assert keys_of(Registry(url).load("helpfulness")) == {"t-1@ana"}


def test_a_lock_held_too_long_is_named(url: str, place: Place):
    Registry(url).create(judge())
    hasty = Registry(url, busy_timeout=0.05)
    with (
        place.writer(),
        pytest.raises(RegistryError, match=r"is locked: another process has been writing for more than 0\.05 s"),
    ):
        hasty.save(judge(model="openai:gpt-5"))
    assert hasty.save(judge(model="openai:gpt-5")) == 2


def test_two_processes_may_create_and_save_at_once(url: str):
    script = (
        "import sys; from memalign import Judge, Registry\n"
        "registry = Registry(sys.argv[1])\n"
        "judge = Judge(name=sys.argv[2], instructions='{{ inputs }}', feedback_value_type=bool)\n"
        "registry.create(judge)\n"
        "for n in range(1, 6): registry.save(judge.replace(retrieval_k=n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, url, name]) for name in ("one", "two")]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0]
    assert [(j.name, j.versions) for j in Registry(url).list()] == [("one", 6), ("two", 6)]
