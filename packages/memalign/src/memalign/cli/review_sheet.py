"""What experts review: the cases that they should label next, and a sheet to fill in."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    FILES,
    STDIN,
    ColumnMap,
    Concurrency,
    JudgedBefore,
    MaxCost,
    Name,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import counted, say, table, usage_text
from memalign.cli.progress import say_failures, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io.review import ReviewCase
    from memalign.judge import Judge

_SHOWN_IDS = 5


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
    counts += [f"{ranking.in_memory} already in memory"] if ranking.in_memory else []
    counts += [f"{ranking.copies} with the same content as another"] if ranking.copies else []
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
    out: Annotated[Path, typer.Option("-o", "--out", metavar="SHEET", help="The sheet to write: .xlsx, .csv or .tsv.")],
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
