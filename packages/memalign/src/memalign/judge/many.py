"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote, within a spend limit.

Items are read when their turn comes, and with `out` their judgments go to the file as they come: nothing is
lost, and one slow item holds up nobody. The file is put into order at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign import aio
from memalign.errors import InputError, ModelError, ModelUnavailable, RateLimited, SpendLimitReached
from memalign.io import Examples, ExampleSource, JudgmentWriter
from memalign.judge.verdict import decide
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.prompts.rendering import prompts_hash
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["OnJudgment", "Progress", "judge_many", "signature_of"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

OnJudgment = Callable[[str, Judgment], None]
"""Called with the id and the judgment of every item that this run judged, errors included, as soon as it is kept."""

_TURN = 100  # rows that are read without letting others run
_HOPELESS = 32  # items in a row that no attempt could get answered, or twice what is in flight: nothing works


async def judge_many(
    judge: Judge,
    examples: ExampleSource | Examples,
    concurrency: int | None,
    max_cost: float | Calls | None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    on_judgment: OnJudgment | None = None,
) -> list[Judgment[Any]]:
    """See `Judge.ajudge_many`."""
    check_concurrency(concurrency)
    if isinstance(examples, Example | Mapping):
        raise InputError("judge_many takes a list of examples or the path of a file; for one example, call judge(…)")
    calls = max_cost if isinstance(max_cost, Calls) else Calls(max_cost=max_cost)
    columns, fields = judge.columns, judge.fields
    source = examples if isinstance(examples, Examples) else Examples.of(examples, columns=columns, fields=fields)
    for step, _ in enumerate(source.checking()):
        if step % _TURN == 0:
            await asyncio.sleep(0)
    limit = concurrency or calls.in_flight(open_judging_model(judge))
    run = _Run(judge, source, calls, limit, progress, on_judgment)
    if out is None:
        judgments: dict[str, Judgment] = {}
        await run.all(judgments, judgments.__setitem__)
        unjudged = run.not_judged()
        return [judgments.get(name) or replace(unjudged, id=name) for name in source.hashes]
    with JudgmentWriter(out, judge=signature_of(judge), examples=source.hashes) as writer:
        await run.all(writer, writer.write)
    return writer.judgments(otherwise=run.not_judged())


def signature_of(judge: Judge) -> str:
    """Who wrote a judgment: name, fingerprint by the model that judges, and the wording of the prompts.

    A model that is left to the environment may be another one when a file of judgments is resumed, and so may memalign.
    """
    return f"{judge.name}@{judge.replace(model=open_judging_model(judge)).fingerprint}-{prompts_hash()[:6]}"


@dataclass
class _Run:
    """One run over all items of a source."""

    judge: Judge
    source: Examples
    calls: Calls
    limit: int
    progress: Progress | None
    on_judgment: OnJudgment | None
    finished: int = 0
    priced: asyncio.Event = field(default_factory=asyncio.Event)  # whether it is known what an item costs
    failed_in_a_row: int = 0
    stopped: str = ""

    def not_judged(self) -> Judgment:
        """The judgment of every item that the run stopped before."""
        spent = "" if self.calls.spent is None else f" (${self.calls.spent:.4g} spent)"
        error = f"NotJudged: {self.stopped}{spent}; run it again with the same `out` (-o) to resume"
        return Judgment(error=error, memory_hash=self.judge.memory.hash, not_judged=True)

    async def all(self, done: Container[str], keep: OnJudgment) -> None:
        """Judge all items but those that are `done`, and `keep` the judgment of each."""
        waiting = iter(self.source)  # workers share it: each takes the next item when it is free

        async def work(number: int) -> None:
            # Under a spend limit one item follows the other until it is known what one costs.
            if number > 0 and self.calls.spent is not None:
                await self.priced.wait()
            while not self.stopped and (example := next(waiting, None)) is not None:
                if example.id in done:
                    await asyncio.sleep(0)
                elif (judgment := await self._judged(example)) is None:
                    break
                else:
                    keep(example.id, judgment)
                    if self.on_judgment is not None:
                        self.on_judgment(example.id, judgment)
                self.finished += 1
                if self.progress is not None:
                    self.progress("judge", self.finished, len(self.source))
            self.priced.set()

        await aio.together(work(number) for number in range(min(self.limit, len(self.source))))

    async def _judged(self, example: Example) -> Judgment | None:
        """The judgment of one item, or one with the error; None where the limit left no room for it."""
        try:
            judgment = await decide(self.judge, example, self.calls)
        except SpendLimitReached:
            self.stopped = self.stopped or self.calls.stopped
            return None
        except (ModelError, InputError) as error:
            usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, ModelUnavailable | RateLimited):
                self.failed_in_a_row += 1
                # A server that is down would cost every item all its attempts.
                side_by_side = self.limit if self.priced.is_set() or self.calls.spent is None else 1
                if self.failed_in_a_row >= max(_HOPELESS, 2 * side_by_side):
                    failed = f"{self.failed_in_a_row} examples in a row failed, the last with {reason}"
                    self.stopped = self.stopped or failed
            if usage.calls > 0:
                self.priced.set()
            return Judgment(id=example.id, error=reason, memory_hash=self.judge.memory.hash, usage=usage)
        self.priced.set()
        self.failed_in_a_row = 0
        return judgment
