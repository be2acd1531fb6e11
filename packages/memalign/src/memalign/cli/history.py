"""Versions of a judge: history, diff, rollback, export and import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.options import AllowErased, Name, Version
from memalign.cli.output import counted, label_text, print_json, say, table
from memalign.cli.session import DONE, Session, version_line
from memalign.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memalign.registry import FeedbackChange, GuidelineChange, MemoryDiff
    from memalign.types import Check

_SQLITE = b"SQLite format 3"  # how such a file begins


def history(session: Session, name: Name) -> int:
    """List a judge's versions and what changed in each."""
    versions = session.registry().history(name)
    rows: list[tuple[object, ...]] = []
    for version in versions:
        when = version.created_at[:19].replace("T", " ")
        what = "; ".join(filter(None, ("redacted" if version.redacted else "", version.summary, version.note)))
        counts = (version.feedback, version.guidelines, version.pending)
        rows.append((version.number, when, version.action, *counts, what))
    columns = ("version", "when (UTC)", "command", "feedback", "guidelines", "pending", "what changed")
    session.give({"judge": name, "versions": [version.to_dict() for version in versions]}, table(columns, rows))
    return DONE


def diff(
    session: Session,
    name: Name,
    first: Annotated[int, typer.Argument(metavar="V1", min=1, help="The version to start from.")],
    second: Annotated[int, typer.Argument(metavar="V2", min=1, help="The version to compare with it.")],
) -> int:
    """Show what changed between two versions."""
    changes = session.registry().diff(name, first, second)
    session.give(changes.to_dict(), diff_text(changes))
    return DONE


def diff_text(diff: MemoryDiff) -> str:
    """The settings, guidelines and feedback that differ: `+` was added, `-` went, `~` is different."""
    lines = [f"{diff.judge}: version {diff.before} -> {diff.after}"]
    if not diff:
        lines.append("  no difference")
    for setting in diff.settings:
        lines += [f"  {setting.name}:", f"    - {_short(setting.before)}", f"    + {_short(setting.after)}"]
    for guideline in diff.guidelines:
        lines += _guideline_lines(guideline)
    for change in (*diff.added, *diff.removed, *diff.reworded, *diff.states):
        lines += _feedback_lines(change)
    return "\n".join(lines)


def _feedback_lines(change: FeedbackChange) -> Iterator[str]:
    before, after = change.entry_before, change.entry_after
    if change.before is None or change.after is None:
        entry, sign = after or before, "+" if change.before is None else "-"
        yield f"  {sign} {change.key}: {_words(change)} [{entry.state if entry else ''}]"
    elif not {"value", "rationale", "meta"}.isdisjoint(change.fields):
        yield f"  ~ {change.key}: {_words(change, old=True)}"
        yield f"    now: {_words(change)} [{after.state if after else ''}]"
    elif before and after:
        yield f"  ~ {change.key}: {before.state} -> {after.state}"


def _words(change: FeedbackChange, *, old: bool = False) -> str:
    annotation = change.before if old or change.after is None else change.after
    if annotation is None:
        return ""
    value = None if annotation.value is None else label_text(annotation.value)
    return " · ".join(part for part in (value, annotation.rationale) if part)


def _guideline_lines(change: GuidelineChange) -> list[str]:
    before, after = change.before, change.after
    if before is None and after is not None:
        source = ", ".join(map(str, after.supported_by)) or after.origin
        lines = [f"  + {change.id} {after.text}  [{change.status_after}, from {source}]"]
    elif after is None and before is not None:
        lines = [f"  - {change.id} {before.text}"]
    elif before is None or after is None:
        return []
    elif before.text != after.text:
        lines = [f"  ~ {change.id} {before.text}", f"    now: {after.text}  [{after.origin}]"]
    else:
        fields = [name for name in change.fields if name != "checks"] or ["checks"] * bool(change.fields)
        both = {"status": (change.status_before, change.status_after)}
        parts = [
            f"{name}: {' -> '.join(map(_short, both.get(name) or (getattr(before, name), getattr(after, name))))}"
            for name in fields
        ]
        lines = [f"  ~ {change.id} {'the checks' if fields == ['checks'] else '; '.join(parts)}"]
    if after is not None:  # with a guideline its checks go
        lines += [f"    - {_question(check)}" for check in change.checks_removed]
        lines += [f"    + {_question(check)}" for check in change.checks_added]
    return lines


def _question(check: Check) -> str:
    value = "" if check.value is None else f" speaks for {label_text(check.value)}"
    return f"{check.question}  [{check.answer}{value}]"


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return label_text(value) if isinstance(value, bool) else str(value)


def rollback(
    session: Session,
    name: Name,
    version: Annotated[int, typer.Argument(metavar="V", min=1, help="The version to go back to.")],
) -> int:
    """Go back to an older version, as a new version.

    This can bring back feedback that was withdrawn since then. It never brings back what was erased.
    """
    saved = session.registry().rollback(name, version)
    data = {"judge": name, "to": version, "version": saved.version, "memory_hash": saved.judge.memory.hash}
    content = f", with the content of version {version}" if saved.version != saved.parent else ""
    session.give(data, f"{version_line(name, saved)}{content}")
    return DONE


def export(
    session: Session,
    name: Name,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write; - is stdout.")],
    version: Version = None,
) -> int:
    """Write a judge to one JSON file.

    The file holds the settings, cases, vectors and guidelines, and Python can judge with it without a registry. A later
    erase cannot reach it.
    """
    to_stdout = str(out) == "-"
    if to_stdout and session.json:
        raise InputError("--json and -o - both write to stdout; use one of them")
    registry = session.registry()
    number = version or registry.history(name)[-1].number
    document = registry.export(name, None if to_stdout else out, number)
    if to_stdout:
        print_json(document)
        say(f"wrote version {number} of {name} to stdout")
        return DONE
    data = {"judge": name, "version": number, "out": str(out), "checksum": document["checksum"]}
    session.give(data, f"wrote version {number} of {name} to {out}")
    return DONE


def import_(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A bundle that `memalign export` wrote, or another registry.")
    ],
    *,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Store the bundle's judge under this name.")
    ] = None,
    allow_erased: AllowErased = False,
) -> int:
    """Import an exported judge or a whole registry.

    A bundle becomes a new judge, or the next version of the judge with its name. A registry is an SQLite file, or a URL
    such as sqlite:///FILE or postgresql://USER@HOST/DATABASE. All of its judges are imported with their history, or
    none is. What was erased there stays erased.
    """
    if _is_registry(source):
        if name is not None or allow_erased:
            raise InputError("--name and --allow-erased apply to a bundle only; a registry is imported as it is")
        return _import_registry(session, source)
    return _import_bundle(session, source, name, allow_erased=allow_erased)


def _is_registry(source: str) -> bool:
    if source.startswith(("sqlite:", "postgres")):
        return True
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:  # the bundle's reader says what is wrong
        return False


def _import_registry(session: Session, source: str) -> int:
    from memalign.registry import Registry

    imported = session.registry(create=True).import_registry(Registry(source, create=False))
    lines = [
        f"imported {judge.name}: {counted(judge.versions, 'version')}, "
        f"{counted(judge.rows, 'row')}, {counted(judge.erasures, 'erasure')} remembered"
        for judge in imported
    ]
    session.give(
        {"imported": [judge.to_dict() for judge in imported]}, *lines or ["the registry has no judges to import"]
    )
    return DONE


def _import_bundle(session: Session, file: str, name: str | None, *, allow_erased: bool) -> int:
    import warnings

    from memalign.registry import load_bundle

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is the version's note, shown below
        target = name or load_bundle(file).name
    registry = session.registry(create=True)
    before = {judge.name: judge.latest for judge in registry.list()}.get(target, 0)
    number = registry.import_bundle(file, name, allow_erased=allow_erased)
    note = registry.history(target)[number - 1].note
    imported = f"imported {target} as version {number}"
    line = imported if number > before else f"nothing changed; {target} is still version {number}"
    data = {"judge": target, "version": number, "note": note}
    session.give(data, line, *([f"note: {note}"] if note else []))
    return DONE
