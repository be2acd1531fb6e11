"""Rows of feedback: checked, put into memory as annotations, and joined by the judge's verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

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
from memalign.judge import Judge, named_parts, task_of
from memalign.memory import Annotation, Case, Memory, PreAlignmentVerdict
from memalign.memory.forget import forget_lessons
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Feedback, FeedbackKey, Judgment

__all__ = ["add_annotations", "checked_rows", "sort_rows", "with_own_verdicts"]

CHANGED = "the feedback changed"
FOREIGN = (
    "the file of judgments was written by another judge or version: "
    "no verdict is taken from it"
)


def checked_rows(
    judge: Judge,
    source: RowSource,
    *,
    skip_invalid: bool,
    refuse: Callable[[Feedback], str | None] | None,
) -> FeedbackFile:
    """Read the rows that the judge can learn from.

    Args:
        judge: The judge.
        source: The rows.
        skip_invalid: Whether rows that cannot be used are left out and named.
        refuse: Gives a reason why a row may not be learned, or None. Such a row is always left out
            and named: nobody has to mend a file because some of its feedback was erased.

    Raises:
        InvalidRows: A row cannot be used, unless `skip_invalid`.
    """
    if source.is_empty:
        return FeedbackFile(rows=(), lines=())
    memory = judge.memory
    # Bad rows are left out at first, so that one message names them together with rows that do not
    # fit the judge.
    file = read_feedback(
        source,
        value_type=judge.value_type,
        skip_invalid=True,
        hashes={case.id: case.example.content_hash for case in memory.cases},
        fields=named_parts(judge.instructions),
    )
    rows = []
    lines = []
    bad = list(file.invalid)
    refused = []
    task = task_of(judge)
    for row, line in zip(file.rows, file.lines, strict=True):
        misfit = task.misfit(memory, row)
        refusal = refuse(row) if refuse else None
        if misfit:
            bad.append(RowError(line=line, id=str(row.key), reason=misfit))
        elif refusal:
            refused.append(RowError(line=line, id=str(row.key), reason=refusal))
        else:
            rows.append(row)
            lines.append(line)
    invalid = sorted([*bad, *refused], key=lambda error: error.line)
    if bad and not skip_invalid:
        raise InvalidRows(source.name, invalid, hint=SKIP_HINT)
    known = [said.value for said in memory.annotations() if said.value is not None]
    notes = label_notes(rows, judge.value_type, known)
    return FeedbackFile(
        rows=tuple(rows),
        lines=tuple(lines),
        invalid=tuple(invalid),
        notes=(*file.notes, *notes),
    )


def sort_rows(
    memory: Memory, rows: Sequence[Feedback]
) -> dict[FeedbackKey, Literal["new", "changed", "unchanged"]]:
    """Tell new rows from changed and unchanged ones, by key."""
    status: dict[FeedbackKey, Literal["new", "changed", "unchanged"]] = {}
    for row in rows:
        key = row.key
        known = memory.annotation(key)
        if known is None:
            status[key] = "new"
        elif known.says(row):
            status[key] = "unchanged"
        else:
            status[key] = "changed"
    return status


def add_annotations(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """Return the memory with these rows as pending annotations.

    A row of a known key replaces the annotation, and what it taught goes.
    """
    if not rows:
        return memory
    added = {row.key for row in rows}
    changed = list(filter(memory.annotation, added))
    memory = forget_lessons(memory, changed, why=CHANGED)
    cases: dict[str, Case] = {}
    for row in rows:
        case = cases.get(row.id) or memory.case(row.id)
        if case is None:
            # Fields that a person added to the row belong to their annotation, not to the case.
            example = Example(id=row.id, **row.content)
            case = Case(example=example, annotations=())
        said = [Annotation.of(row)]
        for annotation in case.annotations:
            if annotation.key != row.key:
                said.append(annotation)
        said.sort(key=lambda annotation: annotation.source)
        cases[row.id] = replace(case, annotations=tuple(said))
    # Feedback that comes back is no longer withdrawn.
    stones = []
    for stone in memory.tombstones:
        if stone.key not in added:
            stones.append(stone)
    memory = memory.with_cases(cases.values())
    return replace(memory, tombstones=tuple(stones))


# -- the judge's own verdicts ----------------------------------------------------------------------


def with_own_verdicts(
    judge: Judge, memory: Memory, judged: OwnVerdicts, replaced: Collection[FeedbackKey]
) -> tuple[Memory, str]:
    """Add the verdicts that the judge gave on cases before its experts did.

    A verdict that is known already stays.

    Args:
        judge: The judge before it learns.
        memory: Its memory with the cases to learn from.
        judged: The judgments, by the ids of the cases, or a file of them.
        replaced: Feedback that changes now. Verdicts that were given beside it do not count.

    Returns:
        The memory, and a note if the file was not used.
    """
    if isinstance(judged, JudgmentFile):
        file = judged
        judgments = judged.judgments
    else:
        file = None
        judgments = judged
    if not judgments:
        return memory, ""
    own = _OwnVerdicts.of(judge, replaced)
    if file is not None and not own.wrote(file):
        return memory, FOREIGN
    cases = []
    for case in memory.cases:
        judgment = judgments.get(case.id)
        if judgment is None:
            continue
        if file is not None and not file.fits(case.example):
            continue
        verdict = own.verdict(case, judgment)
        if verdict is not None:
            cases.append(replace(case, pre_alignment=verdict))
    return memory.with_cases(cases), ""


@dataclass(frozen=True, kw_only=True)
class _OwnVerdicts:
    """Reads judgments that a judge gave before it learned.

    Attributes:
        judge: The judge.
        made_by: Its fingerprint without memory.
        models: The names of its model that a judgment may have.
        memories: The memories with which it may have judged, by hash. With others nobody knows what
            it had seen.
        replaced: Feedback that changes now.
    """

    judge: Judge
    made_by: str
    models: tuple[str | None, ...]
    memories: Mapping[str, Memory]
    replaced: Collection[FeedbackKey]

    @classmethod
    def of(cls, judge: Judge, replaced: Collection[FeedbackKey]) -> _OwnVerdicts:
        """Return the reader for a judge.

        Args:
            judge: The judge before it learns.
            replaced: Feedback that changes now.
        """
        model = open_judging_model(judge)
        memories = (Memory(), Memory(authority=judge.memory.authority), judge.memory)
        return cls(
            judge=judge,
            made_by=task_of(judge).base_fingerprint,
            models=("", judge.model_name, model.name),
            memories={memory.hash: memory for memory in memories},
            replaced=frozenset(replaced),
        )

    def wrote(self, file: JudgmentFile) -> bool:
        """Return whether the judge wrote this file, with one of its memories."""
        task = task_of(self.judge)
        written = _settings_and_memory(file.judge)
        signatures = map(task.signature, self.memories.values())
        return written in map(_settings_and_memory, signatures)

    def verdict(self, case: Case, judgment: Judgment) -> PreAlignmentVerdict | None:
        """Return the verdict of a judgment on a case.

        None if it does not count, or a verdict is known already.

        A verdict does not count that was given beside feedback on this very case, or beside
        replaced feedback.
        """
        known = case.pre_alignment
        if known is not None and known.judge == self.made_by:
            return None
        memory = self.memories.get(judgment.memory_hash)
        if memory is None or judgment.value is None or not self._is_own(judgment):
            return None
        exposed = memory.exposure(judgment.example_ids)
        on_case = {said.key for said in self.judge.memory.annotations_on(case)}
        for key in exposed:
            if key in on_case or key in self.replaced:
                return None
        return PreAlignmentVerdict(
            value=judgment.value,
            judge=self.made_by,
            rationale=judgment.rationale,
            exposed_to=tuple(sorted(exposed)),
        )

    def _is_own(self, judgment: Judgment) -> bool:
        """Return whether the judge's model gave the verdict."""
        if judgment.error or judgment.decided_by == "expert":
            return False
        return judgment.model in self.models


def _settings_and_memory(signature: str) -> str:
    """Return the part of a signature without the judge's name and the wording of prompts."""
    _, _, hashes = signature.rpartition("@")
    settings_and_memory, _, _ = hashes.rpartition("-")
    return settings_and_memory
