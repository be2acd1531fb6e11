"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote, within a spend limit.

Items are read when their turn comes, and with `out` their judgments go to the file as they come, so that memory stays
flat however many there are, and one slow item holds up nobody. The file is put into order at the end.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memalign import aio
from memalign.errors import ConfigurationError, InputError, ModelError, ModelRejected, ModelUnavailable, RateLimited
from memalign.io import Examples, ExampleSource, JudgmentWriter
from memalign.io.frames import is_frame
from memalign.models.calls import SpendLimit, SpendRun, check_concurrency
from memalign.models.judge_models import libraries_loaded, open_judging_model
from memalign.models.provider_errors import PromptTooLong
from memalign.prompts import prompts_hash
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["OnJudgment", "Progress", "Run", "judge_many", "signature_of"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

OnJudgment = Callable[[str, Judgment], None]
"""Called with the id and the judgment of every item that this run judged, errors included, as soon as it is kept."""

Keep = Callable[[int, str, Judgment], None]
"""Called with the place, the id and the judgment of an item."""

_TURN = 100  # rows that are read without letting others run
_HOPELESS = 32  # failed calls in a row, or twice what is in flight: nothing works
_PATIENCE = 600.0  # seconds after the last answer in which a server may come back


async def judge_many(
    judge: Judge,
    examples: ExampleSource | Examples,
    *,
    concurrency: int | None,
    out: str | Path | None,
    progress: Progress | None = None,
    max_cost: float | SpendLimit | None = None,
    on_judgment: OnJudgment | None = None,
) -> Sequence[Judgment]:
    """See `Judge.ajudge_many`; a SpendLimit may have been that of earlier runs too."""
    check_concurrency(concurrency)
    rows = isinstance(examples, Examples | Iterable | str | Path) or is_frame(examples)
    if isinstance(examples, Example | Mapping) or not rows:
        raise InputError("examples are a list of items, or the path of a file of them; one item is judged by judge(…)")
    spend_limit = max_cost if max_cost is None or isinstance(max_cost, SpendLimit) else SpendLimit(max_cost)
    source = examples
    if not isinstance(source, Examples):
        source = Examples.of(source, columns=judge.columns, fields=judge.fields)
    for step, _ in enumerate(source.checking()):
        if step % _TURN == 0:
            await asyncio.sleep(0)
    await libraries_loaded(judge, vectors=bool(judge.memory.cases))
    model = open_judging_model(judge)
    run = Run(
        judge=judge,
        source=source,
        limit=concurrency or model.limits.concurrency,
        spending=None if spend_limit is None else spend_limit.start_run(),
        progress=progress,
        on_judgment=on_judgment,
    )
    if out is None:
        judgments: list[Judgment | None] = [None] * len(source)
        await run.all(lambda place, _, judgment: judgments.__setitem__(place, judgment))
        return [
            judgment or msgspec.structs.replace(run.not_judged(), id=name)
            for judgment, name in zip(judgments, source.hashes, strict=True)
        ]
    with JudgmentWriter(out, judge=signature_of(judge), examples=source.hashes) as writer:
        await run.all(lambda _, example_id, judgment: writer.write(example_id, judgment), writer)
    return writer.judgments(otherwise=run.not_judged())


def signature_of(judge: Judge) -> str:
    """Who wrote a judgment: name, fingerprint by the model that judges, and the wording of the prompts.

    A model that is left to the environment may be another one when a file of judgments is resumed, and so may memalign.
    """
    return f"{judge.name}@{judge.replace(model=open_judging_model(judge)).fingerprint}-{prompts_hash()[:6]}"


def _may_be_hopeless(error: ModelError | InputError, *, again: bool) -> bool:
    """Whether the next item may well fail too, or the item alone is at fault, as one that is rejected `again`."""
    if isinstance(error, ModelRejected):
        return not again and not isinstance(error, PromptTooLong)
    return isinstance(error, ModelUnavailable | RateLimited)


@dataclass(kw_only=True)
class Run:
    """One run over all items of a source."""

    judge: Judge
    source: Examples | Sequence[Example]
    limit: int
    spending: SpendRun | None
    progress: Progress | None
    on_judgment: OnJudgment | None
    finished: int = 0
    failed_in_a_row: int = 0
    last_answer: float = -math.inf
    stopped: str = ""

    def not_judged(self) -> Judgment:
        """The judgment of every item that the run stopped before."""
        spent = "" if self.spending is None else f" (${self.spending.limit.spent:.4g} spent)"
        hint = "run it again with the same `out` (-o) to go on from there"
        return Judgment(
            error=f"NotJudged: {self.stopped}{spent}; {hint}", memory_hash=self.judge.memory.hash, not_judged=True
        )

    async def all(self, keep: Keep, earlier: JudgmentWriter | None = None) -> None:
        """Judge all items but those that `earlier` runs judged; `keep` is given place, id and judgment of each."""
        total = len(self.source)
        waiting = enumerate(self.source)
        price_is_known = asyncio.Event()
        skipped = 0

        async def step() -> bool:
            """Judge the next item; False where there is none, or the run stopped."""
            nonlocal skipped
            if not self.may_go_on():
                return False
            # Workers share one iterator: each takes the next item when it is free.
            place, example = next(waiting, (-1, None))
            if example is None:
                return False
            if earlier is not None and example.id in earlier:
                skipped += 1
                if skipped % _TURN == 0:
                    await asyncio.sleep(0)
            else:
                judgment = await self.judged(example, again=earlier is not None and earlier.failed(example.id))
                self.kept(place, judgment, keep)
            self.done(total)
            return True

        async def work(number: int) -> None:
            # Under a spend limit one item follows the other until it is known what one costs.
            if number > 0 and self.spending is not None:
                await price_is_known.wait()
            while number == 0 and not self._price_known and await step():
                pass
            price_is_known.set()
            while await step():
                pass

        await aio.together(work(number) for number in range(min(self.limit, total)))

    def done(self, total: int) -> None:
        """One item more is finished."""
        self.finished += 1
        if self.progress is not None:
            self.progress("judge", self.finished, total)

    @property
    def _price_known(self) -> bool:
        return self.spending is None or self.spending.price_known

    def may_go_on(self) -> bool:
        """Whether another item may be asked about."""
        if self.spending is not None and not self.spending.room():
            self.stopped = self.stopped or f"one more would pass the limit of ${self.spending.limit.most:g}"
        return not self.stopped

    def kept(self, place: int, judgment: Judgment, keep: Keep) -> None:
        """Keep a judgment, tell of it, and count what it cost."""
        keep(place, judgment.id, judgment)
        if self.on_judgment is not None:
            self.on_judgment(judgment.id, judgment)
        self._check(judgment)

    async def judged(self, example: Example, *, again: bool = False) -> Judgment:
        """The judgment of one item, or one with the error; `again`: an earlier run asked about it and got an error."""
        if self.spending is not None:
            self.spending.begin()
        try:
            judgment = await self.judge.ajudge(example)
        except (ModelError, InputError) as error:
            usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
            reason = f"{type(error).__name__}: {error}"
            if _may_be_hopeless(error, again=again):
                self._note_failure(reason)
            return Judgment(id=example.id, error=reason, memory_hash=self.judge.memory.hash, usage=usage)
        self.failed_in_a_row = 0
        self.last_answer = time.monotonic()
        return judgment

    def _note_failure(self, reason: str) -> None:
        """Give up where nothing works: a server that is down would cost every item all its attempts."""
        self.failed_in_a_row += 1
        silent = time.monotonic() - self.last_answer
        side_by_side = self.limit if self._price_known else 1
        if self.failed_in_a_row >= max(_HOPELESS, 2 * side_by_side) and silent > _PATIENCE:
            self.stopped = self.stopped or f"{self.failed_in_a_row} items in a row failed, the last with {reason}"

    def _check(self, judgment: Judgment) -> None:
        """Count the cost of a judgment that is kept. Raises ConfigurationError when the limit cannot hold."""
        if self.spending is None:
            return
        cost = judgment.usage.cost
        self.spending.end(cost or 0.0, answered=judgment.error is None or judgment.usage.calls > 0)
        if cost is None:
            raise ConfigurationError(
                f"max_cost cannot hold: what a call of {judgment.model or self.judge.model_name} costs is not known (the "
                "price list has no such model at this address, or the server counts no tokens); say what it costs "
                "(memalign edit NAME --price input=…,output=…), or leave the limit out (--max-cost, max_cost), and limit "
                "the examples instead"
            )
