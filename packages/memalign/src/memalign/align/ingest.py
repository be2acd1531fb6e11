"""Rows of feedback become voices in memory, and the policy says which of them count."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memalign.align.consolidate import in_canonical_order
from memalign.align.forget import forget_lessons
from memalign.align.result import Conflict, RuleConflict
from memalign.errors import InputError
from memalign.memory import Case, Memory, Voice
from memalign.types import Example, Feedback, guideline_number

__all__ = ["add_voices", "conflicts", "refreshed", "rule_conflicts", "settle", "sort_rows"]

replace = msgspec.structs.replace


def sort_rows(memory: Memory, rows: Sequence[Feedback]) -> dict[str, str]:
    """Key → new, changed or unchanged, for every row."""
    status = {}
    for row in rows:
        known = memory.voice(row.key)
        status[row.key] = "new" if known is None else "unchanged" if known.says(row) else "changed"
    return status


def add_voices(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` with these rows as pending voices; a row of a known key replaces that voice and what it taught.

    Raises InputError when a row shows other content for a known id (files are checked for that before).
    """
    if not rows:
        return memory
    memory = forget_lessons(memory, [row.key for row in rows if memory.voice(row.key)], why="the feedback changed")
    cases = {case.id: case for case in memory.cases}
    for row in rows:
        case, example = cases.get(row.id), row.example
        if case is None:
            if example is None:
                raise InputError(f"{row.key}: the row has no content, and the judge knows no case {row.id!r}")
            # What a person added to the row belongs to their voice, not to the case.
            case = Case(example=Example(id=example.id, **example.content), voices=())
        elif example is not None and example.content_hash != case.example.content_hash:
            raise InputError(f"{row.key}: the judge knows case {row.id!r} with other content; give it another id")
        others = [voice for voice in case.voices if voice.source != row.source]
        cases[row.id] = replace(case, voices=tuple(sorted((*others, Voice.of(row)), key=lambda voice: voice.source)))
    added = {row.key for row in rows}
    return replace(
        memory,
        cases=tuple(cases[name] for name in sorted(cases)),
        # Feedback that comes back is no longer withdrawn.
        tombstones=tuple(stone for stone in memory.tombstones if stone.key not in added),
    )


def refreshed(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` whose voices have the times and further fields of these rows, where they say what is known already.

    Such a row teaches nothing new, but its time may decide which label counts. What a row does not give is kept.
    """
    told = {row.key: row for row in rows if row.created_at is not None or row.meta}

    def fresh(voice: Voice) -> Voice:
        row = told.get(voice.key)
        if row is None or not voice.says(row):
            return voice
        return replace(voice, created_at=row.created_at or voice.created_at, meta=row.meta or voice.meta)

    known = {voice.key for voice in memory.voices() if fresh(voice) != voice}
    if not known:
        return memory
    return replace(
        memory,
        cases=tuple(
            replace(case, voices=tuple(map(fresh, case.voices))) if any(v.key in known for v in case.voices) else case
            for case in memory.cases
        ),
    )


def settle(memory: Memory) -> Memory:
    """Apply the policy to every case: labels that do not count are disputed, and teach nothing.

    A voice that counts again becomes pending; one that counts no longer loses its guidelines. Comments without a label
    are never disputed.
    """
    silenced, restored = set(), set()
    # A voice whose label counts is disputed all the same when its rule lost against another: not for labels to settle.
    carried = {key for guideline in memory.guidelines for key in guideline.supported_by}
    for case in memory.cases:
        label = memory.label(case)
        for voice in case.voices:
            agrees = voice.value is None or voice.value == label
            if not agrees and (voice.state != "disputed" or voice.key in carried):
                silenced.add(voice.key)
            elif agrees and voice.state == "disputed" and voice.key not in carried:
                restored.add(voice.key)
    if not silenced and not restored:
        return memory
    memory = forget_lessons(memory, silenced, why="to be derived again without disputed feedback")

    def settled(case: Case) -> Case:
        voices = tuple(
            # Not the label that counts instead: it may be another person's free text, and outlive their feedback here.
            replace(voice, state="disputed", reason=f"this voice gave {voice.value}, and another label counts")
            if voice.key in silenced
            else replace(voice, state="pending", reason="no longer disputed")
            if voice.key in restored
            else voice
            for voice in case.voices
        )
        return replace(case, voices=voices)

    return replace(memory, cases=tuple(settled(case) for case in memory.cases))


def rule_conflicts(memory: Memory) -> tuple[RuleConflict, ...]:
    """Every two guidelines in force, or held back only by each other, that contradict each other; the older first."""
    by_id = {guideline.id: guideline for guideline in memory.guidelines}
    found: dict[tuple[str, str], RuleConflict] = {}
    for relation in memory.relations:
        if relation.verdict != "contradicts" or not by_id.keys() >= set(relation.pair):
            continue
        faces = [by_id.get(by_id[name].shown_by or "", by_id[name]) for name in relation.pair]
        one, other = in_canonical_order(*faces)
        if one.id == other.id:
            continue  # by other verdicts both say the same
        standing = tuple(g.id for g in (one, other) if g.status in ("active", "demoted"))
        if standing and all(g.id in standing or g.outvoted_by is not None for g in (one, other)):
            found[one.id, other.id] = RuleConflict(guideline_ids=(one.id, other.id), kept=standing)
    return tuple(found[pair] for pair in sorted(found, key=lambda ids: [*map(guideline_number, ids)]))


def conflicts(memory: Memory) -> tuple[Conflict, ...]:
    """Every content on which people gave different labels, by the id of its first case."""
    found: dict[str, Conflict] = {}
    for case in memory.cases:
        voices = {voice.key: voice.value for voice in memory.voices_on(case) if voice.value is not None}
        if len(set(voices.values())) > 1:
            ids = tuple(dict.fromkeys(voice.id for voice in memory.voices_on(case)))
            found.setdefault(case.example.content_hash, Conflict(ids=ids, voices=voices, label=memory.label(case)))
    return tuple(found.values())
