"""Prompts: .jinja files that a person can read and improve.

`rendering` fills the files in, `fitting` decides what of each part a prompt has room for, `trace_text` shows a trace,
and `language` tells in which language a text is written.
"""

from memalign.prompts.rendering import (
    DistilRecord,
    RenderedExample,
    prompts_hash,
    render_answer,
    render_distil,
    render_distil_checks,
    render_distil_one,
    render_item,
    render_judge_system,
    render_merge,
    render_tool_call,
    render_tools_cue,
    render_tools_intro,
    render_verdict_question,
    tool_call_text,
    values_in_words,
)

__all__ = [
    "DistilRecord",
    "RenderedExample",
    "prompts_hash",
    "render_answer",
    "render_distil",
    "render_distil_checks",
    "render_distil_one",
    "render_item",
    "render_judge_system",
    "render_merge",
    "render_tool_call",
    "render_tools_cue",
    "render_tools_intro",
    "render_verdict_question",
    "tool_call_text",
    "values_in_words",
]
