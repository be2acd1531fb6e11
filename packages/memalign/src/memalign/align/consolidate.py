"""Consolidation: of guidelines that say the same one is shown, and of two that contradict each other one counts.

A model says what pairs of guidelines from different shards are to each other: the same, contradicting or unrelated. The
answer holds verdicts only, so no word passes from one shard into another's guidelines. Verdicts stay in memory and code
applies them, so forgetting the guideline that is shown promotes the next without a model.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from memalign import aio
from memalign.align.states import change_annotations
from memalign.errors import ModelError
from memalign.memory import Annotation, Memory, Relation
from memalign.memory.guard import normalised
from memalign.memory.precedence import revised, with_relations
from memalign.models import resolve_embedding
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts import render_relate
from memalign.types import FeedbackKey, Guideline, Usage, guideline_number

if TYPE_CHECKING:
    from memalign.judge import Judge, Progress

__all__ = [
    "PAIRS_PER_CALL",
    "candidates",
    "consolidate",
    "leave_out",
    "new_guidelines",
    "relate",
    "relations_request",
    "verdicts_of",
]

replace = msgspec.structs.replace

ALIKE = 0.6
"""Cosine of two texts (in-process embedder) from which on a model is asked what they are to each other."""
NEIGHBOURS = 8
"""Of each guideline, so that a thousand cost thousands of comparisons and not a million."""
PAIRS_PER_CALL = {True: 1, False: 12}  # for a brief model, and for others
VERDICTS = ("same", "contradicts", "unrelated")

Pair = tuple[Guideline, Guideline]


# -- what is shown, without a model -----------------------------------------------------------------------------------


def consolidate(memory: Memory) -> Memory:
    """`memory` with every guideline in its place, and the annotations behind them in the states that this gives them."""
    known = {guideline.id for guideline in memory.guidelines}
    relations = tuple(relation for relation in memory.relations if known.issuperset(relation.pair))
    if len(relations) < len(memory.relations):
        memory = replace(memory, relations=relations)
    return _credited(memory.settled())


def leave_out(memory: Memory, ids: Iterable[str], locked_case: str | None = None) -> Memory:
    """`memory` with these guidelines out of force, for a locked case or by admission; what stood behind them steps in."""
    out = frozenset(ids)
    why = {"left_out": "admission" if locked_case is None else "lock", "left_out_for": locked_case}
    return consolidate(
        replace(
            memory,
            guidelines=tuple(
                replace(g, status="retired", status_by=None, superseded_by=None, overridden_by=None, **why)
                if g.id in out
                else g
                for g in memory.guidelines
            ),
        )
    )


def new_guidelines(before: Memory, after: Memory) -> frozenset[str]:
    """What a model wrote since and is in force now, or would be once the others of these are left out, by id."""
    there = {guideline.id for guideline in before.guidelines}
    found: frozenset[str] = frozenset()
    while True:
        left = leave_out(after, found) if found else after
        shown = (*left.semantic, *left.demoted)
        new = frozenset(g.id for g in shown if g.id not in there and g.origin == "distilled" and not g.pinned)
        if not new:
            return found
        found |= new


def _credited(memory: Memory) -> Memory:
    """Annotations in the state that their guidelines give them; one that waits, or is an example only, keeps its own.

    Learned: a guideline in force was written from the annotation. Merged: the guideline that carries it was there before,
    or stands behind another that says the same. Disputed: its rule contradicts one that counts by the policy. Rejected:
    its rule was left out because it made verdicts worse.
    """
    by_id = {guideline.id: guideline for guideline in memory.guidelines}
    carried: dict[FeedbackKey, list[Guideline]] = {}
    for guideline in memory.guidelines:
        for key in guideline.supported_by:
            carried.setdefault(key, []).append(guideline)

    def shown(guideline: Guideline) -> Guideline:
        while guideline.superseded_by is not None:  # ends: one is shown by a newer one, or by one that is shown
            guideline = by_id[guideline.superseded_by]
        return guideline

    def credit(annotation: Annotation) -> Annotation:
        mine = carried.get(annotation.key)
        if not mine:
            return _orphaned(annotation)
        if annotation.state == "pending":
            return annotation
        in_place = {guideline.id: shown(guideline) for guideline in mine}
        counting = [g for g in mine if in_place[g.id].overridden_by is None and not in_place[g.id].left_out]
        if not counting:
            rule = in_place[mine[0].id]
            if rule.overridden_by is not None:
                reason = f"its rule {rule.id} contradicts {rule.overridden_by}, which counts by the policy"
                return replace(annotation, state="disputed", reason=reason)
            reason = f"its rule {rule.id} was left out: it made verdicts worse"
            return replace(annotation, state="rejected", reason=reason)
        if any(g.status != "superseded" and annotation.key in g.exposed_to for g in counting):
            return annotation if annotation.state == "learned" else replace(annotation, state="learned", reason="")
        return replace(annotation, state="merged", reason=f"{in_place[counting[0].id].id} already says it")

    return change_annotations(memory, (new for each in memory.annotations() if (new := credit(each)) is not each))


def _orphaned(annotation: Annotation) -> Annotation:
    """An annotation without a guideline: it waits, unless it is an example only or its label does not count."""
    if annotation.state in ("pending", "disputed") or annotation.example_only:
        return annotation
    return replace(annotation, state="pending", reason="its rule is gone; to be derived again")


# -- what a model says of pairs ---------------------------------------------------------------------------------------


async def relate(
    judge: Judge, memory: Memory, model: ChatModel, *, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with a verdict on every pair of guidelines that are alike, what that cost, and notes.

    Never raises for a failing model: a pair without a verdict counts as unrelated, a note says so, and the next align
    asks again.
    """
    started = time.perf_counter()
    pairs = await candidates(memory)
    if not pairs:
        return memory, Usage(), ()
    size = PAIRS_PER_CALL[model.limits.brief]
    calls = [pairs[first : first + size] for first in range(0, len(pairs), size)]

    async def ask(some: Sequence[Pair]) -> tuple[dict[tuple[str, str], str], str | None, Usage]:
        try:
            reply = await model.complete(relations_request(judge, some))
        except ModelError as error:
            return {}, f"{type(error).__name__}: {error}", error.usage or Usage()
        return verdicts_of(reply.data, some), None, reply.usage

    answers = await aio.at_most(model.limits.concurrency, ask, calls, progress and partial(progress, "consolidate"))
    found = {pair: verdict for verdicts, _, _ in answers for pair, verdict in verdicts.items()}
    news = [Relation(pair=pair, verdict=verdict) for pair, verdict in found.items()]  # type: ignore[arg-type]
    usage = sum((spent for _, _, spent in answers), Usage())
    usage += Usage(seconds={"consolidate": time.perf_counter() - started})
    memory = replace(memory, relations=with_relations(memory.relations, news))
    return memory, usage, _notes(len(pairs) - len(found), [why for _, why, _ in answers])


async def candidates(memory: Memory) -> list[Pair]:
    """The pairs of guidelines that are alike and of which nothing is known yet, the older one of each first.

    Pairs of one shard are left out: whoever wrote the newer one had the older in view. So is what was revised, what
    checks left out, and what says the same word for word.
    """
    import numpy as np  # see retrieval

    known = {relation.pair for relation in memory.relations}
    texts = {guideline.id: normalised(guideline.text) for guideline in memory.guidelines}
    passed = revised(memory.guidelines, memory.relations)
    live = [g for g in memory.guidelines if g.id not in passed and not g.left_out]
    if len(live) < 2:
        return []
    # In process whatever the judge embeds with: guidelines are few, short and need no provider's call each.
    vectors = await resolve_embedding(None).embed([guideline.text for guideline in live])
    found: dict[tuple[str, str], Pair] = {}
    for index, guideline in enumerate(live):
        similarity = vectors @ vectors[index]
        similarity[index] = -1.0
        for other in np.argsort(-similarity, kind="stable")[:NEIGHBOURS]:
            if similarity[other] < ALIKE:
                break
            older, newer = sorted((guideline, live[int(other)]), key=lambda each: each.number)
            pair = (older, newer)
            name = (pair[0].id, pair[1].id)
            if name not in known and texts[name[0]] != texts[name[1]] and _apart(*pair):
                found[name] = pair
    return [found[name] for name in sorted(found, key=lambda ids: [*map(guideline_number, ids)])]


def _apart(one: Guideline, other: Guideline) -> bool:
    return set(one.exposed_to).isdisjoint(other.exposed_to)


def relations_request(judge: Judge, pairs: Sequence[Pair]) -> ChatRequest:
    """The question what the guidelines of each pair are to each other, for one call."""
    system, user = render_relate(
        instructions=judge.instructions,
        value_type=judge.value_type,
        # By text, not by age: the same two rules are the same question whichever was learned first.
        pairs=[(min(a.text, b.text), max(a.text, b.text)) for a, b in pairs],
    )
    labels = [f"P{number}" for number in range(1, len(pairs) + 1)]
    verdicts: dict[str, Any] = {label: {"type": "string", "enum": list(VERDICTS)} for label in labels}
    schema = {"type": "object", "properties": verdicts, "required": labels, "additionalProperties": False}
    return ChatRequest(
        system=system,
        user=user,
        schema=schema,
        schema_name="relations",
        max_tokens=64 + 12 * len(pairs),
        temperature=0.0,
        timeout=judge.parameters.get("timeout"),
    )


def verdicts_of(data: dict[str, Any], pairs: Sequence[Pair]) -> dict[tuple[str, str], str]:
    """What the answer says of each pair; what is no verdict is left out."""
    given = {(a.id, b.id): data.get(f"P{number}") for number, (a, b) in enumerate(pairs, 1)}
    return {pair: verdict for pair, verdict in given.items() if verdict in VERDICTS}


def _notes(unknown: int, faults: Sequence[str | None]) -> tuple[str, ...]:
    if not unknown:
        return ()
    why = next((fault for fault in faults if fault), "the answer left them out")
    return (f"{unknown} pairs of guidelines are not compared yet ({why}); the next align asks again",)
