"""A lock on an open file; the operating system lets go of it when the process ends, however it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lock_file", "try_lock"]

try:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file, unless another open file has the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

except ImportError:  # Windows
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock an open file, unless another open file has the lock."""
        # It locks a byte at the position of the file, and that of a file to append to is its end, which moves.
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True


def lock_file(path: Path) -> BinaryIO | None:
    """The file at `path`, made where there is none, open and locked; None when another has the lock.

    Who lets go may remove the file: a lock on one that is no longer there keeps nobody out, and another is taken.
    """
    while True:
        file = path.open("ab")
        try:
            if not try_lock(file.fileno()):
                file.close()
                return None
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass  # it went between the two looks
        except BaseException:
            file.close()
            raise
        file.close()
