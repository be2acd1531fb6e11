"""What a judgment was made of, and the very prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from memalign.errors import InputError
from memalign.judge.decision import decision_request
from memalign.judge.prompt import check_item, prompt_of
from memalign.models.calls import Calls
from memalign.models.judge_models import decides_alone, open_judging_model, open_model

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.models.base import DecisionModel
    from memalign.types import Example, Judgment

__all__ = ["explain", "prompt_for"]


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
    prompt, shown = await _asked(judge, example)
    return data | {"prompt": prompt, "same_prompt": set(shown) == set(judgment.example_ids)}


async def prompt_for(judge: Judge, example: Example) -> dict[str, Any]:
    """See `Judge.aprompt`."""
    check_item(judge, example)
    prompt, _ = await _asked(judge, example)
    return prompt


async def _asked(judge: Judge, example: Example) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the judge's model is asked about an item, and the ids of the cases in it."""
    if decides_alone(judge):
        model = cast("DecisionModel", open_judging_model(judge))
        item, questions = decision_request(judge, example, model)
        return {"item": item, "questions": msgspec.to_builtins(questions)}, ()
    prompt = await prompt_of(judge, example, open_model(judge), Calls())
    request = prompt.request
    asked = {"system": request.system, "user": request.user, "schema": request.schema}
    return asked, prompt.example_ids
