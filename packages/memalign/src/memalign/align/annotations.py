"""Rows of feedback are checked and become annotations in memory, beside what the judge itself had said of the cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from msgspec.structs import replace

from memalign.align.forget import forget_lessons
from memalign.errors import InvalidRows, RowError
from memalign.io import (
    SKIP_HINT,
    FeedbackFile,
    JudgmentFile,
    OwnVerdicts,
    RowSource,
    label_notes,
    read_feedback,
)
from memalign.judge import Judge
from memalign.judge.spec import base_fingerprint_of, fingerprint_of, misfit, named_parts
from memalign.memory import Annotation, Case, Memory, PreAlignmentVerdict
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Feedback, FeedbackKey

__all__ = ["add_annotations", "checked_rows", "sort_rows", "with_own_verdicts", "without_disputed"]


def checked_rows(
    judge: Judge,
    source: RowSource,
    *,
    skip_invalid: bool,
    refuse: Callable[[Feedback], str | None] | None,
) -> FeedbackFile:
    """The rows that the judge can learn from; see `MemAlign.align`. Raises InvalidRows, unless `skip_invalid`."""
    if source.is_empty:
        return FeedbackFile(rows=(), lines=())
    hashes = {case.id: case.example.content_hash for case in judge.memory.cases}
    # Bad rows are left out at first, so that one message names them together with rows that the judge cannot use.
    file = read_feedback(
        source,
        value_type=judge.value_type,
        skip_invalid=True,
        hashes=hashes,
        fields=named_parts(judge.instructions),
    )
    good, invalid = list[tuple[Feedback, int]](), list(file.invalid)
    for row, line in zip(file.rows, file.lines, strict=True):
        if fault := misfit(judge, row) or (refuse and refuse(row)):
            invalid.append(RowError(line=line, id=str(row.key), reason=fault))
        else:
            good.append((row, line))
    invalid.sort(key=lambda error: error.line)
    if invalid and not skip_invalid:
        raise InvalidRows(source.name, invalid, hint=SKIP_HINT)
    rows, lines = tuple(row for row, _ in good), tuple(line for _, line in good)
    known = [
        annotation.value
        for annotation in judge.memory.annotations()
        if annotation.value is not None
    ]
    notes = (*file.notes, *label_notes(rows, judge.value_type, known))
    return FeedbackFile(rows=rows, lines=lines, invalid=tuple(invalid), notes=notes)


def sort_rows(
    memory: Memory, rows: Sequence[Feedback]
) -> dict[FeedbackKey, Literal["new", "changed", "unchanged"]]:
    """What each row is to the memory, by its key."""
    pairs = ((row, memory.annotation(row.key)) for row in rows)
    return {
        row.key: "new" if old is None else "unchanged" if old.says(row) else "changed"
        for row, old in pairs
    }


def add_annotations(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` with these rows as pending annotations; one of a known key replaces it, and what it taught goes."""
    if not rows:
        return memory
    memory = forget_lessons(
        memory, [row.key for row in rows if memory.annotation(row.key)], why="the feedback changed"
    )
    cases = {case.id: case for case in memory.cases}
    for row in rows:
        # What a person added to the row belongs to their annotation, not to the case.
        case = cases.get(row.id) or Case(example=Example(id=row.id, **row.content), annotations=())
        others = [annotation for annotation in case.annotations if annotation.key != row.key]
        annotations = sorted(
            (*others, Annotation.of(row)), key=lambda annotation: annotation.source
        )
        cases[row.id] = replace(case, annotations=tuple(annotations))
    added = {row.key for row in rows}
    return replace(
        memory,
        cases=tuple(cases[name] for name in sorted(cases)),
        # Feedback that comes back is no longer withdrawn.
        tombstones=tuple(stone for stone in memory.tombstones if stone.key not in added),
    )


def without_disputed(memory: Memory) -> Memory:
    """`memory` in which no guideline was written from a label that does not count; see `Memory.label`."""
    disputed = {entry.key for entry in memory.ledger() if entry.state == "disputed"}
    if not disputed:
        return memory
    taught = set[FeedbackKey]()
    for guideline in memory.guidelines:
        taught |= disputed & guideline.exposure
    for annotation in memory.annotations():
        if annotation.outcome is not None:
            taught |= disputed.intersection(annotation.outcome.exposed_to)
    return (
        forget_lessons(memory, taught, why="to be derived again without disputed feedback")
        if taught
        else memory
    )


# -- what the judge itself had said ------------------------------------------------------------------------------------


def with_own_verdicts(
    judge: Judge, memory: Memory, judged: OwnVerdicts, replaced: Collection[FeedbackKey]
) -> tuple[Memory, str]:
    """`memory`, of what is to be learned, with the verdicts that `judge` gave on its cases before; the first one stays.

    None counts that was given beside feedback on the very case, or beside feedback that is `replaced` now.
    """
    judgments = judged.judgments if isinstance(judged, JudgmentFile) else judged
    if not judgments:
        return memory, ""
    made_by, model = base_fingerprint_of(judge), open_judging_model(judge)
    models = ("", judge.model_name, model.name)
    # Of other memories than none, also with another label policy, and its own nobody knows what a judgment had seen.
    memories = {
        memory.hash: memory
        for memory in (Memory(), Memory(authority=judge.memory.authority), judge.memory)
    }
    if isinstance(judged, JudgmentFile):
        fingerprints = {
            fingerprint_of(judge.replace(model=model), other) for other in memories.values()
        }
        if judged.judge.rpartition("@")[2].partition("-")[0] not in fingerprints:
            return (
                memory,
                "the file of judgments was written by another judge or version: no verdict is taken from it",
            )
    reviewed = (case for key in replaced if (case := judge.memory.case(key.id)) is not None)
    beside = {
        duplicate.id for case in reviewed for duplicate in judge.memory.duplicates(case.example)
    }

    def with_verdict(case: Case) -> Case:
        judgment = judgments.get(case.id)
        if (
            judgment is None
            or judgment.error
            or judgment.decided_by == "expert"
            or judgment.model not in models
        ):
            return case
        changed = isinstance(judged, JudgmentFile) and not judged.fits(case.example)
        first = case.pre_alignment is None or case.pre_alignment.judge != made_by
        if changed or not first or judgment.memory_hash not in memories:
            return case
        exposed = memories[judgment.memory_hash].exposure(judgment.example_ids)
        own = {
            a.key
            for duplicate in judge.memory.duplicates(case.example)
            for a in duplicate.annotations
        }
        if judgment.value is None or own & exposed or beside & {key.id for key in exposed}:
            return case
        verdict = PreAlignmentVerdict(
            value=judgment.value,
            judge=made_by,
            rationale=judgment.rationale,
            exposed_to=tuple(sorted(exposed)),
        )
        return replace(case, pre_alignment=verdict)

    return replace(memory, cases=tuple(map(with_verdict, memory.cases))), ""
