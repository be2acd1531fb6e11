"""Experts' feedback: a sheet to fill in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.common import DONE, Name, Session
from memalign.cli.output import counted
from memalign.cli.rows_given import ColumnMap, remembering, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io.review import ReviewCase
    from memalign.judge import Judge

_SHOWN_IDS = 5


def review(
    session: Session,
    name: Name,
    cases: Annotated[
        str, typer.Argument(metavar="JUDGED", help="What `memalign judge -o` wrote, or examples without a verdict.")
    ],
    *,
    examples: Annotated[
        str | None,
        typer.Option("--examples", metavar="FILE", help="The file that was judged: judgments hold no texts."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="SHEET", help="Write a sheet to fill in: .xlsx, .csv or .tsv."),
    ],
    shown: Annotated[
        bool,
        typer.Option("--shown/--blind", help="Show the judge's verdict from the start. Blind keeps yours your own."),
    ] = False,
    source: Annotated[str | None, typer.Option("--source", metavar="WHO", help="Who reviews.")] = None,
    columns: ColumnMap = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sheet that is there already.")] = False,
) -> int:
    """Write a sheet in which experts give their verdicts.

    It has one row for each case, with empty columns for the expert's verdict and words. `memalign align` takes the filled
    sheet back. No model is called.
    """
    _, judge = remembering(session, name, None, columns)
    found, missing = _cases(judge, cases, examples, columns)
    if missing:
        more = f" and {len(missing) - _SHOWN_IDS} more" if len(missing) > _SHOWN_IDS else ""
        where = examples or "the judge's memory"
        session.say(f"left out: {', '.join(missing[:_SHOWN_IDS])}{more}: {where} has no such case")
    return _sheet(session, judge, found, out, shown=shown, source=source, overwrite=overwrite)


def _cases(
    judge: Judge, cases: str, examples: str | None, columns: list[str] | None
) -> tuple[list[ReviewCase], list[str]]:
    from memalign.io.review import is_judgment_file, review_cases

    lines = f"{cases}.jsonl"  # from which `memalign judge -o judged.csv` made the table
    if cases.lower().endswith(".csv") and is_judgment_file(lines):
        cases = lines
    if not is_judgment_file(cases):
        if examples is not None:
            raise InputError(f"{cases} is no file of judgments: give --examples with what `memalign judge -o` wrote")
        return review_cases(None, rows_given(cases, columns, remembered=judge.columns))
    known = [case.example for case in judge.memory.cases]
    if examples is None and columns is not None:
        raise InputError("--map is for the columns of the file that was judged: give it with --examples FILE")
    given = () if examples is None else rows_given(examples, columns, remembered=judge.columns)
    found, missing = review_cases(cases, given, remembered=known)
    if not found:
        where = "the judge's memory" if examples is None else examples
        raise InputError(
            f"{cases} holds verdicts and no texts, and {where} has none of its cases: give the file that was judged, "
            "--examples FILE"
        )
    return found, missing


def _sheet(
    session: Session,
    judge: Judge,
    cases: list[ReviewCase],
    out: Path,
    *,
    shown: bool,
    source: str | None,
    overwrite: bool,
) -> int:
    from memalign.io.review import write_review

    if out.exists() and not overwrite:
        raise InputError(
            f"{out} is there already, and somebody may have filled it in; name another file, or give --overwrite"
        )
    write_review(cases, out, value_type=judge.value_type, shown=shown, source=source, instructions=judge.instructions)
    who = "" if source else " --source WHO"
    then = f"memalign align {shlex.quote(judge.name)} {shlex.quote(str(out))}{who}"
    verdicts = sum(case.judgment is not None for case in cases)
    data = {"judge": judge.name, "sheet": str(out), "cases": len(cases), "shown": shown and verdicts > 0, "next": then}
    hidden = f"; the judge's {counted(verdicts, 'verdict')} not shown" if verdicts and not shown else ""
    session.give(data, f"{counted(len(cases), 'case')} in {out}{hidden}", f"when it is filled in: {then}")
    return DONE
