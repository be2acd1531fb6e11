"""Measuring: feedback before a judge learns from it, and a judge's agreement with people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DONE,
    FAILURES,
    Concurrency,
    MaxCost,
    Name,
    Session,
    Version,
    interruptible,
)
from memalign.cli.estimating import DryRun, give_estimate
from memalign.cli.judged_out import kept_in
from memalign.cli.judging import Out
from memalign.cli.labelled_cases import ZERO_SHOT, Labelled, other_judge
from memalign.cli.output import counted, label_text, listed, shorten, table, usage_text
from memalign.cli.rows_given import ColumnMap, FeedbackSource, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Evaluation, FeedbackReview

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
    """Look at feedback before aligning: labels, sources, duplicates, conflicts, bias.

    It answers a bias reviewer's questions. Does one person give most labels? Do sources label differently? Is a label
    missing or rare? Does the label follow the length of what was judged? With a judge's name it also says what is new
    to that judge, and which values and fields do not fit. No model is called. Exit 1 when rows are invalid.
    """
    from memalign.evaluation import review_feedback
    from memalign.values import ValueType

    if name is not None and value_type is not None:
        raise InputError("give a judge or --value-type, not both: the judge has its own")
    judge = None if name is None else session.judge(name)[1]
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    given = rows_given(feedback, columns, remembered=judge.columns if judge else None, source=source)
    found = review_feedback(given, kind, judge)
    session.give(found.to_dict(), *_review(found, feedback))
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
    if found.rows:
        levels = {"look": "look", "fine": "fine", "unknown": "cannot say"}
        remarks = sorted(found.remarks, key=lambda each: list(levels).index(each.level))
        parts.append(table(("", "possible bias"), [(levels[each.level], each.text) for each in remarks]))
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


def evaluate(
    session: Session,
    name: Name,
    labelled: Labelled,
    *,
    version: Version = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="N|zero-shot", help="Compare with another version, or with the judge without memory."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Ask another model than the judge's, with its memory.")
    ] = None,
    columns: ColumnMap = None,
    out: Out = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Measure how far the judge agrees with people's labels, with 95 % intervals.

    It counts the cases that are in the judge's memory. They say nothing about learning.
    """
    from memalign.cli.progress import FailureReasons
    from memalign.evaluation import compare, estimate_evaluation
    from memalign.evaluation import evaluate as measure
    from memalign.judge.spend_limit import SpendLimit
    from memalign.types import Usage

    limit = None if max_cost is None else SpendLimit(max_cost)  # of both judges together
    number, chosen = session.judge(name, version)
    other = None if against is None else other_judge(session, chosen, against)
    chosen = chosen if model is None else chosen.replace(model=model)
    given = rows_given(labelled, columns, remembered=chosen.columns)
    if dry_run:
        estimate = estimate_evaluation(chosen, given, out=out)
        estimate += Usage() if other is None else estimate_evaluation(other, given)
        return give_estimate(session, name, number, estimate, max_cost)
    with interruptible(lambda: kept_in(out, "OUT.jsonl")), session.progress() as progress:
        found = measure(chosen, given, concurrency=concurrency, out=out, progress=progress, max_cost=limit)
        base = (
            None if other is None else measure(other, given, concurrency=concurrency, progress=progress, max_cost=limit)
        )
    data: dict[str, Any] = {"judge": name, "version": number, "seen": found.seen, "evaluation": found.to_dict()}
    parts: list[Any] = [f"{found}\n" if not found.disagreements else str(found), *_disagreements(found)]
    if base is not None:
        comparison = compare(base, found)
        data |= {"against": against, "base": base.to_dict(), "comparison": comparison.to_dict()}
        first = "without memory (zero-shot)" if against in ZERO_SHOT else f"version {against}"
        parts += [f"first judge: {name} {first}; second judge: {name} version {number}", f"{comparison}\n"]
    usage = found.usage if base is None else found.usage + base.usage
    parts.append(f"{_seen_line(found)}\n{usage_text(usage)}")
    session.give(data, *parts)
    reasons = FailureReasons()
    for case in (*found.cases, *(base.cases if base is not None else ())):
        if case.error is not None:
            reasons.add(case.id, case.error)
    for line in reasons.lines():
        session.say(line)
    return FAILURES if reasons.lines() else DONE


def _seen_line(found: Evaluation) -> str:
    return f"seen: {found.seen} of {found.n} cases are in the judge's memory, {found.n - found.seen} are new to it"


def _disagreements(found: Evaluation) -> list[Any]:
    if not found.disagreements:
        return []
    rows = [
        (each.id, label_text(each.value), label_text(each.label), shorten(each.rationale))
        for each in found.disagreements[:_DISAGREEMENTS]
    ]
    total = len(found.disagreements)
    title = f"Disagreements ({min(total, _DISAGREEMENTS)} of {total}; --json has all)"
    return [table(("id", "judge", "people", "the judge's reason"), rows, title=title)]
