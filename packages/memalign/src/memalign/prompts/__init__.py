"""Prompts: each a .jinja file that a person can read and improve, rendered by pure functions."""

from memalign.prompts.render import (
    DistilRecord,
    ShownExample,
    encode,
    prompts_hash,
    render_answer,
    render_distil,
    render_distil_one,
    render_item,
    render_judge_system,
    render_relate,
    values_in_words,
)

__all__ = [
    "DistilRecord",
    "ShownExample",
    "encode",
    "prompts_hash",
    "render_answer",
    "render_distil",
    "render_distil_one",
    "render_item",
    "render_judge_system",
    "render_relate",
    "values_in_words",
]
