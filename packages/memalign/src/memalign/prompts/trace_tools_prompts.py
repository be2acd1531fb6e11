"""The prompts with which a judge looks into a long trace, rendered by pure functions like all others."""

from __future__ import annotations

from memalign.prompts.render import _render

__all__ = ["render_cue", "render_intro", "render_look"]


def render_intro(looks: int) -> str:
    """How to look into the trace, at most `looks` times."""
    return _render("explore_intro", looks=looks)


def render_look(number: int, look: str, shown: str) -> str:
    """One look and what it showed; both are encoded already."""
    return _render("explore_look", number=number, look=look, shown=shown)


def render_cue(left: int) -> str:
    """What is asked for next: another look (`left` more are allowed), or with 0 the verdict."""
    return _render("explore_cue", left=left)
