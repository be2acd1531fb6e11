"""Tools that read a trace: what a judge may ask for. `prompts.trace_text` says what each shows."""

from __future__ import annotations

import re
from typing import Any

from memalign.types import ToolCall

__all__ = ["tool_call_of", "tool_call_schema"]

MOST_SPANS = 8
MOST_TEXT = 200


def tool_call_schema(*, brief: bool) -> dict[str, Any]:
    """The JSON schema of a tool call; a weak model (`brief`), which would write on and on, gets bounds on its texts."""

    def text(most: int) -> dict[str, Any]:
        return {"type": "string"} | ({"maxLength": most} if brief else {})

    properties = {
        "why": text(160),
        "tool": {"type": "string", "enum": ["read", "search", "children", "enough"]},
        "spans": text(40),
        "part": {"type": "integer"},
        "text": text(80),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_ID = re.compile(r"(?<![A-Za-z0-9])[Ss](\d{1,9})(?![A-Za-z0-9])")


def tool_call_of(data: dict[str, Any]) -> ToolCall | None:
    """The tool call that a model asks for, whatever it wrote; None when it has seen enough."""
    tool, part = data.get("tool"), data.get("part")
    if tool == "search":
        return ToolCall(tool=tool, text=" ".join(str(data.get("text") or "").split())[:MOST_TEXT])
    if tool not in ("read", "children"):
        return None
    named = dict.fromkeys(f"S{int(number)}" for number in _ID.findall(str(data.get("spans") or "")))
    number = part if isinstance(part, int) and not isinstance(part, bool) else 1
    most = MOST_SPANS if tool == "read" else 1
    return ToolCall(tool=tool, spans=tuple(named)[:most], part=min(max(number, 1), 10**6))
