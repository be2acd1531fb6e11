"""One holder of a lock at a time, on files that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign.io.files import locked, try_lock, unlock


def test_one_holder_at_a_time_has_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".out.lock"
    for _ in range(2):
        lock = try_lock(path)
        assert lock is not None
        assert try_lock(path) is None
        unlock(lock)
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_deleted_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / ".out.lock"
    first = try_lock(path)
    assert first is not None
    path.unlink()  # somebody tidied up
    second = try_lock(path)
    assert second is not None
    assert try_lock(path) is None, "the file that is there is the one that counts"
    unlock(second)
    unlock(first)


def test_the_holder_is_waited_for_and_the_wait_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / ".out.lock"
    lock = try_lock(path)
    assert lock is not None
    said: list[str] = []

    def waiting() -> None:
        said.append("waiting")
        unlock(lock)

    with locked(path, waiting=waiting):
        assert try_lock(path) is None
    assert said == ["waiting"]


def test_no_folder_is_made_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        try_lock(tmp_path / "none" / ".out.lock")
    assert not list(tmp_path.iterdir())
