"""Versions of a judge: history, diff, rollback, export and import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.options import Name, Version
from memalign.cli.output import counted, print_json, say, table
from memalign.cli.session import DONE, Session, version_line
from memalign.errors import InputError

_SQLITE = b"SQLite format 3"  # how such a file begins


def history(session: Session, name: Name) -> int:
    """List a judge's versions, and what changed in each."""
    versions = session.registry().history(name)
    rows = [
        (
            version.number,
            version.created_at[:19].replace("T", " "),
            version.action,
            version.feedback,
            version.guidelines,
            version.pending,
            "; ".join(filter(None, ("redacted" if version.redacted else "", version.summary, version.note))),
        )
        for version in versions
    ]
    columns = ("version", "when (UTC)", "command", "feedback", "guidelines", "pending", "what changed")
    session.give({"judge": name, "versions": [version.to_dict() for version in versions]}, table(columns, rows))
    return DONE


def diff(
    session: Session,
    name: Name,
    first: Annotated[int, typer.Argument(metavar="V1", min=1, help="The version to compare from.")],
    second: Annotated[int, typer.Argument(metavar="V2", min=1, help="The version to compare with.")],
) -> int:
    """Show what changed from one version to another."""
    from memalign.cli.diff_text import diff_text

    changes = session.registry().diff(name, first, second)
    session.give(changes.to_dict(), diff_text(changes))
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
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write. - is stdout.")],
    version: Version = None,
) -> int:
    """Write a judge to one JSON file.

    It holds settings, examples, vectors and guidelines, and judges without a registry. An erase cannot reach it.
    """
    to_stdout = str(out) == "-"
    if to_stdout and session.json:
        raise InputError("--json and -o - both write to stdout: give one of them")
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
        str, typer.Argument(metavar="FILE|URL", help="A bundle that export wrote, or the URL of another registry.")
    ],
    *,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Store a bundle under another name.")
    ] = None,
    allow_erased: Annotated[bool, typer.Option("--allow-erased", help="Import what was erased here, too.")] = False,
) -> int:
    """Import an exported judge, or a whole registry.

    A bundle becomes a new judge, or the next version of the judge of that name. From a registry (a file of SQLite,
    sqlite:///FILE or postgresql://USER@HOST/DATABASE) all judges come, or none; what was erased there stays erased.
    """
    if _is_registry(source):
        if name is not None or allow_erased:
            raise InputError("--name and --allow-erased belong to a bundle: a registry comes as it is")
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
        f"imported {judge.name}: {counted(judge.versions, 'version')}, {counted(judge.rows, 'row')}, "
        f"{judge.erasures} erased feedback remembered"
        for judge in imported
    ]
    session.give({"imported": [judge.to_dict() for judge in imported]}, *lines or ["there are no judges to import"])
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
    line = (
        f"imported {target} as version {number}"
        if number > before
        else f"nothing changed: {target} is still version {number}"
    )
    data = {"judge": target, "version": number, "note": note}
    session.give(data, line, *([f"note: {note}"] if note else []))
    return DONE
