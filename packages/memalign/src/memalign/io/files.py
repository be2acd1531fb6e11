"""Files that are written whole or not at all, and by one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memalign.errors import InputError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "atomic_write",
    "beside",
    "is_device",
    "locked",
    "path_of",
    "target_of",
    "try_lock",
    "unlock",
]

_LOG = logging.getLogger("memalign.io")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+")
"""How a URL begins: a Path keeps one of its two slashes, and a drive has one letter."""


def path_of(where: str | Path) -> Path:
    """Return the path that a person named.

    Raises:
        InputError: It is a URL, whose query may be a key and is not repeated.
    """
    match = _URL.match(str(where))
    if match:
        raise InputError(
            f"{match[0]}… is a URL; copy the file to this machine, and give its path"
        )
    return Path(where)


def target_of(path: Path) -> Path:
    """Return the file behind a link, so that the link stays one."""
    if path.is_symlink():
        return path.resolve()
    return path


def is_device(path: Path) -> bool:
    """Return whether something is there that cannot be replaced, such as a pipe or /dev/null."""
    return path.exists() and not (path.is_file() or path.is_dir())


def beside(path: Path, kind: str) -> Path:
    """Return a hidden file next to `path`: its `lock`, or the `part` with its new content."""
    return path.parent / f".{path.name}.{kind}"


def try_lock(path: Path) -> BaseFileLock | None:
    """Lock a file until `unlock`, or the end of the process; None if somebody else has it."""
    from filelock import FileLock, Timeout  # a twentieth of a second

    path.parent.stat()  # filelock would make a folder that is missing
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def unlock(lock: BaseFileLock) -> None:
    """Let go of a lock, and take its file away, which a filelock that waits for it sees."""
    # Windows removes no open file, and filelock does so itself.
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@contextmanager
def locked(
    path: Path, *, waiting: Callable[[], object] | None = None
) -> Iterator[None]:
    """Hold a lock file for the block; `waiting` is called once if somebody else holds it."""
    lock = try_lock(path)
    if lock is None:
        from filelock import FileLock

        if waiting is not None:
            waiting()
        lock = FileLock(path, thread_local=False)
        lock.acquire()
    try:
        yield
    finally:
        unlock(lock)


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends, not after a crash.

    Two writers wait for each other, and the one that waits says so in the log `memalign.io`. A link
    stays one, and who may read the old file may read the new one; a device or pipe is written to as
    it is.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_device(path):
        # A link such as /dev/stdout may lead to a pipe that has no path of its own.
        with path.open("wb") as device:
            yield device
        return
    path = target_of(path)
    part = beside(path, "part")
    with locked(
        beside(path, "part.lock"),
        waiting=lambda: _LOG.warning("%s: waiting for another writer", path),
    ):
        try:
            with part.open("wb") as new:
                if path.exists():
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                yield new
                new.flush()
                # A power cut must not leave a file of the right name without its content.
                os.fsync(new.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
