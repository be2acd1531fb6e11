"""From the model's answer to a Judgment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memalign.errors import InvalidOutput, InvalidValue
from memalign.judge.prompt import prepare
from memalign.models.resolve import resolve
from memalign.records import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide"]


async def decide(judge: Judge, example: Example) -> Judgment:
    """Ask the judge's model about one item, and read its verdict. Raises a ModelError when there is none."""
    model = resolve(judge.model)
    prepared = await prepare(judge, example, model)
    started = time.perf_counter()
    reply = await model.complete(prepared.request)
    seconds = prepared.seconds | {"model": time.perf_counter() - started}
    try:
        value = judge.value_type.parse(reply.data.get("value"))
    except InvalidValue as error:
        # Not what it answered: errors are kept, in ledgers and judgments, and may not carry anyone's words along.
        allowed = judge.value_type.allowed
        raise InvalidOutput(
            f"{model.name} answered outside the value type; allowed: {allowed}", usage=reply.usage
        ) from error
    return Judgment(
        value=value,
        rationale=str(reply.data.get("rationale") or "").strip() or None,
        guideline_ids=prepared.guideline_ids,
        example_ids=prepared.example_ids,
        memory_hash=judge.memory.hash,
        model=model.name,
        usage=reply.usage + Usage(seconds=seconds),
        notes=prepared.notes,
    )
