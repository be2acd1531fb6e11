"""A lock on an open file; the operating system lets go of it when the process ends, however it ends."""

from __future__ import annotations

__all__ = ["try_lock"]

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
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
