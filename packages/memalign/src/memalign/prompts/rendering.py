r"""Pure functions from values to prompt text, over the .jinja files beside this one.

The same arguments give the same bytes. All that was judged, or said about it, enters as JSON on one
line: a line break in it becomes the two characters `\n`, so no text can close a fence or start a
line of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.types import Guideline
from memalign.values import ValueType

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "DistilRecord",
    "RenderedExample",
    "judging_prompts_hash",
    "render",
    "render_distil",
    "render_guideline_question",
    "render_item",
    "render_merge",
    "render_task",
    "values_in_words",
]

JUDGING = ("decide_guideline", "decide_verdict", "judge_system", "judge_user")
"""The prompt files that models read when they judge; all others write guidelines."""


class RenderedExample(msgspec.Struct, frozen=True, kw_only=True):
    """A past case in a judge's prompt: encoded fields, and what experts said of it."""

    fields: tuple[tuple[str, str], ...]
    answer: str


class DistilRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of feedback in a distillation prompt, with every text encoded.

    Attributes:
        label: F1, F2 and so on.
        fields: The parts of the case.
        judge: The judge's own verdict.
        judge_rationale: The judge's reason.
        value: The expert's label.
        rationale: The expert's words.
    """

    label: str
    fields: tuple[tuple[str, str], ...]
    judge: str | None
    judge_rationale: str | None
    value: str | None
    rationale: str | None


@cache
def _environment() -> Environment:
    import jinja2  # 0.2 s, if a prompt is made

    # No HTML: escaping would change the judged text. What comes in is JSON-encoded by `encode`. And
    # no look at the disk for every prompt: our own files do not change.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("memalign", "prompts"),
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )


def render(name: str, **values: Any) -> str:
    """Return the text of a prompt file with these values."""
    template = _environment().get_template(f"{name}.jinja")
    text = template.render(**values)
    return text.strip()


@cache
def judging_prompts_hash() -> str:
    """Return the SHA-256 (hex) of the prompt files with which judgments are made."""
    digest = hashlib.sha256()
    folder = resources.files("memalign.prompts")
    for name in JUDGING:
        file = folder / f"{name}.jinja"
        text = file.read_text("utf-8")
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


def values_in_words(value_type: ValueType) -> str:
    """Return what a judge may answer, in words for a prompt."""
    if value_type.kind == "str":
        return "a short text"
    if value_type.kind != "choice":
        return value_type.allowed
    written = [json.dumps(choice, ensure_ascii=False) for choice in value_type.choices]
    choices = ", ".join(written)
    return f"one of {choices}"


# -- judging -----------------------------------------------------------------------------------


def render_task(
    name: Literal["judge_system", "decide_verdict"],
    *,
    instructions: str,
    fields: Sequence[str],
    value_type: ValueType,
    guidelines: Sequence[Guideline],
    writes: bool = False,
) -> str:
    """Return what a model is asked for the verdict on an item, which it reads apart.

    Args:
        name: The system message of a chat model, or the question to a decision model.
        instructions: The author's text.
        fields: The parts of an item that it names.
        value_type: What may be answered.
        guidelines: Those in force.
        writes: Whether a chat model can write findings; else it gives one sentence and the value.
    """
    return render(
        name,
        **_task(instructions, value_type),
        fields=fields,
        guidelines=guidelines,
        writes=writes,
    )


def render_item(
    fields: Mapping[str, str],
    examples: Sequence[RenderedExample] = (),
    facts: Sequence[str] = (),
) -> str:
    """Return the user message of a judge: past cases, what tests found, then the item.

    Args:
        fields: The item, encoded.
        examples: Past cases.
        facts: Sentences of tests, which were checked as guidelines are.
    """
    return render(
        "judge_user",
        fields=fields.items(),
        examples=examples,
        facts=facts,
    )


def render_guideline_question(guideline: Guideline) -> str:
    """Return the yes/no question that a decision model is asked about a guideline."""
    text = guideline.text.rstrip(" .")
    return render("decide_guideline", text=text)


# -- distilling --------------------------------------------------------------------------------


def render_distil(
    *,
    instructions: str,
    value_type: ValueType,
    fields: Sequence[str],
    guidelines: Sequence[Guideline],
    records: Sequence[DistilRecord],
) -> tuple[str, str]:
    """Return the system and the user message that turn new feedback into changes of guidelines.

    Args:
        instructions: The judge's.
        value_type: The judge's.
        fields: What tests may read of an item; without any no tests are asked for.
        guidelines: Those in force.
        records: The new feedback.
    """
    one_more = len(records) == 1 and guidelines
    system = render(
        "distil_more_system" if one_more else "distil_system",
        **_task(instructions, value_type),
        fields=fields,
        records=records,
    )
    user = render("distil_user", guidelines=guidelines, records=records)
    return system, user


def render_merge(
    *, instructions: str, value_type: ValueType, guidelines: Sequence[Guideline]
) -> tuple[str, str]:
    """Return the messages that merge guidelines which were written side by side."""
    system = render("distil_merge_system", **_task(instructions, value_type))
    user = render("distil_merge_user", guidelines=guidelines)
    return system, user


def _task(instructions: str, value_type: ValueType) -> dict[str, str]:
    """Return what nearly every template says of the judge."""
    return {
        "instructions": instructions.strip(),
        "values": values_in_words(value_type),
    }
