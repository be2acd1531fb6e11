"""Kinds of work that set judges, models or runs beside each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from memalign.errors import ModelError
from memalign.evaluation import adrift, areplay
from memalign.io import JudgmentFile
from memalign.judge.scorecard import ascore
from memalign.registry import aadopt_model, load_named
from memalign.types import Judgment, as_json

if TYPE_CHECKING:
    from memalign_server.work.kinds import Work

__all__ = ["drift", "replay", "run_of", "scorecard"]


async def scorecard(work: Work) -> dict[str, Any]:
    """`examples` judged by the judges of `judges`, such as `tone` and `tone@2`."""
    names = list(dict.fromkeys((work.judge, *work.arguments["judges"])))
    judges = {name: await asyncio.to_thread(load_named, work.registry, name) for name in names}
    for judge in judges.values():
        await asyncio.to_thread(work.tells, work.arguments["examples"], judge.columns, judge.name)
    card = await ascore(
        judges,
        work.arguments["examples"],
        concurrency=work.arguments.get("concurrency"),
        max_cost=work.arguments.get("max_cost"),
        progress=work.progress,
    )
    for total in card.totals:
        name = judges[total.judge].name
        number = None if name == total.judge else int(total.judge.rpartition("@")[2])
        await work.spent("judging", total.usage, number, name)
    plain: dict[str, Any] = as_json(card.to_dict() | {"usage": card.usage, "cases": [row.to_dict() for row in card]})
    return plain


async def replay(work: Work) -> dict[str, Any]:
    """Which verdicts the other `model` would turn, on `cases` or on those in memory; `adopt` then makes it the next version."""
    judge = await asyncio.to_thread(work.registry.load, work.judge, work.arguments.get("version"))
    cases = work.arguments.get("cases") or None
    if cases is not None:
        await asyncio.to_thread(work.tells, cases, judge.columns)
    model = work.arguments["model"]
    found = await areplay(judge, model, cases, concurrency=work.arguments.get("concurrency"), progress=work.progress)
    await work.spent("judging", found.usage_before + found.usage, work.arguments.get("version"))
    adopted = None
    if work.arguments.get("adopt"):
        if found.errors:
            raise ModelError(
                f"nothing was adopted: {len(found.errors)} cases were not judged, the first: {found.errors[0][1]}"
            )
        adopted = await aadopt_model(work.registry, work.judge, model, progress=work.progress)
    return {"replay": as_json(found.to_dict()), "adopted": adopted}


async def drift(work: Work) -> dict[str, Any]:
    """Whether the runs `first` and `second`, results of judging, differ by more than chance."""
    judge = await asyncio.to_thread(work.registry.load, work.judge, work.arguments.get("version"))
    first, second = (run_of(work.arguments[name]) for name in ("first", "second"))
    examples = work.arguments.get("first_examples"), work.arguments.get("second_examples")
    found = await adrift(
        judge,
        first,
        second,
        examples=(examples[0], examples[1]) if examples[0] and examples[1] else None,
        false_alarms=work.arguments["false_alarms"],
        n=work.arguments["n"],
    )
    return {"drift": as_json(found.to_dict())}


def run_of(result: dict[str, Any]) -> JudgmentFile:
    """The judgments of a job that judged, as they would be read from a file."""
    judgments = {each["id"]: Judgment.from_dict(each) for each in result["judgments"]}
    return JudgmentFile(judge=result["judge"], judgments=judgments, contents={})
