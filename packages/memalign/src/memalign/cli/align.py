"""`memalign align`: learn from experts' feedback; and what an align or unalign did."""

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
from memalign.cli.output import (
    conflict_text,
    counted,
    label_text,
    listed,
    say,
    table,
    top,
    usage_text,
)
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
        typer.Option(
            "--skip-invalid", help="Leave out invalid rows and learn from the others."
        ),
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

    A row needs the fields that the judge reads, and a value (the label), a rationale or both. Its
    id names the case; if it is missing, one is made from the content. Its source says who gave the
    feedback, for example an e-mail address. A row with the id and source of earlier feedback
    replaces it, and the judge forgets what the earlier row taught.
    """
    from memalign.align import MemAlign
    from memalign.io import read_judgments
    from memalign.models.dry_run import DryRun

    optimizer = MemAlign(
        columns=columns_of(columns),
        concurrency=concurrency,
        max_cost=max_cost,
        impact=impact,
    )
    rows = () if feedback is None else rows_of(feedback, source=source)
    options: dict[str, Any] = {
        "skip_invalid": skip_invalid,
        "allow_erased": allow_erased,
        "optimizer": optimizer,
        "own_verdicts": None if judged is None else read_judgments(judged),
    }
    if dry_run:
        registry = session.registry()
        number = registry.history(name)[-1].number
        trial = DryRun()
        estimate = registry.estimate(name, rows, dry_run=trial, **options)
        return give_estimate(session, name, number, estimate, kept=trial.kept)
    return run_and_report(
        session,
        name,
        lambda registry, progress: registry.align(
            name, rows, force=force, progress=progress, **options
        ),
    )


def run_and_report(
    session: Session, name: str, action: Callable[[Registry, Progress], AlignResult]
) -> int:
    """Run an align or unalign, print what it did, and return the exit code.

    Args:
        session: The run of the command.
        name: The judge's name.
        action: What is done in the registry.

    Returns:
        1 if anything did not end well.
    """
    registry = session.registry()
    session.after_interrupt = (
        f"to see whether a version was saved: memalign history {name}. The same command again "
        "asks for no answer that is already paid for"
    )
    with show_progress() as progress:
        result = action(registry, progress)
    if result.taken_up:
        say(
            f"reused {counted(result.taken_up, 'answer')} that an interrupted run had paid for"
        )
    session.give({"version": result.version, **result.to_dict()}, *report_parts(result))
    invalid = any(row.status == "invalid" for row in result.rows)
    failed = result.pending or result.stopped or result.broken or invalid
    return FAILURES if failed else DONE


def report_parts(result: AlignResult) -> list[Any]:
    """Say what an align or unalign did, for people.

    Args:
        result: What it returned.

    Returns:
        Lines and tables.
    """
    name = result.judge.name
    parts = _feedback(result)
    did = (
        result.rows,
        result.removed,
        result.usage.calls,
        result.taken_up,
        result.stopped,
    )
    if not any(did):
        parts.append("nothing to learn: you gave no file, and no feedback is pending")
    if result.removed:
        parts.append(f"withdrawn: {listed(result.removed)}")
    parts += _guidelines(result)
    if result.impact is not None:
        parts += _impact(result.impact)
    parts += top([str(case) for case in result.broken])
    parts += top([_conflict(conflict) for conflict in result.conflicts])
    if any(conflict.kind == "comments" for conflict in result.conflicts):
        parts.append(settling(name))
    parts += top([f"note: {note}" for note in result.notes])
    if result.stopped:
        again = f"to try the pending feedback again: memalign align {name}"
        parts.append(f"stopped: {result.stopped}; {again}")
    parts.append(usage_text(result.usage, result.seconds))
    if result.version is not None:
        parts.append(version_line(name, result))
    return [*parts, result.summary]


def _feedback(result: AlignResult) -> list[Any]:
    """List the rows that changed anything, first what a person may have to act on."""
    changed = [row for row in result.rows if row.status != "unchanged"]
    if not changed:
        return []
    changed.sort(key=lambda row: row.state in ("learned", "merged"))
    rows = [(row.line, row.key, row.status, row.state, row.reason) for row in changed]
    columns = ("line", "feedback", "row", "state", "reason")
    rest = f"for all: memalign show {result.judge.name} --ledger"
    return [table(columns, rows, title="Feedback", limit=_LIMIT, rest=rest)]


def _guidelines(result: AlignResult) -> list[Any]:
    """List the guidelines that were forgotten, and the new ones."""
    memory = result.judge.memory
    parts: list[Any] = []
    if result.forgotten:
        parts.append(
            guideline_table(
                result.forgotten, title="Forgotten guidelines", limit=_LIMIT
            )
        )
    if result.guidelines:
        active_first = sorted(
            result.guidelines, key=lambda rule: memory.status(rule) != "active"
        )
        rest = f"for all: memalign guideline {result.judge.name}"
        parts.append(
            guideline_table(
                active_first, memory, title="New guidelines", limit=_LIMIT, rest=rest
            )
        )
    return parts


def _conflict(conflict: Conflict) -> str:
    if conflict.kind == "comments":
        about = f" about {conflict.reason}" if conflict.reason else ""
        return f"conflict{about}: {listed(list(conflict.annotations))} contradict each other"
    labels = conflict_text(conflict.ids, conflict.annotations, conflict.label)
    return f"{labels}, {conflict.reason}"


def _impact(impact: Impact) -> list[str]:
    """Say how verdicts on past cases changed."""
    counts = f"{impact.fixed} fixed, {impact.broken} broken"
    changed = f"{counted(len(impact.changes), 'verdict')} changed"
    checked = f"judged {impact.checked} taught cases again, each hidden from the judge"
    changes = []
    for case in impact.changes:
        verdicts = f"{label_text(case.before)} before, {label_text(case.after)} now"
        because = listed(case.guideline_ids) or "no new guideline"
        experts = f"(experts: {label_text(case.label)}; {because})"
        changes.append(f"{case.effect}: {case.id}, {verdicts} {experts}")
    return [f"{checked}: {counts}, {changed}", *top(changes)]
