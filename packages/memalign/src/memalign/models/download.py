"""A file over HTTP, brought by huggingface_hub: resumed where it stopped, by one process at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast

__all__ = ["DownloadFailed", "Progress", "receive", "sha256_of", "size_of"]

Progress = Callable[[int, int], object]
"""Called as (bytes done, bytes in all); 0 in all is "not known"."""


class DownloadFailed(Exception):
    """A file did not come; `status` is that of an HTTP error, None for anything else."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def receive(url: str, partial: Path, *, progress: Progress, size: int | None = None, token: str = "") -> None:
    """Bring the whole file at `url` to `partial`, going on from what is there.

    `size` is how many bytes the file has, where that is known. `token` goes to `url` and never to where it redirects.
    Broken connections are tried again, errors of the server are not. Raises DownloadFailed, with what came kept; OSError
    for a disk that cannot be written.
    """
    # Not hf_hub_download: it loses what it received with its process, and first asks the hub which agents there are.
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import http_get

    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        there = _size_at(url, headers)
        if size is not None and there not in (None, size):
            raise DownloadFailed(f"a file of {there:,} bytes, expected {size:,}")
        size = size or there
        if size is not None and size_of(partial) > size:
            partial.unlink()  # it belonged to another file
        with partial.open("ab") as file:
            http_get(
                url,
                file,
                resume_size=size_of(partial),
                headers=headers,
                expected_size=size,
                tqdm_class=cast("Any", _counting(progress, size)),
            )
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadFailed(f"{status} {error.response.reason_phrase}", status) from error
    except _transport_error() as error:
        raise DownloadFailed(f"the connection failed ({str(error) or type(error).__name__})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise DownloadFailed(str(error)) from error  # huggingface_hub's own: offline, or of another size


def _size_at(url: str, headers: dict[str, str]) -> int | None:
    """What the server says of the file, asked once and with little patience: behind a mirror of packages there is none."""
    from huggingface_hub import get_session

    answer = get_session().head(url, headers=headers, timeout=10, follow_redirects=False)
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        raise DownloadFailed(f"{answer.status_code} {answer.reason_phrase}", answer.status_code)
    length = "" if answer.is_redirect else answer.headers.get("content-length")
    told = answer.headers.get("x-linked-size") or length or ""
    return int(told) if told.isdigit() else None


def _transport_error() -> type[Exception]:
    """What the HTTP library of huggingface_hub raises: httpx before its version 2, httpx2 since."""
    from huggingface_hub import get_session

    library = import_module(type(get_session()).__module__.partition(".")[0])
    return cast("type[Exception]", library.HTTPError)


def _counting(progress: Progress, size: int | None) -> type:
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
            if size is not None and self.done > size:
                raise DownloadFailed(f"the server sends more than {size:,} bytes")
            progress(self.done, size or 0)

    return Counting


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(path: Path) -> int:
    """How many bytes the file has; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0
