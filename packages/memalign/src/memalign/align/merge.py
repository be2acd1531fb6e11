"""Merging: guidelines that several calls wrote side by side, or that outgrew a prompt, become fewer by one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memalign.errors import ModelError
from memalign.judge import Judge
from memalign.memory import Memory
from memalign.memory.guard import guideline_fault, tidy
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts import estimate_tokens, render_merge
from memalign.types import Guideline, Usage

__all__ = ["merge", "outgrown"]

BUDGET_TOKENS = 4_000
"""Of all guidelines in force: what a judge's prompt holds of them at most. A memory with more is merged."""
ANSWER_TOKENS = 8_192


def outgrown(memory: Memory) -> bool:
    """Whether the guidelines in force take more than their budget of tokens."""
    return sum(estimate_tokens(guideline.text) + 2 for guideline in memory.semantic) > BUDGET_TOKENS


async def merge(judge: Judge, memory: Memory, model: ChatModel) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with its distilled guidelines merged by one call, what that cost, and a note where it failed.

    A merged guideline is exposed to all that the guidelines of the prompt were exposed to. Those that it was made from
    stay behind it, and step in when it goes. What a person wrote, confirmed or retired is left alone.
    """
    guidelines = tuple(g for g in memory.semantic if g.supported_by and not g.people)
    if len(guidelines) < 2:
        return memory, Usage(), ()
    system, user = render_merge(instructions=judge.instructions, value_type=judge.value_type, guidelines=guidelines)
    request = ChatRequest(
        system=system,
        user=user,
        schema=_schema([guideline.id for guideline in guidelines]),
        schema_name="merged",
        max_tokens=ANSWER_TOKENS,
        timeout=judge.parameters.get("timeout"),
    )
    try:
        reply = await model.complete(request)
    except ModelError as error:
        note = f"the guidelines were not merged, they stay as they are: {type(error).__name__}: {error}"
        return memory, error.usage or Usage(), (note,)
    entries = reply.data.get("guidelines")
    return _merged(memory, guidelines, entries if isinstance(entries, list) else ()), reply.usage, ()


def _schema(ids: Sequence[str]) -> dict[str, Any]:
    sources = {"type": "array", "items": {"type": "string", "enum": list(ids)}}
    entry = {"text": {"type": "string"}, "from": sources}
    item = {"type": "object", "properties": entry, "required": list(entry), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"guidelines": {"type": "array", "items": item}},
        "required": ["guidelines"],
        "additionalProperties": False,
    }


def _merged(memory: Memory, guidelines: Sequence[Guideline], entries: Sequence[Any]) -> Memory:
    """`memory` with a new guideline for each usable entry; a guideline goes into one of them at most."""
    left = {guideline.id: guideline for guideline in guidelines}
    exposed = tuple(sorted({key for guideline in guidelines for key in guideline.exposed_to}))
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("from"), list):
            continue
        sources = [left[name] for name in dict.fromkeys(map(str, entry["from"])) if name in left]
        text = tidy(str(entry.get("text") or ""))
        if len(sources) < 2 or guideline_fault(text) is not None:  # one rule alone stays as it is
            continue
        checked = [guideline.checks for guideline in sources if guideline.checks]
        new = Guideline(
            id=f"G{memory.next_guideline}",
            text=text,
            supported_by=tuple(sorted({key for guideline in sources for key in guideline.supported_by})),
            exposed_to=exposed,
            # The checks of one rule fire together: those of several rules would have to hold all at once.
            checks=checked[0] if len(checked) == 1 else (),
        )
        for guideline in sources:
            del left[guideline.id]
        replaced = [msgspec.structs.replace(guideline, replaced_by=new.id) for guideline in sources]
        memory = memory.with_guidelines([*replaced, new])
    return memory
