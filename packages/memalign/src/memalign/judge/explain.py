"""What a judgment was made of, and the very prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memalign.errors import InputError
from memalign.judge.prompt import prompt_of
from memalign.models.calls import Calls
from memalign.models.judge_models import open_model

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.types import Example, Judgment

__all__ = ["explain"]


async def explain(judge: Judge, example: Example, judgment: Judgment) -> dict[str, Any]:
    """How `judge` came to its judgment of `example`: guidelines, cases with their labels, and the prompt byte for byte.

    No judge model is asked. `prompt` is None where experts had judged this very item, or where a
    rule of theirs decided. `same_prompt` is False where
    other cases would be shown now. Raises InputError for a judgment that failed.
    """
    if judgment.error is not None:
        raise InputError(f"{judgment.id!r} was not judged: {judgment.error}")
    memory = judge.memory
    cases = {key: memory.case(key) for key in judgment.example_ids}
    data: dict[str, Any] = {
        "judgment": judgment,
        "guidelines": [
            {"id": name, "text": memory.guideline(name).text} for name in judgment.guideline_ids
        ],
        "examples": [
            {"id": key, "label": memory.label(case) if case else None}
            for key, case in cases.items()
        ],
        "same_prompt": True,
        "prompt": None,
    }
    if judgment.decided_by != "model":
        return data
    prompt = await prompt_of(judge, example, open_model(judge), Calls())
    messages = {
        "system": prompt.request.system,
        "user": prompt.request.user,
        "schema": prompt.request.schema,
    }
    return data | {
        "same_prompt": set(prompt.example_ids) == set(judgment.example_ids),
        "prompt": messages,
    }
