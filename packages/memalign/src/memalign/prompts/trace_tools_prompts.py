"""The prompts with which a judge reads a long trace by tools, rendered by pure functions like all others."""

from __future__ import annotations

from memalign.prompts.render import _render, encode
from memalign.types import ToolCall

__all__ = ["render_cue", "render_intro", "render_tool_call", "tool_call_text"]


def render_intro(tool_calls: int) -> str:
    """The tools that read the trace, and that they may be called at most `tool_calls` times."""
    return _render("trace_tools_intro", tool_calls=tool_calls)


def render_tool_call(number: int, tool_call: ToolCall, result: str) -> str:
    """One tool call and its result, which is encoded already."""
    return _render("trace_tools_call", number=number, tool_call=tool_call_text(tool_call), result=result)


def render_cue(left: int) -> str:
    """What is asked for next: another tool call (`left` more are allowed), or with 0 the verdict."""
    return _render("trace_tools_cue", left=left)


def tool_call_text(tool_call: ToolCall) -> str:
    """A tool call on one line, as prompts show it to models and commands to people."""
    if tool_call.tool == "search":
        return f"search {encode(tool_call.text)}"
    part = f" part {tool_call.part}" if tool_call.part > 1 else ""
    return f"{tool_call.tool} {', '.join(tool_call.spans)}".rstrip() + part
