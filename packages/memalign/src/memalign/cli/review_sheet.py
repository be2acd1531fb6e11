"""What comes before an align: the cases that experts should label next, a sheet to fill in, and a check of feedback."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    FILES,
    STDIN,
    VALUE_TYPES,
    ColumnMap,
    Concurrency,
    FeedbackSource,
    JudgedBefore,
    MaxCost,
    Name,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import counted, label_text, listed, say, table, usage_text
from memalign.cli.progress import say_failures, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import FeedbackReview
    from memalign.io.review import ReviewCase
    from memalign.judge import Judge

_SHOWN_IDS = 5
_LIMIT = 20  # rows of a table


def next_(
    session: Session,
    name: Name,
    cases: Annotated[str, typer.Argument(metavar="CASES", help=f"Unlabelled cases: a {FILES}; {STDIN}")],
    *,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many cases to choose. The default is 5.")] = 5,
    judged: JudgedBefore = None,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
) -> int:
    """Choose the cases that experts should label next.

    Cases come first if no guideline applies, if guidelines contradict each other, if the judge is unsure, or if memory
    has nothing similar. Each case is judged once, or not at all with --judged. Cases that are already in memory and
    copies of the same case are left out. A case that fails is listed and does not stop the others; the command then
    exits with 1.
    """
    from memalign.evaluation import next_cases
    from memalign.io import Examples

    _, judge = judge_with_columns(session, name, None, columns)
    source = Examples.of(rows_of(cases, columns, remembered=judge.columns), fields=judge.fields)
    started = time.perf_counter()
    with show_progress() as progress:
        ranking = next_cases(
            judge, source, n=n, judged=judged, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
    counts = [f"compared {counted(ranking.ranked, 'case')}"]
    counts += [f"{ranking.left_out} left out as already in memory or copies"] if ranking.left_out else []
    counts += [f"{len(ranking.failed)} not judged"] if ranking.failed else []
    parts: list[Any] = []
    if ranking.cases:
        parts.append(table(("id", "score", "why"), [(case.id, case.score, case.reason) for case in ranking.cases]))
    usage = usage_text(ranking.usage, time.perf_counter() - started)
    session.give(ranking.cases, *parts, ", ".join([*counts, usage]))
    say_failures(ranking.failed)
    return FAILURES if ranking.failed else DONE


def review(
    session: Session,
    name: Name,
    cases: Annotated[
        str,
        typer.Argument(
            metavar="JUDGED", help="The file that `memalign judge -o` wrote, or examples that were not judged."
        ),
    ],
    *,
    examples: Annotated[
        str | None,
        typer.Option(
            "--examples", metavar="FILE", help="The file of examples that was judged, because judgments hold no texts."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="SHEET", help="The .xlsx sheet to write.")],
    with_verdicts: Annotated[
        bool,
        typer.Option(
            "--shown/--blind",
            help="Show the judge's verdicts, or hide them (the default) so that experts decide by themselves.",
        ),
    ] = False,
    source: Annotated[
        str | None, typer.Option("--source", metavar="WHO", help="The name of the expert who fills in the sheet.")
    ] = None,
    columns: ColumnMap = None,
) -> int:
    """Write a sheet in which experts give their verdicts.

    The sheet has one row per case, with empty columns for the expert's verdict and reason. Pass the filled sheet to
    `memalign align`. No model is called.
    """
    _, judge = judge_with_columns(session, name, None, columns)
    reviewed, missing = _cases(judge, cases, examples, columns)
    if missing:
        more = f" and {len(missing) - _SHOWN_IDS} more" if len(missing) > _SHOWN_IDS else ""
        where = examples or "the judge's memory"
        say(f"left out {', '.join(missing[:_SHOWN_IDS])}{more}, because {where} has no such case")
    return _sheet(session, judge, reviewed, out, with_verdicts=with_verdicts, source=source)


def _cases(
    judge: Judge, cases: str, examples: str | None, columns: list[str] | None
) -> tuple[list[ReviewCase], list[str]]:
    from memalign.io.judgments import is_judgment_file
    from memalign.io.review import review_cases

    if not is_judgment_file(cases):
        if examples is not None:
            raise InputError(
                f"{cases} holds no judgments; use the file that `memalign judge -o` wrote, or leave out --examples"
            )
        return review_cases(None, rows_of(cases, columns, remembered=judge.columns))
    taught = [case.example for case in judge.memory.cases]
    texts = () if examples is None else rows_of(examples, columns, remembered=judge.columns)
    reviewed, missing = review_cases(cases, texts, remembered=taught)
    if not reviewed:
        where = "the judge's memory" if examples is None else examples
        raise InputError(
            f"{cases} holds verdicts without texts, and {where} has none of its cases; name the file "
            "that was judged: --examples FILE"
        )
    return reviewed, missing


def _sheet(
    session: Session, judge: Judge, cases: list[ReviewCase], out: Path, *, with_verdicts: bool, source: str | None
) -> int:
    from memalign.io.review import write_review

    if out.exists():
        raise InputError(f"{out} exists, and somebody may have filled it in; name another file, or delete this one")
    write_review(
        cases,
        out,
        value_type=judge.value_type,
        with_verdicts=with_verdicts,
        source=source,
        instructions=judge.instructions,
    )
    who = "" if source else " --source WHO"
    then = f"memalign align {shlex.quote(judge.name)} {shlex.quote(str(out))}{who}"
    verdicts = sum(judgment is not None for _, judgment in cases)
    data = {"judge": judge.name, "sheet": str(out), "cases": len(cases), "next": then}
    data["shown"] = with_verdicts and verdicts > 0
    hidden = f"; {counted(verdicts, 'verdict')} of the judge hidden" if verdicts and not with_verdicts else ""
    session.give(data, f"{counted(len(cases), 'case')} in {out}{hidden}", f"when it is filled in, run: {then}")
    return DONE


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

    The command counts labels and sources, and lists duplicates and conflicts. It shows how far people agree with each
    other. With a judge's name, it also shows what is new to that judge and which values and fields do not fit. No model
    is called. The command exits with 1 if rows are invalid.
    """
    from memalign.evaluation import review_feedback
    from memalign.values import ValueType

    if name is not None and value_type is not None:
        raise InputError("use either a judge or --value-type: the judge already has a value type")
    judge = None if name is None else judge_with_columns(session, name, None, columns)[1]
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    rows = rows_of(feedback, columns, remembered=judge.columns if judge else None, source=source)
    review = review_feedback(rows, kind, judge)
    session.give(vars(review), *_check_parts(review, rows.name))
    return FAILURES if review.invalid else DONE


def _check_parts(review: FeedbackReview, name: str) -> list[Any]:
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
