"""Experts' feedback: a sheet to fill in, or one case at a time in the terminal."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import DONE, Name, Session, interruptible
from memalign.cli.output import counted, open_console
from memalign.cli.rows_given import ColumnMap, remembering, rows_given
from memalign.errors import InputError
from memalign.terminal import plain

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
        Path | None,
        typer.Option("-o", "--out", metavar="SHEET", help="Write a sheet to fill in: .xlsx, .csv or .tsv."),
    ] = None,
    shown: Annotated[
        bool,
        typer.Option("--shown/--blind", help="Show the judge's verdict from the start. Blind keeps yours your own."),
    ] = False,
    source: Annotated[
        str | None, typer.Option("--source", metavar="WHO", help="Who reviews; in a terminal your user name.")
    ] = None,
    columns: ColumnMap = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE.jsonl", help="Where a terminal's answers are kept. Default: beside JUDGED."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sheet that is there already.")] = False,
) -> int:
    """Ask experts for their verdicts: in a sheet, or here, one case at a time.

    With -o it writes a sheet of one row a case, with empty columns for the expert's verdict and words. `memalign align`
    takes the filled sheet back. Without -o it asks here, keyboard only, and keeps every answer at once. The same
    command goes on where it stopped. No model is called.
    """
    _, judge = remembering(session, name, None, columns)
    found, missing = _cases(judge, cases, examples, columns)
    if missing:
        more = f" and {len(missing) - _SHOWN_IDS} more" if len(missing) > _SHOWN_IDS else ""
        where = examples or "the judge's memory"
        session.say(f"left out: {', '.join(missing[:_SHOWN_IDS])}{more}: {where} has no such case")
    if out is not None:
        if to is not None:
            raise InputError("-o writes a sheet, --to keeps the answers of a terminal: give one of them")
        return _sheet(session, judge, found, out, shown=shown, source=source, overwrite=overwrite)
    return _terminal(session, judge, found, to or _beside(cases), shown=shown, source=source or _user())


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
    found, missing = review_cases(cases, given, known=known)
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


def _terminal(session: Session, judge: Judge, cases: list[ReviewCase], to: Path, *, shown: bool, source: str) -> int:
    from memalign.cli.review_terminal import Reviewer
    from memalign.io.review_answers import ReviewAnswers

    if not sys.stdin.isatty():
        raise InputError("there is no terminal to review in; -o review.xlsx writes a sheet to fill in")
    then = f"memalign align {shlex.quote(judge.name)} {shlex.quote(str(to))}"
    say, heading = _screen(session)
    with ReviewAnswers(to, source=source, value_type=judge.value_type) as answers:
        reviewer = Reviewer(
            cases=cases,
            answers=answers,
            value_type=judge.value_type,
            shown=shown,
            ask=_ask,
            say=say,
            heading=heading,
        )
        if known := len(cases) - reviewer.left:
            say(f"{known} of {len(cases)} answered already by {source}, in {to}")
        with interruptible(lambda: f"{counted(len(answers), 'answer')} in {to}; the same command goes on there"):
            reviewer.run()
        data: dict[str, Any] = {
            "judge": judge.name,
            "answers": str(to),
            "source": source,
            "answered": reviewer.answered,
            "skipped": reviewer.skipped,
            "left": reviewer.left,
            "next": then,
        }
    lines = [f"{reviewer.answered} answered, {reviewer.skipped} skipped, {data['left']} left; as {source}, in {to}"]
    lines += ["the same command goes on there"] if data["left"] else []
    lines += [f"to learn from it: {then}"] if len(answers) else []
    session.give(data, *lines)
    return DONE


def _screen(session: Session) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """How a line is printed, and how one that stands out; on stderr, as all that is no result."""
    from rich.text import Text

    console = open_console(stderr=True)

    def heading(line: str) -> None:
        console.print()
        console.print(Text(plain(line), style="bold"))

    return session.say, heading


def _ask(question: str) -> str:
    """A line that a person types. Raises EOFError at the end of the input."""
    sys.stderr.write(f"\n{question}")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _beside(cases: str) -> Path:
    """`judged.review.jsonl` for `judged.jsonl`."""
    if cases == "-":
        raise InputError("cases from stdin leave no terminal to review in; -o review.xlsx writes a sheet to fill in")
    return Path(cases).with_suffix(".review.jsonl")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user name in the environment, and none in the system
        raise InputError("who reviews? give --source WHO") from None
