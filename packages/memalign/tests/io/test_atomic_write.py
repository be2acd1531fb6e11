"""Files that are written whole or not at all."""

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

from memalign.errors import InputError
from memalign.io import JudgmentWriter
from memalign.io.files import atomic_write


def write(path: Path, *parts: bytes, fails: bool = False) -> None:
    with atomic_write(path) as file:
        for part in parts:
            file.write(part)
        if fails:
            raise OSError("disk full")


def test_the_new_content_takes_the_old_ones_place(tmp_path):
    path = tmp_path / "card.jsonl"
    path.write_bytes(b"old")
    write(path, b"new", b" and whole")
    assert path.read_bytes() == b"new and whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("before", [b"old", None])
def test_a_failed_write_leaves_the_old_file_alone(tmp_path, before):
    path = tmp_path / "card.jsonl"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(OSError, match="disk full"):
        write(path, b"half", fails=True)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([before] if before is not None else [])


def test_nobody_sees_half_a_file(tmp_path):
    path = tmp_path / "card.jsonl"
    with atomic_write(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_file_is_readable_where_umask_allows(tmp_path):
    before = os.umask(0o022)
    try:
        write(tmp_path / "bundle.json", b"{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "bundle.json").stat().st_mode) == 0o644


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_link_stays_one_and_private_files_private(tmp_path):
    kept, link = tmp_path / "kept.json", tmp_path / "link.json"
    kept.write_bytes(b"old")
    kept.chmod(0o600)
    link.symlink_to(kept)
    write(link, b"new")
    assert link.is_symlink()
    assert kept.read_bytes() == b"new"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="links there need a privilege")
def test_two_names_of_one_file_make_two_runs(tmp_path):
    kept, link = tmp_path / "far" / "kept.jsonl", tmp_path / "link.jsonl"
    kept.parent.mkdir()
    link.symlink_to(kept)
    with JudgmentWriter(kept, judge="j"), pytest.raises(InputError, match="another run"):
        JudgmentWriter(link, judge="j")
    with JudgmentWriter(link, judge="j"):
        assert {each.name for each in tmp_path.iterdir()} == {"far", "link.jsonl"}, "what it needs stands by the file"


def test_a_folder_is_no_file_to_be_replaced(tmp_path):
    for folder in (tmp_path, Path()):
        with pytest.raises(IsADirectoryError):
            write(folder, b"x")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such devices")
def test_a_device_is_written_but_never_replaced():
    ours, theirs = os.openpty()
    device = Path(os.ttyname(theirs))
    try:
        write(device, b"whole\n")
        assert os.read(ours, 100) == b"whole\r\n"
        with pytest.raises(InputError, match="is no file"):
            JudgmentWriter(device, judge="j")
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


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_killed_writers_leftovers_go_with_the_next(tmp_path):
    path = tmp_path / "judge.json"
    for content in (b"first", b"2"):
        for _ in range(2):
            killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
            assert killed.returncode == -signal.SIGKILL
        assert {each.name for each in tmp_path.iterdir()} <= {"judge.json", ".judge.json.part", ".judge.json.part.lock"}
        assert not path.exists() or path.read_bytes() == b"first"
        write(path, content)
        assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("judge.json", content)]


def test_a_writer_that_waits_says_so(tmp_path, monkeypatch):
    said = threading.Event()
    monkeypatch.setattr(logging.getLogger("memalign.io"), "handle", lambda record: said.set())
    path = tmp_path / "judge.json"
    with ThreadPoolExecutor(1) as pool:
        with atomic_write(path) as first:
            second = pool.submit(write, path, b"second")
            assert said.wait(60), "the second writer says that it waits, before the first is done"
            first.write(b"first")
        second.result(60)
    assert path.read_bytes() == b"second"


def test_the_content_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: steps.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(Path, "replace", lambda part, path: steps.append(part.name))
    write(tmp_path / "judge.json", b"whole")
    assert steps == [5, ".judge.json.part"]


def test_two_writers_wait_for_each_other(tmp_path):
    path = tmp_path / "judge.json"
    pieces = [bytes([n]) * 1000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda piece: write(path, *[piece] * 20), pieces):
            assert path.read_bytes() in [piece * 20 for piece in pieces]
    assert list(tmp_path.iterdir()) == [path]
