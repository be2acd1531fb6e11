"""Running a benchmark: judge what is missing, and keep every judgment as soon as it is there.

A run can stop at any moment and go on, also on another machine that has only its raw lines. What a cell's judge learned is
then learned again. If that gives another judge, the cell is judged anew, and the notes say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from memalign import aio
from memalign.errors import MemalignError
from memalign.models import resolve
from memalign.types import Usage
from memalign_bench.config import OURS
from memalign_bench.memo import engine_of, remembering
from memalign_bench.methods.base import Fitted, Method, Setting, Verdict
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.competitor import Competitor
from memalign_bench.methods.judges import JUDGES
from memalign_bench.old_names import competitor_folder
from memalign_bench.plan import Batch, Plan, content_mark
from memalign_bench.raw import Cell, Fit, Line, RawFolder, View, engine_mark
from memalign_bench.spending import Spending, StoppedError
from memalign_bench.tasks import Case, taught_digest

__all__ = ["Outcome", "engines", "run_benchmark"]

Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True)
class Outcome:
    """What a run did: judgments made, and how many of them failed.

    `notes` name every failed judgment, every cell that could not learn, and every cell that is judged anew. `stopped` says
    why the run ended early, or None. `cost` is in US dollars, without remembered calls; None when one is not known.
    """

    judged: int = 0
    failed: int = 0
    cost: float | None = 0.0
    notes: list[str] = field(default_factory=list)
    stopped: str | None = None


def engines(plan: Plan) -> dict[str, str]:
    """What computes the answers of those of the plan's judge models that run in this process, by the model's name."""
    models = {name: resolve(name) for name in _asked(plan)}
    return {name: engine for name, model in models.items() if (engine := engine_of(model))}


async def run_benchmark(plan: Plan, raw: RawFolder, *, memo: Path, progress: Progress | None = None) -> Outcome:
    """Do what is missing of `plan` and add it to `raw`; `memo` is the folder of remembered model calls.

    A judgment that fails is kept with its error, and the next run tries it again. A method that cannot learn is named in the
    outcome, and the others go on. Raises ConfigurationError for a judge model that is not there. At the spend limit no call
    begins; those in flight are finished and kept.
    """
    runner = _Runner(plan, raw, memo, progress)
    runner.drop_misplaced()
    try:
        while await runner.go_through():
            pass  # judgments of another state of a method were dropped: they are missing now
    finally:
        await runner.close()
    return runner.outcome()


def _asked(plan: Plan) -> list[str]:
    """The judge models that some method of the plan asks."""
    return list(dict.fromkeys(cell.model for cell in plan.cells if cell.method not in BASELINES))


class _Runner:
    def __init__(self, plan: Plan, raw: RawFolder, memo: Path, progress: Progress | None) -> None:
        self._plan = plan
        self._raw = raw
        self._memo = memo
        self._progress = progress
        self._spending = Spending(plan.config.spend_limit, self._cost)
        self._models = {
            name: remembering(resolve(name), memo / "calls", paid=self._spending.pay, gate=self._spending.gate)
            for name in _asked(plan)
        }
        self._engines = {name: engine_mark(engine_of(model.model)) for name, model in self._models.items()}
        self._learned: dict[Cell, Fitted] = {}
        self._cannot_learn: set[Cell] = set()
        self._failed: set[tuple[Cell, str, View]] = set()
        self._done = self._total = 0
        self._outcome = Outcome()
        self._dropped = False

    def outcome(self) -> Outcome:
        """What was done until now."""
        self._outcome.cost, self._outcome.stopped = self._spending.cost, self._spending.stopped
        return self._outcome

    def drop_misplaced(self) -> None:
        """Remove judgments of cases that this split does not test: a report would count them."""
        for cell in self._plan.cells:
            if misplaced := self._plan.misplaced(cell, self._raw):
                keys = {line.key for line in misplaced}
                self._raw.replace(cell, [line for line in self._raw.lines(cell) if line.key not in keys])
                self._outcome.notes.append(
                    f"{cell}: {len(misplaced)} judgments of cases that this split does not test are taken out"
                )

    async def go_through(self) -> bool:
        """Do every batch that is missing; True when judgments were dropped, so that there are more."""
        self._dropped = False
        self._done, self._total = self._plan.counts(self._raw)
        for batch in self._plan.batches(self._raw):
            await self.do(batch)
            if self._spending.stopped:
                return False
            if self._dropped:
                return True
        return False

    async def do(self, batch: Batch) -> None:
        """Judge the batch's cases; the method learns first where it has not."""
        cell = batch.cell
        # What failed is tried again by the next run: by this one, a method that was let go would learn again for it.
        todo = [(case, view) for case, view in batch.todo if (cell, case.id, view) not in self._failed]
        if cell in self._cannot_learn or not todo:
            return
        try:
            fitted = await self._fitted(cell)
        except StoppedError:
            return
        except MemalignError as error:
            self._cannot_learn.add(cell)
            self._outcome.notes.append(f"{cell}: could not learn: {error}")
            return
        several = cell.method in JUDGES  # competitors take one case at a time
        limit = self._models[cell.model].limits.concurrency if several else 1
        waiting = iter(todo)

        async def work() -> None:
            for case, view in waiting:
                if self._spending.stopped:
                    return  # what is in flight is kept, nothing more is asked
                try:
                    verdict = await fitted.judge(case, view)
                except StoppedError:
                    return
                self._keep(cell, case, view, verdict, fitted.fit)

        await aio.together(work() for _ in range(min(limit, len(todo))))
        if not self._needed_again(cell):
            await self._learned.pop(cell).close()

    def _keep(self, cell: Cell, case: Case, view: View, verdict: Verdict, fit: Fit) -> None:
        usage = verdict.usage
        line = Line(
            id=case.id,
            group=case.group,
            label=case.label,
            content=content_mark(case),
            value=verdict.value,
            error=verdict.error,
            view=view,
            calls=usage.calls,
            tokens_in=usage.input_tokens,
            cached=usage.cached_tokens,
            tokens_out=usage.output_tokens,
            seconds=round(usage.seconds.get("model", 0.0), 3),
            cost=self._cost(usage),
            fit=fit.id,
            engine="" if cell.method in BASELINES else self._engines[cell.model],
        )
        if line.error is None or line not in self._raw.lines(cell):  # a failure that repeats itself says nothing new
            self._raw.append(cell, [line])
        self._outcome.judged += 1
        if verdict.error is not None:
            self._failed.add((cell, case.id, view))
            self._outcome.failed += 1
            self._outcome.notes.append(f"{cell}: {case.id}: {verdict.error}")
        self._done += 1
        if self._progress is not None:
            self._progress("judging", self._done, self._total)

    async def _fitted(self, cell: Cell) -> Fitted:
        """The cell's judge, learning from the stage before where the method can."""
        if cell not in self._learned:
            config = self._plan.config
            earlier = [stage for stage in config.stages_of(cell.method) if stage < cell.stage]
            before = await self._fitted(msgspec.structs.replace(cell, stage=earlier[-1])) if earlier else None
            if self._progress is not None:
                self._progress("learning", len(self._learned), len(self._plan.cells))
            fitted = await self._method(cell.method).learn(self._setting(cell), self._plan.taught(cell), before)
            self._learned[cell] = fitted
            self._take_over(cell, fitted.fit)
        return self._learned[cell]

    def _take_over(self, cell: Cell, fit: Fit) -> None:
        """Drop lines that another state of the method judged, so that they are judged again.

        The fit's id alone does not tell: a baseline's says only how many cases taught it.
        """
        lines = self._raw.lines(cell)
        kept = [line for line in lines if line.fit == fit.id] if self._plan.knows(cell, self._raw) else []
        if len(kept) < len(lines):
            self._raw.replace(cell, kept)
            self._dropped = True
            self._outcome.notes.append(
                f"{cell}: learned again, it is another judge than that of {len(lines) - len(kept)} judgments, which are "
                "judged anew"
            )
        usage = Usage(
            calls=fit.calls,
            input_tokens=fit.tokens_in,
            cached_tokens=fit.cached,
            output_tokens=fit.tokens_out,
            cost=fit.cost,
        )
        taught = taught_digest(self._plan.taught(cell))
        self._raw.write_fit(cell, msgspec.structs.replace(fit, cost=self._cost(usage), taught=taught))

    def _cost(self, usage: Usage) -> float | None:
        prices = self._plan.config.prices
        return usage.cost if prices is None else prices.of(usage)

    def _setting(self, cell: Cell) -> Setting:
        return Setting(task=self._plan.tasks[cell.task], chat=self._models.get(cell.model), seed=cell.seed)

    def _method(self, name: str) -> Method:
        if name in OURS:
            return OURS[name]
        config = self._plan.config
        return Competitor(
            name=name,
            python=(config.folder / config.competitors.python).absolute(),
            folder=competitor_folder(self._memo),
            prices=config.prices,
            paid=self._spending.pay,
            gate=self._spending.gate,
        )

    def _needed_again(self, cell: Cell) -> bool:
        """Whether a later cell or round needs the learned judge: learning again may cost much and give another one."""
        return (
            self._dropped  # its own lines, perhaps: they are judged in the next round
            or self._plan.config.rows_at_once > 0
            or any(
                other.stage > cell.stage and msgspec.structs.replace(other, stage=cell.stage) == cell
                for other in self._plan.cells
            )
        )

    async def close(self) -> None:
        """Let go of every method that still holds something."""
        await asyncio.gather(*(fitted.close() for fitted in self._learned.values()))
