"""Rows of feedback are checked and become annotations in memory, beside what the judge itself had said of the cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from memalign.align.forget import forget_lessons
from memalign.errors import ConfigurationError, InputError, InvalidRows, RowError
from memalign.io import SKIP_HINT, FeedbackFile, FeedbackSource, JudgmentFile, OwnVerdicts, RowSource, read_feedback
from memalign.judge import Judge
from memalign.judge.spec import base_fingerprint_of, misfit, without_memory
from memalign.memory import Annotation, Case, Memory, PreAlignmentVerdict
from memalign.memory.check_answers import without_answers_beside
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Feedback, FeedbackKey, Judgment

__all__ = [
    "NO_ROWS",
    "Refuse",
    "RowStatus",
    "add_annotations",
    "checked_rows",
    "own_judgments",
    "sort_rows",
    "with_own_verdicts",
    "without_disputed",
]

replace = msgspec.structs.replace

NO_ROWS = FeedbackFile(rows=(), lines=())

Refuse = Callable[[Feedback], str | None]
"""Why a row may not be learned, or None."""

RowStatus = Literal["new", "changed", "unchanged"]
"""What a row is to a memory."""


def checked_rows(
    judge: Judge, feedback: FeedbackSource, *, skip_invalid: bool = False, refuse: Refuse | None = None
) -> FeedbackFile:
    """The rows that the judge can learn from; see `MemAlign.align`. Raises InvalidRows, unless `skip_invalid`."""
    contents = {case.id: case.example.content_hash for case in judge.memory.cases}
    source = RowSource.of(feedback, remembered=judge.columns)
    if source.is_empty:
        return NO_ROWS
    # Bad rows are left out at first, so that one message names them together with rows that the judge cannot use.
    file = read_feedback(source, value_type=judge.value_type, skip_invalid=True, hashes=contents, fields=judge.fields)
    numbered = list(zip(file.rows, file.lines, strict=True))
    faults = [RowError(line=n, id=row.id, reason=why) for row, n in numbered if (why := misfit(judge, row))]
    if refuse is not None:
        faults += [RowError(line=n, id=str(row.key), reason=why) for row, n in numbered if (why := refuse(row))]
    invalid = sorted((*file.invalid, *faults), key=lambda fault: fault.line)
    if invalid and not skip_invalid:
        raise InvalidRows(source.name, invalid, hint=SKIP_HINT)
    bad = {fault.line for fault in faults}
    usable = [(row, line) for row, line in numbered if line not in bad]
    rows, lines = zip(*usable, strict=True) if usable else ((), ())
    return FeedbackFile(rows=rows, lines=lines, invalid=tuple(invalid), notes=file.notes)


def sort_rows(memory: Memory, rows: Sequence[Feedback]) -> dict[FeedbackKey, RowStatus]:
    """What each row is to the memory, by its key."""
    pairs = ((row, memory.annotation(row.key)) for row in rows)
    return {row.key: "new" if old is None else "unchanged" if old.says(row) else "changed" for row, old in pairs}


def add_annotations(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` with these rows as pending annotations; one of a known key replaces that annotation and what it taught.

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
                raise InputError(f"{row.key}: the row has no content, and the judge has no case {row.id!r}")
            # What a person added to the row belongs to their annotation, not to the case.
            case = Case(example=Example(id=example.id, **example.content), annotations=())
        elif example is not None and example.content_hash != case.example.content_hash:
            raise InputError(f"{row.key}: the judge has a case {row.id!r} with other content; use another id")
        annotations = {annotation.source: annotation for annotation in (*case.annotations, Annotation.of(row))}
        cases[row.id] = replace(case, annotations=tuple(annotations[source] for source in sorted(annotations)))
    added = {row.key for row in rows}
    return replace(
        memory,
        cases=tuple(cases[name] for name in sorted(cases)),
        # Feedback that comes back is no longer withdrawn.
        tombstones=tuple(stone for stone in memory.tombstones if stone.key not in added),
    )


def without_disputed(memory: Memory) -> Memory:
    """`memory` in which no guideline was written from a label that does not count; see `Memory.label`.

    Whose label counts is derived, so an annotation that counts again is pending without any change.
    """
    exposed = {key for guideline in memory.guidelines for key in guideline.exposed_to}
    exposed.update(*(annotation.outcome.exposed_to for annotation in memory.annotations() if annotation.outcome))
    taught = {entry.key for entry in memory.ledger() if entry.state == "disputed"} & exposed
    return forget_lessons(memory, taught, why="to be derived again without disputed feedback") if taught else memory


# -- what the judge itself had said ------------------------------------------------------------------------------------


def own_judgments(judge: Judge, memory: Memory, judged: OwnVerdicts) -> Mapping[str, Judgment] | None:
    """The judgments by ids of cases; of a file those on cases as they are today. None: another judge wrote it."""
    if not isinstance(judged, JudgmentFile):
        return judged
    with suppress(ConfigurationError):  # where its model cannot be opened here, the name that it has is all there is
        judge = judge.replace(model=open_judging_model(judge))
    fingerprint = judged.judge.rpartition("@")[2].partition("-")[0]
    if fingerprint not in (judge.fingerprint, without_memory(judge).fingerprint, base_fingerprint_of(judge)):
        return None
    same = (case.id for case in memory.cases if judged.contents.get(case.id) in ("", case.example.content_hash))
    return {name: judged.judgments[name] for name in same}


def with_own_verdicts(
    judge: Judge, memory: Memory, judgments: Mapping[str, Judgment], replaced: Collection[FeedbackKey]
) -> Memory:
    """`memory`, of what is to be learned, with the verdicts that `judge` gave on its cases before.

    A judgment counts where it was made by this judge, with this memory or none: of another memory nobody knows what it
    had seen, and so not what must be forgotten with it. Neither does one count that was made beside feedback on the
    very case, or beside feedback that is `replaced` now. The first verdict on a case stays.
    """
    if not judgments:
        return memory
    made_by, models = base_fingerprint_of(judge), {"", judge.model_name}
    with suppress(ConfigurationError):
        models.add(open_judging_model(judge).name)
    memories = {memory.hash: memory for memory in (Memory(), without_memory(judge).memory, judge.memory)}

    def with_verdict(case: Case) -> Case:
        judgment = judgments.get(case.id)
        if judgment is None or judgment.error or judgment.decided_by == "expert" or judgment.model not in models:
            return case
        if judgment.memory_hash not in memories or (case.pre_alignment and case.pre_alignment.judge == made_by):
            return case
        value = judgment.value if judgment.own_value is None else judgment.own_value
        exposed = memories[judgment.memory_hash].exposure(judgment.example_ids)
        own = {a.key for duplicate in judge.memory.duplicates(case.example) for a in duplicate.annotations}
        if value is None or own & exposed:
            return case
        # What a calibrator decided is reasoned for its value, which may be another one than the model's own.
        reason = judgment.rationale if judgment.decided_by == "model" else None
        verdict = PreAlignmentVerdict(value=value, judge=made_by, rationale=reason, exposed_to=tuple(sorted(exposed)))
        return replace(case, pre_alignment=verdict)

    changed = (case for key in replaced if (case := judge.memory.case(key.id)) is not None)
    beside = {duplicate.id for case in changed for duplicate in judge.memory.duplicates(case.example)}
    return replace(memory, cases=without_answers_beside(tuple(map(with_verdict, memory.cases)), beside))
