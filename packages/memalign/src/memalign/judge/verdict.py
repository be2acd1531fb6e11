"""One item's way to a Judgment: the experts' standing label, or one prompt and one answer of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from statistics import fmean, mode
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign.content import sides_of
from memalign.errors import InputError, ModelError
from memalign.judge.answer import read_answer
from memalign.judge.decision import decided, with_checks
from memalign.judge.prompt import Prompt, check_item, prompt_of
from memalign.judge.standing import standing_judgment
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.models.judge_models import decides_alone, open_model
from memalign.types import Example, Judgment, Usage
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide"]


async def decide(
    judge: Judge, example: Example, calls: Calls, *, standing: bool = True, checks: bool = True
) -> Judgment[Any]:
    """Judge one item.

    Without `standing` the experts' label on this very item does not answer for the model, and without `checks` a chat
    model's own verdict stands. Raises InputError for an item that no prompt can hold, and ModelError.
    """
    check_item(judge, example)
    # 1. An item that experts have judged has their label, and costs no call.
    if standing and (judgment := standing_judgment(judge, example)) is not None:
        return judgment
    # 2. A decision model gets one request, for the verdict and all questions; the calibrator weighs them.
    if decides_alone(judge):
        return await decided(judge, example, calls)
    # 3. A chat model gets one request, and answers with findings, a reason and a value; code keeps an evidence only
    #    if the item has it. Samples and swapped sides average several such judgments.
    own = await _own_judgment(judge, example, calls)
    # 4. A check model answers the questions of the guidelines: by the calibrator's rule they decide, or say how sure.
    return await with_checks(judge, example, own, calls) if checks else own


async def _own_judgment(judge: Judge, example: Example, calls: Calls) -> Judgment:
    """The chat model's judgment: of one answer, or the average over samples and over swapped sides."""
    model, samples = open_model(judge), judge.parameters.get("samples", 1)
    prompt = await prompt_of(judge, example, model, calls)
    if samples == 1 and not judge.parameters.get("swap"):
        # Not as a task: the next item's call would come a turn of the loop later, after all other answers, and would
        # then search the many connections that have become idle meanwhile. That costs more than everything else here.
        return await _answered(judge, prompt, model, calls)
    names, prompts = dict[str, str](), [prompt]
    if judge.parameters.get("swap"):
        names = _swapped_names(example, judge.fields, judge.value_type.choices)
        prompts.append(await prompt_of(judge, _swapped(example, names), model, calls))
    asking = [_answered(judge, side, model, calls, number) for side in prompts for number in range(samples)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    judgments = [answer for answer in answers if isinstance(answer, Judgment)]
    for failure in answers:  # one that fails fails the judgment, which then says what all cost
        if isinstance(failure, ModelError):
            paid = [answer.usage for answer in answers if isinstance(answer, Judgment | ModelError) and answer.usage]
            failure.usage = sum(paid, Usage())
        if isinstance(failure, BaseException):
            raise failure
    turned = [_renamed(judgment, names, prompt) for judgment in judgments[samples:]]
    return _average([*judgments[:samples], *turned], judge.value_type)


async def _answered(judge: Judge, prompt: Prompt, model: ChatModel, calls: Calls, number: int = 0) -> Judgment:
    """The judgment of one answer; the first has the judge's own seed."""
    request, started = prompt.request, time.perf_counter()
    if number:
        request = replace(request, seed=(request.seed or 0) + number)
    reply = await calls.complete(model, request)
    judgment = read_answer(judge, prompt, reply, model)
    return replace(judgment, usage=judgment.usage + Usage(seconds={"model": time.perf_counter() - started}))


def _average(judgments: Sequence[Judgment], value_type: ValueType) -> Judgment:
    """One judgment of several: the commonest verdict, of numbers the mean, and as confidence the share that agrees.

    Of equally common verdicts the first one counts. Reason and findings are those of the first that gave the verdict.
    """
    values = [value for judgment in judgments if (value := judgment.value) is not None]
    verdict: Value = mode(values)
    if value_type.numeric:
        mean = fmean(float(value) for value in values)
        verdict = mean if value_type.kind == "float" else round(mean)
    first = next((judgment for judgment in judgments if judgment.value == verdict), judgments[0])
    return replace(
        first,
        value=verdict,
        own_value=verdict,
        confidence=fmean(value_type.agree(value, verdict) for value in values),
        example_ids=tuple(dict.fromkeys(name for judgment in judgments for name in judgment.example_ids)),
        usage=sum((judgment.usage for judgment in judgments), Usage()),
        notes=tuple(dict.fromkeys(note for judgment in judgments for note in judgment.notes)),
    )


def _swapped_names(example: Example, fields: Sequence[str], choices: Sequence[str]) -> dict[str, str]:
    """The two `choices` under which the item shows its sides in one of the `fields`, each with the other one."""
    sides = tuple(sides_of({name: value for name, value in example.content.items() if name in fields}, choices))
    if len(sides) != 2:
        wanted = f'two of the choices as the keys of a field: {{"{choices[0]}": …, "{choices[1]}": …}}'
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
    applying = [finding for finding in judgment.findings if not finding.check]
    findings = [replace(finding, value=names.get(finding.value, finding.value)) for finding in applying]
    # Its words call each side by the other's name, and are read beside a verdict that does not.
    reason = judgment.rationale and f"With {' and '.join(names)} swapped: {judgment.rationale}"
    value = names.get(judgment.value, judgment.value)
    return replace(judgment, value=value, own_value=value, rationale=reason, findings=(*findings, *prompt.facts))
