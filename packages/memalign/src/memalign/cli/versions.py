"""Versions of a judge: ledger, history, diff, rollback, export and import."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    JsonOutput,
    Name,
    RegistryUrl,
    Version,
    latest_of,
    open_registry,
)
from memalign.cli.guideline_words import word
from memalign.cli.output import Output, facts, guideline_rows, table
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.registry import Lineage

_STATES = "learned, merged, pending, disputed, rejected, withdrawn, erased"


def ledger(
    name: Name,
    *,
    version: Version = None,
    state: Annotated[str | None, typer.Option("--state", metavar="STATE", help=f"Only: {_STATES}.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="One piece of feedback, t-17@ana, and all that became of it."),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Show where every piece of feedback ended, and why.

    With --key: what one piece of feedback taught. Its state and reason, the guidelines that carry it with their texts,
    and how it got there from version to version.
    """
    from memalign.types import LedgerState

    if state is not None and state not in get_args(LedgerState):
        raise InputError(f"--state {state}: there are {_STATES}")
    if state is not None and key is not None:
        raise InputError("give --state or --key, not both")
    opened = open_registry(registry)
    number = version or latest_of(opened, name)
    if key is not None:
        found = opened.lineage(name, key, number)
        data = {"judge": name, "version": number, "feedback": [each.to_dict() for each in found]}
        Output(json=json_output).give(data, *(part for each in found for part in _lineage(each)))
        return DONE
    entries = opened.ledger(name, number)
    chosen = [entry for entry in entries if state in (None, entry.state)]
    counts = Counter(entry.state for entry in entries)
    rows = [(entry.key, entry.state, ", ".join(entry.guideline_ids), entry.reason) for entry in chosen]
    line = ", ".join(f"{count} {each}" for each, count in counts.items()) or "no feedback yet"
    data = {
        "judge": name,
        "version": number,
        "counts": dict(counts),
        "entries": chosen,
    }
    parts = [table(("key", "state", "guidelines", "reason"), rows)] if rows else []
    Output(json=json_output).give(data, *parts, line)
    return DONE


def _lineage(lineage: Lineage) -> list[Any]:
    """One piece of feedback as a card, its guidelines, and its way through the versions."""
    said = " · ".join(
        part for part in (None if lineage.value is None else word(lineage.value), lineage.rationale) if part
    )
    card = [
        ("feedback", lineage.key),
        ("said", said or "nothing is kept of it"),
        ("state", f"{lineage.state}{f': {lineage.reason}' if lineage.reason else ''}, in version {lineage.version}"),
    ]
    parts: list[Any] = [facts(card)]
    if lineage.guidelines:
        rows = guideline_rows(lineage.guidelines)
        parts.append(table(("id", "", "guideline", "from"), rows, title="Guidelines that carry it"))
    elif lineage.state == "learned":
        parts.append("no guideline carries it: it teaches as an example of its case")
    if lineage.steps:
        steps = [
            (
                each.version,
                each.created_at[:19].replace("T", " "),
                each.action,
                each.state or "not there",
                ", ".join(each.guideline_ids),
                each.reason,
            )
            for each in lineage.steps
        ]
        columns = ("version", "when (UTC)", "by", "state", "guidelines", "reason")
        parts.append(table(columns, steps, title="How it got there"))
    return parts


def history(name: Name, *, registry: RegistryUrl = DEFAULT_REGISTRY, json_output: JsonOutput = False) -> int:
    """Show every version of a judge: when, by what, and what changed."""
    found = open_registry(registry).history(name)
    rows = [
        (
            each.number,
            each.created_at[:19].replace("T", " "),
            each.action,
            each.feedback,
            each.guidelines,
            each.pending,
            "; ".join(filter(None, ("redacted" if each.redacted else "", each.summary, each.note))),
        )
        for each in found
    ]
    columns = ("version", "when (UTC)", "by", "feedback", "guidelines", "pending", "what changed")
    Output(json=json_output).give({"judge": name, "versions": [each.to_dict() for each in found]}, table(columns, rows))
    return DONE


def diff(
    name: Name,
    first: Annotated[int, typer.Argument(metavar="V1", min=1, show_default=False)],
    second: Annotated[int, typer.Argument(metavar="V2", min=1, show_default=False)],
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Show what changed from one version to another: settings, guidelines, feedback."""
    found = open_registry(registry).diff(name, first, second)
    Output(json=json_output).give(found.to_dict(), str(found))
    return DONE


def rollback(
    name: Name,
    version: Annotated[int, typer.Argument(metavar="V", min=1, help="The version to go back to.", show_default=False)],
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Go back to a version: its content becomes a new version.

    May bring back feedback that was unaligned since, never what was erased.
    """
    saved = open_registry(registry).rollback(name, version)
    number = saved.version
    data = {"judge": name, "to": version, "version": number, "memory_hash": saved.judge.memory.hash}
    same = f"{name} is so already, version {number}"
    Output(json=json_output).give(
        data, same if number == saved.parent else f"{name} is version {number} now, as version {version} was"
    )
    return DONE


def export(
    name: Name,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.", show_default=False)],
    version: Version = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Write a judge as one JSON file that judges offline: settings, examples, vectors, guidelines.

    An erase cannot reach exported files.
    """
    opened = open_registry(registry)
    number = version or latest_of(opened, name)
    document = opened.export(name, out, number)
    data = {"judge": name, "version": number, "out": str(out), "checksum": document["checksum"]}
    Output(json=json_output).give(data, f"wrote version {number} of {name} to {out}")
    return DONE


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A bundle that export wrote.", show_default=False)],
    *,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Keep it under another name.")] = None,
    allow_erased: Annotated[
        bool, typer.Option("--allow-erased", metavar="", help="Also what was erased here before.")
    ] = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Keep an exported judge: as a new judge, or as the next version of the one of that name."""
    import warnings

    from memalign.registry import load_bundle

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is the version's note, shown below
        kept = name or load_bundle(file).name
    opened = open_registry(registry, create=True)
    before = {each.name: each.latest for each in opened.list()}.get(kept, 0)
    number = opened.import_bundle(file, name, allow_erased=allow_erased)
    note = opened.history(kept)[number - 1].note
    line = f"imported {kept} as version {number}" if number > before else f"{kept} is so already, version {number}"
    data = {"judge": kept, "version": number, "note": note}
    Output(json=json_output).give(data, line, *([f"note: {note}"] if note else []))
    return DONE
