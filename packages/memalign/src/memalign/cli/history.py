"""Versions of a judge and what became of its feedback: ledger, history, diff, rollback, export and import."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from memalign.cli.common import DONE, Name, Session, Version, latest_of, version_line
from memalign.cli.guideline_words import guideline_table
from memalign.cli.output import facts, label_text, listed, print_json, table
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.registry import Lineage

_STATES = "learned, merged, pending, disputed, rejected, withdrawn, erased"


def ledger(
    session: Session,
    name: Name,
    *,
    version: Version = None,
    state: Annotated[str | None, typer.Option("--state", metavar="STATE", help=f"Only: {_STATES}.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="One piece of feedback, such as t-17@ana, and what it taught."),
    ] = None,
) -> int:
    """Show the state of every piece of feedback, and why.

    With --key it shows one piece of feedback: its state, its reason, its guidelines, and its history by version.
    """
    from memalign.types import LedgerState

    if state is not None and state not in get_args(LedgerState):
        raise InputError(f"--state {state}: there are {_STATES}")
    if state is not None and key is not None:
        raise InputError("give --state or --key, not both")
    registry = session.registry()
    number = version or latest_of(registry, name)
    if key is not None:
        found = registry.lineage(name, key, number)
        data = {"judge": name, "version": number, "feedback": [each.to_dict() for each in found]}
        session.give(data, *(part for each in found for part in _lineage(each)))
        return DONE
    entries = registry.ledger(name, number)
    chosen = [entry for entry in entries if state in (None, entry.state)]
    counts = Counter(entry.state for entry in entries)
    rows = [(entry.key, entry.state, listed(entry.guideline_ids), entry.reason) for entry in chosen]
    line = ", ".join(f"{count} {each}" for each, count in counts.items()) or "no feedback yet"
    data = {"judge": name, "version": number, "counts": dict(counts), "entries": chosen}
    session.give(data, *([table(("feedback", "state", "guidelines", "reason"), rows)] if rows else []), line)
    return DONE


def _lineage(lineage: Lineage) -> list[Any]:
    """One piece of feedback, its guidelines, and its history."""
    said = (None if lineage.value is None else label_text(lineage.value), lineage.rationale)
    card = [
        ("feedback", lineage.key),
        ("label and comment", " · ".join(filter(None, said)) or "not kept"),
        ("state", f"{lineage.state}{f': {lineage.reason}' if lineage.reason else ''}, in version {lineage.version}"),
    ]
    parts: list[Any] = [facts(card)]
    if lineage.guidelines:
        parts.append(guideline_table(lineage.guidelines, title="Its guidelines"))
    elif lineage.state == "learned":
        parts.append("it has no guideline: it teaches as an example")
    if lineage.steps:
        steps = [
            (
                *(each.version, _when(each.created_at), each.action, each.state or "not there"),
                *(listed(each.guideline_ids), each.reason),
            )
            for each in lineage.steps
        ]
        columns = ("version", "when (UTC)", "command", "state", "guidelines", "reason")
        parts.append(table(columns, steps, title="Its history"))
    return parts


def history(session: Session, name: Name) -> int:
    """Show every version of a judge: when, by which command, and what changed."""
    found = session.registry().history(name)
    rows = [
        (
            *(each.number, _when(each.created_at), each.action, each.feedback, each.guidelines, each.pending),
            "; ".join(filter(None, ("redacted" if each.redacted else "", each.summary, each.note))),
        )
        for each in found
    ]
    columns = ("version", "when (UTC)", "command", "feedback", "guidelines", "pending", "what changed")
    session.give({"judge": name, "versions": [each.to_dict() for each in found]}, table(columns, rows))
    return DONE


def _when(created_at: str) -> str:
    return created_at[:19].replace("T", " ")


def diff(
    session: Session,
    name: Name,
    first: Annotated[int, typer.Argument(metavar="V1", min=1)],
    second: Annotated[int, typer.Argument(metavar="V2", min=1)],
) -> int:
    """Show what changed from one version to another: settings, guidelines, feedback."""
    found = session.registry().diff(name, first, second)
    session.give(found.to_dict(), str(found))
    return DONE


def rollback(
    session: Session,
    name: Name,
    version: Annotated[int, typer.Argument(metavar="V", min=1, help="The version to go back to.")],
) -> int:
    """Make a new version with the content of an older one.

    It may bring back feedback that was unaligned since. It never brings back what was erased.
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
    """Write a judge to one JSON file: settings, examples, vectors, guidelines.

    The file judges without a registry. An erase cannot reach it.
    """
    to_stdout = str(out) == "-"
    if to_stdout and session.json:
        raise InputError("--json and -o - both write to stdout: give one of them")
    registry = session.registry()
    number = version or latest_of(registry, name)
    document = registry.export(name, None if to_stdout else out, number)
    if to_stdout:
        print_json(document)
        session.say(f"wrote version {number} of {name} to stdout")
        return DONE
    data = {"judge": name, "version": number, "out": str(out), "checksum": document["checksum"]}
    session.give(data, f"wrote version {number} of {name} to {out}")
    return DONE


def import_(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A bundle that export wrote.")],
    *,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Keep it under another name.")] = None,
    allow_erased: Annotated[bool, typer.Option("--allow-erased", help="Also import what was erased here.")] = False,
) -> int:
    """Import an exported judge: as a new judge, or as the next version of the judge of that name."""
    import warnings

    from memalign.registry import load_bundle

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is the version's note, shown below
        kept = name or load_bundle(file).name
    registry = session.registry(create=True)
    before = {each.name: each.latest for each in registry.list()}.get(kept, 0)
    number = registry.import_bundle(file, name, allow_erased=allow_erased)
    note = registry.history(kept)[number - 1].note
    line = (
        f"imported {kept} as version {number}"
        if number > before
        else f"nothing changed: {kept} is still version {number}"
    )
    data = {"judge": kept, "version": number, "note": note}
    session.give(data, line, *([f"note: {note}"] if note else []))
    return DONE
