"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["atomic_write", "is_device", "target_of"]


def target_of(path: Path) -> Path:
    """The file behind a link, so that the link stays one."""
    return path.resolve() if path.is_symlink() else path


def is_device(path: Path) -> bool:
    """Whether something is there that is no file to be replaced: a device such as /dev/null, a pipe."""
    return path.exists() and not (path.is_file() or path.is_dir())


@contextmanager
def atomic_write(path: Path, *, beside: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends; before that, and after a crash, the old one stands.

    It is written `beside`, by default under a name that nobody else has. A link stays one, and who may read the old file
    may read the new one; a device or pipe is written to as it is. Raises OSError as opening, writing and renaming do.
    """
    path = target_of(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_device(path):
        with path.open("wb") as file:
            yield file
        return
    fresh = beside or path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with fresh.open("wb") as file:
            if path.exists():
                fresh.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
