"""`memalign judge`: judge the examples of a file, and keep the judgments."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
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
from memalign.cli.progress import say_by_reason, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.types import Judgment, Usage

_WITHOUT_OUT = 1_000  # judgments that a person still reads on a screen, and could bear to lose
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
            help="Mark with ask in OUT.jsonl what goes to people: verdicts with a confidence below P. `memalign "
            "review` then makes the sheet of these. `memalign evaluate --promise` names P.",
        ),
    ] = None,
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
    from memalign.io import Examples
    from memalign.io.judgments import mark_for_people
    from memalign.judge.spec import named_parts
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun
    from memalign.types import Usage

    number, chosen = judge_with_columns(session, name, version, columns)
    _check_ask_below(ask_below, out, chosen)
    source = Examples.of(
        rows_of(examples, columns, remembered=chosen.columns),
        fields=named_parts(chosen.instructions),
    )
    if dry_run:
        estimate = DryRun(dimensions=chosen.memory.matrix.shape[1] or 8)
        chosen.judge_many(source, max_cost=Calls(dry_run=estimate))
        return give_estimate(session, name, number, estimate.usage)
    run, started = _Run(usage=Usage()), time.perf_counter()
    session.after_interrupt = after_interrupt(out)
    with show_progress() as progress:
        if out is None and not session.json and len(source) > _WITHOUT_OUT:
            raise InputError(
                f"{source.name} has {len(source):,} examples, too many for the screen. Write the judgments to a file, "
                "from which the same command can resume: -o OUT.jsonl"
            )
        judgments = chosen.judge_many(
            source,
            out=out,
            progress=progress,
            on_judgment=run.add,
            concurrency=concurrency,
            max_cost=max_cost,
        )
    seconds = time.perf_counter() - started
    failures: list[tuple[str, str]] = []
    unjudged: list[tuple[str, str]] = []
    for key, item in zip(source.hashes, judgments, strict=True):
        if item.error is not None:
            (unjudged if item.not_judged else failures).append((key, item.error))
    resumed = len(source) - run.judged - len(unjudged)
    data: dict[str, Any] = {"judge": name, "version": number, "n": len(source), "resumed": resumed}
    data |= {"failed": len(failures), "not_judged": len(unjudged), "usage": run.usage}
    data |= {
        "errors": [{"id": key, "error": error} for key, error in failures],
        "out": out and str(out),
    }
    asked = None if ask_below is None or out is None else mark_for_people(out, ask_below)
    data |= {"asked": asked}
    parts = []
    if out is None:
        data["judgments"] = list(judgments)
        texts = [
            (j.id, "error" if j.error else label_text(j.value), shorten(j.error or j.rationale))
            for j in judgments
        ]
        rest = "to keep all: -o OUT.jsonl"
        parts = [
            table(("id", "value", "rationale"), texts, title="Judgments", limit=_SHOWN, rest=rest)
        ]
    others = (resumed, "there already"), (len(failures), "failed"), (len(unjudged), "not judged")
    counts = [f"{run.judged - len(failures)} judged{f' into {out}' if out else ''}"]
    counts += [f"{count} {word}" for count, word in others if count]
    if asked is not None:
        counts.append(f"{asked} for people, whose sheet `memalign review` makes")
    session.give(data, *parts, ", ".join([*counts, usage_text(run.usage, seconds)]))
    say_by_reason("failed", failures)
    say_by_reason("not judged", unjudged)
    for note in source.notes:
        say(f"note: {note}")
    say_by_reason("note", run.notes)
    return FAILURES if failures or unjudged else DONE


def _check_ask_below(below: float | None, out: Path | None, judge: Judge) -> None:
    """Refuse `--ask-below` where no verdict will carry a probability, or nothing keeps the marks."""
    from memalign.models.judge_models import decides_alone

    if below is None:
        return
    if not 0 < below <= 1:
        raise InputError(
            f"--ask-below is a confidence above 0 and at most 1, such as 0.8, not {below:g}"
        )
    if out is None:
        raise InputError("--ask-below marks the lines of a file; name one: -o OUT.jsonl")
    if not decides_alone(judge) and not judge.parameters.get("swap"):
        raise InputError(
            "--ask-below needs verdicts with a probability, and this judge's model gives none; decision models do, "
            "and judges of pairs with --param swap=true"
        )


@dataclass(kw_only=True)
class _Run:
    """Counts the judgments of this run as they come, those that failed included."""

    usage: Usage
    judged: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)

    def add(self, example_id: str, judgment: Judgment) -> None:
        self.judged += 1
        self.usage += judgment.usage
        self.notes += [(example_id, note) for note in judgment.notes]


def after_interrupt(out: Path | None) -> str:
    """What an interrupted run leaves."""
    if out is None:
        return "no judgment was kept; to keep them as they come: -o OUT.jsonl"
    return f"finished judgments are in {out}; run the same command again to resume"
