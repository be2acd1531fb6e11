"""What comes before an align: cases to label next, a sheet to fill in, and a check of feedback."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    FILES,
    STDIN,
    ColumnMap,
    Concurrency,
    FeedbackSource,
    JudgedBefore,
    MaxCost,
    Name,
    examples_of,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import (
    conflict_text,
    counted,
    listed,
    say,
    table,
    top,
    usage_text,
)
from memalign.cli.progress import say_by_reason, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import FeedbackReview
    from memalign.judge import Judge


def next_(
    session: Session,
    name: Name,
    cases: Annotated[
        str,
        typer.Argument(metavar="CASES", help=f"Unlabelled cases: a {FILES}; {STDIN}"),
    ],
    *,
    n: Annotated[
        int,
        typer.Option(
            "-n", metavar="N", min=1, help="How many cases to choose. The default is 5."
        ),
    ] = 5,
    judged: JudgedBefore = None,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
) -> int:
    """Choose the cases that experts should label next.

    Cases come first if no guideline applies, if guidelines contradict each other, if the judge is
    unsure, or if memory has nothing similar. Each case is judged once, or not at all with --judged.
    Cases that are already in memory and copies of the same case are left out. A case that fails is
    listed and does not stop the others; the command then exits with 1.
    """
    from memalign.evaluation import next_cases

    number, judge = judge_with_columns(session, name, None, columns)
    source = examples_of(cases, columns, judge)
    started = time.perf_counter()
    with show_progress() as progress:
        ranking = next_cases(
            judge,
            source,
            n=n,
            judged=judged,
            concurrency=concurrency,
            max_cost=max_cost,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    counts = [f"compared {counted(ranking.ranked, 'case')}"]
    if ranking.left_out:
        counts.append(f"{ranking.left_out} left out as already in memory or copies")
    if ranking.failed:
        counts.append(f"{len(ranking.failed)} not judged")
    counts.append(usage_text(ranking.usage, seconds))
    rows = [(case.id, case.score, case.reason) for case in ranking.cases]
    failed = [{"id": key, "error": error} for key, error in ranking.failed]
    data = {"judge": name, "version": number, **vars(ranking), "failed": failed}
    session.give(data, table(("id", "score", "why"), rows), ", ".join(counts))
    say_by_reason("failed", ranking.failed)
    return FAILURES if ranking.failed else DONE


def review(
    session: Session,
    name: Name,
    cases: Annotated[
        str,
        typer.Argument(
            metavar="JUDGED",
            help="The file that `memalign judge -o` wrote, or examples that were not judged.",
        ),
    ],
    *,
    examples: Annotated[
        str | None,
        typer.Option(
            "--examples",
            metavar="FILE",
            help="The file of examples that was judged, because judgments hold no texts.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="SHEET", help="The .xlsx sheet to write."),
    ],
    with_verdicts: Annotated[
        bool,
        typer.Option(
            "--shown/--blind",
            help="Show the judge's verdicts, or hide them (the default) so that experts decide by "
            "themselves.",
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="WHO",
            help="The name of the expert who fills in the sheet.",
        ),
    ] = None,
    columns: ColumnMap = None,
) -> int:
    """Write a sheet in which experts give their verdicts.

    The sheet has one row per case, with empty columns for the expert's verdict and reason. Pass the
    filled sheet to `memalign align`. Of a file that `memalign judge --ask-below` marked, only what
    goes to people is on the sheet. No model is called.
    """
    from memalign.io.review import write_review

    _, judge = judge_with_columns(session, name, None, columns)
    reviewed, missing = _cases_to_review(judge, cases, examples, columns)
    where = examples or "the judge's memory"
    if not reviewed and not missing:
        raise InputError(f"{cases} has nothing to review: every verdict passed")
    if not reviewed:
        raise InputError(
            f"{cases} holds verdicts without texts, and {where} has none of its cases; name the "
            "file that was judged: --examples FILE"
        )
    if missing:
        say(f"left out {listed(missing, 5)}, because {where} has no such case")
    if out.exists():
        raise InputError(
            f"{out} exists, and somebody may have filled it in; name another file, or delete this "
            "one"
        )
    write_review(
        reviewed,
        out,
        with_verdicts=with_verdicts,
        source=source,
        value_type=judge.value_type,
        instructions=judge.instructions,
    )
    then = f"memalign align {shlex.quote(name)} {shlex.quote(str(out))}"
    if not source:
        then += " --source WHO"
    data = {
        "judge": name,
        "sheet": str(out),
        "cases": len(reviewed),
        "shown": with_verdicts,
        "next": then,
    }
    written = f"{counted(len(reviewed), 'case')} in {out}"
    session.give(data, written, f"when it is filled in, run: {then}")
    return DONE


def _cases_to_review(
    judge: Judge, file: str, examples: str | None, columns: list[str] | None
) -> tuple[Sequence[Any], Sequence[str]]:
    """Read the cases of a sheet, and the ids of those whose texts are missing."""
    from memalign.io.judgments import is_judgment_file
    from memalign.io.review import review_cases

    read = partial(rows_of, mapping=columns, remembered=judge.columns)
    if is_judgment_file(file):
        taught = [case.example for case in judge.memory.cases]
        texts = () if examples is None else read(examples)
        return review_cases(file, texts, remembered=taught)
    if examples is not None:
        advice = "leave out --examples, or name a file of `memalign judge -o`"
        raise InputError(f"{file} holds no judgments, so {advice}")
    return review_cases(None, read(file))


def check(
    session: Session,
    feedback: Annotated[
        str, typer.Argument(metavar="FEEDBACK", help=f"A {FILES}; {STDIN}")
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The judge that will learn from the feedback."
        ),
    ] = None,
    *,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
) -> int:
    """Check feedback before a judge learns from it.

    The command counts labels and sources, and lists duplicates and conflicts. It shows how far
    people agree with each other. With a judge's name, it also shows what is new to that judge and
    which values and fields do not fit. No model is called. The command exits with 1 if rows are
    invalid.
    """
    from memalign.evaluation import review_feedback

    if (
        name is not None
        and feedback != "-"
        and Path(name).is_file()
        and not Path(feedback).exists()
    ):
        feedback, name = (
            name,
            feedback,
        )  # every other command has the judge's name first
    judge = None
    remembered = None
    value_type = None
    if name is not None:
        _, judge = judge_with_columns(session, name, None, columns)
        remembered = judge.columns
        value_type = judge.value_type
    rows = rows_of(feedback, columns, remembered=remembered, source=source)
    review = review_feedback(rows, value_type, judge)
    session.give(vars(review), *_check_lines(review, rows.name))
    return FAILURES if review.invalid else DONE


def _check_lines(review: FeedbackReview, name: str) -> list[str]:
    """Write what `check` found, for people."""
    words = f"{review.labelled} with a value, {review.commented} with a rationale"
    rows = f"{counted(review.rows, 'row')} on {counted(review.cases, 'case')}"
    lines = [f"{name}: {rows}; {words}, {len(review.invalid)} invalid"]
    lines += [f"note: {note}" for note in review.notes]
    if review.status is not None:
        kinds = ("new", "changed", "unchanged")
        counts = [f"{review.status.get(kind, 0)} {kind}" for kind in kinds]
        lines.append(f"for the judge: {', '.join(counts)}")
    lines.append(f"labels: {_shares(review.labels)}")
    lines.append(f"sources: {_shares(review.sources)}")
    alpha = "none can be computed"
    if review.alpha is not None:
        alpha = f"{review.alpha:.2f} (1 is perfect, 0 is chance)"
    people = f"{counted(review.compared, 'case')} labelled by two or more people"
    lines.append(f"agreement between people: Krippendorff's alpha on {people}: {alpha}")
    copies = [
        f"duplicates, which count as one case: {listed(ids)}"
        for ids in review.duplicates
    ]
    lines += top(copies)
    for conflict in review.conflicts:
        lines.append(conflict_text(conflict.ids, conflict.annotations, conflict.label))
    invalid = []
    for row in review.invalid:
        invalid.append(f"line {row.line} ({(row.id or 'no id')[:80]}): {row.reason}")
    return lines + top(invalid)


def _shares(counts: Mapping[str, int]) -> str:
    """Write how often each word comes, and its share."""
    total = sum(counts.values())
    if not total:
        return "none"
    return listed(
        [f"{word} {count} ({count / total:.0%})" for word, count in counts.items()]
    )
