"""One item's way to a Judgment: the experts' standing label, or one prompt and one answer of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign.content import sides_of
from memalign.errors import InputError, ModelError
from memalign.judge.answer import read_answer
from memalign.judge.decision import decided
from memalign.judge.prompt import Prompt, check_item, prompt_of
from memalign.judge.rules import ruled_judgment
from memalign.judge.standing import standing_judgment
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.models.judge_models import decides_alone, open_model
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide"]


async def decide(
    judge: Judge, example: Example, calls: Calls, *, standing: bool = True
) -> Judgment[Any]:
    """Judge one item.

    Without `standing` the experts' label on this very item does not answer for the model. Raises InputError for an item
    that no prompt can hold, and ModelError.
    """
    check_item(judge, example)
    # 1. An item that experts have judged has their label, and costs no call.
    if standing and (judgment := standing_judgment(judge, example)) is not None:
        return judgment
    # 2. What a rule of the experts forbids, code finds: it costs no call either.
    if (judgment := ruled_judgment(judge, example)) is not None:
        return judgment
    # 3. A decision model gets one request, for the verdict and a question about each guideline.
    if decides_alone(judge):
        return await decided(judge, example, calls)
    # 4. A chat model gets one request, and answers with findings, a reason and a value; code keeps an evidence only
    #    if the item has it. A judge of two sides may be asked with the sides swapped, too.
    return await _own_judgment(judge, example, calls)


async def _own_judgment(judge: Judge, example: Example, calls: Calls) -> Judgment:
    """Return the chat model's judgment; with `swap` the one on which both orders of the sides agree."""
    model = open_model(judge)
    prompt = await prompt_of(judge, example, model, calls)
    if not judge.parameters.get("swap"):
        # Not as a task: the next item's call would come a turn of the loop later, after all other answers, and would
        # then search the many connections that have become idle meanwhile. That costs more than everything else here.
        return await _answered(judge, prompt, model, calls)
    names = _swapped_names(example, judge.fields, judge.value_type.choices)
    turned = await prompt_of(judge, _swapped(example, names), model, calls)
    asking = [_answered(judge, side, model, calls) for side in (prompt, turned)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    for failure in answers:  # one that fails fails the judgment, which then says what both cost
        if isinstance(failure, ModelError):
            paid = [
                answer.usage
                for answer in answers
                if isinstance(answer, Judgment | ModelError) and answer.usage
            ]
            failure.usage = sum(paid, Usage())
        if isinstance(failure, BaseException):
            raise failure
    first, second = [answer for answer in answers if isinstance(answer, Judgment)]
    return _both(first, _renamed(second, names, prompt))


async def _answered(judge: Judge, prompt: Prompt, model: ChatModel, calls: Calls) -> Judgment:
    """Return the judgment of one answer."""
    await calls.ready(model)
    started = time.perf_counter()
    reply = await calls.complete(model, prompt.request)
    judgment = read_answer(judge, prompt, reply, model)
    return replace(
        judgment, usage=judgment.usage + Usage(seconds={"model": time.perf_counter() - started})
    )


def _both(first: Judgment, second: Judgment) -> Judgment:
    """Return the first judgment with what both cost; its confidence is 1 if the second agrees, else one half."""
    agree = first.value == second.value
    return replace(
        first,
        confidence=(1.0 + agree) / 2,
        example_ids=tuple(dict.fromkeys((*first.example_ids, *second.example_ids))),
        usage=first.usage + second.usage,
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def _swapped_names(
    example: Example, fields: Sequence[str], choices: Sequence[str]
) -> dict[str, str]:
    """The two `choices` under which the item shows its sides in one of the `fields`, each with the other one."""
    sides = tuple(
        sides_of(
            {name: value for name, value in example.content.items() if name in fields}, choices
        )
    )
    if len(sides) != 2:
        wanted = (
            f'two of the choices as the keys of a field: {{"{choices[0]}": …, "{choices[1]}": …}}'
        )
        raise InputError(f"{example.id}: swap needs {wanted}")
    return dict([sides, sides[::-1]])


def _swapped(example: Example, names: Mapping[str, str]) -> Example:
    """The item with its two sides, `swapped_names`, in each other's place."""
    fields = {
        name: {key: value[names.get(key, key)] for key in value}
        for name, value in example.content.items()
        if isinstance(value, dict) and names.keys() <= value.keys()
    }
    return replace(example, **fields)


def _renamed(judgment: Judgment, names: Mapping[Any, str], prompt: Prompt) -> Judgment:
    """The judgment on an item whose sides were swapped, as one on the item of `prompt`; its reason says so."""
    applying = [finding for finding in judgment.findings if finding.test is None]
    findings = [
        replace(finding, value=names.get(finding.value, finding.value)) for finding in applying
    ]
    # Its words call each side by the other's name, and are read beside a verdict that does not.
    reason = judgment.rationale and f"With {' and '.join(names)} swapped: {judgment.rationale}"
    value = names.get(judgment.value, judgment.value)
    return replace(judgment, value=value, rationale=reason, findings=(*findings, *prompt.facts))
