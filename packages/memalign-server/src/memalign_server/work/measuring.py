"""Kinds of work that measure a judge on labelled cases, or say what to label next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from memalign import Judge
from memalign.evaluation import aevaluate as measure
from memalign.evaluation import agate, anext_cases, areport, as_html, as_markdown
from memalign.types import as_json

if TYPE_CHECKING:
    from memalign_server.work.kinds import Work

__all__ = ["evaluate", "gate", "next_to_label", "report"]


async def _judge(work: Work, version: int | None) -> Judge:
    judge = await asyncio.to_thread(work.registry.load, work.judge, version)
    if labelled := work.arguments.get("labelled"):
        await asyncio.to_thread(work.tells, labelled, judge.columns)
    return judge


async def evaluate(work: Work) -> dict[str, Any]:
    """How far the judge agrees with the labels of `labelled`, a list of rows."""
    judge = await _judge(work, work.arguments.get("version"))
    found = await measure(
        judge, work.arguments["labelled"], max_cost=work.arguments.get("max_cost"), progress=work.progress
    )
    await work.spent("judging", found.usage, work.arguments.get("version"))
    return {"evaluation": as_json(found.to_dict()), "summary": str(found)}


async def gate(work: Work) -> dict[str, Any]:
    """Whether the judge passes `minimum` on `labelled`, and is `not_worse_than` so many points against `baseline`."""
    judge = await _judge(work, work.arguments.get("version"))
    number = work.arguments.get("baseline")
    base = None if number is None else await _judge(work, number)
    found = await agate(
        judge,
        work.arguments["labelled"],
        minimum=work.arguments.get("minimum") or {},
        baseline=base,
        not_worse_than=work.arguments.get("not_worse_than"),
        progress=work.progress,
    )
    await work.spent("judging", found.asked, work.arguments.get("version"))
    return {"outcome": found.outcome, "gate": as_json(found.to_dict())}


async def report(work: Work) -> dict[str, Any]:
    """The evidence on cases that the judge has not learned from: as data, and as a page and as text to keep."""
    judge = await _judge(work, work.arguments.get("version"))
    found = await areport(judge, work.arguments["labelled"], progress=work.progress)
    return {"report": as_json(found.to_dict()), "html": as_html(found), "markdown": as_markdown(found)}


async def next_to_label(work: Work) -> dict[str, Any]:
    """Which `n` of `cases` experts should label next, and why."""
    judge = await _judge(work, work.arguments.get("version"))
    found = await anext_cases(
        judge,
        work.arguments["cases"],
        n=work.arguments.get("n", 5),
        max_cost=work.arguments.get("max_cost"),
        progress=work.progress,
    )
    await work.spent("judging", found.usage, work.arguments.get("version"))
    return dict(as_json(found))
