"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote.

Items are read when their turn comes, and with `out` their judgments go to the file as they come:
nothing is lost, and one slow item holds up nobody. The file is put into order at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from memalign import aio
from memalign.errors import (
    InputError,
    ModelError,
    ModelUnavailable,
    RateLimited,
    SpendLimitReached,
)
from memalign.io import Examples, ExampleSource, JudgmentWriter
from memalign.judge.task import Task
from memalign.judge.verdict import decide
from memalign.memory import Memory
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.notebook import notebook_progress
from memalign.types import Example, Judgment, Usage

__all__ = ["OnJudgment", "Progress", "judge_examples"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

OnJudgment = Callable[[str, Judgment], None]
"""Called with the id and the judgment of every item that this run judged, errors included."""

_TURN = 100
"""Rows that are read without letting others run."""
_HOPELESS = 32
"""Items in a row that no attempt could get answered, or twice what is in flight: nothing works."""


async def judge_examples(
    task: Task,
    memory: Memory,
    examples: ExampleSource | Examples,
    *,
    columns: Mapping[str, str],
    concurrency: int | None = None,
    max_cost: float | Calls | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    on_judgment: OnJudgment | None = None,
) -> list[Judgment[Any]]:
    """Judge many items, and return their judgments in the order of the items.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        examples: All are checked before the first is judged.
        columns: Which column a field is read from if it has another name.
        concurrency: Items at a time; None for as many as suit the model.
        max_cost: What this run may spend, in dollars, or the Calls whose limit it shares.
        out: Where judgments are written; those that the file has are not made again.
        progress: Is told of each item.
        on_judgment: Is told of each judgment of this run as soon as it is kept.
    """
    check_concurrency(concurrency)
    source = examples
    if not isinstance(source, Examples):
        source = Examples.of(source, columns=columns, fields=task.parts)
    calls = max_cost if isinstance(max_cost, Calls) else Calls(max_cost=max_cost)
    for step, _ in enumerate(source.checking()):
        if step % _TURN == 0:
            await asyncio.sleep(0)
    model = open_judging_model(task)  # before a file is made
    run = _Batch(
        task=task,
        memory=memory,
        source=source,
        calls=calls,
        limit=concurrency or calls.in_flight(model),
        progress=progress or notebook_progress(),
        on_judgment=on_judgment,
    )
    if out is not None:
        signature = task.signature(memory)
        with JudgmentWriter(out, judge=signature, examples=source.hashes) as writer:
            await run.judge_all(writer, writer.write)
        return writer.judgments(otherwise=run.not_judged())
    judgments: dict[str, Judgment] = {}
    await run.judge_all(judgments, judgments.__setitem__)
    return [
        judgments[name] if name in judgments else replace(run.not_judged(), id=name)
        for name in source.hashes
    ]


@dataclass(kw_only=True)
class _Batch:
    """One run over all items of a source.

    Attributes:
        limit: Items at a time.
        finished: How many items are done.
        priced: Whether it is known what an item costs.
        failed_in_a_row: Items that no attempt could get answered.
        stopped: Why the run ends before the last item.
    """

    task: Task
    memory: Memory
    source: Examples
    calls: Calls
    limit: int
    progress: Progress | None
    on_judgment: OnJudgment | None
    finished: int = 0
    priced: asyncio.Event = field(default_factory=asyncio.Event)
    failed_in_a_row: int = 0
    stopped: str = ""

    def not_judged(self) -> Judgment:
        """Return the judgment of every item that the run stopped before."""
        spent = "" if self.calls.spent is None else f" (${self.calls.spent:.4g} spent)"
        reason = f"NotJudged: {self.stopped or self.calls.stopped}{spent}"
        return Judgment(
            error=f"{reason}; run it again with the same `out` (-o) to resume",
            memory_hash=self.memory.hash,
            not_judged=True,
        )

    async def judge_all(self, done: Container[str], keep: OnJudgment) -> None:
        """Judge all items that are not `done`, and `keep` the judgment of each."""
        waiting = iter(
            self.source
        )  # workers share it: each takes the next item when it is free

        async def work(number: int) -> None:
            # Under a spend limit one item follows the other until it is known what one costs.
            if number > 0 and self.calls.spent is not None:
                await self.priced.wait()
            while not self.stopped:
                example = next(waiting, None)
                if example is None:
                    break
                if example.id in done:
                    await asyncio.sleep(0)
                else:
                    judgment = await self._judged(example)
                    if judgment is None:
                        continue  # another item may still fit into the limit
                    keep(example.id, judgment)
                    if self.on_judgment is not None:
                        self.on_judgment(example.id, judgment)
                self.finished += 1
                if self.progress is not None:
                    self.progress("judge", self.finished, len(self.source))
            self.priced.set()

        await aio.together(
            work(number) for number in range(min(self.limit, len(self.source)))
        )

    async def _judged(self, example: Example) -> Judgment | None:
        """Return the judgment of one item, or None if the limit left no room for it."""
        try:
            judgment = await decide(self.task, self.memory, example, self.calls)
        except SpendLimitReached:
            if self.calls.used_up and not self.stopped:
                self.stopped = self.calls.stopped
            return None
        except (ModelError, InputError) as error:
            return self._failed(example, error)
        self.priced.set()
        self.failed_in_a_row = 0
        return judgment

    def _failed(self, example: Example, error: ModelError | InputError) -> Judgment:
        """Return a judgment with an error, and stop the run if nothing works any more."""
        usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModelUnavailable | RateLimited):
            self.failed_in_a_row += 1
            # A server that is down would cost every item all its attempts.
            alone = self.calls.spent is not None and not self.priced.is_set()
            in_flight = 1 if alone else self.limit
            if (
                self.failed_in_a_row >= max(_HOPELESS, 2 * in_flight)
                and not self.stopped
            ):
                count = f"{self.failed_in_a_row} examples in a row"
                self.stopped = f"{count} failed, the last with {reason}"
        if usage.calls > 0:
            self.priced.set()
        return Judgment(
            id=example.id, error=reason, memory_hash=self.memory.hash, usage=usage
        )
