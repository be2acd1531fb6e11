"""`memalign check`: feedback, before a judge learns from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DONE,
    FAILURES,
    Session,
)
from memalign.cli.output import counted, label_text, listed, table
from memalign.cli.rows_given import ColumnMap, FeedbackSource, remembering, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import FeedbackReview

_LIMIT = 20  # rows of a table
_DISAGREEMENTS = 10


def check(
    session: Session,
    feedback: Annotated[
        str, typer.Argument(metavar="FEEDBACK", help="JSONL, CSV, XLSX, Parquet, …; - reads JSON lines.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The judge that is to learn it.")] = None,
    *,
    value_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Check values without a judge: bool, A|B|tie, int:1..5, …")
    ] = None,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
) -> int:
    """Look at feedback before a judge learns from it.

    It counts labels and sources, and names duplicates and conflicts. It says which labels are missing or rare, and how far people agree with each other. With a judge's name it also says
    what is new to that judge, and which values and fields do not fit. No model is called. Exit 1 when rows are invalid.
    """
    from memalign.evaluation import review_feedback
    from memalign.values import ValueType

    if name is not None and value_type is not None:
        raise InputError("give a judge or --value-type, not both: the judge has its own")
    judge = None if name is None else remembering(session, name, None, columns)[1]
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    given = rows_given(feedback, columns, remembered=judge.columns if judge else None, source=source)
    found = review_feedback(given, kind, judge)
    session.give(found.to_dict(), *_review(found, given.name))
    return FAILURES if found.invalid else DONE


def _review(found: FeedbackReview, name: str) -> list[Any]:
    from memalign.types import UNKNOWN_SOURCE

    said = f"{found.labelled} with a value, {found.commented} with a rationale, {len(found.invalid)} invalid"
    parts: list[Any] = [f"{name}: {counted(found.rows, 'row')} on {counted(found.cases, 'case')}; {said}"]
    parts += [f"note: {note}" for note in found.notes]
    if found.status is not None:
        known = ", ".join(f"{found.status.get(each, 0)} {each}" for each in ("new", "changed", "unchanged"))
        parts.append(f"to the judge: {known}")
    if total := sum(found.labels.values()):
        labels = [(label, count, f"{count / total:.0%}") for label, count in found.labels.items()]
        parts.append(table(("label", "rows", "share"), labels, title="Labels", limit=_LIMIT))
    if found.sources:
        sources = [
            (f"{source} (no source given)" if source == UNKNOWN_SOURCE else source, count, f"{count / found.rows:.0%}")
            for source, count in found.sources.items()
        ]
        parts.append(table(("source", "rows", "share"), sources, title="Sources", limit=_LIMIT))
    parts.append(_agreement(found))
    parts += [f"look: {remark}" for remark in found.remarks]
    if found.duplicates:
        title = "Duplicates: the same content under several ids is one case"
        parts.append(table(("ids",), [(", ".join(ids),) for ids in found.duplicates], title=title, limit=_LIMIT))
    if found.conflicts:
        conflicts = [
            (listed(each.ids), "none" if each.label is None else label_text(each.label), _annotations(each.annotations))
            for each in found.conflicts
        ]
        parts.append(table(("ids", "label that counts", "annotations"), conflicts, title="Conflicts", limit=_LIMIT))
    if found.invalid:
        bad = [(row.line, row.id, row.reason) for row in found.invalid]
        parts.append(table(("line", "id", "reason"), bad, title="Invalid rows", limit=_LIMIT))
    return parts


def _annotations(annotations: Any) -> str:
    return ", ".join(f"{key}: {label_text(value)}" for key, value in annotations.items())


def _agreement(found: FeedbackReview) -> str:
    cases = f"{counted(found.compared, 'case')} labelled by two or more people"
    if found.compared < 2:
        return f"agreement between people: not measurable, {cases}"
    if found.alpha is None:
        return f"agreement between people: all labels are the same on {cases}"
    return f"agreement between people: Krippendorff's alpha {found.alpha:.2f} on {cases} (1 is perfect, 0 is chance)"
