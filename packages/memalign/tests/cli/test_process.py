"""The command line as a process: signals, pipes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint, hang
from tests.support.patience import PATIENCE

MEMALIGN = [sys.executable, "-m", "memalign"]


def interrupted(arguments: list[str], endpoint: Endpoint) -> subprocess.CompletedProcess[str]:
    """The command, with Ctrl-C as soon as it waits for the model."""
    before = len(endpoint.requests)
    with subprocess.Popen(
        [*MEMALIGN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    ) as process:
        end = time.monotonic() + PATIENCE
        while len(endpoint.requests) == before:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # or the end of this block waits for ever
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing there")
def test_an_interrupted_align_leaves_the_registry_unchanged(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    before = memalign("show", tone, "--json").json
    endpoint.answer = hang()
    stopped = interrupted(["align", tone, str(feedback), "--json"], endpoint)
    assert stopped.returncode == 130, stopped.stderr
    assert "interrupted; to see whether a version was saved: memalign history tone" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert json.loads(stopped.stdout)["error"]["type"] == "Interrupted"
    assert memalign("show", tone, "--json").json == before


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


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing there")
def test_an_interrupt_does_not_wait_for_embedded_models(memalign: Run, tmp_path: Path) -> None:
    model = tmp_path / "slow.gguf"
    model.write_bytes(b"GGUF")
    settings = ("--instructions", "{{ inputs }}", "--value-type", "bool", "--model", f"local:{model}")
    assert memalign("create", "slow", *settings).code == 0
    (tmp_path / "items.jsonl").write_text('{"id": "a", "inputs": "b"}\n', "utf-8")
    command = [sys.executable, "-c", BUSY, "judge", "slow", "items.jsonl", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "reading" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 130
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert "Traceback" not in err


def test_a_reader_that_has_gone_is_nobodys_error(tone: str, feedback: Path) -> None:
    reader = subprocess.Popen(
        [*MEMALIGN, "check", str(feedback)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.close()
    said = reader.stderr.read()
    reader.stderr.close()
    reader.wait(timeout=PATIENCE)
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_a_program_ends_with_code_and_one_line(program: Run, tone: str) -> None:
    lost = program("show", "nobody")
    assert lost.code == 2
    assert lost.out == ""
    assert lost.err == "error: no judge 'nobody' in the registry; judges: tone\n"
