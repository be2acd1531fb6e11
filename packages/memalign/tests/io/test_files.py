"""Files that are written whole or not at all, and by one writer at a time."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memalign.io.files import atomic_write, try_lock, unlock
from tests.support.patience import PATIENCE

posix = pytest.mark.skipif(
    os.name == "nt", reason="Windows has no such modes, links, devices and signals"
)


def write(path: Path, *parts: bytes) -> None:
    with atomic_write(path) as file:
        for part in parts:
            file.write(part)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_new_content_takes_its_place_when_it_is_on_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "card.jsonl"
    steps = list[object]()
    path.write_bytes(b"old")
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: steps.append(
            (os.fstat(descriptor).st_size, path.read_bytes())
        ),
    )
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        file.write(b" and whole")
    assert steps == [(13, b"old")]
    assert contents(tmp_path) == {"card.jsonl": b"new and whole"}


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "card.jsonl").write_bytes(b"old")
    card = tmp_path / "card.jsonl"
    with pytest.raises(OSError, match="disk full"), atomic_write(card) as file:  # noqa: PT012
        file.write(b"half")
        raise OSError("disk full")
    for folder in (tmp_path, Path()):
        with pytest.raises(IsADirectoryError):
            write(folder, b"x")
    assert contents(tmp_path) == {"card.jsonl": b"old"}


@posix
def test_a_link_stays_one_and_private_files_private(tmp_path):
    before = os.umask(0o022)
    try:
        write(tmp_path / "bundle.json", b"{}")
    finally:
        os.umask(before)
    private = tmp_path / "private.json"
    link = tmp_path / "link.json"
    private.write_bytes(b"old")
    private.chmod(0o600)
    link.symlink_to(private)
    write(link, b"new")
    assert link.is_symlink()
    assert private.read_bytes() == b"new"
    modes = [
        stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "bundle.json", private)
    ]
    assert modes == [0o644, 0o600]


@posix
def test_a_device_is_written_but_never_replaced():
    ours, theirs = os.openpty()
    device = Path(os.ttyname(theirs))
    try:
        write(device, b"whole\n")
        assert os.read(ours, 100) == b"whole\r\n"
        assert device.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


KILLED = """
import os, signal, sys
from pathlib import Path
from memalign.io.files import atomic_write
with atomic_write(Path(sys.argv[1])) as file:
    file.write(b"half of something long")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_a_killed_writers_leftovers_go_with_the_next(tmp_path):
    path = tmp_path / "judge.json"
    for content in (b"first", b"2"):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert killed.returncode == -signal.SIGKILL
        left = contents(tmp_path)
        assert left.keys() <= {
            "judge.json",
            ".judge.json.part",
            ".judge.json.part.lock",
        }
        assert left.get("judge.json", b"first") == b"first"
        write(path, content)
        assert contents(tmp_path) == {"judge.json": content}


def test_writers_wait_for_each_other_and_say_so(tmp_path, monkeypatch):
    said = threading.Event()
    monkeypatch.setattr(
        logging.getLogger("memalign.io"), "handle", lambda record: said.set()
    )
    path = tmp_path / "judge.json"
    pieces = [bytes([n]) * 1000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        with atomic_write(path) as first:
            others = [pool.submit(write, path, *[piece] * 20) for piece in pieces]
            assert said.wait(PATIENCE), "before the first is done"
            first.write(b"first")
        for other in others:
            other.result(60)
            assert path.read_bytes() in [piece * 20 for piece in pieces]
    assert list(tmp_path.iterdir()) == [path]


def test_one_holder_at_a_time_has_the_lock(tmp_path):
    path = tmp_path / ".out.lock"
    for _ in range(2):
        lock = try_lock(path)
        assert lock is not None
        assert try_lock(path) is None
        unlock(lock)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        try_lock(tmp_path / "none" / ".out.lock")
    assert not list(tmp_path.iterdir()), "no folder is made for a lock"
