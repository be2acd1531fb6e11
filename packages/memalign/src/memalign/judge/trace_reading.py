"""Reading a trace that is too long to show: the judge calls tools, one after the other, before it says its verdict.

Every step is an ordinary call that is answered by one small JSON object, so it works with every model, and each request
begins with the bytes of the one before, which providers serve from cache. The verdict is asked for last, in the very
form of any other verdict: all that holds for verdicts (the reason first, probabilities, samples) holds for these.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.content import SpanTree, span_tree
from memalign.errors import InvalidOutput, ModelError
from memalign.judge.trace_tools import tool_call_of, tool_call_schema
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts import render_tool_call, render_tools_cue, render_tools_intro
from memalign.prompts.encoding import estimate_tokens
from memalign.prompts.trace_text import show_tool_result
from memalign.types import Example, ToolCall, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.judge.prepare import Prepared

__all__ = ["MOST_TOOL_CALLS", "read_trace", "with_tool_calls"]

MOST_TOOL_CALLS = 10
"""How many tool calls a judgment may take, unless the judge's parameter `trace_tool_calls` says otherwise."""

LEAST_ROOM = 60
"""Tokens below which a tool could show next to nothing."""

ANSWER_TOKENS = 300


async def read_trace(judge: Judge, example: Example, prepared: Prepared, model: ChatModel) -> tuple[Prepared, Usage]:
    """`prepared` with what the judge chose to read in the item's trace, and what the tool calls cost.

    Unchanged, without any call, where the trace is shown whole or there is none. A model whose answer is no tool call ends the reading; any other failure of it raises its ModelError.
    """
    most = int(judge.parameters.get("trace_tool_calls", MOST_TOOL_CALLS))
    tree = span_tree(example.trace) if prepared.unread and most else None
    if tree is None:
        return prepared, Usage()
    started = time.perf_counter()
    tool_calls: list[ToolCall] = []
    usage, ended = Usage(), "all that are allowed were made"
    view = _View(prepared, tree, most)
    while len(tool_calls) < most:
        if view.room < LEAST_ROOM:
            ended = "no room for more"
            break
        try:
            reply = await model.complete(
                _asking(judge, prepared, view, tool_call_schema(brief=model.limits.brief), left=most - len(tool_calls))
            )
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
    changed = _final(prepared, view, tool_calls)
    changed = msgspec.structs.replace(changed, notes=(*changed.notes, f"tool calls: {ended}"))
    return changed, usage + Usage(seconds={"trace_tools": time.perf_counter() - started})


def with_tool_calls(judge: Judge, example: Example, prepared: Prepared, tool_calls: Sequence[ToolCall]) -> Prepared:
    """`prepared` as it was asked after these tool calls, put together again without any call."""
    tree = span_tree(example.trace) if prepared.unread else None
    if tree is None:
        return prepared
    view = _View(prepared, tree, int(judge.parameters.get("trace_tool_calls", MOST_TOOL_CALLS)))
    for tool_call in tool_calls:
        view.add(tool_call)
    return _final(prepared, view, tool_calls)


class _View:
    """The user message as it grows by what the tools show."""

    def __init__(self, prepared: Prepared, tree: SpanTree, most: int) -> None:
        intro = render_tools_intro(most)
        self._tree = tree
        self._parts = [prepared.request.user, intro]
        self._most = max(prepared.unread // 3, LEAST_ROOM)
        self._left = prepared.unread
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
        """The message that asks for another tool call, or with 0 left for the verdict; as it was where none was taken."""
        if left == 0 and len(self._parts) == 2:
            return self._parts[0]
        return "\n\n".join([*self._parts, render_tools_cue(left)])


def _asking(judge: Judge, prepared: Prepared, view: _View, schema: dict[str, Any], *, left: int) -> ChatRequest:
    return msgspec.structs.replace(
        prepared.request,
        user=view.text(left),
        schema=schema,
        schema_name="tool_call",
        max_tokens=ANSWER_TOKENS,
        temperature=judge.parameters.get("temperature", 0.0),
        labels=(),
    )


def _final(prepared: Prepared, view: _View, tool_calls: Sequence[ToolCall]) -> Prepared:
    request = msgspec.structs.replace(prepared.request, user=view.text(0))
    return msgspec.structs.replace(
        prepared, request=request, trace_tool_calls=tuple(tool_calls), shown=(*prepared.shown, *view.results)
    )
