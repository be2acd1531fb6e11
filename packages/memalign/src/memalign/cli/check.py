"""`memalign check`: feedback, before a judge learns from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import FILES, STDIN, VALUE_TYPES, ColumnMap, FeedbackSource, judge_with_columns, rows_of
from memalign.cli.output import counted, label_text, listed, table
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import FeedbackReview

_LIMIT = 20  # rows of a table


def check(
    session: Session,
    feedback: Annotated[str, typer.Argument(metavar="FEEDBACK", help=f"A {FILES}; {STDIN}")],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The judge that will learn from the feedback.")
    ] = None,
    *,
    value_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help=f"Check the values without a judge: {VALUE_TYPES}")
    ] = None,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
) -> int:
    """Check feedback before a judge learns from it.

    The command counts labels and sources, and lists duplicates and conflicts. It shows which labels are missing or
    rare, and how far people agree with each other. With a judge's name, it also shows what is new to that judge and
    which values and fields do not fit. No model is called. The command exits with 1 if rows are invalid.
    """
    from memalign.evaluation import review_feedback
    from memalign.values import ValueType

    if name is not None and value_type is not None:
        raise InputError("use either a judge or --value-type: the judge already has a value type")
    judge = None if name is None else judge_with_columns(session, name, None, columns)[1]
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    rows = rows_of(feedback, columns, remembered=judge.columns if judge else None, source=source)
    review = review_feedback(rows, kind, judge)
    session.give(review.to_dict(), *_parts(review, rows.name))
    return FAILURES if review.invalid else DONE


def _parts(review: FeedbackReview, name: str) -> list[Any]:
    from memalign.types import UNKNOWN_SOURCE

    counts = f"{review.labelled} with a value, {review.commented} with a rationale, {len(review.invalid)} invalid"
    parts: list[Any] = [f"{name}: {counted(review.rows, 'row')} on {counted(review.cases, 'case')}; {counts}"]
    parts += [f"note: {note}" for note in review.notes]
    if review.status is not None:
        counts = ", ".join(f"{review.status.get(word, 0)} {word}" for word in ("new", "changed", "unchanged"))
        parts.append(f"for the judge: {counts}")
    if total := sum(review.labels.values()):
        labels = [(label, count, f"{count / total:.0%}") for label, count in review.labels.items()]
        parts.append(table(("label", "rows", "share"), labels, title="Labels", limit=_LIMIT))
    if review.sources:
        sources = [
            (f"{source} (no source given)" if source == UNKNOWN_SOURCE else source, count, f"{count / review.rows:.0%}")
            for source, count in review.sources.items()
        ]
        parts.append(table(("source", "rows", "share"), sources, title="Sources", limit=_LIMIT))
    parts.append(_agreement(review))
    parts += [f"look: {remark}" for remark in review.remarks]
    if review.duplicates:
        title = "Duplicates: ids with the same content count as one case"
        parts.append(table(("ids",), [(", ".join(ids),) for ids in review.duplicates], title=title, limit=_LIMIT))
    if review.conflicts:
        conflicts = [
            (listed(pair.ids), "none" if pair.label is None else label_text(pair.label), _annotations(pair.annotations))
            for pair in review.conflicts
        ]
        parts.append(table(("ids", "label that counts", "annotations"), conflicts, title="Conflicts", limit=_LIMIT))
    if review.invalid:
        bad = [(row.line, row.id, row.reason) for row in review.invalid]
        parts.append(table(("line", "id", "reason"), bad, title="Invalid rows", limit=_LIMIT))
    return parts


def _annotations(annotations: Any) -> str:
    return ", ".join(f"{key}: {label_text(value)}" for key, value in annotations.items())


def _agreement(review: FeedbackReview) -> str:
    cases = f"{counted(review.compared, 'case')} labelled by two or more people"
    if review.compared < 2:
        return f"agreement between people: too few to measure, {cases}"
    if review.alpha is None:
        return f"agreement between people: all labels are the same on {cases}"
    return f"agreement between people: Krippendorff's alpha {review.alpha:.2f} on {cases} (1 is perfect, 0 is chance)"
