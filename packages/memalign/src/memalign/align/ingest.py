"""Rows of feedback become annotations in memory, and the policy says which of them count."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memalign.align.consolidate import in_canonical_order
from memalign.align.forget import forget_lessons
from memalign.align.result import Conflict, RuleConflict
from memalign.errors import InputError
from memalign.memory import Annotation, Case, Memory
from memalign.types import Example, Feedback, FeedbackKey, guideline_number

__all__ = ["add_annotations", "conflicts", "refreshed", "rule_conflicts", "settle", "sort_rows"]

replace = msgspec.structs.replace


def sort_rows(memory: Memory, rows: Sequence[Feedback]) -> dict[FeedbackKey, str]:
    """Key → new, changed or unchanged, for every row."""
    status = {}
    for row in rows:
        known = memory.annotation(row.key)
        status[row.key] = "new" if known is None else "unchanged" if known.says(row) else "changed"
    return status


def add_annotations(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` with these rows as pending annotations; a row of a known key replaces that annotation and what it taught.

    Raises InputError when a row shows other content for a known id (files are checked for that before).
    """
    if not rows:
        return memory
    memory = forget_lessons(memory, [row.key for row in rows if memory.annotation(row.key)], why="the feedback changed")
    cases = {case.id: case for case in memory.cases}
    for row in rows:
        case, example = cases.get(row.id), row.example
        if case is None:
            if example is None:
                raise InputError(f"{row.key}: the row has no content, and the judge knows no case {row.id!r}")
            # What a person added to the row belongs to their annotation, not to the case.
            case = Case(example=Example(id=example.id, **example.content), annotations=())
        elif example is not None and example.content_hash != case.example.content_hash:
            raise InputError(f"{row.key}: the judge knows case {row.id!r} with other content; give it another id")
        others = [annotation for annotation in case.annotations if annotation.source != row.source]
        cases[row.id] = replace(
            case, annotations=tuple(sorted((*others, Annotation.of(row)), key=lambda annotation: annotation.source))
        )
    added = {row.key for row in rows}
    return replace(
        memory,
        cases=tuple(cases[name] for name in sorted(cases)),
        # Feedback that comes back is no longer withdrawn.
        tombstones=tuple(stone for stone in memory.tombstones if stone.key not in added),
    )


def refreshed(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` whose annotations have the times and further fields of these rows, where they say what is known already.

    Such a row teaches nothing new, but its time may decide which label counts. What a row does not give is kept.
    """
    told = {row.key: row for row in rows if row.created_at is not None or row.meta}

    def fresh(annotation: Annotation) -> Annotation:
        row = told.get(annotation.key)
        if row is None or not annotation.says(row):
            return annotation
        return replace(annotation, created_at=row.created_at or annotation.created_at, meta=row.meta or annotation.meta)

    known = {annotation.key for annotation in memory.annotations() if fresh(annotation) != annotation}
    if not known:
        return memory
    return replace(
        memory,
        cases=tuple(
            replace(case, annotations=tuple(map(fresh, case.annotations)))
            if any(v.key in known for v in case.annotations)
            else case
            for case in memory.cases
        ),
    )


def settle(memory: Memory) -> Memory:
    """Apply the policy to every case: labels that do not count are disputed, and teach nothing.

    An annotation that counts again becomes pending; one that counts no longer loses its guidelines. Comments without a label
    are never disputed.
    """
    silenced, restored = set[FeedbackKey](), set[FeedbackKey]()
    # An annotation whose label counts is disputed all the same when its rule lost against another: not for labels to settle.
    carried = {key for guideline in memory.guidelines for key in guideline.supported_by}
    for case in memory.cases:
        label = memory.label(case)
        for annotation in case.annotations:
            agrees = annotation.value is None or annotation.value == label
            if not agrees and (annotation.state != "disputed" or annotation.key in carried):
                silenced.add(annotation.key)
            elif agrees and annotation.state == "disputed" and annotation.key not in carried:
                restored.add(annotation.key)
    if not silenced and not restored:
        return memory
    memory = forget_lessons(memory, silenced, why="to be derived again without disputed feedback")

    def settled(case: Case) -> Case:
        annotations = tuple(
            # Not the label that counts instead: it may be another person's free text, and outlive their feedback here.
            replace(
                annotation,
                state="disputed",
                reason=f"this annotation gave {annotation.value}, and another label counts",
            )
            if annotation.key in silenced
            else replace(annotation, state="pending", reason="no longer disputed")
            if annotation.key in restored
            else annotation
            for annotation in case.annotations
        )
        return replace(case, annotations=annotations)

    return replace(memory, cases=tuple(settled(case) for case in memory.cases))


def rule_conflicts(memory: Memory) -> tuple[RuleConflict, ...]:
    """Every two guidelines in force, or held back only by each other, that contradict each other; the older first."""
    by_id = {guideline.id: guideline for guideline in memory.guidelines}
    found: dict[tuple[str, str], RuleConflict] = {}
    for relation in memory.relations:
        if relation.verdict != "contradicts" or not by_id.keys() >= set(relation.pair):
            continue
        faces = [by_id.get(by_id[name].superseded_by or "", by_id[name]) for name in relation.pair]
        one, other = in_canonical_order(*faces)
        if one.id == other.id:
            continue  # by other verdicts both say the same
        precedence = tuple(g.id for g in (one, other) if g.status in ("active", "demoted"))
        if precedence and all(g.id in precedence or g.overridden_by is not None for g in (one, other)):
            found[one.id, other.id] = RuleConflict(guideline_ids=(one.id, other.id), kept=precedence)
    return tuple(found[pair] for pair in sorted(found, key=lambda ids: [*map(guideline_number, ids)]))


def conflicts(memory: Memory) -> tuple[Conflict, ...]:
    """Every content on which people gave different labels, by the id of its first case."""
    found: dict[str, Conflict] = {}
    for case in memory.cases:
        annotations = {
            annotation.key: annotation.value
            for annotation in memory.annotations_on(case)
            if annotation.value is not None
        }
        if len(set(annotations.values())) > 1:
            ids = tuple(dict.fromkeys(annotation.id for annotation in memory.annotations_on(case)))
            found.setdefault(
                case.example.content_hash, Conflict(ids=ids, annotations=annotations, label=memory.label(case))
            )
    return tuple(found.values())
