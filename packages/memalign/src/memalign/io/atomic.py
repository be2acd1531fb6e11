"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from memalign.io.file_lock import lock_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["atomic_write", "is_device", "part_of", "target_of"]

_WAIT = 0.01  # seconds between two looks at whether another writer has finished


def target_of(path: Path) -> Path:
    """The file behind a link, so that the link stays one."""
    return path.resolve() if path.is_symlink() else path


def is_device(path: Path) -> bool:
    """Whether something is there that is no file to be replaced: a device such as /dev/null, a pipe."""
    return path.exists() and not (path.is_file() or path.is_dir())


def part_of(path: Path) -> Path:
    """The file beside `path` in which its new content is written."""
    return path.parent / f".{path.name}.part"


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends; before that, and after a crash, the old one stands.

    It is written as `.NAME.part` beside it; what a killed process leaves there is replaced by the next writer, and two
    writers wait for each other. A link stays one, and who may read the old file may read the new one; a device or pipe is
    written to as it is. Raises OSError as opening, writing and renaming do.
    """
    path = target_of(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_device(path):
        with path.open("wb") as device:
            yield device
        return
    part = part_of(path)
    while (new := lock_file(part)) is None:
        time.sleep(_WAIT)
    done = False
    try:
        new.truncate(0)
        if path.exists():
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        yield new
        new.flush()
        if os.name == "nt":  # which renames no open file
            new.close()
        part.replace(path)  # locked still, so that nobody writes to it any more
        done = True
    finally:
        if not done:
            part.unlink(missing_ok=True)
        new.close()
