"""`memalign judge`: judge the examples of a file, and keep the judgments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import (
    ColumnMap,
    Concurrency,
    DryRun,
    MaxCost,
    Name,
    Version,
    judge_with_columns,
    rows_of,
    spending_lines,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import RunProgress, show_progress
from memalign.cli.session import DONE, FAILURES, Session, interruptible
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io import RowSource
    from memalign.judge import Judge
    from memalign.types import Judgment

__all__ = ["consequence_for_file", "judge"]

_WITHOUT_OUT = 1_000  # judgments that a person still reads on a screen, and could bear to lose
_CHECKED = 5_000  # rows after which checking them says that it goes on
_SHOWN = 40  # judgments on a screen
_SAMPLE = 200  # rows whose prompts are put together for an estimate


def judge(
    session: Session,
    name: Name,
    examples: Annotated[
        str,
        typer.Argument(
            metavar="EXAMPLES",
            help="A JSONL, CSV, XLSX, JSON or Parquet file, folder or URL; - reads JSON lines from stdin.",
        ),
    ],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="Write the judgments here, one per line. Run the same command again to resume. OUT.csv "
            "also gets a sheet.",
        ),
    ] = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Judge every example in a file, a folder or a URL.

    An example that fails is listed and does not stop the others; the command then exits with 1. With -o, the file can
    have any size, and the same command resumes a run that stopped.
    """
    destination = Destination.of(out)
    number, chosen = judge_with_columns(session, name, version, columns)
    rows = rows_of(examples, columns, remembered=chosen.columns)
    if dry_run:
        return _estimate(session, chosen, number, rows, max_cost)
    return _Run(session, chosen, number, rows, destination).finish(concurrency=concurrency, max_cost=max_cost)


def _estimate(session: Session, judge: Judge, number: int, rows: RowSource, max_cost: float | None) -> int:
    """Print what judging the rows would take, from a sample of them."""
    from memalign.io import Examples
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun
    from memalign.values import dollars

    source = Examples.of(rows, fields=judge.fields)
    count = len(source)  # reads and checks them all
    places = {step * count // _SAMPLE for step in range(_SAMPLE)}  # from all over
    sample = [example for place, example in enumerate(source) if place in places]
    dry_run = DryRun(dimensions=judge.memory.matrix.shape[1] or 8)
    judge.judge_many(sample, max_cost=Calls(dry_run=dry_run))
    usage, cached_cost = dry_run.scaled(count / len(sample))
    lines = [
        f"{count:,} rows, of which {len(sample):,} were sampled",
        f"about {usage_text(usage)}",
        "an estimate that assumes answers of usual length; no model was called",
    ]
    if cached_cost is not None:
        lines.append(f"{dollars(cached_cost)} if the provider bills the shared prefix as cached")
    lines += spending_lines(judge.name, usage, max_cost)
    data = {"judge": judge.name, "version": number, "dry_run": True, "rows": count, "sampled": len(sample)}
    data |= {"estimate": usage, "cached_cost": cached_cost}
    session.give(data, *lines)
    return DONE


class _Run:
    """A run over all rows: judge them, then say what became of them."""

    def __init__(self, session: Session, judge: Judge, number: int, rows: RowSource, destination: Destination) -> None:
        from memalign.io import Examples

        self.session, self.judge, self.number, self.destination = session, judge, number, destination
        self.source = Examples.of(rows, fields=judge.fields)
        self.progress = RunProgress()

    def finish(self, **limits: Any) -> int:
        """Judge the rows, print the result and return the exit code."""
        started = time.perf_counter()
        consequence = consequence_for_file(self.destination.lines)
        with interruptible(lambda: consequence), show_progress(detail=self.progress.text) as progress:
            for place, _ in enumerate(self.source.checking(), start=1):
                if place % _CHECKED == 0:
                    progress("check", place, 0)
            if self.destination.screen and not self.session.json and len(self.source) > _WITHOUT_OUT:
                raise InputError(
                    f"{self.source.name} has {len(self.source):,} examples, too many for the screen. Write "
                    "the judgments to a file, from which the same command can resume: -o OUT.jsonl"
                )
            done, judgments = self._judge(progress, limits)
        return self._give(done - self.progress.judged, judgments, time.perf_counter() - started)

    def _judge(self, progress: Callable[[str, int, int], None], limits: dict[str, Any]) -> tuple[int, Any]:
        """The number of rows that have a judgment now, and the judgments."""
        done = 0

        def update(phase: str, finished: int, total: int) -> None:
            nonlocal done
            done = finished if phase == "judge" else done
            progress(phase, finished, total)

        try:
            judgments = self.judge.judge_many(
                self.source, out=self.destination.lines, progress=update, on_judgment=self.progress.note, **limits
            )
        finally:
            self.destination.write_sheet()
        return done, judgments

    def _give(self, resumed: int, judgments: Sequence[Judgment], seconds: float) -> int:
        run, total = self.progress, len(self.source)
        unjudged = [item.error or "" for item in judgments if item.not_judged] if resumed + run.judged < total else []
        data: dict[str, Any] = {
            "judge": self.judge.name,
            "version": self.number,
            "n": total,
            "resumed": resumed,
            "failed": run.failed,
            "not_judged": len(unjudged),
            "errors": [{"id": example_id, "error": error} for example_id, error in run.failures],
            "usage": run.usage,
        }
        parts: list[Any] = []
        if self.destination.screen:
            ids = [example.id for example in self.source]
            data["judgments"] = [{"id": key, **_fields(item)} for key, item in zip(ids, judgments, strict=True)]
            parts = [_judgment_table(ids, judgments)]
        else:
            data["out"] = self.destination.name
        into = "" if self.destination.screen else f" into {self.destination}"
        counts = [f"{run.judged - run.failed} judged{into}"]
        counts += [f"{count} {word}" for count, word in _other_counts(resumed, run.failed, len(unjudged)) if count]
        summary = ", ".join([*counts, usage_text(run.usage, seconds)])
        self.session.give(data, *parts, summary)
        for line in (*run.reasons.lines(), *run.notes.lines()):
            say(line)
        if unjudged:
            say(f"{len(unjudged)} not judged: {unjudged[0].removeprefix('NotJudged: ')}")
        return FAILURES if run.failed or unjudged else DONE


def _other_counts(resumed: int, failed: int, unjudged: int) -> tuple[tuple[int, str], ...]:
    return (resumed, "there already"), (failed, "failed"), (unjudged, "not judged")


def _judgment_table(ids: Sequence[str], judgments: Sequence[Judgment]) -> Any:
    rows = [
        (example_id, "error" if item.error else label_text(item.value), shorten(item.error or item.rationale))
        for example_id, item in zip(ids, judgments, strict=True)
    ]
    if len(rows) <= _SHOWN:
        return table(("id", "value", "rationale"), rows)
    rows.sort(key=lambda row: row[1] != "error")  # those that need a person stand first, where not all are shown
    return table(("id", "value", "rationale"), rows, title="Judgments", limit=_SHOWN, rest="to keep all: -o OUT.jsonl")


def _fields(judgment: Judgment) -> dict[str, Any]:
    return {name: getattr(judgment, name) for name in judgment.__struct_fields__}


# -- where judgments go ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Destination:
    """What `-o` names.

    Attributes:
        name: What was typed; None for the screen.
        lines: The file of JSON lines that a run resumes from.
        sheet: The CSV that is made of it.
    """

    name: str | None = None
    lines: Path | None = None
    sheet: Path | None = None

    @classmethod
    def of(cls, name: str | None) -> Destination:
        """Read what `-o` names.

        Raises:
            InputError: It is a CSV that no run of ours made: it may be what is to be judged.
        """
        if name is None:
            return cls()
        from memalign.io.judgments import lines_beside

        out, lines = Path(name), lines_beside(name)
        if lines == out:
            return cls(name=name, lines=out)
        if out.exists() and not lines.exists():
            raise InputError(
                f"{out} exists, but {lines.name} beside it does not, so it is not a sheet of judgments; "
                "name another output file"
            )
        return cls(name=name, lines=lines, sheet=out)

    @property
    def screen(self) -> bool:
        """Whether judgments are shown and not stored."""
        return self.name is None

    def write_sheet(self) -> None:
        """Make the CSV, where one is asked for and there is a judgment to put in it."""
        from memalign.io.judgments import write_judgment_csv

        if self.sheet is not None and self.lines is not None and self.lines.exists() and self.lines.stat().st_size:
            write_judgment_csv(self.lines, self.sheet)

    def __str__(self) -> str:
        if self.sheet is not None and self.lines is not None:
            return f"{self.sheet} and {self.lines.name}"
        return self.name or ""


def consequence_for_file(out: Path | None) -> str:
    """What an interrupted run leaves."""
    if out is None:
        return "no judgment was kept; to keep them as they come: -o OUT.jsonl"
    return f"finished judgments are in {out}; run the same command again to resume"
