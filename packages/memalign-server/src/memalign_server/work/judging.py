"""One job under way, and its judging of the queue.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the
expert's label, and nobody could see whether the lesson helped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memalign.align import MemAlign
from memalign.evaluation import Usefulness
from memalign.judge import Judge, Progress
from memalign.registry import Registry
from memalign.types import Example, Judgment
from memalign_server.problems import Refused
from memalign_server.store import Store
from memalign_server.store.cases import (
    cases_ahead,
    latest_answered,
    store_judgments,
    unjudged,
)
from memalign_server.store.erasing import ERASED
from memalign_server.store.judges import is_redacted

AHEAD = 12
"""Cases of every person's queue that a new version judges before they are shown."""
HELD_OUT = 200
"""Answered cases that are held out and judged by every version, the latest answers first."""
AGAIN = 24
"""Answered cases that were not held out and are judged again, the latest answers first."""
_AT_ONCE = 16
"""Cases between two writes: what is judged can be reviewed while the rest is still judged."""


async def judge_hidden(judge: Judge, examples: Sequence[Example]) -> list[Judgment]:
    """Return a judge's judgments on cases, each hidden from it if it was taught.

    So the model is asked every time.
    """
    unknown = []
    runs = []
    for example in examples:
        hiding = judge.without_case(example)
        if hiding is judge:
            unknown.append(example)
        else:
            runs.append(hiding.ajudge_many([example]))
    if unknown:
        runs.append(judge.ajudge_many(unknown))
    judgments = {}
    for run in await asyncio.gather(*runs):
        for judgment in run:
            judgments[judgment.id] = judgment
    return [judgments[example.id] for example in examples]


async def useful_ranks(
    useful: Usefulness, judged: Sequence[tuple[Example, Judgment]]
) -> dict[str, float]:
    """Return how useful an answer on each case is, by its id, in the order of `memalign next`."""
    rated = [pair for pair in judged if pair[1].error is None]
    scores = await useful(rated) if rated else []
    ids = (example.id for example, _ in rated)
    return dict(zip(ids, scores, strict=True))


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job under way: where it works, on which judge, with what, and who hears of it."""

    registry: Registry
    store: Store
    judge: str
    arguments: Mapping[str, Any]
    progress: Progress

    def options(self) -> dict[str, Any]:
        """Return what the registry is given whenever it learns, forgets or erases."""
        return {
            "optimizer": MemAlign(max_cost=self.arguments.get("max_cost")),
            "progress": self.progress,
        }

    async def latest(self) -> tuple[Judge, int]:
        """Return the newest version of the judge, and its number."""
        history = await asyncio.to_thread(self.registry.history, self.judge)
        version = history[-1].number
        return await asyncio.to_thread(self.registry.load, self.judge, version), version

    def unjudged(self) -> list[Example]:
        """Return the cases of the queue without a judgment, in their order."""
        with self.store.read() as connection:
            return unjudged(connection, self.judge)

    async def judge_cases(
        self, judge: Judge, version: int, examples: Iterable[Example]
    ) -> list[Judgment]:
        """Judge cases and keep the judgments as they come.

        A case that fails says so and does not stop the rest.

        Raises:
            InputError: Something was erased from this version meanwhile: what it says is not kept,
                because it may repeat that.
        """
        cases = list(examples)
        judgments = []
        useful = Usefulness(judge)
        for start in range(0, len(cases), _AT_ONCE):
            part = cases[start : start + _AT_ONCE]
            new = await judge_hidden(judge, part)
            pairs = list(zip(part, new, strict=True))
            ranks = await useful_ranks(useful, pairs)
            # By its name no erasure of the judge runs beside this.
            with self.store.write("", self.judge) as connection:
                if is_redacted(connection, self.judge, version):
                    raise Refused(ERASED)
                store_judgments(connection, judge, version, pairs, ranks)
            judgments += new
            self.progress("judging", len(judgments), len(cases))
        return judgments

    async def judge_again(
        self, judge: Judge, version: int, *, blank: Iterable[Example] = ()
    ) -> int:
        """Have a new version judge what people see next, what measures it, and what it was taught.

        What it has judged already is not judged twice: a server may be killed meanwhile.

        Args:
            judge: The new version.
            version: Its number.
            blank: Cases to be judged, too.

        Returns:
            How many cases could not be judged, because the model failed.
        """
        name = judge.name
        with self.store.read() as connection:
            seen = cases_ahead(connection, name, n=AHEAD)
            seen += latest_answered(connection, name, held_out=True, most=HELD_OUT)
            seen += latest_answered(connection, name, held_out=False, most=AGAIN)
        cases = {}
        for case in seen:
            if case.judgment is None or case.is_behind(version):
                cases[case.case_id] = case.example
        for example in blank:
            cases[example.id] = example
        judgments = await self.judge_cases(judge, version, cases.values())
        return sum(judgment.error is not None for judgment in judgments)
