"""A judge on another model, as its next version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from memalign.judge import Progress
from memalign.registry.registry import Registry

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["aadopt_model"]


async def aadopt_model(registry: Registry, name: str, model: str, *, progress: Progress | None = None) -> int:
    """Make a judge on `model` the next version, with the answers that its calibrator rests on; the version's number."""

    def changed(judge: Judge) -> Judge:
        return judge.replace(model=model)

    saved = await asyncio.to_thread(registry.update, name, changed, "edit")
    if not saved.judge.memory:
        return saved.version
    result = await registry.aalign(name, progress=progress)
    return saved.version if result.version is None else result.version
