"""Where rows are read from and written to: a path, or the URL of an object store that fsspec knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from memalign.errors import ConfigurationError, InputError

__all__ = ["Location", "Remote", "is_url", "location_of", "store_errors"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVERS = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
}
# Libraries under these drivers, whose errors are not all OSErrors.
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
        return PurePosixPath(self.path).suffix

    def open(self, mode: str = "rb") -> IO[bytes]:
        """The object as a file that is read as it is needed."""
        file: IO[bytes] = self.fs.open(self.path, mode)
        return file

    def is_dir(self) -> bool:
        """Whether it is a folder: an object store has one wherever objects begin with its name."""
        return bool(self.fs.isdir(self.path))

    def __str__(self) -> str:
        return self.url


Location = Path | Remote


def is_url(where: object) -> bool:
    """Whether it is the text of a URL such as `s3://bucket/key`."""
    return isinstance(where, str) and _URL.match(where) is not None


def location_of(where: str | Path) -> Location:
    """A path as it is, or what a URL names; `file://` is a path.

    Raises ConfigurationError for a driver that is not installed, with what to install, and InputError for a URL that
    nobody knows.
    """
    if not isinstance(where, str) or not is_url(where):
        return Path(where)
    scheme = where.partition("://")[0].lower()
    driver = _DRIVERS.get(scheme)
    from fsspec.core import url_to_fs  # a tenth of a second

    try:
        with store_errors(where):
            fs, path = url_to_fs(where)
    except ImportError as error:
        needed = driver or error.name or "its driver of fsspec"
        raise ConfigurationError(f"{where}: {scheme}:// needs {needed}: pip install {needed}") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    return Path(path) if scheme in ("file", "local") else Remote(where.rstrip("/"), fs, path)


@contextmanager
def store_errors(where: object) -> Iterator[None]:
    """In this block what an object store and its driver complain of becomes an InputError that names `where`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{where}: no such file") from None
    except ImportError:
        raise
    except OSError as error:
        raise InputError(f"{where} cannot be used: {error.strerror or error}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _STORES:
            raise
        raise InputError(f"{where} cannot be used: {type(error).__name__}: {error}") from error
