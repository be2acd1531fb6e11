"""Versions of a judge: history, diff, rollback, export and import; what a change by hand did."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import AllowErased, Name, Version
from memalign.cli.output import code_test_text, counted, label_text, table, top
from memalign.cli.session import DONE, Session, version_line
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.memory import Annotation, LedgerEntry
    from memalign.registry import MemoryDiff, Saved
    from memalign.registry.kinds import Kind
    from memalign.types import CodeTest

_LINES = 40  # of changes


def history(session: Session, name: Name) -> int:
    """List a judge's versions and what changed in each."""
    versions = session.registry().history(name)
    rows: list[tuple[object, ...]] = []
    for version in versions:
        redacted = "redacted" if version.redacted else ""
        row = (
            version.number,
            version.created_at[:19].replace("T", " "),
            version.action,
            version.feedback,
            version.guidelines,
            version.pending,
            "; ".join(filter(None, (redacted, version.summary, version.note))),
        )
        rows.append(row)
    counts = ("feedback", "guidelines", "pending")
    columns = ("version", "when (UTC)", "command", *counts, "what changed")
    session.give({"judge": name, "versions": versions}, table(columns, rows))
    return DONE


def diff(
    session: Session,
    name: Name,
    first: Annotated[
        int, typer.Argument(metavar="V1", min=1, help="The version to start from.")
    ],
    second: Annotated[
        int, typer.Argument(metavar="V2", min=1, help="The version to compare with it.")
    ],
) -> int:
    """Show what changed between two versions."""
    changes = session.registry().diff(name, first, second)
    session.give(vars(changes), diff_text(changes))
    return DONE


def give_changes(
    session: Session, saved: Saved, data: Mapping[str, Any], *more: str
) -> None:
    """Print what a change by hand did.

    Args:
        session: The run of the command.
        saved: The version before and the one that was saved.
        data: What the JSON says besides.
        more: Lines for people.
    """
    from memalign.registry.diff import compare

    name = saved.judge.name
    changes = compare(saved.before, saved.judge)
    lines = top(diff_lines(changes), _LINES, "--json lists them all")
    common = {"judge": name, "version": saved.version, "changes": vars(changes)}
    session.give({**common, **data}, *lines, *more, version_line(name, saved))


def diff_text(diff: MemoryDiff) -> str:
    """Write the settings, guidelines and feedback that differ between two versions."""
    title = f"{diff.judge}: version {diff.before} -> {diff.after}"
    return "\n".join([title, *(diff_lines(diff) or ["  no difference"])])


def diff_lines(diff: MemoryDiff) -> list[str]:
    """Write what differs: `-` as it was, `+` as it is, `~` where both read the same."""
    lines: list[str] = []
    for setting in diff.settings:
        before = _setting_text(setting.before)
        lines += _sides(f"{setting.name}: ", before, _setting_text(setting.after))
    for kind, change in diff.lessons:
        before = _lesson_text(kind, change.before, change.state_before)
        after = _lesson_text(kind, change.after, change.state_after)
        lines += _sides(f"{change.name} ", before, after)
        if change.after is not None:  # with a guideline its tests go
            old = getattr(change.before, "tests", ())
            lines += _tests(old, getattr(change.after, "tests", ()))
    for change in diff.feedback:
        before = _feedback_text(change.before, change.state_before)
        after = _feedback_text(change.after, change.state_after)
        lines += _sides(f"{change.name}: ", before, after)
    return lines


def _sides(name: str, before: str, after: str) -> list[str]:
    if before == after:
        return [f"  ~ {name}{after}"]
    sides = {"-": before, "+": after}
    return [f"  {sign} {name}{text}" for sign, text in sides.items() if text]


def _tests(old: Sequence[CodeTest], new: Sequence[CodeTest]) -> list[str]:
    """Write the tests of a guideline that went, and those that came."""
    gone = [f"    - {code_test_text(test)}" for test in old if test not in new]
    come = [f"    + {code_test_text(test)}" for test in new if test not in old]
    return gone + come


def _setting_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _lesson_text(kind: Kind, lesson: Any, status: str | None) -> str:
    """Write a guideline, or another lesson, as it was in one of the versions."""
    if lesson is None:
        return ""
    supporters = ", ".join(map(str, lesson.supported_by))
    source = supporters or kind.author(lesson) or "distilled"
    pinned_by = getattr(lesson, "pinned_by", None)
    pinned = f", pinned by {pinned_by}" if pinned_by else ""
    return f"{lesson.text}  [{status or kind.noun}, from {source}{pinned}]"


def _feedback_text(annotation: Annotation | None, entry: LedgerEntry | None) -> str:
    if annotation is None:
        return ""
    said = [] if annotation.value is None else [label_text(annotation.value)]
    if annotation.rationale:
        said.append(annotation.rationale)
    return f"{' · '.join(said)} [{entry.state if entry else ''}]"


def rollback(
    session: Session,
    name: Name,
    version: Annotated[
        int, typer.Argument(metavar="V", min=1, help="The version to go back to.")
    ],
) -> int:
    """Go back to an older version, as a new version.

    This can bring back feedback that was withdrawn since then. It never brings back what was
    erased.
    """
    saved = session.registry().rollback(name, version)
    data = {
        "judge": name,
        "to": version,
        "version": saved.version,
        "memory_hash": saved.judge.memory.hash,
    }
    line = version_line(name, saved)
    if saved.version != saved.parent:
        line += f", with the content of version {version}"
    session.give(data, line)
    return DONE


def export(
    session: Session,
    name: Name,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="The file to write; - is standard output.",
        ),
    ],
    version: Version = None,
) -> int:
    """Write a judge to one JSON file.

    The file holds the settings, cases, vectors and guidelines. Python can judge with it without a
    registry: memalign.load_bundle(FILE). With -o -, it goes to standard output. A later erase
    cannot reach it.
    """
    from memalign.registry.bundle import bundle_bytes

    registry = session.registry()
    number = version or registry.history(name)[-1].number
    if str(out) == "-":
        sys.stdout.buffer.write(bundle_bytes(registry.export(name, None, number)))
        sys.stdout.flush()
        return DONE
    document = registry.export(name, out, number)
    data = {
        "judge": name,
        "version": number,
        "out": str(out),
        "checksum": document["checksum"],
    }
    session.give(data, f"wrote version {number} of {name} to {out}")
    return DONE


def import_(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="A bundle that `memalign export` wrote, or another registry.",
        ),
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Store the bundle's judge under this name."
        ),
    ] = None,
    allow_erased: AllowErased = False,
) -> int:
    """Import an exported judge or a whole registry.

    A bundle becomes a new judge, or the next version of the judge with its name. A registry is a
    file NAME.db, or a URL such as postgresql://USER@HOST/DATABASE. All of its judges are imported
    with their history, or none is. What was erased there stays erased.
    """
    from memalign.registry import Registry, load_bundle

    registry = session.registry(create=True)
    if source.startswith(("sqlite:", "postgres")) or source.endswith(".db"):
        if name is not None:
            kept = "the judges of a registry keep their names"
            raise InputError(f"--name applies to a bundle only; {kept}")
        other = Registry(source, create=False)
        imported = registry.import_registry(other, allow_erased=allow_erased)
        lines = [
            f"imported {judge.name}: {counted(judge.latest, 'version')}"
            for judge in imported
        ]
        session.give(
            {"imported": imported}, *lines or ["the registry has no judges to import"]
        )
        return DONE
    target = name or load_bundle(source).name
    before = {judge.name: judge.latest for judge in registry.list()}
    number = registry.import_bundle(source, name, allow_erased=allow_erased)
    summary = ""
    line = f"nothing changed; {target} is still version {number}"
    if before.get(target) != number:
        # The bundle replaces what the judge was.
        summary = registry.history(target)[number - 1].summary
        line = f"{target} is at version {number}: {summary}"
    session.give({"judge": target, "version": number, "summary": summary}, line)
    return DONE
