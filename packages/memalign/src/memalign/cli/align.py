"""`memalign align`: learn from experts' feedback; what an align or unalign did, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.guidelines import by_people, check_table, guideline_table, legend, settling
from memalign.cli.options import (
    FILES,
    STDIN,
    AllowErased,
    ColumnMap,
    Concurrency,
    DryRun,
    FeedbackSource,
    JudgedBefore,
    MaxCost,
    Name,
    columns_of,
    give_estimate,
    rows_of,
)
from memalign.cli.output import counted, label_text, listed, say, table, usage_text
from memalign.cli.progress import Progress, show_progress
from memalign.cli.session import DONE, FAILURES, Session, version_line

if TYPE_CHECKING:
    from memalign.align import AlignResult, Conflict, Impact, LockCheck
    from memalign.registry import Registry

_LIMIT = 20  # rows of a table
_LINES = 10  # of one kind


def align(
    session: Session,
    name: Name,
    feedback: Annotated[
        str | None,
        typer.Argument(metavar="FEEDBACK", help=f"A {FILES}; {STDIN} Without a file, pending feedback is tried again."),
    ] = None,
    *,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
    judged: JudgedBefore = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out invalid rows and learn from the others.")
    ] = False,
    allow_erased: AllowErased = False,
    impact: Annotated[
        int | None,
        typer.Option(
            "--impact", metavar="N", min=1, help="Judge N taught cases again and show which verdicts changed."
        ),
    ] = None,
    reflection_model: Annotated[
        str | None,
        typer.Option("--reflection-model", metavar="M", help="The model that writes the guidelines in this run."),
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option("--shard-size", metavar="N", min=1, help="Send N pieces of feedback in one model call."),
    ] = None,
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
        columns=columns_of(columns),
        reflection_model=reflection_model,
        shard_size=shard_size,
        concurrency=concurrency,
        max_cost=max_cost,
        impact=impact,
    )
    rows = () if feedback is None else rows_of(feedback, source=source)
    options: dict[str, Any] = {"skip_invalid": skip_invalid, "allow_erased": allow_erased, "optimizer": optimizer}
    options["own_verdicts"] = None if judged is None else read_judgments(judged)
    if not dry_run:
        return run_and_report(
            session, name, lambda registry, progress: registry.align(name, rows, progress=progress, **options)
        )
    registry = session.registry()
    number = registry.history(name)[-1].number
    return give_estimate(session, name, number, registry.estimate(name, rows, **options), max_cost)


def run_and_report(session: Session, name: str, action: Callable[[Registry, Progress], AlignResult]) -> int:
    """Run an align or unalign, print its report and return the exit code. Ctrl-C says what was committed."""
    registry = session.registry()
    session.consequence = partial(changed_since, registry, name, registry.history(name)[-1].number)
    with show_progress() as progress:
        result = action(registry, progress)
    if result.taken_up:
        say(f"reused {counted(result.taken_up, 'answer')} that an interrupted run had paid for")
    return report(session, result)


def changed_since(registry: Registry, name: str, before: int) -> str:
    """Whether a new version was committed; looked up after Ctrl-C, because that may come after the commit."""
    now = registry.history(name)[-1].number
    if now > before:
        return f"{name} is now version {now}; to see what changed: memalign diff {name} {before} {now}"
    unsaved = f"nothing was saved, and {name} is still version {now}"
    if answers := registry.kept_answers(name):
        unsaved += f"; {counted(answers, 'answer')} already paid for: run the same command again to reuse them"
    return unsaved


def report(session: Session, result: AlignResult) -> int:
    """Print what an align or unalign did, `str(result)` last.

    Returns 1 when something is pending or was left out, a spend limit was reached, or a locked case is not kept.
    """
    settings = [{"id": rule.id, "settings": by} for rule in result.forgotten if (by := by_people(rule))]
    session.give({"version": result.version, **result.to_dict(), "settings_lost": settings}, *report_parts(result))
    failed = result.pending or result.stopped or any(row.status == "invalid" for row in result.rows)
    return FAILURES if failed or not all(check.holds for check in result.locks) else DONE


def report_parts(result: AlignResult) -> list[Any]:
    """What an align or unalign did, for people."""
    name, memory = result.judge.name, result.judge.memory
    parts: list[Any] = _rows(result)
    if not (result.rows or result.removed or result.usage.calls or result.taken_up or result.stopped):
        parts.append("nothing to learn: you gave no file, and no feedback is pending")
    if result.removed:
        parts.append(f"withdrawn: {listed(result.removed)}")
    if result.forgotten:
        parts.append(guideline_table(result.forgotten, title="Forgotten guidelines", limit=_LIMIT))
    also = "was forgotten with its feedback, including what that person set; check the new guidelines"
    parts += _first([f"{rule.id} ({by}) {also}" for rule in result.forgotten if (by := by_people(rule))])
    if result.guidelines:
        in_force_first = sorted(result.guidelines, key=lambda rule: memory.status(rule) != "active")
        rest = f"for all: memalign guideline {name}"
        parts.append(guideline_table(in_force_first, memory, title="New guidelines", limit=_LIMIT, rest=rest))
        parts += check_table(in_force_first, result.judge, title="Their checks", limit=_LIMIT, rest=rest)
        parts += legend(name, result.guidelines, memory)
    parts += _impact(result.impact)
    parts += _first([line for check in result.locks if (line := _lock(name, check))])
    if right := [check.id for check in result.locks if check.holds and check.answered and not check.guideline_ids]:
        parts.append(f"locked cases judged correctly: {listed(right)}")
    parts += _first([_conflict(conflict) for conflict in result.conflicts])
    if any(conflict.kind == "comments" for conflict in result.conflicts):
        parts.append(settling(name))
    parts += _first([f"note: {note}" for note in result.notes])
    if result.stopped:
        parts.append(f"stopped: {result.stopped}; to try the pending feedback again: memalign align {name}")
    if skipped := sum(row.status == "invalid" for row in result.rows):
        parts.append(f"{counted(skipped, 'row')} {'was' if skipped == 1 else 'were'} skipped, so the exit code is 1")
    version = [] if result.version is None else [version_line(name, result)]
    return [*parts, usage_text(result.usage, result.seconds), *version, str(result)]


def _rows(result: AlignResult) -> list[Any]:
    parts: list[Any] = []
    if result.rows:
        counts = Counter((row.status, row.state or "-") for row in result.rows)
        parts.append(table(("row", "state", "count"), [(*kind, count) for kind, count in sorted(counts.items())]))
    if changed := [row for row in result.rows if row.status != "unchanged"]:
        if len(changed) > _LIMIT:  # what a person may have to do something about stands first
            changed.sort(key=lambda row: row.state in ("learned", "merged"))
        rows = [(row.line, row.key, row.status, row.state, row.reason) for row in changed]
        columns = ("line", "feedback", "row", "state", "reason")
        rest = f"for all: memalign show {result.judge.name} --ledger"
        parts.append(table(columns, rows, title="Feedback", limit=_LIMIT, rest=rest))
    return parts


def _first(lines: list[str]) -> list[str]:
    """As many of them as a screen holds, and how many more there are."""
    if len(lines) <= _LINES:
        return lines
    return [*lines[:_LINES], f"… and {len(lines) - _LINES:,} more like these; --json lists them all"]


def _conflict(conflict: Conflict) -> str:
    if conflict.kind == "comments":
        about = f" about {conflict.reason}" if conflict.reason else ""
        return f"conflict{about}: {listed(list(conflict.annotations))} contradict each other"
    labels = listed([f"{key}: {label_text(value)}" for key, value in conflict.annotations.items()])
    counts = conflict.reason
    if conflict.label is not None:
        counts = f"{label_text(conflict.label)} counts, {conflict.reason}"
    return f"conflict on {listed(conflict.ids)}: {labels}; {counts}"


def _impact(impact: Impact | None) -> list[Any]:
    """How verdicts on past cases changed."""
    if impact is None:
        return []
    moved = len(impact.changes) - impact.fixed - impact.broken
    line = f"judged {impact.checked} taught cases again, each hidden from the judge: "
    line += f"{impact.fixed} fixed, {impact.broken} broken" if impact.changes else "no verdict changed"
    line += f", {moved} wrong before and after" if moved else ""
    parts: list[Any] = [line]
    if impact.changes:
        rows = [
            (case.id, *map(label_text, (case.label, case.before, case.after)), case.effect, listed(case.guideline_ids))
            for case in impact.changes
        ]
        columns = ("id", "experts", "before", "after", "effect", "guideline")
        parts.append(table(columns, rows, title="Changed verdicts", limit=_LIMIT))
    return parts


def _lock(name: str, check: LockCheck) -> str:
    """A line on a locked case of which there is something to tell."""
    if not check.holds:
        return f"the judge is wrong on locked case {check.id}: {check.reason}"
    if not check.answered:
        return f"new guidelines are not in force yet: {check.reason}; to try again: memalign align {name}"
    if not check.guideline_ids:
        return ""
    return (
        f"locked case {check.id} holds because {listed(check.guideline_ids)}, which broke it, was "
        f"left out. To use it anyway: memalign lock {name} {check.id} --unlock"
    )
