"""One SQLite store for all, an experiment for each test, and a model on loopback."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

# Read when MLflow is imported: no word to its makers, traces that are there when they are
# asked for, and no question to the network about prices.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

with warnings.catch_warnings():
    # MLflow's own, such as of a plugin that an environment names and no longer has.
    warnings.simplefilter("ignore")
    import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignJudge
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import (
    Mind,
    following,
    lesson,
    taught,
    tracking_server,
)

# MLflow's own, with the newest versions of what it uses; ours stay errors of other kinds.
THEIRS = (
    "DeprecationWarning",
    "PendingDeprecationWarning",
    "FutureWarning",
    "UserWarning",
    "ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for kind in THEIRS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    with chdir(folder):  # a new store makes a folder for artifacts where it stands
        mlflow.create_experiment(
            "first", artifact_location=(folder / "artifacts").as_uri()
        )
    return uri


@pytest.fixture(scope="session")
def server(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow tracking server over the same store, half a minute later."""
    with tracking_server(tmp_path_factory.mktemp("server"), store) as address:
        yield address


@pytest.fixture(autouse=True)
def experiment(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[str]:
    mlflow.set_tracking_uri(store)
    artifacts = (tmp_path / "artifacts").as_uri()
    experiment_id = mlflow.create_experiment(
        request.node.nodeid, artifact_location=artifacts
    )
    mlflow.set_experiment(experiment_id=experiment_id)
    yield experiment_id
    mlflow.set_tracking_uri(store)


@pytest.fixture
def on_server(server: str, experiment: str) -> str:
    """The tracking server; its experiment is its own, as the store's keep theirs in a folder."""
    mlflow.set_tracking_uri(server)
    mlflow.set_experiment(f"served {experiment}")
    return server


@pytest.fixture
def mind() -> Mind:
    return Mind(following)


@pytest.fixture
def endpoint(mind: Mind, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(mind.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.fixture
def aligned(endpoint: Endpoint) -> MemAlignJudge:
    """A judge that learned from two traces, 1 and 2."""
    judge: MemAlignJudge = taught(lesson(1), lesson(2))
    return judge
