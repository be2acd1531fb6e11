"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote, within a spend limit.

Items are read when their turn comes, and with `out` their judgments go to the file as they come: nothing is
lost, and one slow item holds up nobody. The file is put into order at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign import aio
from memalign.errors import InputError, ModelError, ModelUnavailable, RateLimited, SpendLimitReached
from memalign.io import Examples, JudgmentWriter
from memalign.judge.verdict import decide
from memalign.models.calls import Calls
from memalign.models.judge_models import open_judging_model
from memalign.prompts.rendering import prompts_hash
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["OnJudgment", "Progress", "Run", "signature_of"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

OnJudgment = Callable[[str, Judgment], None]
"""Called with the id and the judgment of every item that this run judged, errors included, as soon as it is kept."""

_TURN = 100  # rows that are read without letting others run
_HOPELESS = 32  # items in a row that no attempt could get answered, or twice what is in flight: nothing works


def signature_of(judge: Judge) -> str:
    """Who wrote a judgment: name, fingerprint by the model that judges, and the wording of the prompts.

    A model that is left to the environment may be another one when a file of judgments is resumed, and so may memalign.
    """
    return f"{judge.name}@{judge.replace(model=open_judging_model(judge)).fingerprint}-{prompts_hash()[:6]}"


@dataclass
class Run:
    """One run of a judge over all items of a source, `limit` of them at a time; 0 for as many as suit the model."""

    judge: Judge
    source: Examples
    calls: Calls
    limit: int
    progress: Progress | None
    on_judgment: OnJudgment | None
    finished: int = 0
    priced: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # whether it is known what an item costs
    failed_in_a_row: int = 0
    stopped: str = ""

    async def judgments(self, out: str | Path | None) -> list[Judgment[Any]]:
        """The judgments of all items, in their order; with `out` those that the file has are not made again."""
        for step, _ in enumerate(self.source.checking()):
            if step % _TURN == 0:
                await asyncio.sleep(0)
        self.limit = self.limit or self.calls.in_flight(open_judging_model(self.judge))
        if out is None:
            judgments: dict[str, Judgment] = {}
            await self._judge_all(judgments, judgments.__setitem__)
            found = [(name, judgments.get(name)) for name in self.source.hashes]
            return [
                replace(self._not_judged(), id=name) if one is None else one for name, one in found
            ]
        with JudgmentWriter(
            out, judge=signature_of(self.judge), examples=self.source.hashes
        ) as writer:
            await self._judge_all(writer, writer.write)
        return writer.judgments(otherwise=self._not_judged())

    def _not_judged(self) -> Judgment:
        """The judgment of every item that the run stopped before."""
        spent = "" if self.calls.spent is None else f" (${self.calls.spent:.4g} spent)"
        error = (
            f"NotJudged: {self.stopped or self.calls.stopped}{spent}; "
            "run it again with the same `out` (-o) to resume"
        )
        return Judgment(error=error, memory_hash=self.judge.memory.hash, not_judged=True)

    async def _judge_all(self, done: Container[str], keep: OnJudgment) -> None:
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
                    continue  # another item may still fit
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
            if self.calls.used_up:
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
                    failed = (
                        f"{self.failed_in_a_row} examples in a row failed, the last with {reason}"
                    )
                    self.stopped = self.stopped or failed
            if usage.calls > 0:
                self.priced.set()
            return Judgment(
                id=example.id, error=reason, memory_hash=self.judge.memory.hash, usage=usage
            )
        self.priced.set()
        self.failed_in_a_row = 0
        return judgment
