"""The kinds of long work: what a job of each is given, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memalign.align import MemAlign
from memalign.judge import Progress
from memalign.registry import Registry
from memalign_server.work import measuring

__all__ = ["KINDS", "Kind", "Work"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job under way: the registry, the judge's name, the arguments, and whom to tell how far it is."""

    registry: Registry
    judge: str
    arguments: Mapping[str, Any]
    progress: Progress


Kind = Callable[[Work], Awaitable[dict[str, Any]]]


def _optimizer(work: Work) -> MemAlign:
    names = ("reflection_model", "concurrency", "max_cost", "careful")
    return MemAlign(**{name: work.arguments[name] for name in names if work.arguments.get(name) is not None})


async def align(work: Work) -> dict[str, Any]:
    """Learn `feedback`, a list of rows; none: what is pending. `must_exist`: overwrite, and nothing else."""
    options = {name: bool(work.arguments.get(name)) for name in ("skip_invalid", "must_exist", "allow_erased")}
    rows = tuple(work.arguments.get("feedback") or ())
    result = await work.registry.aalign(work.judge, rows, optimizer=_optimizer(work), progress=work.progress, **options)
    return {**result.to_dict(), "summary": str(result)}


async def unalign(work: Work) -> dict[str, Any]:
    """Forget the feedback that `keys` and `source` name, from the next version on."""
    keys, source = tuple(work.arguments.get("keys") or ()), work.arguments.get("source")
    result = await work.registry.aunalign(
        work.judge, *keys, source=source, optimizer=_optimizer(work), progress=work.progress
    )
    return {**result.to_dict(), "summary": str(result)}


async def erase(work: Work) -> dict[str, Any]:
    """Erase feedback from all versions; the result is the receipt. It cannot be stopped half way."""
    receipt = await asyncio.to_thread(
        work.registry.erase,
        work.judge,
        tuple(work.arguments.get("keys") or ()),
        source=work.arguments.get("source"),
        matching=work.arguments.get("matching"),
        optimizer=_optimizer(work),
        progress=work.progress,
    )
    return receipt.to_dict()


async def judge(work: Work) -> dict[str, Any]:
    """Judge `examples`, a list of rows; the judgments come in their order."""
    chosen = await asyncio.to_thread(work.registry.load, work.judge, work.arguments.get("version"))
    judgments = await chosen.ajudge_many(
        work.arguments["examples"],
        concurrency=work.arguments.get("concurrency"),
        max_cost=work.arguments.get("max_cost"),
        progress=work.progress,
    )
    return {"judgments": [each.to_dict() for each in judgments]}


KINDS: Mapping[str, Kind] = {
    "align": align,
    "unalign": unalign,
    "erase": erase,
    "judge": judge,
    "evaluate": measuring.evaluate,
    "gate": measuring.gate,
    "report": measuring.report,
    "next": measuring.next_to_label,
}
"""Every kind by its name."""
