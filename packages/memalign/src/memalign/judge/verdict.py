"""Asking the model, once or several times, and making one Judgment of its answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.content import sides_of
from memalign.errors import InputError, InvalidOutput, InvalidValue, ModelError
from memalign.judge.calibrator import calibrate, calibrates
from memalign.judge.checks import Found, ask_checks, margins_of, read_checks, which_checks
from memalign.judge.findings import weighed
from memalign.judge.open_model import libraries_loaded, open_model
from memalign.judge.prepare import Prepared, items_alone, prepare
from memalign.judge.samples import Sample, count, label_texts
from memalign.judge.trace_reading import read_trace
from memalign.models.base import ChatModel, ChatReply, YesNoModel
from memalign.models.raw_answers import asked_about
from memalign.types import Example, Judgment, Usage
from memalign.values import Value, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide", "swapped", "swapped_names"]


class _Answered(msgspec.Struct, frozen=True):
    sample: Sample
    checks: object
    usage: Usage


async def decide(judge: Judge, example: Example) -> Judgment:
    """Ask the judge's model about one item, and make a Judgment of its answers. Raises a ModelError when one fails."""
    await libraries_loaded(judge)
    with asked_about(example.id):
        return await _decide(judge, example)


async def _decide(judge: Judge, example: Example) -> Judgment:
    model, settings = open_model(judge), judge.parameters
    names = swapped_names(judge, example) if settings.get("swap") else {}  # before anything is paid: it may have none
    prepared, reading = await read_trace(judge, example, await prepare(judge, example, model), model)
    asked: list[tuple[Prepared, Mapping[str, str]]] = [(prepared, {})]
    if names:
        turned = swapped(example, names)
        try:
            other, more = await read_trace(judge, turned, await prepare(judge, turned, model), model)
        except ModelError as error:
            # The tool calls on the item as it stands are paid all the same.
            error.usage = reading + (error.usage or Usage())
            raise
        asked.append((other, names))
        reading += more
        prepared = _both(prepared, other)
    samples = settings.get("samples", 1)
    questions = [_ask(judge, model, one, names, number) for one, names in asked for number in range(samples)]
    answered = await _all(questions, spent=reading)
    outcome = count([each.sample for each in answered], judge.value_type, weigh=settings.get("verdict") == "direct")
    found = await _findings(judge, example, model, prepared, answered[:samples])
    calibrated = (
        await calibrate(judge, example, outcome.value, margins_of(found.findings))
        if calibrates(judge, model.limits)
        else None
    )
    value = calibrated.value if calibrated is not None and calibrated.decides else outcome.value
    chances = None if calibrated is None else calibrated.probabilities
    confidence = outcome.confidence if chances is None else chances.get(value, 0.0)
    least = settings.get("abstain_below", 0)
    unsure = ("no confidence: the endpoint tells no probabilities; draw several samples to abstain by them",)
    return Judgment(
        id=example.id,
        value=value,
        rationale=outcome.rationale,
        confidence=confidence,
        probabilities=_keyed(outcome.chances),
        own_value=outcome.value,
        calibrated_value=None if calibrated is None else calibrated.value,
        calibrated_probabilities=_keyed(chances),
        decided_by="calibrator" if calibrated is not None and calibrated.decides else "model",
        findings=found.findings if calibrated is None else weighed(found.findings, calibrated),
        abstained=confidence is not None and confidence < least,
        guideline_ids=prepared.guideline_ids,
        example_ids=prepared.example_ids,
        memory_hash=judge.memory.hash,
        model=model.name,
        usage=sum((each.usage for each in answered), Usage(seconds=prepared.seconds) + reading + found.usage),
        trace_tool_calls=prepared.trace_tool_calls,
        notes=(*prepared.notes, *found.notes, *(unsure if least and confidence is None else ())),
    )


async def _findings(
    judge: Judge, example: Example, model: ChatModel, prepared: Prepared, answered: Sequence[_Answered]
) -> Found:
    """The answers to the checks, read in the answers about the item as it stands, or asked of a model that tells them apart."""
    if prepared.checks:
        return read_checks(prepared.checks, (each.checks for each in answered))
    checks, _ = await which_checks(judge)
    if not checks or not isinstance(model, YesNoModel):
        return Found()
    items = items_alone(judge, example, model.limits)
    return await ask_checks(model, checks, items, seconds=judge.parameters.get("timeout"))


def _both(one: Prepared, other: Prepared) -> Prepared:
    """What the judgment says of an item that was asked about twice: all that the model read, and what is of one only."""
    own = (note for note in other.notes if note not in one.notes)
    swapped = (msgspec.structs.replace(call, swapped=True) for call in other.trace_tool_calls)
    return msgspec.structs.replace(
        one,
        guideline_ids=tuple(dict.fromkeys((*one.guideline_ids, *other.guideline_ids))),
        example_ids=tuple(dict.fromkeys((*one.example_ids, *other.example_ids))),
        trace_tool_calls=(*one.trace_tool_calls, *swapped),
        notes=(*one.notes, *(f"swapped: {note}" for note in own)),
        seconds={phase: seconds + other.seconds.get(phase, 0.0) for phase, seconds in one.seconds.items()},
    )


async def _ask(judge: Judge, model: ChatModel, prepared: Prepared, names: Mapping[str, str], number: int) -> _Answered:
    request, started = prepared.request, time.perf_counter()
    if number:  # the first sample has the judge's own seed
        request = msgspec.structs.replace(request, seed=(request.seed or 0) + number)
    reply = await model.complete(request)
    try:
        value = judge.value_type.parse(reply.data.get("value"))
    except InvalidValue as error:
        # Not what it answered: errors are kept, in ledgers and judgments, and may not carry anyone's words along.
        allowed = judge.value_type.allowed
        raise InvalidOutput(
            f"{model.name} answered outside the value type; allowed: {allowed}", usage=reply.usage
        ) from error
    rationale = str(reply.data.get("rationale") or "").strip() or None
    sample = Sample(value=value, rationale=rationale, chances=_chances(judge, reply))
    usage = reply.usage + Usage(seconds={"model": time.perf_counter() - started})
    return _Answered(sample.renamed(names), reply.data.get("checks"), usage)


def _chances(judge: Judge, reply: ChatReply) -> dict[Any, float] | None:
    if reply.probabilities is None:
        return None
    return {label: reply.probabilities.get(text, 0.0) for text, label in label_texts(judge.value_type).items()}


async def _all(calls: Sequence[Coroutine[Any, Any, _Answered]], *, spent: Usage) -> list[_Answered]:
    """Every answer; one that fails fails the judgment, which then says what all cost, and what was `spent` before."""
    results: Sequence[_Answered | BaseException]
    if len(calls) == 1:
        # Not as a task: the next item's call would come a turn of the loop later, after all other answers, and would then
        # search the many connections that have become idle meanwhile. That costs more than everything else here.
        try:
            results = [await calls[0]]
        except ModelError as error:
            results = [error]
    else:
        results = await asyncio.gather(*calls, return_exceptions=True)
    usages = (result.usage for result in results if isinstance(result, _Answered | ModelError))
    total = sum((usage or Usage() for usage in usages), spent)
    for result in results:
        if isinstance(result, ModelError):
            result.usage = total
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, _Answered)]


def swapped_names(judge: Judge, example: Example) -> dict[str, str]:
    """The two choices under which the item shows its sides, each with the other one.

    Raises InputError where none of the fields that the judge sees has two of its choices for keys.
    """
    seen = {name: value for name, value in example.content.items() if name in judge.fields}
    sides = tuple(sides_of(seen, judge.value_type.choices))
    if len(sides) != 2:
        one, other = judge.value_type.choices[:2]
        raise InputError(
            f"{example.id}: swap needs a field with two of the judge's choices for keys, such as "
            f'{{"{one}": …, "{other}": …}}; this item has {"none" if not sides else len(sides)}'
        )
    return dict([sides, sides[::-1]])


def swapped(example: Example, names: Mapping[str, str]) -> Example:
    """The item with its two sides, `swapped_names`, in each other's place."""

    def turned(field: Any) -> Any:
        if not isinstance(field, dict) or not names.keys() <= field.keys():
            return field
        return {key: field[names.get(key, key)] for key in field}

    return msgspec.structs.replace(example, **{name: turned(value) for name, value in example.content.items()})


def _keyed(chances: Mapping[Value, float] | None) -> dict[str, float] | None:
    if chances is None:
        return None
    return {value_text(label): p for label, p in chances.items()}
