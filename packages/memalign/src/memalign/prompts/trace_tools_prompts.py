"""The prompts with which a judge reads a long trace by tools, rendered by pure functions like all others."""

from __future__ import annotations

from memalign.prompts.render import _render

__all__ = ["render_cue", "render_intro", "render_tool_call"]


def render_intro(tool_calls: int) -> str:
    """The tools that read the trace, and that they may be called at most `tool_calls` times."""
    return _render("trace_tools_intro", tool_calls=tool_calls)


def render_tool_call(number: int, tool_call: str, result: str) -> str:
    """One tool call and its result; both are encoded already."""
    return _render("trace_tools_call", number=number, tool_call=tool_call, result=result)


def render_cue(left: int) -> str:
    """What is asked for next: another tool call (`left` more are allowed), or with 0 the verdict."""
    return _render("trace_tools_cue", left=left)
