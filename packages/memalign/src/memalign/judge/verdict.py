"""One item's way to a Judgment: the experts' standing label, or one prompt and one answer of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from memalign.errors import ModelError
from memalign.judge.answer import Sample, read_answer
from memalign.judge.decision import decided, with_checks
from memalign.judge.prompt import Prompt, check_item, prompt_of
from memalign.judge.samples import average, renamed, swapped, swapped_names
from memalign.judge.standing import standing_judgment
from memalign.models.base import ChatModel
from memalign.models.calls import Calls
from memalign.models.judge_models import decides_alone, open_model
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide"]


async def decide(
    judge: Judge, example: Example, calls: Calls, *, standing: bool = True, checks: bool = True
) -> Judgment:
    """Judge one item.

    Args:
        judge: Who judges.
        example: The item.
        calls: Steers the calls of the run.
        standing: Whether the experts' label on this very item answers for the model, where they gave one.
        checks: Whether the questions of the guidelines are asked, and weighed; else the model's own verdict stands.

    Raises:
        InputError: The item lacks a field that the instructions name, or holds what no prompt can.
        ModelError: The model failed; of several answers, one of them.
    """
    check_item(judge, example)
    # 1. An item that experts have judged has their label, and costs no call.
    if standing and (judgment := standing_judgment(judge, example)) is not None:
        return judgment
    # 2. A decision model gets one request, for the verdict and all questions; the calibrator weighs them.
    if decides_alone(judge):
        return await decided(judge, example, calls, checks=checks)
    # 3. A chat model gets one request, and answers with findings, a reason and a value; code keeps an evidence only
    #    if the item has it. Samples and swapped sides average several answers.
    model = open_model(judge)
    prompt, sample = await _own_verdict(judge, example, model, calls)
    applied = tuple(finding.guideline for finding in sample.findings if finding.guideline)
    judgment = Judgment(
        id=example.id,
        value=sample.value,
        rationale=sample.rationale,
        confidence=sample.confidence,
        own_value=sample.value,
        findings=(*sample.findings, *prompt.facts),
        # A weak model names no findings: all that it read may have counted.
        guideline_ids=prompt.guideline_ids if model.limits.brief else applied,
        example_ids=prompt.example_ids,
        memory_hash=judge.memory.hash,
        model=model.name,
        usage=sample.usage,
        notes=(*prompt.notes, *sample.notes),
    )
    # 4. A check model answers the questions of the guidelines: by the calibrator's rule they decide, or say how sure.
    return await with_checks(judge, example, judgment, calls) if checks else judgment


# -- the model's own verdict -------------------------------------------------------------------------------------------


class _Verdict(NamedTuple):
    """The average of a model's answers about an item, and what they were asked with."""

    prompt: Prompt
    sample: Sample


async def _own_verdict(judge: Judge, example: Example, model: ChatModel, calls: Calls) -> _Verdict:
    """The model's verdict on the item; with `swap` averaged with the one on the item with its sides swapped."""
    if not judge.parameters.get("swap"):
        return await _asked_verdict(judge, example, model, calls)
    names = swapped_names(example, judge.fields, judge.value_type.choices)  # before anything is paid: it may have none
    items = (example, swapped(example, names))
    (prompt, sample), (turned, other) = await _all([_asked_verdict(judge, item, model, calls) for item in items])
    both = replace(
        prompt,
        guideline_ids=tuple(dict.fromkeys((*prompt.guideline_ids, *turned.guideline_ids))),
        example_ids=tuple(dict.fromkeys((*prompt.example_ids, *turned.example_ids))),
        notes=(*prompt.notes, *(f"swapped: {note}" for note in turned.notes if note not in prompt.notes)),
    )
    return _Verdict(both, average([sample, renamed(other, names)], judge.value_type))


async def _asked_verdict(judge: Judge, example: Example, model: ChatModel, calls: Calls) -> _Verdict:
    prompt = await prompt_of(judge, example, model, calls)
    asking = [_ask(judge, model, calls, prompt, number) for number in range(judge.parameters.get("samples", 1))]
    sample = average(await _all(asking), judge.value_type)
    return _Verdict(prompt, replace(sample, usage=Usage(seconds=prompt.seconds) + sample.usage))


async def _ask(judge: Judge, model: ChatModel, calls: Calls, prompt: Prompt, number: int) -> Sample:
    request, started = prompt.request, time.perf_counter()
    if number:  # the first sample has the judge's own seed
        request = replace(request, seed=(request.seed or 0) + number)
    reply = await calls.complete(model, request)
    usage = reply.usage + Usage(seconds={"model": time.perf_counter() - started})
    return replace(read_answer(judge, prompt, reply, model.name), usage=usage)


T = TypeVar("T", Sample, _Verdict)


async def _all(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Every answer; one that fails fails the judgment, which then says what all cost."""
    results: Sequence[T | BaseException]
    if len(calls) == 1:
        # Not as a task: the next item's call would come a turn of the loop later, after all other answers, and would
        # then search the many connections that have become idle meanwhile. That costs more than everything else here.
        try:
            results = [await calls[0]]
        except ModelError as error:
            results = [error]
    else:
        results = await asyncio.gather(*calls, return_exceptions=True)
    answers = [result for result in results if not isinstance(result, BaseException)]
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        usages = [answer.usage if isinstance(answer, Sample) else answer.sample.usage for answer in answers]
        usages += [error.usage for error in failures if isinstance(error, ModelError) and error.usage]
        if isinstance(failures[0], ModelError):
            failures[0].usage = sum(usages, Usage())
        raise failures[0]
    return answers
