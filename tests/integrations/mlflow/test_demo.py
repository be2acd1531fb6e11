"""The demo of examples/, as a person runs it, against an MLflow tracking server."""

from __future__ import annotations

import json
import os
import re
import runpy
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.endpoint import Endpoint, system_of, user_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = Path(__file__).resolve().parents[3] / "examples" / "mlflow_demo.py"
RECORD = re.compile(r"^(F\d+) <<<$.*?^>>>$.*?^expert's comment: (.*?)$", re.MULTILINE | re.DOTALL)


def answer(body: dict[str, Any]) -> Any:
    """Sends all replies, until it was told that an upset customer wants an apology."""
    name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    if name == "changes":
        new = user_of(body).partition("New feedback:")[2]
        changes = [
            {"action": "ADD", "feedback": [label], "text": json.loads(words), "guideline": ""}
            for label, words in RECORD.findall(new)
        ]
        return {"changes": changes}
    if name == "judgment":
        upset = "furious" in user_of(body).rpartition("Now judge this item:")[2]
        return {"rationale": "so", "value": not (upset and "say sorry first" in system_of(body))}
    return json.dumps({"result": True, "rationale": "so"}) if not name or name == "ResponseFormat" else {}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--workers", "1"]
    command += ["--artifacts-destination", (folder / "artifacts").as_uri(), "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True) as process,
    ):
        try:
            deadline = time.monotonic() + 240
            while not healthy(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.3)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)  # its workers, too


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def told(said: str) -> None:
    assert "before: [True, True]" in said
    assert "aligned: 4 learned, new G1-G4" in said
    assert "Distilled Guidelines (4):" in said
    assert "after: [False, True]" in said
    assert "semantic memory 4, episodic memory 4" in said
    assert "without the first trace: 3 episodes" in said
    assert "registered: ['send']" in said
    assert "loaded: [False, True]" in said
    assert "evaluated 2 rows" in said
    assert said.rstrip().endswith("registered: []")


def test_the_demo_runs_from_traces_to_a_registered_judge(store, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with Endpoint(answer) as endpoint:
        given = ["--tracking-uri", store, "--model", "openai:/small", "--base-url", endpoint.base_url]
        monkeypatch.setattr(sys, "argv", [str(DEMO), *given])
        runpy.run_path(str(DEMO), run_name="__main__")
    told(capsys.readouterr().out)


@pytest.mark.slow
def test_it_runs_on_a_tracking_server_too(server, tmp_path):
    with Endpoint(answer) as endpoint:
        done = subprocess.run(
            [
                *(sys.executable, str(DEMO), "--tracking-uri", server),
                *("--model", "openai:/small", "--base-url", endpoint.base_url),
            ],
            env=dict(os.environ) | {"OPENAI_API_KEY": "none"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    told(done.stdout)
