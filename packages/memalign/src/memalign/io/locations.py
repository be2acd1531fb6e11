"""Where rows are read from: a path, or the URL of an object store or web server that fsspec knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from memalign.errors import ConfigurationError, InputError

__all__ = ["Location", "Remote", "is_url", "location_of", "shown_location", "store_errors"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# A URL in a text: before its address a user with a password, and after it a query.
_SECRETS = re.compile(r"""(https?://)(?:[^/\s@?'"]*@)?([^\s?#'"]*)(?:[?#][^\s'"]*)?""", re.IGNORECASE)
# Libraries under fsspec, whose errors are not all OSErrors.
_STORES = frozenset(("botocore", "aiobotocore", "s3fs", "gcsfs", "google", "adlfs", "azure", "aiohttp", "fsspec"))


@dataclass(frozen=True)
class Remote:
    """What a URL names: its file system of fsspec, and the `path` in it. It has what we use of a Path."""

    url: str
    fs: Any
    path: str

    @property
    def suffix(self) -> str:
        """`.jsonl` and so on; empty for a folder."""
        return PurePosixPath(urlsplit(self.url).path if self._is_page else self.path).suffix

    @property
    def _is_page(self) -> bool:
        """Whether a web server gives it: its name may have a query, and such a server has no folders."""
        return self.url.lower().startswith(("http://", "https://"))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """The object as a file that is read as it is needed."""
        file: IO[bytes] = self.fs.open(self.path, mode)
        return file

    def is_dir(self) -> bool:
        """Whether it is a folder: an object store has one wherever objects begin with its name."""
        return not self._is_page and bool(self.fs.isdir(self.path))

    def __str__(self) -> str:
        return shown_location(self.url)


Location = Path | Remote


def is_url(where: object) -> bool:
    """Whether it is the text of a URL such as `s3://bucket/key`."""
    return isinstance(where, str) and _URL.match(where) is not None


def shown_location(where: object) -> str:
    """A path or URL, or a text that quotes one, as it may be printed and kept.

    That is without the query of a web address, which may be a signature, and without a password.
    """
    return _SECRETS.sub(r"\1\2", str(where))


def location_of(where: str | Path) -> Location:
    """A path as it is, or what a URL names; `file://` is a path.

    Raises:
        ConfigurationError: The driver of such a store is not installed; it says which.
        InputError: No store has such URLs.
    """
    if not isinstance(where, str) or not is_url(where):
        return Path(where)
    from fsspec.core import url_to_fs  # a tenth of a second

    try:
        with store_errors(where):
            fs, path = url_to_fs(where)
    except ImportError as error:
        raise ConfigurationError(f"cannot read {shown_location(where)}: {error}") from None
    except ValueError as error:
        raise InputError(f"{shown_location(where)}: {shown_location(error)}") from None
    return Path(path) if where.lower().startswith(("file:", "local:")) else Remote(where.rstrip("/"), fs, path)


@contextmanager
def store_errors(where: object) -> Iterator[None]:
    """In this block what an object store and its driver complain of becomes an InputError that names `where`."""
    name = shown_location(where)
    try:
        yield
    except FileNotFoundError as error:
        status = getattr(error.__cause__, "status", 404)  # of a web server: fsspec says the same of all refusals
        reason = ": no such file" if status == 404 else f" cannot be used: HTTP {status}"
        raise InputError(f"{name}{reason}") from None
    except OSError as error:
        raise InputError(f"cannot open {name}: {error.strerror or shown_location(error)}") from None
    except Exception as error:
        if isinstance(error, ImportError) or type(error).__module__.partition(".")[0] not in _STORES:
            raise
        raise InputError(f"cannot open {name}: {type(error).__name__}: {shown_location(error)}") from None
