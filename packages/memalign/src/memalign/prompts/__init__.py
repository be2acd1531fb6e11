"""Prompts: each a .jinja file that a person can read and improve, rendered by pure functions.

`render` fills the files in, `truncate` and `trace_text` show a field in so many tokens, and `fit` decides how many each part of a prompt is given.
"""

from memalign.prompts.render import (
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
