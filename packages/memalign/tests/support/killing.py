"""A process that learns, forgets and erases, and is killed at any moment.

`python -m tests.support.killing PATH SEED…` makes for every seed a copy of the registry and a
child that works on it and kills itself with SIGKILL at a moment drawn from the seed (before or
after a statement, at a commit, inside a model's call), then looks at what is left. It prints
what did not hold. Children are forked from one process that has imported everything, or each
would cost two seconds.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy.dialects.sqlite  # noqa: F401  # before the fork
from sqlalchemy import event

from memalign import Registry
from memalign.align import lock
from memalign.models.base import ChatRequest, Limits
from memalign.testing import HashEmbedding, ScriptedAnswer, ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.learning import key_of, prompts_of, states, words_in
from tests.support.registry import bytes_of, intact, keys_of
from tests.support.rows import RawRow
from tests.support.world import World, judge_in, labelled, said

NAME = "replies"
RULES = (
    "Answer in one short sentence.",
    "Answer in ONE short sentence!",
    "Never answer in one sentence.",
)
SECRET = "word777 is what nobody may ever read again after today"


def child_that(works: Callable[[], object]) -> int:
    """The id of a forked process that does something and ends, with 1 and a traceback
    where it fails."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            works()
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    return child


def models(
    answers: Callable[[ChatRequest], ScriptedAnswer],
) -> tuple[ScriptedChatModel, HashEmbedding]:
    limits = Limits(shard_size=1, concurrency=1, context_tokens=4000)
    return ScriptedChatModel(answers, limits=limits), HashEmbedding(dim=16)


def create(url: str) -> None:
    """A registry with a judge that has learned a little, and holds on to one case."""
    world = World()
    chat, embedding = models(world)
    registry = Registry(url, models=[chat, embedding])
    judge, _ = judge_in(world)
    registry.create(judge.replace(model=chat, embedding_model=embedding))
    registry.align(
        NAME,
        [
            *labelled(["held"], True),
            said("a", RULES[0], value=None),
            said("s", SECRET, by="eve", value=None),
        ],
    )
    registry.update(NAME, lambda judge: lock(judge, "t-held"))


BATCHES: tuple[list[RawRow], ...] = (
    [
        said("b", RULES[1], by="ben", value=None),
        said("c", RULES[2], by="cleo", value=None),
    ],
    [
        said("d", "Name whoever takes care of it.", value=None),
        said("e", "Name the month in full.", value=None),
    ],
    [said("b", "Mind the date above all else.", by="ben", value=None)],
)


def steps(registry: Registry) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What the process does, each with a name."""
    yield "first batch", lambda: registry.align(NAME, BATCHES[0])
    yield "erased", lambda: registry.erase(NAME, ["t-s"])
    yield "second batch", lambda: registry.align(NAME, BATCHES[1])
    yield "withdrawn", lambda: registry.unalign(NAME, "t-a")
    yield "changed", lambda: registry.align(NAME, BATCHES[2])
    yield "rolled back", lambda: registry.rollback(NAME, 3)


def work(path: Path, moment: int, report: Callable[[str], object]) -> int:
    """Do it all, and be killed at a moment (0: never); the number of moments that there were."""
    count = 0

    def tick(*_: object) -> None:
        nonlocal count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    answers = World()

    def asked(request: ChatRequest) -> ScriptedAnswer:
        tick()
        return answers(request)

    chat, embedding = models(asked)
    registry = Registry(f"sqlite:///{path}", models=[chat, embedding])
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(registry._database.engine, name, tick)
    for name, step in steps(registry):
        step()
        report(name)
    assert "held" in prompts_of(chat)
    return count


def told(path: Path, moment: int) -> tuple[list[str], int]:
    """What a child that is killed at a moment had finished, and its exit status (the
    signal, or 0)."""
    reading, writing = os.pipe()
    child = child_that(
        lambda: work(path, moment, lambda name: os.write(writing, f"{name}\n".encode()))
    )
    os.close(writing)
    with os.fdopen(reading) as pipe:
        done = pipe.read().splitlines()
    return done, os.waitpid(child, 0)[1]


def examine(path: Path, done: list[str]) -> None:
    """Check the registry that a killed process leaves, which had said that so much is done."""
    registry = Registry(f"sqlite:///{path}")
    assert intact(path)
    history = registry.history(NAME)
    assert [info.number for info in history] == list(range(1, len(history) + 1))
    assert len(history) >= 3 + len(done), (len(history), done)
    for info in history:
        check_memory(registry.load(NAME, info.number))
    actions = {info.action for info in history}
    if "rolled back" not in done and "rollback" not in actions:
        a_batch_is_there_whole_or_not_at_all(registry, done, actions)
    an_erasure_is_whole(registry, path, done, actions)
    chat, embedding = models(World())
    opened = Registry(f"sqlite:///{path}", models=[chat, embedding])
    opened.align(NAME, BATCHES[0])  # and work goes on
    check_memory(opened.load(NAME))


def a_batch_is_there_whole_or_not_at_all(
    registry: Registry, done: list[str], actions: set[str]
) -> None:
    judge = registry.load(NAME)
    ledger = states(judge)
    known = keys_of(judge)
    learned_again = bool(actions & {"erase", "unalign"})  # survivors may wait for it
    for name, batch in zip(("first batch", "second batch"), BATCHES, strict=False):
        keys = set(map(key_of, batch))
        assert keys <= known or (name not in done and keys.isdisjoint(known))
        if name in done and not learned_again:
            assert "pending" not in {ledger[key] for key in keys}


def an_erasure_is_whole(
    registry: Registry, path: Path, done: list[str], actions: set[str]
) -> None:
    erased = "erase" in actions
    assert erased or "erased" not in done
    assert ("t-s@eve" in keys_of(registry.load(NAME))) is not erased
    if erased:
        assert "word777" not in words_in(bytes_of(path).decode("latin-1"))


def main(path: str, *seeds: str) -> int:
    made = Path(path)
    copy = made.with_name("copy.db")
    failures = 0
    shutil.copy(made, copy)
    whole, status = told(copy, 0)
    assert (len(whole), status) == (6, 0), (whole, status)
    for seed in seeds:
        for beside in copy.parent.glob("copy.db*"):
            beside.unlink()
        shutil.copy(made, copy)
        moment = random.Random(int(seed)).randrange(1, MOMENTS)
        done, status = told(copy, moment)
        if status != signal.SIGKILL:
            say(
                f"seed {seed}: moment {moment} was never reached, or it failed ({status})"
            )
            failures += 1
            continue
        # Looked at by a child too: threads of a loop and a fork do not go together.
        if os.waitpid(child_that(partial(examine, copy, done)), 0)[1] != 0:
            say(f"seed {seed}, killed at moment {moment} after {done}")
            failures += 1
    say(f"{len(seeds)} killed, {failures} failures")
    return min(failures, 1)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


MOMENTS = 240

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
