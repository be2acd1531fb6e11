"""Locks on files that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign.io import file_lock as locks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_one_holder_at_a_time_has_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".out.lock"
    first = locks.lock_file(path)
    assert first is not None
    assert locks.lock_file(path) is None
    first.close()
    second = locks.lock_file(path)
    assert second is not None
    second.close()


def test_a_lock_on_a_deleted_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, honest = tmp_path / ".out.lock", locks.try_lock
    seen: list[int] = []

    def late(descriptor: int) -> bool:
        seen.append(descriptor)
        if len(seen) == 1:
            path.unlink()  # its holder let go of it, and took it away, after we had opened it
        if len(seen) == 2:
            path.unlink()
            path.touch()  # and another came
        return honest(descriptor)

    monkeypatch.setattr(locks, "try_lock", late)
    ours = locks.lock_file(path)
    assert ours is not None
    assert len(seen) == 3
    assert locks.lock_file(path) is None, "who comes now finds it taken"
    ours.close()
