"""One job under way, and its judging of the queue.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the expert's label, and
nobody could see whether the lesson helped.
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
    pairs = [(judge.without_case(example), example) for example in examples]
    others = [example for hiding, example in pairs if hiding is judge]
    runs = [judge.ajudge_many(others)] if others else []
    runs += [
        hiding.ajudge_many([example])
        for hiding, example in pairs
        if hiding is not judge
    ]
    judgments = {
        judgment.id: judgment for run in await asyncio.gather(*runs) for judgment in run
    }
    return [judgments[example.id] for example in examples]


async def useful_ranks(
    useful: Usefulness, judged: Sequence[tuple[Example, Judgment]]
) -> dict[str, float]:
    """Return how useful an answer on each case is, by its id, in the order of `memalign next`."""
    rated = [
        (example, judgment) for example, judgment in judged if judgment.error is None
    ]
    scores = await useful(rated) if rated else []
    return {
        example.id: score for (example, _), score in zip(rated, scores, strict=True)
    }


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
        version = (await asyncio.to_thread(self.registry.history, self.judge))[
            -1
        ].number
        return await asyncio.to_thread(self.registry.load, self.judge, version), version

    def unjudged(self) -> list[Example]:
        """Return the cases of the queue without a judgment, in their order."""
        with self.store.read() as connection:
            return unjudged(connection, self.judge)

    async def judge_cases(
        self, judge: Judge, version: int, examples: Iterable[Example]
    ) -> list[Judgment]:
        """Judge cases and keep the judgments as they come; a case that fails says so and does not stop the rest.

        What a version says is not kept once something was erased from it, because it may repeat that: InputError.
        """
        judgments, waiting, useful = list[Judgment](), list(examples), Usefulness(judge)
        while waiting:
            part, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            new = await judge_hidden(judge, part)
            pairs = list(zip(part, new, strict=True))
            ranks = await useful_ranks(useful, pairs)
            with self.store.write(
                "", self.judge
            ) as connection:  # by its name no erasure of the judge runs beside this
                if is_redacted(connection, self.judge, version):
                    raise Refused(ERASED)
                store_judgments(connection, judge, version, pairs, ranks)
            judgments += new
            self.progress("judging", len(judgments), len(judgments) + len(waiting))
        return judgments

    async def judge_again(
        self, judge: Judge, version: int, *, blank: Sequence[Example] = ()
    ) -> int:
        """Have a new version judge what people see next, what measures it, what it was taught, and what is blank.

        What it has judged already is not judged twice: a server may be killed meanwhile. Returns how many cases could
        not be judged, because the model failed.
        """
        with self.store.read() as connection:
            ahead = cases_ahead(connection, judge.name, n=AHEAD)
            measuring = latest_answered(
                connection, judge.name, held_out=True, most=HELD_OUT
            )
            teaching = latest_answered(
                connection, judge.name, held_out=False, most=AGAIN
            )
        behind = (
            case
            for case in (*ahead, *measuring, *teaching)
            if case.judgment is None or case.is_behind(version)
        )
        cases = {
            example.id: example
            for example in (*(case.example for case in behind), *blank)
        }
        judgments = await self.judge_cases(judge, version, cases.values())
        return sum(judgment.error is not None for judgment in judgments)
