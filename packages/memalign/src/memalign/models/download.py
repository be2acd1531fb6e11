"""A file over HTTP: resumed where it stopped, tried again, hashed, and brought by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from memalign.io.file_lock import try_lock

__all__ = ["BUSY", "CHUNK", "DownloadFailed", "Progress", "Timing", "locked", "receive", "sha256_of", "size_of"]

CHUNK = 1 << 20
BUSY = frozenset((HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)))
"""Statuses after which the same request may be answered a little later."""

Progress = Callable[[int, int], None]
"""Called as (bytes done, bytes in all); 0 in all is "not known"."""


class DownloadFailed(Exception):
    """What the server said or did; `status` is that of an HTTP error, None for anything else."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Seconds that the network gets: to connect or to send anything at all, and to pause between tries."""

    silence: float = 10.0
    pause: float = 1.0
    tries: int = 5


def receive(
    url: str,
    partial: Path,
    *,
    progress: Progress,
    timing: Timing,
    size: int | None = None,
    headers: Mapping[str, str] | None = None,
    again: Collection[int] = (),
    log: Callable[[str], None] | None = None,
) -> None:
    """Bring the whole file at the http(s) address `url` to `partial`, going on from what is there.

    Broken connections are tried again, and so are answers with a status in `again`; a server that never answered is not.
    `size` is how many bytes the file has, where that is known. `headers` go to `url`, and never to where it redirects.
    `log` is told of every try. Raises DownloadFailed, with what came kept; OSError for a disk that cannot be written.
    """
    answered, tries = False, 0
    while size is None or size_of(partial) < size:
        before = size_of(partial)
        status: int | None = None
        try:
            _stream(url, partial, progress=progress, silence=timing.silence, size=size, headers=headers or {})
        except urllib.error.HTTPError as error:
            error.close()
            reason, status = f"{error.code} {error.reason}", error.code
            if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and before:
                partial.unlink()  # it belonged to another file
            elif status not in again:
                raise DownloadFailed(reason, status) from error
            answered = True
        except (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
            reason = _reason(error)
            answered = answered or size_of(partial) != before
            # Where there is no server, such as behind a mirror of packages, there never will be.
            if not answered:
                raise DownloadFailed(reason) from error
        else:
            return
        tries = 0 if size_of(partial) > before else tries + 1
        if tries >= timing.tries:
            raise DownloadFailed(reason, status)
        if log is not None:
            log(f"{url}: {reason}; going on from {size_of(partial) / 1e6:,.0f} MB")
        time.sleep(timing.pause * 2**tries)


def _stream(
    url: str, partial: Path, *, progress: Progress, silence: float, size: int | None, headers: Mapping[str, str]
) -> None:
    """Append to `partial` what it lacks; an interrupted connection raises, with what came kept."""
    have = size_of(partial)
    request = urllib.request.Request(url, headers={"User-Agent": "memalign"})  # noqa: S310  # the caller checked its scheme
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=silence) as response:  # noqa: S310
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT and have > 0
        if resumed and _first_byte(response) != have:
            partial.unlink()
            raise ConnectionError(f"the server sent {response.headers.get('Content-Range')!r}, not bytes {have}-")
        done = have if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else size or 0
        if size is not None and total != size:
            raise DownloadFailed(f"a file of {total:,} bytes, expected {size:,}")
        with partial.open("ab" if resumed else "wb") as file:  # a server that ignores Range starts anew
            while chunk := response.read1(CHUNK):
                if size is not None and done + len(chunk) > size:
                    raise DownloadFailed(f"the server sends more than {size:,} bytes")
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
    if done < total:
        raise ConnectionError(f"the connection ended at {done:,} of {total:,} bytes")


def _first_byte(response: Any) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found.group(1)) if found else None


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.URLError):
        return f"not reachable ({error.reason})"
    return str(error) or type(error).__name__


def sha256_of(path: Path, progress: Progress) -> str:
    """The file's SHA-256 in hex digits."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(done, total)
    return digest.hexdigest()


def size_of(path: Path) -> int:
    """How many bytes the file has; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file: two processes that want the same file wait for one another, and `waiting` is called once."""
    with path.open("ab") as file:
        if not try_lock(file.fileno()):
            if waiting is not None:
                waiting()
            while not try_lock(file.fileno()):
                time.sleep(0.2)
        yield
