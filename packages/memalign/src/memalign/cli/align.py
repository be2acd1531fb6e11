"""`memalign align`: learn from experts' feedback; what an align or unalign did, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.guidelines import guideline_table, settling
from memalign.cli.options import (
    FILES,
    STDIN,
    AllowErased,
    ColumnMap,
    Concurrency,
    DryRun,
    FeedbackSource,
    Force,
    MaxCost,
    Name,
    OwnVerdicts,
    columns_of,
    give_estimate,
    rows_of,
)
from memalign.cli.output import counted, label_text, listed, say, table, top, usage_text
from memalign.cli.progress import Progress, show_progress
from memalign.cli.session import DONE, FAILURES, Session, version_line

if TYPE_CHECKING:
    from memalign.align import AlignResult, Conflict, Impact
    from memalign.registry import Registry

_LIMIT = 20  # rows of a table


def align(
    session: Session,
    name: Name,
    feedback: Annotated[
        str | None,
        typer.Argument(
            metavar="FEEDBACK",
            help=f"A {FILES}; {STDIN} Without a file, pending feedback is tried again.",
        ),
    ] = None,
    *,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
    judged: OwnVerdicts = None,
    skip_invalid: Annotated[
        bool,
        typer.Option("--skip-invalid", help="Leave out invalid rows and learn from the others."),
    ] = False,
    allow_erased: AllowErased = False,
    impact: Annotated[
        int | None,
        typer.Option(
            "--impact",
            metavar="N",
            min=1,
            help="Judge N taught cases again and show which verdicts changed.",
        ),
    ] = None,
    force: Force = False,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Teach a judge with experts' feedback, as a new version.

    A row needs the fields that the judge reads, and a value (the label), a rationale or both. Its id names the case; if
    it is missing, one is made from the content. Its source says who gave the feedback, for example an e-mail address. A
    row with the id and source of earlier feedback replaces it, and the judge forgets what the earlier row taught.
    """
    from memalign.align import MemAlign
    from memalign.io import read_judgments

    optimizer = MemAlign(
        columns=columns_of(columns), concurrency=concurrency, max_cost=max_cost, impact=impact
    )
    rows = () if feedback is None else rows_of(feedback, source=source)
    options: dict[str, Any] = {
        "skip_invalid": skip_invalid,
        "allow_erased": allow_erased,
        "optimizer": optimizer,
    }
    options["own_verdicts"] = None if judged is None else read_judgments(judged)
    if not dry_run:
        return run_and_report(
            session,
            name,
            lambda registry, progress: registry.align(
                name, rows, force=force, progress=progress, **options
            ),
        )
    registry = session.registry()
    number = registry.history(name)[-1].number
    from memalign.models.dry_run import DryRun

    trial = DryRun()
    estimate = registry.estimate(name, rows, dry_run=trial, **options)
    return give_estimate(session, name, number, estimate, kept=trial.kept)


def run_and_report(
    session: Session, name: str, action: Callable[[Registry, Progress], AlignResult]
) -> int:
    """Run an align or unalign, print what it did, and return the exit code: 1 where anything did not end well."""
    registry = session.registry()
    session.after_interrupt = (
        f"to see whether a version was saved: memalign history {name}. The same command again "
    )
    session.after_interrupt += "asks for no answer that is already paid for"
    with show_progress() as progress:
        result = action(registry, progress)
    if result.taken_up:
        say(f"reused {counted(result.taken_up, 'answer')} that an interrupted run had paid for")
    session.give({"version": result.version, **result.to_dict()}, *report_parts(result))
    failed = result.pending or result.stopped or any(row.status == "invalid" for row in result.rows)
    return FAILURES if failed or result.broken else DONE


def report_parts(result: AlignResult) -> list[Any]:
    """What an align or unalign did, for people."""
    name, memory = result.judge.name, result.judge.memory
    parts: list[Any] = []
    if changed := [row for row in result.rows if row.status != "unchanged"]:
        changed.sort(
            key=lambda row: row.state in ("learned", "merged")
        )  # first what a person may have to act on
        rows = [(row.line, row.key, row.status, row.state, row.reason) for row in changed]
        columns = ("line", "feedback", "row", "state", "reason")
        rest = f"for all: memalign show {name} --ledger"
        parts.append(table(columns, rows, title="Feedback", limit=_LIMIT, rest=rest))
    if not (
        result.rows or result.removed or result.usage.calls or result.taken_up or result.stopped
    ):
        parts.append("nothing to learn: you gave no file, and no feedback is pending")
    if result.removed:
        parts.append(f"withdrawn: {listed(result.removed)}")
    if result.forgotten:
        parts.append(guideline_table(result.forgotten, title="Forgotten guidelines", limit=_LIMIT))
    if result.guidelines:
        in_force_first = sorted(result.guidelines, key=lambda rule: memory.status(rule) != "active")
        rest = f"for all: memalign guideline {name}"
        parts.append(
            guideline_table(in_force_first, memory, title="New guidelines", limit=_LIMIT, rest=rest)
        )
    parts += [] if result.impact is None else _impact(result.impact)
    parts += top(list(map(str, result.broken)))
    parts += top([_conflict(conflict) for conflict in result.conflicts])
    if any(conflict.kind == "comments" for conflict in result.conflicts):
        parts.append(settling(name))
    parts += top([f"note: {note}" for note in result.notes])
    if result.stopped:
        parts.append(
            f"stopped: {result.stopped}; to try the pending feedback again: memalign align {name}"
        )
    version = [] if result.version is None else [version_line(name, result)]
    return [*parts, usage_text(result.usage, result.seconds), *version, result.summary]


def _conflict(conflict: Conflict) -> str:
    if conflict.kind == "comments":
        about = f" about {conflict.reason}" if conflict.reason else ""
        return f"conflict{about}: {listed(list(conflict.annotations))} contradict each other"
    labels = listed([f"{key}: {label_text(value)}" for key, value in conflict.annotations.items()])
    counts = "no label" if conflict.label is None else label_text(conflict.label)
    return f"conflict on {listed(conflict.ids)}: {labels}; {counts} counts, {conflict.reason}"


def _impact(impact: Impact) -> list[str]:
    """How verdicts on past cases changed."""
    line = f"judged {impact.checked} taught cases again, each hidden from the judge: "
    line += f"{impact.fixed} fixed, {impact.broken} broken, {counted(len(impact.changes), 'verdict')} changed"
    changes = [
        f"{case.effect}: {case.id}, {label_text(case.before)} before, {label_text(case.after)} now "
        f"(experts: {label_text(case.label)}; {listed(case.guideline_ids) or 'no new guideline'})"
        for case in impact.changes
    ]
    return [line, *top(changes)]
