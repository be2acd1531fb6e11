"""An MLflow tracking server for tests, and the model that the demo teaches."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.endpoint import system_of, user_of
from tests.support.learning import changes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def teachable(body: dict[str, Any]) -> Any:
    """Sends all replies, until it was told that an upset customer wants an apology."""
    name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    if name == "changes":
        return changes_of(user_of(body))
    if "messages" not in body:  # texts to embed
        return {}
    if "source_trace_ids" in user_of(body):  # MLflow's own optimizer
        said = re.findall(r'^  "id": (\d+),$.*?"rationale": "(.*?)",$', user_of(body), re.MULTILINE | re.DOTALL)
        return {"guidelines": [{"guideline_text": words, "source_trace_ids": [int(n)]} for n, words in said]}
    upset = "furious" in user_of(body).rpartition("Now judge this item:")[2]
    value = not (upset and "say sorry first" in system_of(body))
    if name == "judgment":
        return {"rationale": "so", "value": value}
    return json.dumps({"result": value, "rationale": "so"}) if not name or name == "ResponseFormat" else {}


@contextmanager
def tracking_server(folder: Path, store: str) -> Iterator[str]:
    """The address of an MLflow tracking server over `store`, with its artifacts in `folder`, while the block lasts.

    It has a connection for each of its threads: of SQLite's fifteen the server has more threads, and on a busy machine
    those that wait half a minute are refused.
    """
    settings = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "64",
        # Its gateway may ask a model on this machine.
        "MLFLOW_GATEWAY_API_BASE_ALLOWED_SCHEMES": "http",
        "MLFLOW_GATEWAY_API_BASE_ALLOW_PRIVATE_IPS": "true",
    }
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--workers", "1"]
    command += ["--artifacts-destination", (folder / "artifacts").as_uri(), "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env=dict(os.environ) | settings,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 600
            while not _healthy(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.3)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)  # its workers, too


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
