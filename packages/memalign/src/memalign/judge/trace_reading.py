"""Reading a trace that is too long to show: the judge calls tools, one after the other, before it says its verdict.

Every step is an ordinary call that is answered by one small JSON object, so it works with every model, and each request
begins with the bytes of the one before, which providers serve from cache. The verdict is asked for last, in the very
form of any other verdict: all that holds for verdicts (the reason first, probabilities, samples) holds for these.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.content import SpanTree, span_tree
from memalign.content.encoding import estimate_tokens
from memalign.errors import InvalidOutput, ModelError
from memalign.models.base import ChatModel, ChatRequest
from memalign.models.calls import Calls
from memalign.prompts import render_tool_call, render_tools_cue, render_tools_intro, tool_call_text
from memalign.prompts.trace_text import show_tool_result
from memalign.types import Example, ToolCall, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.judge.prompt import Prompt

__all__ = ["MOST_TOOL_CALLS", "READ", "read_trace", "tool_call_of", "tool_call_schema"]

MOST_TOOL_CALLS = 10
"""How many tool calls a judgment may take, unless the judge's parameter `trace_tool_calls` says otherwise."""

READ = "tool call: "
"""How a note on what was read begins."""

LEAST_ROOM = 60
"""Tokens below which a tool could show next to nothing."""

ANSWER_TOKENS = 300

MOST_SPANS = 8
MOST_TEXT = 200


async def read_trace(
    judge: Judge, example: Example, prompt: Prompt, model: ChatModel, calls: Calls
) -> tuple[Prompt, Usage]:
    """`prompt` with what the judge chose to read in the item's trace, and what the tool calls cost.

    Unchanged, without any call, where the trace is shown whole or there is none. A model whose answer is no tool call
    ends the reading; any other failure of it raises its ModelError.
    """
    most = int(judge.parameters.get("trace_tool_calls", MOST_TOOL_CALLS))
    tree = span_tree(example.trace) if prompt.unread and most else None
    if tree is None:
        return prompt, Usage()
    started = time.perf_counter()
    tool_calls: list[ToolCall] = []
    usage, ended = Usage(), "all that are allowed were made"
    view = _View(prompt, tree, most)
    while len(tool_calls) < most:
        if view.room < LEAST_ROOM:
            ended = "no room for more"
            break
        try:
            schema = tool_call_schema(brief=model.limits.brief)
            reply = await calls.complete(model, _asking(judge, prompt, view, schema, left=most - len(tool_calls)))
        except InvalidOutput as error:
            usage += error.usage or Usage()
            ended = "the model's answer was none"
            break
        except ModelError as error:
            error.usage = usage + (error.usage or Usage())
            raise
        usage += reply.usage
        tool_call = tool_call_of(reply.data)
        if tool_call is None or tool_call in tool_calls:
            ended = "the judge had seen enough" if tool_call is None else "it asked for the same again"
            break
        tool_calls.append(tool_call)
        view.add(tool_call)
    read = (f"{READ}{tool_call_text(tool_call)}" for tool_call in tool_calls)
    changed = msgspec.structs.replace(
        prompt,
        request=msgspec.structs.replace(prompt.request, user=view.text(0)),
        shown=(*prompt.shown, *view.results),
        notes=(*prompt.notes, *read, f"tool calls: {ended}"),
    )
    return changed, usage + Usage(seconds={"trace_tools": time.perf_counter() - started})


class _View:
    """The user message as it grows by what the tools show."""

    def __init__(self, prompt: Prompt, tree: SpanTree, most: int) -> None:
        intro = render_tools_intro(most)
        self._tree = tree
        self._parts = [prompt.request.user, intro]
        self._most = max(prompt.unread // 3, LEAST_ROOM)
        self._left = prompt.unread
        self.results: list[str] = []

    @property
    def room(self) -> int:
        """Tokens that the next tool call may take."""
        return min(self._left, self._most)

    def add(self, tool_call: ToolCall) -> None:
        """Add what the tool shows."""
        result = show_tool_result(self._tree, tool_call, self.room)
        part = render_tool_call(len(self._parts) - 1, tool_call, result)
        self._left -= estimate_tokens(part)
        self._parts.append(part)
        self.results.append(result)

    def text(self, left: int) -> str:
        """The message that asks for another tool call, or with 0 left for the verdict."""
        if left == 0 and len(self._parts) == 2:
            return self._parts[0]
        return "\n\n".join([*self._parts, render_tools_cue(left)])


def _asking(judge: Judge, prompt: Prompt, view: _View, schema: dict[str, Any], *, left: int) -> ChatRequest:
    return msgspec.structs.replace(
        prompt.request,
        user=view.text(left),
        schema=schema,
        schema_name="tool_call",
        max_tokens=ANSWER_TOKENS,
        temperature=judge.parameters.get("temperature", 0.0),
        labels=(),
    )


# -- tools, of which `prompts.trace_text` says what each shows ----------------------------------------------------------


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
