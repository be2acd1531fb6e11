"""`memalign judge`: judge the examples of a file, and keep the judgments."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    FILES,
    OUT_HELP,
    STDIN,
    ColumnMap,
    Concurrency,
    DryRun,
    MaxCost,
    Name,
    Version,
    give_estimate,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import RunProgress, say_failures, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io import Examples
    from memalign.judge import Judge
    from memalign.types import Judgment

_WITHOUT_OUT = 1_000  # judgments that a person still reads on a screen, and could bear to lose
_SHOWN = 40  # judgments on a screen
_LISTED = 1_000  # failures in the JSON
_SAMPLE = 200  # rows whose prompts are put together for an estimate


def judge(
    session: Session,
    name: Name,
    examples: Annotated[str, typer.Argument(metavar="EXAMPLES", help=f"A {FILES}, or a folder; {STDIN}")],
    *,
    out: Annotated[str | None, typer.Option("-o", "--out", metavar="OUT", help=OUT_HELP)] = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Judge every example in a file or a folder.

    An example that fails is listed and does not stop the others; the command then exits with 1. With -o, the file can
    have any size, and the same command resumes a run that stopped.
    """
    from msgspec.structs import asdict

    from memalign.io import Examples

    lines = None if out is None else Path(out)
    number, chosen = judge_with_columns(session, name, version, columns)
    source = Examples.of(rows_of(examples, columns, remembered=chosen.columns), fields=chosen.fields)
    if dry_run:
        return _estimate(session, chosen, number, source, max_cost)
    run, started = RunProgress(), time.perf_counter()
    session.consequence = partial(consequence_for_file, lines)
    with show_progress(detail=run.text) as progress:
        if out is None and not session.json and len(source) > _WITHOUT_OUT:
            raise InputError(
                f"{source.name} has {len(source):,} examples, too many for the screen. Write the judgments to a file, "
                "from which the same command can resume: -o OUT.jsonl"
            )
        judgments = chosen.judge_many(
            source, out=lines, progress=progress, on_judgment=run.note, concurrency=concurrency, max_cost=max_cost
        )
    seconds = time.perf_counter() - started
    failures: list[tuple[str, str]] = []
    unjudged: list[str] = []
    for key, item in zip(source.hashes, judgments, strict=True):
        if item.not_judged:
            unjudged.append(item.error or "")
        elif item.error is not None:
            failures.append((key, item.error))
    resumed = len(source) - run.judged - len(unjudged)
    data: dict[str, Any] = {"judge": name, "version": number, "n": len(source), "resumed": resumed}
    data |= {"failed": len(failures), "not_judged": len(unjudged), "usage": run.usage}
    data["errors"] = [{"id": key, "error": error} for key, error in failures[:_LISTED]]
    parts, into = [], ""
    if out is None:
        ids = list(source.hashes)
        data["judgments"] = [{"id": key, **asdict(item)} for key, item in zip(ids, judgments, strict=True)]
        parts = [_judgment_table(ids, judgments)]
    else:
        data["out"] = out
        into = f" into {out}"
    others = (resumed, "there already"), (len(failures), "failed"), (len(unjudged), "not judged")
    counts = [f"{run.judged - len(failures)} judged{into}", *(f"{count} {word}" for count, word in others if count)]
    session.give(data, *parts, ", ".join([*counts, usage_text(run.usage, seconds)]))
    say_failures(failures)
    for line in run.notes.lines():
        say(line)
    if unjudged:
        say(f"{len(unjudged)} not judged: {unjudged[0].removeprefix('NotJudged: ')}")
    return FAILURES if failures or unjudged else DONE


def _estimate(session: Session, judge: Judge, number: int, source: Examples, max_cost: float | None) -> int:
    """Print what judging the rows would take, from a sample of them."""
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun

    count = len(source)  # reads and checks them all
    places = {step * count // _SAMPLE for step in range(_SAMPLE)}  # from all over
    sample = [example for place, example in enumerate(source) if place in places]
    dry_run = DryRun(dimensions=judge.memory.matrix.shape[1] or 8)
    judge.judge_many(sample, max_cost=Calls(dry_run=dry_run))
    usage = dry_run.scaled(count / len(sample))
    line = f"{count:,} rows, of which {len(sample):,} were sampled"
    return give_estimate(session, judge.name, number, usage, max_cost, line, rows=count, sampled=len(sample))


def _judgment_table(ids: Sequence[str], judgments: Sequence[Judgment]) -> Any:
    rows = [
        (example_id, "error" if item.error else label_text(item.value), shorten(item.error or item.rationale))
        for example_id, item in zip(ids, judgments, strict=True)
    ]
    if len(rows) <= _SHOWN:
        return table(("id", "value", "rationale"), rows)
    rows.sort(key=lambda row: row[1] != "error")  # those that need a person stand first, where not all are shown
    return table(("id", "value", "rationale"), rows, title="Judgments", limit=_SHOWN, rest="to keep all: -o OUT.jsonl")


def consequence_for_file(out: Path | None) -> str:
    """What an interrupted run leaves."""
    if out is None:
        return "no judgment was kept; to keep them as they come: -o OUT.jsonl"
    return f"finished judgments are in {out}; run the same command again to resume"
