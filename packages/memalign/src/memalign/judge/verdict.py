"""One item's way to a Judgment: ask the model, average its answers, read the checks, and let the calibrator weigh them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from memalign.errors import InvalidOutput, InvalidValue, ModelError
from memalign.judge.calibrator import Calibrated, calibrate, calibrates
from memalign.judge.checks import Found, ask_checks, margins_of, read_checks, which_checks
from memalign.judge.findings import weighed
from memalign.judge.open_model import libraries_loaded, open_model
from memalign.judge.prepare import Prepared, items_alone, prepare
from memalign.judge.samples import Sample, average, label_texts, swapped, swapped_names
from memalign.judge.trace_reading import read_trace
from memalign.models.base import ChatModel, ChatReply, YesNoModel
from memalign.models.raw_answers import asked_about
from memalign.types import Example, Judgment, Usage
from memalign.values import Value, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decide"]


class _Answer(msgspec.Struct, frozen=True):
    """What one call answered: its sample, and the checks as it wrote them."""

    sample: Sample
    checks: object
    usage: Usage


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The model's own verdict on an item: the average of its answers, and what they were asked with."""

    prepared: Prepared
    sample: Sample
    checks: tuple[object, ...]
    usage: Usage


async def decide(judge: Judge, example: Example) -> Judgment:
    """Ask the judge's model about one item, and make a Judgment of its answers. Raises a ModelError when one fails."""
    await libraries_loaded(judge)
    with asked_about(example.id):
        return await _decide(judge, example)


async def _decide(judge: Judge, example: Example) -> Judgment:
    model = open_model(judge)
    own = await _own_verdict(judge, example, model)
    found = await _findings(judge, example, model, own)
    calibrated = await _calibrated(judge, example, model, own, found)
    decides = calibrated is not None and calibrated.decides
    value = calibrated.value if calibrated is not None and calibrated.decides else own.sample.value
    return Judgment(
        id=example.id,
        value=value,
        rationale=own.sample.rationale,
        confidence=_confidence(value, own.sample, calibrated),
        probabilities=_keyed(own.sample.chances),
        own_value=own.sample.value,
        calibrated_value=None if calibrated is None else calibrated.value,
        calibrated_probabilities=None if calibrated is None else _keyed(calibrated.probabilities),
        decided_by="calibrator" if decides else "model",
        findings=found.findings if calibrated is None else weighed(found.findings, calibrated),
        guideline_ids=own.prepared.guideline_ids,
        example_ids=own.prepared.example_ids,
        memory_hash=judge.memory.hash,
        model=model.name,
        usage=own.usage + found.usage,
        trace_tool_calls=own.prepared.trace_tool_calls,
        notes=(*own.prepared.notes, *found.notes),
    )


# -- the model's own verdict -------------------------------------------------------------------------------------------


async def _own_verdict(judge: Judge, example: Example, model: ChatModel) -> _Verdict:
    """The model's verdict on the item; with `swap` the average of that and the one on the item with its sides swapped."""
    if not judge.parameters.get("swap"):
        return await _asked_verdict(judge, example, model)
    names = swapped_names(example, judge.fields, judge.value_type.choices)  # before anything is paid: it may have none
    items = (example, swapped(example, names))
    verdict, other = await _all([_asked_verdict(judge, item, model) for item in items])
    return msgspec.structs.replace(
        verdict,
        prepared=_both(verdict.prepared, other.prepared),
        sample=average([verdict.sample, other.sample.renamed(names)], judge.value_type),
        usage=verdict.usage + other.usage,
    )


async def _asked_verdict(judge: Judge, example: Example, model: ChatModel) -> _Verdict:
    prepared, reading = await read_trace(judge, example, await prepare(judge, example, model), model)
    calls = [_ask(judge, model, prepared, number) for number in range(judge.parameters.get("samples", 1))]
    answers = await _all(calls, spent=reading)
    return _Verdict(
        prepared=prepared,
        sample=average([answer.sample for answer in answers], judge.value_type),
        checks=tuple(answer.checks for answer in answers),
        usage=sum((answer.usage for answer in answers), Usage(seconds=prepared.seconds) + reading),
    )


async def _ask(judge: Judge, model: ChatModel, prepared: Prepared, number: int) -> _Answer:
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
    return _Answer(
        sample, reply.data.get("checks"), reply.usage + Usage(seconds={"model": time.perf_counter() - started})
    )


def _chances(judge: Judge, reply: ChatReply) -> dict[Any, float] | None:
    if reply.probabilities is None:
        return None
    return {label: reply.probabilities.get(text, 0.0) for text, label in label_texts(judge.value_type).items()}


def _both(prepared: Prepared, other: Prepared) -> Prepared:
    """What the judgment says of an item that was asked about twice: all that the model read, and what is of one only."""
    notes = (note for note in other.notes if note not in prepared.notes)
    tool_calls = (msgspec.structs.replace(call, swapped=True) for call in other.trace_tool_calls)
    return msgspec.structs.replace(
        prepared,
        guideline_ids=tuple(dict.fromkeys((*prepared.guideline_ids, *other.guideline_ids))),
        example_ids=tuple(dict.fromkeys((*prepared.example_ids, *other.example_ids))),
        trace_tool_calls=(*prepared.trace_tool_calls, *tool_calls),
        notes=(*prepared.notes, *(f"swapped: {note}" for note in notes)),
    )


T = TypeVar("T", _Answer, _Verdict)


async def _all(calls: Sequence[Coroutine[Any, Any, T]], *, spent: Usage | None = None) -> list[T]:
    """Every answer; one that fails fails the judgment, which then says what all cost, and what was `spent` before."""
    results: Sequence[T | BaseException]
    if len(calls) == 1:
        # Not as a task: the next item's call would come a turn of the loop later, after all other answers, and would then
        # search the many connections that have become idle meanwhile. That costs more than everything else here.
        try:
            results = [await calls[0]]
        except ModelError as error:
            results = [error]
    else:
        results = await asyncio.gather(*calls, return_exceptions=True)
    answers = [result for result in results if not isinstance(result, BaseException)]
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        usages = [answer.usage for answer in answers]
        usages += [error.usage for error in failures if isinstance(error, ModelError) and error.usage]
        total = sum(usages, spent or Usage())
        if isinstance(failures[0], ModelError):
            failures[0].usage = total
        raise failures[0]
    return answers


# -- the checks and the calibrator -------------------------------------------------------------------------------------


async def _findings(judge: Judge, example: Example, model: ChatModel, own: _Verdict) -> Found:
    """The answers to the checks, read in the answers about the item as it stands, or asked of a model that tells them apart."""
    if own.prepared.checks:
        return read_checks(own.prepared.checks, own.checks)
    checks, _ = await which_checks(judge)
    if not checks or not isinstance(model, YesNoModel):
        return Found()
    items = items_alone(judge, example, model.limits)
    return await ask_checks(model, checks, items, seconds=judge.parameters.get("timeout"))


async def _calibrated(
    judge: Judge, example: Example, model: ChatModel, own: _Verdict, found: Found
) -> Calibrated | None:
    if not calibrates(judge, model.limits):
        return None
    return await calibrate(judge, example, own.sample.value, margins_of(found.findings))


def _confidence(value: Value, own: Sample, calibrated: Calibrated | None) -> float | None:
    """How probable the verdict is that is delivered: by a fitted calibrator that says the same, else by the model itself.

    A calibrator that says another value and does not decide has lost against the model on the taught cases: its
    probability of the model's value would contradict the verdict beside it.
    """
    if calibrated is None or not calibrated.fitted or calibrated.value != value or calibrated.probabilities is None:
        return own.confidence
    return calibrated.probabilities[value]


def _keyed(chances: Mapping[Value, float] | None) -> dict[str, float] | None:
    if chances is None:
        return None
    return {value_text(label): p for label, p in chances.items()}
