"""The command line as a process: signals, pipes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, creating
from tests.support.endpoint import HANG, Endpoint
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing there")
MEMALIGN = [sys.executable, "-m", "memalign"]


def interrupted(
    command: list[str], waiting: Callable[[subprocess.Popen[str]], bool]
) -> str:
    """What a command says that gets Ctrl-C as soon as it waits for its model."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        end = time.monotonic() + PATIENCE
        while not waiting(process):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # or the end of this block waits for ever
            raise
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert "Traceback" not in err
    return err


def test_an_interrupted_align_leaves_the_registry_unchanged(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    before = memalign("show tone --json").json
    endpoint.answer = HANG
    err = interrupted(
        [*MEMALIGN, "align", tone, str(feedback), "--json"],
        lambda _: bool(endpoint.requests),
    )
    assert (
        "interrupted; to see whether a version was saved: memalign history tone" in err
    )
    assert memalign("show tone --json").json == before


BUSY = """
import sys, time
from memalign.cli import main
from memalign.models import local
from memalign.models.local import LocalChatModel

def read_on(*_):
    print("reading", file=sys.stderr, flush=True)
    time.sleep(60)

local.load = lambda *_, **__: object()
LocalChatModel._complete = read_on
main()
"""


def test_an_interrupt_does_not_wait_for_embedded_models(
    memalign: Run, tmp_path: Path
) -> None:
    model = tmp_path / "slow.gguf"
    model.write_bytes(b"GGUF")
    local = f"local:{model}"
    memalign(*creating("slow", instructions="{{ inputs }}", model=local), code=0)
    (tmp_path / "items.jsonl").write_text('{"id": "a", "inputs": "b"}\n', "utf-8")
    command = [sys.executable, "-c", BUSY, "judge", "slow", "items.jsonl", "--json"]
    interrupted(
        command,
        lambda process: (
            process.stderr is not None and "reading" in process.stderr.readline()
        ),
    )


@pytest.mark.usefixtures("tone")
def test_a_reader_that_has_gone_is_nobodys_error(feedback: Path) -> None:
    command = [*MEMALIGN, "check", str(feedback)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        printed = process.stderr.read()
    assert "Traceback" not in printed
    assert "BrokenPipe" not in printed


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no such device here")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_is_said_and_no_success(memalign: Run, flags: list[str]) -> None:
    command = [*MEMALIGN, "models", "list", *flags]
    with FULL.open("w") as full:
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_a_command_works_where_stdout_and_stderr_are_closed(memalign: Run) -> None:
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *MEMALIGN, "models", "list"]
    assert subprocess.run(closed, check=False).returncode == 0
