"""What a judgment was made of, and the very prompt."""

from __future__ import annotations

from typing import Any

import msgspec

from memalign.errors import InputError
from memalign.judge.decision import decision_request
from memalign.judge.prompt import prompt_of
from memalign.judge.task import Task
from memalign.memory import Memory
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Judgment

__all__ = ["explain", "prompt_for"]


async def explain(
    task: Task, memory: Memory, example: Example, judgment: Judgment
) -> dict[str, Any]:
    """Say how a judge came to its judgment; no judge model is asked.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        example: What was judged.
        judgment: What it said.

    Returns:
        The judgment, its guidelines, its cases with their labels, and the prompt byte for byte.
        `prompt` is None if experts had judged this very item, or a rule of theirs decided.
        `same_prompt` is False if other cases would be shown now.

    Raises:
        InputError: The judgment failed.
    """
    if judgment.error is not None:
        raise InputError(f"{judgment.id!r} was not judged: {judgment.error}")
    guidelines = []
    for name in judgment.guideline_ids:
        guidelines.append({"id": name, "text": memory.guideline(name).text})
    examples = []
    for name in judgment.example_ids:
        case = memory.case(name)
        examples.append({"id": name, "label": memory.label(case) if case else None})
    explained: dict[str, Any] = {
        "judgment": judgment,
        "guidelines": guidelines,
        "examples": examples,
        "same_prompt": True,
        "prompt": None,
    }
    if judgment.decided_by == "model":
        explained["prompt"], shown = await prompt_for(task, memory, example)
        explained["same_prompt"] = set(shown) == set(judgment.example_ids)
    return explained


async def prompt_for(
    task: Task, memory: Memory, example: Example
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what a judge's model would read about an item, and the ids of the cases in it.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        example: The item.
    """
    item = task.item(example)
    model = open_judging_model(task)
    if not isinstance(model, ChatModel):
        request = decision_request(task, memory, item, model)
        questions = msgspec.to_builtins(request.questions)
        return {"item": request.item, "questions": questions}, ()
    prompt = await prompt_of(task, memory, item, model, Calls())
    messages = {
        "system": prompt.request.system,
        "user": prompt.request.user,
        "schema": prompt.request.schema,
    }
    return messages, prompt.example_ids
