"""`memalign judge`: judge the examples of a file, and keep the judgments."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    examples_of,
    give_trial,
    judge_with_columns,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import say_by_reason, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.io import Examples
    from memalign.judge import Judge
    from memalign.types import Judgment, Usage

_WITHOUT_OUT = (
    1_000  # judgments that a person still reads on a screen, and could bear to lose
)
_SHOWN = 40  # judgments on a screen


def judge(
    session: Session,
    name: Name,
    examples: Annotated[
        str, typer.Argument(metavar="EXAMPLES", help=f"A {FILES}, or a folder; {STDIN}")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="OUT.jsonl", help=OUT_HELP)
    ] = None,
    ask_below: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Mark with ask in OUT.jsonl what goes to people: verdicts with a confidence below "
            "P. `memalign review` then makes the sheet of these. `memalign evaluate --promise` "
            "names P.",
        ),
    ] = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Judge every example in a file or a folder.

    An example that fails is listed and does not stop the others; the command then exits with 1.
    With -o, the file can have any size, and the same command resumes a run that stopped.
    """
    from memalign.types import Usage

    number, chosen = judge_with_columns(session, name, version, columns)
    _check_ask_below(ask_below, out, chosen)
    source = examples_of(examples, columns, chosen)
    if dry_run:
        run = partial(chosen.judge_many, source)
        return give_trial(
            session, name, number, chosen, lambda calls: run(max_cost=calls)
        )
    made = _Made(Usage())
    started = time.perf_counter()
    session.after_interrupt = after_interrupt(out)
    with show_progress() as progress:
        if out is None and not session.json:
            _check_size(source)
        judgments = chosen.judge_many(
            source,
            out=out,
            progress=progress,
            on_judgment=made.add,
            concurrency=concurrency,
            max_cost=max_cost,
        )
    seconds = time.perf_counter() - started
    asked = _mark_for_people(out, ask_below)
    failed = _errors(judgments, not_judged=False)
    left = _errors(judgments, not_judged=True)
    resumed = len(source) - made.count - len(left)
    data = {
        "judge": name,
        "version": number,
        "n": len(source),
        "resumed": resumed,
        "failed": len(failed),
        "not_judged": len(left),
        "usage": made.usage,
        "errors": [{"id": key, "error": error} for key, error in failed],
        "out": None if out is None else str(out),
        "asked": asked,
    }
    parts = []
    counts = [f"{made.count - len(failed)} judged{f' into {out}' if out else ''}"]
    if out is None:
        data["judgments"] = list(judgments)
        parts.append(_table(judgments))
    counts += _counts(
        {"there already": resumed, "failed": len(failed), "not judged": len(left)}
    )
    if asked is not None:
        counts.append(f"{asked} for people, whose sheet `memalign review` makes")
    counts.append(usage_text(made.usage, seconds))
    session.give(data, *parts, ", ".join(counts))
    say_by_reason("failed", failed)
    say_by_reason("not judged", left)
    for note in source.notes:
        say(f"note: {note}")
    say_by_reason("note", made.notes)
    return FAILURES if failed or left else DONE


def _counts(counts: Mapping[str, int]) -> list[str]:
    """Write the counts that are not zero."""
    return [f"{count} {word}" for word, count in counts.items() if count]


def _errors(
    judgments: Iterable[Judgment], *, not_judged: bool
) -> list[tuple[str, str]]:
    """Return the errors by id, of calls that failed or of those that were not made."""
    return [
        (one.id, one.error)
        for one in judgments
        if one.error and one.not_judged == not_judged
    ]


def _mark_for_people(out: Path | None, below: float | None) -> int | None:
    """Mark what goes to people, and return how much that is; None without `--ask-below`."""
    from memalign.io.judgments import mark_for_people

    if out is None or below is None:
        return None
    return mark_for_people(out, below)


def _check_size(source: Examples) -> None:
    """Refuse more judgments than a screen can show, before the first is paid for."""
    if len(source) > _WITHOUT_OUT:
        raise InputError(
            f"{source.name} has {len(source):,} examples, too many for the screen. Write the "
            "judgments to a file, from which the same command can resume: -o OUT.jsonl"
        )


def _table(judgments: Iterable[Judgment]) -> Table:
    rows = []
    for one in judgments:
        value = "error" if one.error else label_text(one.value)
        rows.append((one.id, value, shorten(one.error or one.rationale)))
    columns = ("id", "value", "rationale")
    rest = "to keep all: -o OUT.jsonl"
    return table(columns, rows, title="Judgments", limit=_SHOWN, rest=rest)


def _check_ask_below(below: float | None, out: Path | None, judge: Judge) -> None:
    """Refuse `--ask-below` if no verdict will carry a probability, or nothing keeps the marks."""
    from memalign.models.judge_models import decides_alone

    if below is None:
        return
    if not 0 < below <= 1:
        raise InputError(
            f"--ask-below is a confidence above 0 and at most 1, such as 0.8, not {below:g}"
        )
    if out is None:
        raise InputError(
            "--ask-below marks the lines of a file; name one: -o OUT.jsonl"
        )
    if not decides_alone(judge) and not judge.parameters.get("swap"):
        raise InputError(
            "--ask-below needs verdicts with a probability, and this judge's model gives none; "
            "decision models do, and judges of pairs with --param swap=true"
        )


@dataclass
class _Made:
    """What this run judged, counted as it comes, with failed judgments."""

    usage: Usage
    count: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)

    def add(self, example_id: str, judgment: Judgment) -> None:
        """Count a judgment."""
        self.count += 1
        self.usage += judgment.usage
        self.notes += [(example_id, note) for note in judgment.notes]


def after_interrupt(out: Path | None) -> str:
    """Say what an interrupted run leaves."""
    if out is None:
        return "no judgment was kept; to keep them as they come: -o OUT.jsonl"
    return f"finished judgments are in {out}; run the same command again to resume"
