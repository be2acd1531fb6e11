"""One SQLite store for all, an experiment for each test, and a model on loopback."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

# Read when MLflow is imported: no word to its makers, and traces that are there when they are asked for.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
    "True"  # else it asks the network for prices
)

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # MLflow's own, such as of a plugin that an environment names and no longer has
    import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import (
    Mind,
    fetched,
    following,
    lesson,
    tone_judge,
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
    """The address of an MLflow tracking server over the same store; takes half a minute to start."""
    with tracking_server(tmp_path_factory.mktemp("server"), store) as address:
        yield address


@pytest.fixture(autouse=True)
def experiment(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[str]:
    mlflow.set_tracking_uri(store)
    name = f"{request.node.nodeid}"
    experiment_id = mlflow.create_experiment(
        name, artifact_location=(tmp_path / "artifacts").as_uri()
    )
    mlflow.set_experiment(name)
    yield experiment_id
    mlflow.set_tracking_uri(store)


@pytest.fixture
def on_server(server: str, experiment: str) -> str:
    """The tracking server, with an experiment of its own: the store's ones keep their artifacts in a folder."""
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
    judge: MemAlignJudge = tone_judge().align(
        fetched(lesson(1), lesson(2)), MemAlignOptimizer(retrieval_k=3)
    )
    return judge
