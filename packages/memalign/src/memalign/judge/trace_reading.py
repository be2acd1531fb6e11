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

from memalign.content import span_tree
from memalign.content.encoding import encode, estimate_tokens
from memalign.errors import InvalidOutput, ModelError
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.prompts.rendering import render
from memalign.prompts.trace_text import show_tool_result
from memalign.types import Example, ToolCall, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.judge.prompt import Prompt

__all__ = ["MOST_TOOL_CALLS", "READ", "read_trace", "tool_call_of", "tool_call_schema", "tool_call_text"]

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
    # The user message grows by what each tool shows; its last part asks for the next call, or for the verdict.
    parts = [prompt.request.user, render("trace_tools_intro", tool_calls=most)]
    results: list[str] = []
    made: list[ToolCall] = []
    usage, room, ended = Usage(), prompt.unread, ""

    def text(calls_left: int) -> str:
        return "\n\n".join([*parts, render("trace_tools_cue", left=calls_left)])

    while (calls_left := most - len(made)) and room >= LEAST_ROOM:
        request = msgspec.structs.replace(
            prompt.request,
            user=text(calls_left),
            schema=tool_call_schema(brief=model.limits.brief),
            schema_name="tool_call",
            max_tokens=ANSWER_TOKENS,
            temperature=judge.parameters.get("temperature", 0.0),
            labels=(),
        )
        try:
            reply = await calls.complete(model, request)
        except InvalidOutput as error:
            usage += error.usage or Usage()
            ended = "the model's answer was none"
            break
        except ModelError as error:
            error.usage = usage + (error.usage or Usage())
            raise
        usage += reply.usage
        tool_call = tool_call_of(reply.data)
        if tool_call is None or tool_call in made:
            ended = "the judge had seen enough" if tool_call is None else "it asked for the same again"
            break
        made.append(tool_call)
        results.append(show_tool_result(tree, tool_call, min(room, max(prompt.unread // 3, LEAST_ROOM))))
        parts.append(
            render("trace_tools_call", number=len(made), tool_call=tool_call_text(tool_call), result=results[-1])
        )
        room -= estimate_tokens(parts[-1])
    ended = ended or ("the prompt has no room for more" if len(made) < most else "the limit was reached")
    read = (f"{READ}{tool_call_text(tool_call)}" for tool_call in made)
    changed = msgspec.structs.replace(
        prompt,
        request=msgspec.structs.replace(prompt.request, user=text(0) if made else prompt.request.user),
        item_texts=(*prompt.item_texts, *results),
        notes=(*prompt.notes, *read, f"tool calls: {ended}"),
    )
    return changed, usage + Usage(seconds={"trace_tools": time.perf_counter() - started})


# -- tools, of which `prompts.trace_text` says what each shows ---------------------------------------------------------


def tool_call_schema(*, brief: bool) -> dict[str, Any]:
    """The JSON schema of a tool call; a weak model (`brief`), which would write on and on, gets bounds on its texts."""

    def text(most: int) -> dict[str, Any]:
        return {"type": "string"} | ({"maxLength": most} if brief else {})

    tool = {"type": "string", "enum": ["read", "search", "enough"]}
    properties = {"why": text(160), "tool": tool, "spans": text(40), "part": {"type": "integer"}, "text": text(80)}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_ID = re.compile(r"(?<![A-Za-z0-9])[Ss](\d{1,9})(?![A-Za-z0-9])")


def tool_call_of(data: dict[str, Any]) -> ToolCall | None:
    """The tool call that a model asks for, whatever it wrote; None when it has seen enough."""
    tool, part = data.get("tool"), data.get("part")
    if tool == "search":
        return ToolCall(tool=tool, text=" ".join(str(data.get("text") or "").split())[:MOST_TEXT])
    if tool != "read":
        return None
    named = dict.fromkeys(f"S{int(number)}" for number in _ID.findall(str(data.get("spans") or "")))
    number = part if isinstance(part, int) and not isinstance(part, bool) else 1
    return ToolCall(tool=tool, spans=tuple(named)[:MOST_SPANS], part=min(max(number, 1), 10**6))


def tool_call_text(tool_call: ToolCall) -> str:
    """A tool call on one line, as prompts show it to models and commands to people."""
    if tool_call.tool == "search":
        return f"search {encode(tool_call.text)}"
    part = f" part {tool_call.part}" if tool_call.part > 1 else ""
    return f"read {', '.join(tool_call.spans)}".rstrip() + part
