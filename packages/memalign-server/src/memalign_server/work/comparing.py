"""Kinds of work that set judges, models or runs beside each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from memalign.errors import ModelError
from memalign.evaluation import adrift, areplay
from memalign.io import JudgmentFile
from memalign.registry import aadopt_model
from memalign.types import Judgment, as_json

if TYPE_CHECKING:
    from memalign_server.work.kinds import Work

__all__ = ["drift", "replay", "run_of"]


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
