"""An MLflow tracking server for tests, and models at its gateway."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.endpoint import Endpoint


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
            while True:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.3)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)  # its workers, too


def gateway_model(endpoint: Endpoint, name: str) -> str:
    """A model at the tracking server's gateway that asks the endpoint on loopback."""
    from mlflow.entities import GatewayEndpointModelConfig, GatewayModelLinkageType
    from mlflow.tracking._tracking_service.utils import _get_store

    store = _get_store()
    secret = store.create_gateway_secret(
        secret_name=name,
        secret_value={"api_key": "none"},
        provider="openai",
        auth_config={"api_base": endpoint.base_url},
    )
    model = store.create_gateway_model_definition(
        name=name, secret_id=secret.secret_id, provider="openai", model_name="small"
    )
    config = GatewayEndpointModelConfig(
        model_definition_id=model.model_definition_id, linkage_type=GatewayModelLinkageType.PRIMARY, weight=1.0
    )
    store.create_gateway_endpoint(name=name, model_configs=[config], usage_tracking=False)
    return f"gateway:/{name}"
