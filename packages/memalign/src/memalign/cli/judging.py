"""Judging a file of examples."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
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
from memalign.cli.estimating import CallsAMinute, DryRun, TokensAMinute, give_judging_estimate
from memalign.cli.judged_out import Destination, LinesOnStdout, kept_in
from memalign.cli.output import label_text, shorten, table, usage_text
from memalign.cli.rows_given import ColumnMap, Rows, remembering, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.types import Judgment

_WITHOUT_OUT = 1_000  # judgments that a person still reads on a screen, and could bear to lose
_CHECKED = 5_000  # rows after which checking them says that it goes on
_SHOWN = 40  # judgments on a screen

Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="OUT.jsonl", help="Write one judgment per line; an existing file is resumed."),
]
JudgedOut = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--out",
        metavar="OUT",
        help="Write one judgment per line; an existing file is resumed. OUT.csv: a sheet as well; - is stdout.",
    ),
]


def judge(
    session: Session,
    name: Name,
    examples: Rows,
    *,
    out: JudgedOut = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
    rpm: CallsAMinute = None,
    tpm: TokensAMinute = None,
) -> int:
    """Judge every example of a file, a folder or a URL.

    A failed example is named and does not stop the rest (exit 1). With -o the file may have any size, and the same
    command resumes a stopped run. -o - prints the lines in the order of the examples, and cannot be resumed.
    """
    from memalign.cli.progress import RunProgress
    from memalign.io import Examples as ExampleSource
    from memalign.judge import signature_of

    to = Destination.of(out)
    if to.stdout and session.json:
        raise InputError("--json and -o - both write to stdout: give one of them")
    number, chosen = remembering(session, name, version, None if dry_run else columns)
    given = rows_given(examples, columns, remembered=chosen.columns)
    if not dry_run and (rpm or tpm):
        raise InputError("--rpm and --tpm belong to --dry-run; --concurrency limits a run")
    if dry_run:
        limits: dict[str, Any] = {"rpm": rpm, "tpm": tpm, "max_cost": max_cost}
        return give_judging_estimate(session, chosen, number, given, **limits)
    source = ExampleSource.of(given, fields=chosen.fields)
    run = RunProgress()
    started = time.perf_counter()
    with interruptible(lambda: kept_in(to.lines, "OUT.jsonl")), session.progress(detail=run.text) as progress:
        for read, _ in enumerate(source.checking()):
            if read % _CHECKED == _CHECKED - 1:
                progress("check", read + 1, 0)
        if out is None and not session.json and len(source) > _WITHOUT_OUT:
            raise InputError(
                f"{source.name} has {len(source):,} examples: name a file for the judgments (-o OUT.jsonl), from which "
                "the same command can resume, or give --json"
            )
        done = 0
        printed = LinesOnStdout(source, signature_of(chosen)) if to.stdout else None

        def update(phase: str, finished: int, total: int) -> None:
            nonlocal done
            done = finished if phase == "judge" else done
            progress(phase, finished, total)

        def note(example_id: str, judgment: Judgment) -> None:
            run.note(example_id, judgment)
            if printed is not None:
                printed.add(example_id, judgment)

        try:
            judgments = chosen.judge_many(
                source,
                concurrency=concurrency,
                out=to.lines,
                progress=update,
                max_cost=max_cost,
                on_judgment=note,
            )
        finally:
            if printed is not None:
                printed.finish()
            to.write_sheet()
    n, resumed = len(source), done - run.judged
    left = _not_judged(judgments) if done < n else []
    data: dict[str, Any] = {
        "judge": name,
        "version": number,
        "n": n,
        "resumed": resumed,
        "failed": run.failed,
        "not_judged": len(left),
        "errors": [{"id": key, "error": error} for key, error in run.failures],
        "usage": run.usage,
    }
    parts: list[Any] = []
    if out is None:
        ids = [example.id for example in source]
        data["judgments"] = [{"id": key, **_fields(made)} for key, made in zip(ids, judgments, strict=True)]
        parts = [_judgment_table(ids, judgments)]
    else:
        data["out"] = str(out)
    counts = [f"{run.judged - run.failed} judged" + (f" into {to}" if out else "")]
    counts += [f"{resumed} there already"] if resumed else []
    counts += [f"{run.failed} failed"] if run.failed else []
    counts += [f"{len(left)} not judged"] if left else []
    summary = ", ".join([*counts, usage_text(run.usage, time.perf_counter() - started)])
    if to.stdout:
        session.say(summary)
    else:
        session.give(data, *parts, summary)
    for reason in (*run.reasons.lines(), *run.notes.lines()):
        session.say(reason)
    if left:
        session.say(f"{len(left)} not judged: {left[0]}")
    return FAILURES if run.failed or left else DONE


def _judgment_table(ids: Sequence[str], judgments: Sequence[Judgment]) -> Any:
    rows = [
        (
            key,
            "error" if made.error else label_text(made.value),
            shorten(made.error or made.rationale),
        )
        for key, made in zip(ids, judgments, strict=True)
    ]
    # Those that need a person stand first, where not all are shown.
    first = sorted(rows, key=lambda row: row[1] != "error") if len(rows) > _SHOWN else rows
    title = "Judgments" if len(rows) > _SHOWN else None
    return table(("id", "value", "rationale"), first, title=title, limit=_SHOWN, rest="-o OUT.jsonl keeps all")


def _not_judged(judgments: Iterable[Judgment]) -> list[str]:
    """For each item that the run stopped before, why."""
    return [(judgment.error or "").removeprefix("NotJudged: ") for judgment in judgments if judgment.not_judged]


def _fields(judgment: Judgment) -> dict[str, Any]:
    return {name: getattr(judgment, name) for name in judgment.__struct_fields__}
