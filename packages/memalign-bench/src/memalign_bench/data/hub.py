"""Files of the public hubs, brought into a cache: resumed, checked, moved into place at once.

A file lies in the cache as `<hub>/<repository>/<revision>/<path>` with its SHA-256 beside it (`<path>.sha256`, as
`sha256sum` writes it); while it comes it is `<path>.partial`. Only a file that has its very SHA-256 is used again.
The Hugging Face hub is `HF_ENDPOINT` (and `HF_TOKEN` goes to it, never to where it redirects), GitHub's file server is
`MEMALIGN_GITHUB_RAW`; both default to the public ones, and both go through the proxies of the environment.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from memalign.errors import ConfigurationError, InputError
from memalign.models.download import DownloadFailed, locked, receive, sha256_of

__all__ = ["Progress", "Remote", "obtain"]

Progress = Callable[[str, int, int], None]
"""Called as (phase, bytes done, bytes in all); the phase names the file, and 0 in all is "not known"."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ENDPOINTS = {
    "huggingface": ("HF_ENDPOINT", "https://huggingface.co"),
    "github": ("MEMALIGN_GITHUB_RAW", "https://raw.githubusercontent.com"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """One file of a data set's public repository, at a revision; `sha256` where its publisher's own is known."""

    hub: Literal["huggingface", "github"]
    repository: str
    revision: str
    path: str
    sha256: str = ""

    @property
    def url(self) -> str:
        """Where it is downloaded from. Raises ConfigurationError for an endpoint that is no http(s) address."""
        variable, public = _ENDPOINTS[self.hub]
        endpoint = os.environ.get(variable, "").strip().rstrip("/") or public
        if not endpoint.startswith(("https://", "http://")):
            raise ConfigurationError(f"{variable} must be an http(s) address, not {endpoint!r}")
        path = urllib.parse.quote(self.path)
        if self.hub == "huggingface":
            return f"{endpoint}/datasets/{self.repository}/resolve/{self.revision}/{path}"
        return f"{endpoint}/{self.repository}/{self.revision}/{path}"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, so that its bytes never change."""
        return _COMMIT.fullmatch(self.revision) is not None

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


def obtain(
    remotes: Sequence[Remote],
    source: Path | None,
    *,
    cache: Path,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """A path for each of `remotes`: in the local copy `source`, or else downloaded to `cache`.

    `source` is a folder that holds them under their paths (a clone of the repository) or by their names alone, or the
    one file itself where there is only one. Raises InputError for a local copy that lacks one, ConfigurationError for
    a download that failed, with its address.
    """
    if source is None:
        return tuple(_download(remote, cache, progress or _silent) for remote in remotes)
    if source.is_file():
        if len(remotes) != 1:
            wanted = ", ".join(remote.path for remote in remotes)
            raise InputError(f"{source} is one file, and {len(remotes)} are needed; give the folder with {wanted}")
        return (source,)
    if not source.is_dir():
        raise InputError(f"no local copy {source}: give a folder, or none to download")
    return tuple(_local(remote, remotes, source) for remote in remotes)


def _local(remote: Remote, remotes: Sequence[Remote], folder: Path) -> Path:
    if (path := folder / remote.path).is_file():
        return path
    alone = [other.name for other in remotes].count(remote.name) == 1
    if alone and (path := folder / remote.name).is_file():
        return path
    raise InputError(
        f"no {remote.path}{f' or {remote.name}' if alone and remote.name != remote.path else ''} in {folder}; "
        f"it is a file of {remote.repository} ({remote.url})"
    )


def _silent(_phase: str, _done: int, _total: int) -> None:
    pass


# Downloading


def _download(remote: Remote, cache: Path, progress: Progress) -> Path:
    target = cache / remote.hub / remote.repository / remote.revision / remote.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(_beside(target, "lock")):
            if _intact(target, remote, progress):
                return target
            partial = _beside(target, "partial")
            if not remote.pinned:
                partial.unlink(missing_ok=True)  # what a branch holds may have changed since
            _receive(remote, partial, progress)
            _accept(remote, partial, target, progress)
    except OSError as error:
        raise ConfigurationError(f"cannot write {remote.name} to {target.parent}: {error}; free the disk") from error
    return target


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")


def _intact(target: Path, remote: Remote, progress: Progress) -> bool:
    try:
        noted = _beside(target, "sha256").read_text("utf-8").partition(" ")[0]
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    return target.exists() and noted == (remote.sha256 or noted) and _sha256(target, progress) == noted


def _accept(remote: Remote, partial: Path, target: Path, progress: Progress) -> None:
    found = _sha256(partial, progress, name=target.name)
    if remote.sha256 and found != remote.sha256:
        partial.unlink()
        raise _failed(remote.url, f"wrong file, removed: expected SHA-256 {remote.sha256}, got {found}")
    # The hash first: a file without one is not used, a hash without a file is nothing.
    _beside(target, "sha256").write_text(f"{found}  {target.name}\n", "utf-8")
    partial.replace(target)


def _sha256(path: Path, progress: Progress, name: str = "") -> str:
    size = path.stat().st_size
    found = sha256_of(path)
    progress(f"verify {name or path.name}", size, size)
    return found


def _receive(remote: Remote, partial: Path, progress: Progress) -> None:
    try:
        receive(
            remote.url,
            partial,
            progress=lambda done, total: progress(f"download {remote.name}", done, total),
            token=os.environ.get("HF_TOKEN", "").strip() if remote.hub == "huggingface" else "",
        )
    except DownloadFailed as error:
        raise _failed(remote.url, _refusal(remote, error)) from error


def _refusal(remote: Remote, error: DownloadFailed) -> str:
    said = str(error)
    if remote.hub == "huggingface" and error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return (
            f"{said}: gated or private; accept its terms on the page of {remote.repository} and set HF_TOKEN"
            if not os.environ.get("HF_TOKEN", "").strip()
            else f"{said}: HF_TOKEN has no access; accept the terms on the page of {remote.repository}"
        )
    return said


def _failed(url: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"could not download {url}: {reason}; or fetch it elsewhere and give the folder that it lies in: --data FOLDER"
    )
