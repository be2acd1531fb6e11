"""Files that are written whole or not at all."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends; before that, and after a crash, the old one stands.

    Raises OSError as opening, writing and renaming do.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with fresh.open("wb") as file:
            yield file
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
