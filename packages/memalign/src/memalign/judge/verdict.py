"""One item's way to a judgment: the experts' label, a rule of theirs, or an answer of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from memalign.content import sides_of
from memalign.errors import InputError, ModelError
from memalign.judge.answer import read_answer
from memalign.judge.decision import decided
from memalign.judge.prompt import Prompt, prompt_of
from memalign.judge.rules import ruled_judgment
from memalign.judge.standing import standing_judgment
from memalign.judge.task import Item, Task
from memalign.memory import Memory
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Judgment, Usage

__all__ = ["decide"]


async def decide(
    task: Task, memory: Memory, example: Example, calls: Calls, *, standing: bool = True
) -> Judgment[Any]:
    """Judge one item.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        example: The item.
        calls: Within whose limits models are asked.
        standing: Whether the experts' label on this very item answers for the model.

    Raises:
        InputError: No prompt can hold the item.
        ModelError: The model failed.
    """
    item = task.item(example)
    # 1. An item that experts have judged has their label, and costs no call.
    judgment = None
    if standing and memory.cases:
        judgment = standing_judgment(task, memory, example)
    # 2. What a rule of the experts forbids, code finds: it costs no call either.
    if judgment is None and memory.tests:
        judgment = ruled_judgment(task, memory, item)
    if judgment is not None:
        return judgment
    # 3. A decision model gets one request, for the verdict and a question about each guideline.
    model = open_judging_model(task)
    if not isinstance(model, ChatModel):
        return await decided(task, memory, item, model, calls)
    # 4. A chat model gets one request, and answers with findings, a reason and a value; code keeps
    #    an evidence only if the item has it. A judge of two sides may ask with the sides swapped.
    if task.parameters.get("swap"):
        return await _swapped_judgment(task, memory, item, model, calls)
    # Not as a task: the next item's call would come a turn of the loop later, after all other
    # answers, and would then search the many connections that have become idle meanwhile. That
    # costs more than everything else here.
    prompt = await prompt_of(task, memory, item, model, calls)
    return await _answered(task, memory, prompt, model, calls)


async def _answered(
    task: Task, memory: Memory, prompt: Prompt, model: ChatModel, calls: Calls
) -> Judgment:
    """Return the judgment of one answer."""
    started = time.perf_counter()
    reply = await calls.complete(model, prompt.request)
    judgment = read_answer(task, memory, prompt, reply, model)
    seconds = judgment.usage.seconds | {"model": time.perf_counter() - started}
    return replace(judgment, usage=replace(judgment.usage, seconds=seconds))


# -- two sides, asked in both orders -----------------------------------------------------------


async def _swapped_judgment(
    task: Task, memory: Memory, item: Item, model: ChatModel, calls: Calls
) -> Judgment:
    """Ask with the sides in both orders; the confidence is one half if the answers differ."""
    names = _swapped_names(task, item)
    turned_item = task.item(_swapped(item.example, names))
    prompt = await prompt_of(task, memory, item, model, calls)
    turned = await prompt_of(task, memory, turned_item, model, calls)
    answers = await asyncio.gather(
        _answered(task, memory, prompt, model, calls),
        _answered(task, memory, turned, model, calls),
        return_exceptions=True,
    )
    first, second = _both_or_raise(answers)
    second = _renamed(second, names, prompt)
    example_ids = dict.fromkeys(first.example_ids + second.example_ids)
    notes = dict.fromkeys(first.notes + second.notes)
    return replace(
        first,
        confidence=1.0 if first.value == second.value else 0.5,
        example_ids=tuple(example_ids),
        usage=first.usage + second.usage,
        notes=tuple(notes),
    )


def _both_or_raise(answers: Sequence[Judgment | BaseException]) -> list[Judgment]:
    """Return both judgments; a failure of one fails both, and says what both cost."""
    paid = Usage()
    for answer in answers:
        if isinstance(answer, Judgment | ModelError):
            paid += answer.usage or Usage()
    for answer in answers:
        if isinstance(answer, ModelError):
            answer.usage = paid
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, Judgment)]


def _swapped_names(task: Task, item: Item) -> dict[str, str]:
    """Return the names of the two sides that an item shows, each with the other one.

    Raises:
        InputError: No field has exactly two of the judge's choices as its keys.
    """
    choices = task.value_type.choices
    shown = {}
    for name, value in item.example.content.items():
        if name in task.fields:
            shown[name] = value
    sides = tuple(sides_of(shown, choices))
    if len(sides) != 2:
        form = f'{{"{choices[0]}": …, "{choices[1]}": …}}'
        raise InputError(
            f"{item.example.id}: swap needs two of the choices as the keys of a field: {form}"
        )
    one, other = sides
    return {one: other, other: one}


def _swapped(example: Example, names: Mapping[str, str]) -> Example:
    """Return an item with its two sides in each other's place."""
    fields = {}
    for name, value in example.content.items():
        if isinstance(value, dict) and names.keys() <= value.keys():
            turned = dict(value)
            for side, other in names.items():
                turned[side] = value[other]
            fields[name] = turned
    return replace(example, **fields)


def _renamed(judgment: Judgment, names: Mapping[Any, str], prompt: Prompt) -> Judgment:
    """Return a judgment on a swapped item as one on the item of `prompt`; its reason says so."""
    findings = []
    for finding in judgment.findings:
        if finding.test is None:
            value = names.get(finding.value, finding.value)
            findings.append(replace(finding, value=value))
    # Its words call each side by the other's name, and are read beside a verdict that does not.
    reason = judgment.rationale
    if reason:
        reason = f"With {' and '.join(names)} swapped: {reason}"
    return replace(
        judgment,
        value=names.get(judgment.value, judgment.value),
        rationale=reason,
        findings=(*findings, *prompt.facts),
    )
