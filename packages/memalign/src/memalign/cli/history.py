"""Versions of a judge: history, diff, rollback, export and import; what a change by hand did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
    from memalign.types import Guideline

_LINES = 40  # of changes


def history(session: Session, name: Name) -> int:
    """List a judge's versions and what changed in each."""
    versions = session.registry().history(name)
    rows: list[tuple[object, ...]] = []
    for version in versions:
        when = version.created_at[:19].replace("T", " ")
        what = "; ".join(
            filter(None, ("redacted" if version.redacted else "", version.summary, version.note))
        )
        counts = (version.feedback, version.guidelines, version.pending)
        rows.append((version.number, when, version.action, *counts, what))
    columns = (
        "version",
        "when (UTC)",
        "command",
        "feedback",
        "guidelines",
        "pending",
        "what changed",
    )
    session.give({"judge": name, "versions": versions}, table(columns, rows))
    return DONE


def diff(
    session: Session,
    name: Name,
    first: Annotated[int, typer.Argument(metavar="V1", min=1, help="The version to start from.")],
    second: Annotated[
        int, typer.Argument(metavar="V2", min=1, help="The version to compare with it.")
    ],
) -> int:
    """Show what changed between two versions."""
    changes = session.registry().diff(name, first, second)
    session.give(vars(changes), diff_text(changes))
    return DONE


def give_changes(session: Session, saved: Saved, data: Mapping[str, Any], *more: str) -> None:
    """Print what a change by hand did, as JSON beside `data`."""
    from memalign.registry.diff import compare

    changes = compare(saved.before, saved.judge)
    lines = top(diff_lines(changes), _LINES, "--json lists them all")
    common = {"judge": saved.judge.name, "version": saved.version, "changes": vars(changes)}
    session.give({**common, **data}, *lines, *more, version_line(saved.judge.name, saved))


def diff_text(diff: MemoryDiff) -> str:
    """The settings, guidelines and feedback that differ between two versions."""
    title = f"{diff.judge}: version {diff.before} -> {diff.after}"
    return "\n".join([title, *(diff_lines(diff) or ["  no difference"])])


def diff_lines(diff: MemoryDiff) -> list[str]:
    """What differs: `-` as it was, `+` as it is, `~` where both read the same."""
    lines: list[str] = []
    for setting in diff.settings:
        lines += _sides(
            f"{setting.name}: ", _setting_text(setting.before), _setting_text(setting.after)
        )
    for rule in diff.guidelines:
        before, after = (
            _rule_text(rule.before, rule.state_before),
            _rule_text(rule.after, rule.state_after),
        )
        lines += _sides(f"{rule.name} ", before, after)
        old, new = (entry.tests if entry else () for entry in (rule.before, rule.after))
        if rule.after is not None:  # with a guideline its tests go
            lines += [f"    - {code_test_text(test)}" for test in old if test not in new]
            lines += [f"    + {code_test_text(test)}" for test in new if test not in old]
    for change in diff.feedback:
        before = _feedback_text(change.before, change.state_before)
        lines += _sides(
            f"{change.name}: ", before, _feedback_text(change.after, change.state_after)
        )
    return lines


def _sides(name: str, before: str, after: str) -> list[str]:
    if before == after:
        return [f"  ~ {name}{after}"]
    return [f"  {sign} {name}{text}" for sign, text in (("-", before), ("+", after)) if text]


def _setting_text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _rule_text(rule: Guideline | None, status: str | None) -> str:
    if rule is None:
        return ""
    source = ", ".join(map(str, rule.supported_by)) or rule.origin
    return f"{rule.text}  [{status}, from {source}{f', pinned by {rule.pinned_by}' if rule.pinned_by else ''}]"


def _feedback_text(annotation: Annotation | None, entry: LedgerEntry | None) -> str:
    if annotation is None:
        return ""
    value = None if annotation.value is None else label_text(annotation.value)
    words = " · ".join(filter(None, (value, annotation.rationale)))
    return f"{words} [{entry.state if entry else ''}]"


def rollback(
    session: Session,
    name: Name,
    version: Annotated[int, typer.Argument(metavar="V", min=1, help="The version to go back to.")],
) -> int:
    """Go back to an older version, as a new version.

    This can bring back feedback that was withdrawn since then. It never brings back what was erased.
    """
    saved = session.registry().rollback(name, version)
    data = {
        "judge": name,
        "to": version,
        "version": saved.version,
        "memory_hash": saved.judge.memory.hash,
    }
    content = f", with the content of version {version}" if saved.version != saved.parent else ""
    session.give(data, f"{version_line(name, saved)}{content}")
    return DONE


def export(
    session: Session,
    name: Name,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="FILE", help="The file to write; - is standard output."
        ),
    ],
    version: Version = None,
) -> int:
    """Write a judge to one JSON file.

    The file holds the settings, cases, vectors and guidelines. Python can judge with it without a registry:
    memalign.load_bundle(FILE). With -o -, it goes to standard output. A later erase cannot reach it.
    """
    from memalign.registry.bundle import bundle_bytes

    registry = session.registry()
    number = version or registry.history(name)[-1].number
    if str(out) == "-":
        sys.stdout.buffer.write(bundle_bytes(registry.export(name, None, number)))
        sys.stdout.flush()
        return DONE
    document = registry.export(name, out, number)
    data = {"judge": name, "version": number, "out": str(out), "checksum": document["checksum"]}
    session.give(data, f"wrote version {number} of {name} to {out}")
    return DONE


def import_(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL", help="A bundle that `memalign export` wrote, or another registry."
        ),
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Store the bundle's judge under this name."),
    ] = None,
    allow_erased: AllowErased = False,
) -> int:
    """Import an exported judge or a whole registry.

    A bundle becomes a new judge, or the next version of the judge with its name. A registry is a file NAME.db, or a URL
    such as postgresql://USER@HOST/DATABASE. All of its judges are imported with their history, or none is. What was
    erased there stays erased.
    """
    from memalign.registry import Registry, load_bundle

    registry = session.registry(create=True)
    if source.startswith(("sqlite:", "postgres")) or source.endswith(".db"):
        if name is not None:
            raise InputError(
                "--name applies to a bundle only; the judges of a registry keep their names"
            )
        imported = registry.import_registry(
            Registry(source, create=False), allow_erased=allow_erased
        )
        lines = [f"imported {judge.name}: {counted(judge.latest, 'version')}" for judge in imported]
        session.give({"imported": imported}, *lines or ["the registry has no judges to import"])
        return DONE
    target = name or load_bundle(source).name
    before = {judge.name: judge.latest for judge in registry.list()}
    number = registry.import_bundle(source, name, allow_erased=allow_erased)
    if before.get(target) == number:
        session.give(
            {"judge": target, "version": number, "summary": ""},
            f"nothing changed; {target} is still version {number}",
        )
        return DONE
    summary = registry.history(target)[number - 1].summary  # the bundle replaces what the judge was
    data = {"judge": target, "version": number, "summary": summary}
    session.give(data, f"{target} is at version {number}: {summary}")
    return DONE
