"""The prompts with which a judge looks into a long trace, rendered by pure functions like all others."""

from __future__ import annotations

from memalign.prompts.render import _render

__all__ = ["render_cue", "render_intro", "render_tool_call"]


def render_intro(tool_calls: int) -> str:
    """How to look into the trace, at most `tool_calls` times."""
    return _render("explore_intro", looks=tool_calls)


def render_tool_call(number: int, tool_call: str, shown: str) -> str:
    """One look and what it showed; both are encoded already."""
    return _render("explore_look", number=number, look=tool_call, shown=shown)


def render_cue(left: int) -> str:
    """What is asked for next: another look (`left` more are allowed), or with 0 the verdict."""
    return _render("explore_cue", left=left)
