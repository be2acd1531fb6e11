"""Distillation: what experts said becomes guidelines, one shard of feedback a call.

A prompt that writes text holds one shard's records and guidelines and nothing else. That bounds what a guideline is
exposed to, makes forgetting exact and cheap, and makes the result independent of which call finishes first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from memalign import aio
from memalign.align.deltas import ONE_RULE, Delta, deltas_of, deltas_schema, rule_of
from memalign.content import judged_texts
from memalign.errors import ModelError, ModelRefused
from memalign.judge import Judge, Progress
from memalign.memory import Annotation, Case, Memory, Shard
from memalign.memory.guard import guideline_fault
from memalign.memory.precedence import replacing, with_relations
from memalign.memory.retrieval import stumbled
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts import DistilRecord, encode, render_distil, render_distil_one
from memalign.prompts.truncate import cut, shorten, whole
from memalign.types import FeedbackKey, Guideline, Usage

__all__ = ["assign_shards", "distil", "has_lesson", "with_states"]

replace = msgspec.structs.replace

RECORD_TOKENS = {True: 400, False: 3000}  # of one case in a distillation prompt, for a brief model and for others

REFUSED = "; it may decline these words every time: overwrite or unalign the feedback, or take another reflection model"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard's call about the `waiting` of its annotations gave: deltas, or why there are none."""

    shard: Shard
    waiting: tuple[FeedbackKey, ...]
    deltas: tuple[Delta, ...] = ()
    fault: str | None = None
    usage: Usage = Usage()


def has_lesson(judge: Judge, memory: Memory, case: Case, annotation: Annotation) -> bool:
    """Whether there is something to distil: the expert used words, or the judge was wrong."""
    return bool(annotation.rationale) or stumbled(memory, case, judge.value_type)


def assign_shards(memory: Memory, keys: Sequence[FeedbackKey], size: int) -> Memory:
    """`memory` with every key of `keys` in a shard: the most similar one with room, else a new one.

    Keys are placed in canonical order, so the order within a batch does not matter. A key keeps its shard.
    """
    placed = {key for shard in memory.shards for key in shard.keys}
    shards = _Shards(memory, size)
    for key in sorted(set(keys) - placed):
        shards.place(key)
    return replace(memory, shards=tuple(Shard(keys=tuple(sorted(keys))) for keys in shards.keys))


class _Shards:
    """Shards that grow: each with the sum of its cases' vectors, so that placing a key is one product."""

    def __init__(self, memory: Memory, size: int) -> None:
        import numpy as np  # see retrieval

        rows = {case.id: index for index, case in enumerate(memory.cases)}
        self._row = {annotation.key: rows[annotation.id] for annotation in memory.annotations()}
        self._matrix = memory.matrix
        self._size = size
        self.keys = [list(shard.keys) for shard in memory.shards]
        # Only those with room matter, and that is rarely more than a few of thousands.
        self._sums = {
            n: self._matrix[[self._row[key] for key in keys]].sum(axis=0, dtype=np.float64)
            for n, keys in enumerate(self.keys)
            if size > 1 and len(keys) < size
        }

    def place(self, key: FeedbackKey) -> None:
        """Put the key into the shard with room whose cases are the most similar to its own on average, else a new one."""
        import numpy as np

        vector = self._matrix[self._row[key]].astype(np.float64)
        if self._sums:
            counts = np.array([len(self.keys[n]) for n in self._sums])
            home = list(self._sums)[int(np.argmax((np.stack(list(self._sums.values())) @ vector) / counts))]
            self.keys[home].append(key)
            self._sums[home] += vector
        else:
            home = len(self.keys)
            self.keys.append([key])
            self._sums[home] = vector
        if len(self.keys[home]) >= self._size:
            del self._sums[home]


async def distil(
    judge: Judge,
    memory: Memory,
    model: ChatModel,
    *,
    shard_size: int,
    contrast: bool = True,
    progress: Progress | None = None,
) -> tuple[Memory, Usage]:
    """`memory` after every pending annotation was distilled, and what that cost. Never raises for a failing model.

    Annotations without a lesson are learned as examples. With `contrast`, an annotation whose case could not be asked before learning waits for
    that. A failed call, or a rule that may not enter the system message, leaves its annotations pending with the reason.
    """
    started = time.perf_counter()
    ready = frozenset(
        annotation.key
        for case in memory.cases
        for annotation in case.annotations
        if annotation.state == "pending" and (case.pre_alignment is not None or not contrast)
    )
    memory = _learn_examples(judge, memory, ready)
    waiting = [
        annotation.key
        for annotation in memory.annotations()
        if annotation.state == "pending" and annotation.key in ready
    ]
    memory = assign_shards(memory, waiting, shard_size)
    waiting_keys = frozenset(waiting)
    shards = [shard for shard in memory.shards if not waiting_keys.isdisjoint(shard.keys)]
    rules = _Exposed(memory)
    done = 0
    slots = asyncio.Semaphore(model.limits.concurrency)

    async def one(shard: Shard) -> Outcome:
        nonlocal done
        async with slots:
            keys = [key for key in shard.keys if key in waiting_keys]
            outcome = await _distil_shard(judge, memory, model, shard, keys, guidelines=rules.of(shard))
        done += 1
        if progress is not None:
            progress("distil", done, len(shards))
        return outcome

    outcomes = await aio.together(one(shard) for shard in shards)
    usage = sum((outcome.usage for outcome in outcomes), Usage())
    learned, states = memory, dict[FeedbackKey, tuple[str, str]]()
    for outcome in outcomes:  # in the order of the shards, whoever finished first: guideline ids depend on it
        learned, told = _apply(learned, outcome, memory)
        states |= told
    memory = with_states(learned, states)
    return memory, usage + Usage(seconds={"distil": time.perf_counter() - started})


def _learn_examples(judge: Judge, memory: Memory, ready: frozenset[FeedbackKey]) -> Memory:
    """Pending annotations without a lesson are learned: their example is all there is to learn."""

    def why(case: Case) -> str:
        agreed = case.pre_alignment is not None and judge.value_type.closed
        return "kept as an example: " + ("the judge agreed, and " * agreed) + "there were no words to learn from"

    changes = {
        annotation.key: ("learned", why(case))
        for case in memory.cases
        for annotation in case.annotations
        if annotation.key in ready and not has_lesson(judge, memory, case, annotation)
    }
    return with_states(memory, changes)


class _Exposed:
    """A memory's guidelines by the feedback that they are exposed to, so that a shard need not look at all of them."""

    def __init__(self, memory: Memory) -> None:
        self._ids = {guideline.id: guideline for guideline in memory.guidelines}
        self._keys: dict[FeedbackKey, list[str]] = {}
        for guideline in memory.guidelines:
            for key in guideline.exposed_to:
                self._keys.setdefault(key, []).append(guideline.id)

    def of(self, shard: Shard) -> list[Guideline]:
        """What `_guidelines_of` says of the shard, in the order of the guidelines' numbers."""
        own = {name: self._ids[name] for key in shard.keys for name in self._keys.get(key, ())}
        own |= {g.superseded_by: self._ids[g.superseded_by] for g in own.values() if g.superseded_by in self._ids}
        near = tuple(sorted(own.values(), key=lambda guideline: guideline.number))
        return _guidelines_of(Memory(guidelines=near), shard)


async def _distil_shard(
    judge: Judge,
    memory: Memory,
    model: ChatModel,
    shard: Shard,
    waiting: Sequence[FeedbackKey],
    *,
    guidelines: Sequence[Guideline],
) -> Outcome:
    brief = model.limits.brief
    alone = len(shard.keys) == 1 and not guidelines and brief
    records = {key: _record(judge, memory, key, f"F{n}", brief=brief) for n, key in enumerate(shard.keys, start=1)}
    known = [records[key] for key in shard.keys if key not in waiting and _carried(guidelines, key)]
    new = [records[key] for key in waiting]
    if alone:
        system, user = render_distil_one(
            instructions=judge.instructions, value_type=judge.value_type, record=records[waiting[0]]
        )
        schema, name = ONE_RULE, "rule"
    else:
        system, user = render_distil(
            instructions=judge.instructions,
            value_type=judge.value_type,
            guidelines=guidelines,
            known=known,
            records=new,
        )
        schema, name = deltas_schema([r.label for r in new], [g.id for g in guidelines]), "changes"
    request = ChatRequest(
        system=system,
        user=user,
        schema=schema,
        schema_name=name,
        max_tokens=160 if alone else 256 + 160 * len(new),
        temperature=0.0,
        timeout=judge.parameters.get("timeout"),
    )
    try:
        reply = await model.complete(request)
    except ModelError as error:
        advice = REFUSED if isinstance(error, ModelRefused) else ""
        fault = f"{type(error).__name__}: {error}{advice}"
        return Outcome(shard=shard, waiting=tuple(waiting), fault=fault, usage=error.usage or Usage())
    if alone:
        annotation, case = _annotation_and_case(memory, waiting[0])
        deltas: tuple[Delta, ...] = (rule_of(reply, annotation=annotation, case=case, value_type=judge.value_type),)
    else:
        deltas = deltas_of(reply, {record.label: key for key, record in records.items()})
    return Outcome(shard=shard, waiting=tuple(waiting), deltas=deltas, usage=reply.usage)


def _guidelines_of(memory: Memory, shard: Shard) -> list[Guideline]:
    """What the shard has written so far and still stands, also where another shard's guideline of that text is shown."""
    retired = {g.id for g in memory.guidelines if g.status == "retired"}  # and what says the same as one of them
    own = [
        g
        for g in memory.guidelines
        if not set(shard.keys).isdisjoint(g.exposed_to) and retired.isdisjoint((g.id, g.superseded_by))
    ]
    ids = {guideline.id for guideline in own}
    return [guideline for guideline in own if guideline.superseded_by not in ids]


def _carried(guidelines: Sequence[Guideline], key: FeedbackKey) -> bool:
    return any(key in guideline.supported_by for guideline in guidelines)


def _record(judge: Judge, memory: Memory, key: FeedbackKey, label: str, *, brief: bool) -> DistilRecord:
    """An annotation as a distillation prompt shows it: the case, the judge's verdict and the expert's own words."""
    annotation, case = _annotation_and_case(memory, key)
    content = [(name, case.example.content[name]) for name in judge.fields if name in case.example.content]
    room = RECORD_TOKENS[brief] // max(len(content), 1)
    pre_alignment = case.pre_alignment
    return DistilRecord(
        label=label,
        fields=tuple((name, shown_within(name, value, room)) for name, value in content),
        judge=None if pre_alignment is None else encode(pre_alignment.value),
        judge_rationale=encode(pre_alignment.rationale) if pre_alignment and pre_alignment.rationale else None,
        value=None if annotation.value is None else encode(annotation.value),
        rationale=shown_within("rationale", annotation.rationale, RECORD_TOKENS[brief])
        if annotation.rationale
        else None,
    )


def _annotation_and_case(memory: Memory, key: FeedbackKey) -> tuple[Annotation, Case]:
    annotation = memory.annotation(key)
    case = memory.case(annotation.id) if annotation else None
    if annotation is None or case is None:  # shards hold live keys only; anything else is a defect of ours
        raise LookupError(key)
    return annotation, case


def shown_within(name: str, value: object, tokens: int) -> str:
    """`value` encoded, cut to about `tokens` only when it is longer: a conversation by its turns, a trace by its spans."""
    shown = whole(name, value, tokens)
    if shown is None:
        return cut(name, value, tokens)[0]
    return shown if "\n" in shown or len(shown) <= tokens * 3 else shorten(value, tokens)


def _apply(memory: Memory, outcome: Outcome, known: Memory) -> tuple[Memory, dict[FeedbackKey, tuple[str, str]]]:
    """Carry out one shard's deltas, each checked first, and what becomes of its annotations.

    What is not carried out leaves them pending. The states are for the caller to set, of all shards at once: a thousand
    shards that each went through ten thousand annotations took a minute. `known` has the same cases as `memory`.
    """
    waiting = outcome.waiting
    if outcome.fault is not None:
        return memory, dict.fromkeys(waiting, ("pending", outcome.fault))
    unnamed = "the model's answer did not mention it; it is asked again at the next align"
    states: dict[FeedbackKey, tuple[str, str]] = dict.fromkeys(waiting, ("pending", unnamed))
    settled: set[FeedbackKey] = set()
    for delta in outcome.deltas:
        fresh = [key for key in dict.fromkeys(delta.feedback) if key in waiting and key not in settled]
        fault = _fault(memory, outcome.shard, delta, known)
        if fault is not None:
            states.update(dict.fromkeys(fresh, ("pending", f"its rule was not taken: {fault}")))
            continue
        if not fresh:
            continue  # it repeats what another delta did
        memory, state = _carry_out(memory, outcome.shard, delta, tuple(sorted(fresh)))
        settled.update(fresh)
        states.update(dict.fromkeys(fresh, state))
    return memory, states


def _fault(memory: Memory, shard: Shard, delta: Delta, known: Memory) -> str | None:
    """Why a delta must not be carried out, or None."""
    foreign = [key for key in delta.feedback if key not in shard.keys]
    if foreign or not delta.feedback:
        return "it names feedback outside its shard" if foreign else "it names no feedback"
    if delta.action not in ("ADD", "SUPPORT", "REVISE", "NOOP"):
        return "its action is unknown"
    if delta.action in ("SUPPORT", "REVISE"):
        target = next((g for g in _guidelines_of(memory, shard) if g.id == delta.guideline), None)
        if target is None:
            return "it names a guideline outside its shard, or one that no longer stands"
        if delta.action == "REVISE" and (target.pinned or target.origin != "distilled"):
            return f"{target.id} was set by a person"
    if delta.action in ("ADD", "REVISE"):
        cases = (known.case(key.id) for key in shard.keys)
        judged = (said for case in cases if case for said in judged_texts(case.example.content))
        return guideline_fault(delta.text, judged)
    return None


def _carry_out(
    memory: Memory, shard: Shard, delta: Delta, fresh: tuple[FeedbackKey, ...]
) -> tuple[Memory, tuple[str, str]]:
    if delta.action == "NOOP":
        # Not in the model's words: they were written with other people's feedback in view.
        return memory, ("learned", "kept as an example: the model drew no rule from it")
    if delta.action == "SUPPORT":
        supported = tuple(
            replace(g, supported_by=tuple(sorted({*g.supported_by, *fresh}))) if g.id == delta.guideline else g
            for g in memory.guidelines
        )
        return replace(memory, guidelines=supported), ("merged", f"{delta.guideline} already says it")
    older = [g for g in memory.guidelines if g.id == delta.guideline and delta.action == "REVISE"]
    guideline = Guideline(
        id=f"G{memory.next_guideline}",
        text=delta.text,
        supported_by=tuple(sorted({*fresh, *(key for g in older for key in g.supported_by)})),
        # Every record of the shard was in the prompt, its guidelines with all that they were exposed to as well.
        exposed_to=tuple(sorted({*shard.keys, *(key for g in older for key in g.exposed_to)})),
    )
    guidelines = tuple(
        replace(g, status="superseded", superseded_by=guideline.id) if g in older else g for g in memory.guidelines
    )
    grown = replace(
        memory,
        guidelines=(*guidelines, guideline),
        relations=with_relations(memory.relations, (replacing(guideline.id, g.id) for g in older)),
        next_guideline=memory.next_guideline + 1,
    )
    return grown, ("learned", "")


def with_states(memory: Memory, states: dict[FeedbackKey, tuple[str, str]]) -> Memory:
    """`memory` with the state and reason that `states` gives to some keys."""
    if not states:
        return memory

    def changed(annotation: Annotation) -> Annotation:
        if annotation.key not in states:
            return annotation
        state, reason = states[annotation.key]
        return replace(annotation, state=state, reason=reason)

    return replace(
        memory,
        cases=tuple(
            replace(case, annotations=tuple(changed(annotation) for annotation in case.annotations))
            if any(annotation.key in states for annotation in case.annotations)
            else case
            for case in memory.cases
        ),
    )
