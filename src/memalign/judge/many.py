"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote, within a ceiling of cost.

Items are read when their turn comes, and with `out` their judgments go to the file as they come, so that memory stays
flat however many there are, and one slow item holds up nobody. The file is put into order at the end.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign import aio
from memalign.errors import ConfigurationError, InputError, ModelError, ModelRejected, ModelUnavailable, RateLimited
from memalign.files import Examples, JudgmentWriter
from memalign.models.provider_errors import PromptTooLong
from memalign.models.resolve import resolve
from memalign.records import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["NOT_JUDGED", "OnJudgment", "Progress", "judge_many", "signature_of"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

OnJudgment = Callable[[str, Judgment], None]
"""Called with the id and the judgment of every item that this run judged, errors included, as soon as it is kept."""

NOT_JUDGED = "NotJudged: "
"""How the error of an item begins that the run stopped before."""

_TURN = 100  # rows that are read without letting others run
_HOPELESS = 32  # failed calls in a row, or twice what is in flight: nothing works
_PATIENCE = 600.0  # seconds after the last answer in which a server may come back


async def judge_many(
    judge: Judge,
    examples: Examples | Iterable[Example | Mapping[str, Any]] | str | Path,
    *,
    concurrency: int | None,
    out: str | Path | None,
    progress: Progress | None = None,
    max_cost: float | None = None,
    on_judgment: OnJudgment | None = None,
) -> Sequence[Judgment]:
    """See `Judge.ajudge_many`."""
    if concurrency is not None and concurrency < 1:
        raise InputError("concurrency must be 1 or more")
    if max_cost is not None and not 0 < max_cost < math.inf:
        raise InputError(f"max_cost is a number of dollars above 0, not {max_cost}")
    source = examples if isinstance(examples, Examples) else Examples.of(examples)
    for step, _ in enumerate(source.checking()):
        if step % _TURN == 0:
            await asyncio.sleep(0)
    model = resolve(judge.model)
    run = _Run(
        judge,
        source,
        limit=concurrency or model.limits.concurrency,
        ceiling=None if max_cost is None else _Ceiling(max_cost),
        progress=progress,
        on_judgment=on_judgment,
    )
    if out is None:
        judgments: list[Judgment | None] = [None] * len(source)
        await run.all(lambda place, _, judgment: judgments.__setitem__(place, judgment), lambda _: False)
        return [judgment or run.not_judged() for judgment in judgments]
    with JudgmentWriter.open(Path(out), judge=signature_of(judge), examples=source.index) as writer:
        await run.all(lambda _, example_id, judgment: writer.write(example_id, judgment), writer.__contains__)
    return writer.judgments(otherwise=run.not_judged())


def signature_of(judge: Judge) -> str:
    """Who wrote a judgment: name and fingerprint, by the model that judges.

    One that is left to the environment may be another one when a file of judgments is resumed.
    """
    return f"{judge.name}@{judge.replace(model=resolve(judge.model)).fingerprint}"


class _Ceiling:
    """Dollars that a run may spend. What is in flight counts with the mean of what is known."""

    def __init__(self, most: float) -> None:
        self.most = most
        self.spent = 0.0
        self._in_flight = self._known = 0

    def room(self) -> bool:
        """Whether one more may be asked for."""
        return self.spent + (self._in_flight + 1) * (self.spent / max(self._known, 1)) <= self.most

    def begin(self) -> None:
        self._in_flight += 1

    def end(self, cost: float) -> None:
        self._in_flight -= 1
        self._known += 1
        self.spent += cost


class _Run:
    """One run over all items of a source."""

    def __init__(
        self,
        judge: Judge,
        source: Examples,
        *,
        limit: int,
        ceiling: _Ceiling | None,
        progress: Progress | None,
        on_judgment: OnJudgment | None,
    ) -> None:
        self._judge = judge
        self._source = source
        self._limit = limit
        self._ceiling = ceiling
        self._progress = progress
        self._on_judgment = on_judgment
        self._finished = self._failed_in_a_row = 0
        self._last_answer = -math.inf
        self._stopped = ""

    def not_judged(self) -> Judgment:
        """The judgment of every item that the run stopped before."""
        spent = "" if self._ceiling is None else f" (${self._ceiling.spent:.4g} spent)"
        hint = "run it again with the same `out` (-o) to go on from there"
        return Judgment(error=f"{NOT_JUDGED}{self._stopped}{spent}; {hint}", memory_hash=self._judge.memory.hash)

    async def all(self, keep: Callable[[int, str, Judgment], None], has: Callable[[str], bool]) -> None:
        """Judge all items but those that one `has` already; `keep` is given place, id and judgment of each."""
        total = len(self._source)
        waiting = enumerate(self._source)
        first_is_known = asyncio.Event()  # what a call costs must be known before many are made

        async def work(number: int) -> None:
            if self._ceiling is not None and number > 0:
                await first_is_known.wait()
            skipped = 0
            while self._may_go_on():
                # Workers share one iterator: each takes the next item when it is free.
                place, example = next(waiting, (-1, None))
                if example is None:
                    break
                if has(example.id):
                    skipped += 1
                    if skipped % _TURN == 0:
                        await asyncio.sleep(0)
                else:
                    judgment = await self._judged(example)
                    keep(place, example.id, judgment)
                    if self._on_judgment is not None:
                        self._on_judgment(example.id, judgment)
                    self._check(judgment)
                    first_is_known.set()
                self._finished += 1
                if self._progress is not None:
                    self._progress("judge", self._finished, total)
            first_is_known.set()

        await aio.together(work(number) for number in range(min(self._limit, total)))

    def _may_go_on(self) -> bool:
        ceiling = self._ceiling
        if ceiling is not None and not ceiling.room():
            self._stopped = self._stopped or f"one more would pass the ceiling of ${ceiling.most:g}"
        return not self._stopped

    async def _judged(self, example: Example) -> Judgment:
        if self._ceiling is not None:
            self._ceiling.begin()
        try:
            judgment = await self._judge.ajudge(example)
        except (ModelError, InputError) as error:
            usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, ModelUnavailable | RateLimited | ModelRejected) and not isinstance(
                error, PromptTooLong
            ):
                self._note_failure(reason)
            return Judgment(error=reason, memory_hash=self._judge.memory.hash, usage=usage)
        self._failed_in_a_row = 0
        self._last_answer = time.monotonic()
        return judgment

    def _note_failure(self, reason: str) -> None:
        """Give up where nothing works: a server that is down would cost every item all its attempts."""
        self._failed_in_a_row += 1
        silent = time.monotonic() - self._last_answer
        if self._failed_in_a_row >= max(_HOPELESS, 2 * self._limit) and silent > _PATIENCE:
            self._stopped = self._stopped or f"{self._failed_in_a_row} items in a row failed, the last with {reason}"

    def _check(self, judgment: Judgment) -> None:
        """Count the cost of a judgment that is kept. Raises ConfigurationError when a ceiling cannot hold."""
        if self._ceiling is None:
            return
        cost = judgment.usage.cost
        self._ceiling.end(cost or 0.0)
        if cost is None:
            raise ConfigurationError(
                f"max_cost cannot hold: what a call of {judgment.model or self._judge.model_name} costs is not known (the "
                "price list has no such model at this address, or the server counts no tokens); leave the ceiling out "
                "(--max-cost, max_cost), and limit the examples instead"
            )
