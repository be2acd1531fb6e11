"""What experts review: the cases that they should label next, and a sheet to fill in."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    ColumnMap,
    Concurrency,
    JudgedBefore,
    MaxCost,
    Name,
    Version,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import counted, say, table, usage_text
from memalign.cli.progress import FailureReasons, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io.review import ReviewCase
    from memalign.judge import Judge

_SHOWN_IDS = 5


def next_(
    session: Session,
    name: Name,
    cases: Annotated[
        str,
        typer.Argument(metavar="CASES", help="Cases without a label: JSONL, CSV, JSON or Parquet. - reads JSON lines."),
    ],
    *,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many cases are named.")] = 5,
    judged: JudgedBefore = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
) -> int:
    """Name the cases that experts should label next, and why.

    First come those where no guideline applies, guidelines pull both ways, the verdict is unsure, or memory has nothing
    like them. Each case is judged once; with --judged, none is. Cases in memory, and copies of one case, are left out.
    A case that cannot be judged is named and does not stop the rest (exit 1). --json is a list of id, reason and score.
    """
    from memalign.evaluation import next_cases
    from memalign.io import Examples

    _, judge = judge_with_columns(session, name, version, columns)
    source = Examples.of(rows_of(cases, columns, remembered=judge.columns), fields=judge.fields)
    started = time.perf_counter()
    with show_progress() as progress:
        ranking = next_cases(
            judge, source, n=n, judged=judged, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
    counts = [f"{counted(ranking.ranked, 'case')} compared"]
    counts += [f"{ranking.in_memory} in memory already"] if ranking.in_memory else []
    counts += [f"{ranking.copies} the same as another"] if ranking.copies else []
    counts += [f"{len(ranking.failed)} not judged"] if ranking.failed else []
    parts: list[Any] = []
    if ranking.cases:
        parts.append(table(("id", "score", "why"), [(case.id, case.score, case.reason) for case in ranking.cases]))
    usage = usage_text(ranking.usage, time.perf_counter() - started)
    session.give(ranking.cases, *parts, ", ".join([*counts, usage]))
    reasons = FailureReasons()
    for example_id, error in ranking.failed:
        reasons.add(example_id, error)
    for line in reasons.lines():
        say(line)
    return FAILURES if ranking.failed else DONE


def review(
    session: Session,
    name: Name,
    cases: Annotated[
        str, typer.Argument(metavar="JUDGED", help="Judgments that `memalign judge -o` wrote, or examples without one.")
    ],
    *,
    examples: Annotated[
        str | None,
        typer.Option("--examples", metavar="FILE", help="The file that was judged: judgments hold no texts."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="SHEET", help="The sheet to write: .xlsx, .csv or .tsv.")],
    with_verdicts: Annotated[
        bool,
        typer.Option(
            "--shown/--blind",
            help="Show the judge's verdict from the start. Blind, the default, keeps the expert's verdict their own.",
        ),
    ] = False,
    source: Annotated[str | None, typer.Option("--source", metavar="WHO", help="Who fills the sheet in.")] = None,
    columns: ColumnMap = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sheet that exists.")] = False,
) -> int:
    """Write a sheet in which experts give their verdicts.

    It has one row for each case, with empty columns for the expert's verdict and words. `memalign align` takes the
    filled sheet back. No model is called.
    """
    _, judge = judge_with_columns(session, name, None, columns)
    reviewed, missing = _cases(judge, cases, examples, columns)
    if missing:
        more = f" and {len(missing) - _SHOWN_IDS} more" if len(missing) > _SHOWN_IDS else ""
        where = examples or "the judge's memory"
        say(f"left out: {', '.join(missing[:_SHOWN_IDS])}{more}: {where} has no such case")
    return _sheet(session, judge, reviewed, out, with_verdicts=with_verdicts, source=source, overwrite=overwrite)


def _cases(
    judge: Judge, cases: str, examples: str | None, columns: list[str] | None
) -> tuple[list[ReviewCase], list[str]]:
    from memalign.io.judgments import is_judgment_file
    from memalign.io.review import review_cases

    if not is_judgment_file(cases):
        if examples is not None:
            if not Path(cases).exists():
                raise InputError(f"{cases}: no such file")
            raise InputError(
                f"{cases} holds no judgments: leave --examples out, or name what `memalign judge -o` wrote"
            )
        return review_cases(None, rows_of(cases, columns, remembered=judge.columns))
    taught = [case.example for case in judge.memory.cases]
    if examples is None and columns is not None:
        raise InputError("--map is for the columns of the file that was judged: give it with --examples FILE")
    texts = () if examples is None else rows_of(examples, columns, remembered=judge.columns)
    reviewed, missing = review_cases(cases, texts, remembered=taught)
    if not reviewed:
        where = "the judge's memory" if examples is None else examples
        raise InputError(
            f"{cases} holds verdicts and no texts, and {where} has none of its cases: give the file that was judged, "
            "--examples FILE"
        )
    return reviewed, missing


def _sheet(
    session: Session,
    judge: Judge,
    cases: list[ReviewCase],
    out: Path,
    *,
    with_verdicts: bool,
    source: str | None,
    overwrite: bool,
) -> int:
    from memalign.io.review import write_review

    if out.exists() and not overwrite:
        raise InputError(f"{out} exists, and somebody may have filled it in; name another file, or give --overwrite")
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
    verdicts = sum(case.judgment is not None for case in cases)
    data = {
        "judge": judge.name,
        "sheet": str(out),
        "cases": len(cases),
        "shown": with_verdicts and verdicts > 0,
        "next": then,
    }
    hidden = f"; the judge's {counted(verdicts, 'verdict')} not shown" if verdicts and not with_verdicts else ""
    session.give(data, f"{counted(len(cases), 'case')} in {out}{hidden}", f"when it is filled in: {then}")
    return DONE
