"""Cases from an MLflow experiment: who may name where it is, what is read, and what is said where it cannot be."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from server_support import world
from server_support.reviewing import post, wait

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PULL = "/judges/tone/pull"
SETUP = "/judges/tone/setup?open=cases"


@pytest.fixture
def tracking(tmp_path: Path) -> str:
    """A store with two traces of an experiment, one of them without an answer."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    import mlflow

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    mlflow.create_experiment("shop", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("shop")
    with mlflow.start_span("reply") as span:
        span.set_inputs({"question": "Where is my lamp?"})
        span.set_outputs("In transit.")
    with mlflow.start_span("nothing"):
        pass
    return uri


@pytest.mark.slow  # MLflow makes its tables
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_an_experiments_traces_come_into_the_queue(local: TestClient, tracking: str) -> None:
    begun = post(local, PULL, experiment="shop", uri=tracking)
    wait(local)
    page = local.get(begun.headers["location"]).text
    assert "1 new" in page
    assert "1 trace lacks what the judge reads." in page
    assert "Where is my lamp?" in local.get("/judges/tone/review").text
    again = post(local, PULL, experiment="shop", uri=tracking)
    wait(local)
    assert "1 was there already." in local.get(again.headers["location"]).text
    wrong = post(local, PULL, experiment="none", uri=tracking)
    wait(local)
    assert "no experiment &#39;none&#39;" in local.get(wrong.headers["location"]).text


def test_who_signed_in_names_no_tracking_uri(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    assert 'name="uri"' not in owner.get(SETUP).text
    for uri in ("http://evil.example", "file:///etc", ""):
        assert post(owner, PULL, experiment="shop", uri=uri).status_code == 422
    unnamed = shared.browser()
    assert unnamed.post(PULL, data={"experiment": "shop"}).status_code == 401
    assert shared.server.jobs.recent("tone") == []
    assert shared.signed_in("reviewer").post(PULL, data={"experiment": "shop"}).status_code == 403


def test_owners_pull_from_the_servers_own(tmp_path: Path) -> None:
    with world.shared_server(tmp_path, mlflow="http://127.0.0.1:9") as site:
        owner = site.signed_in("owner")
        assert 'name="uri"' not in owner.get(SETUP).text
        begun = post(owner, PULL, experiment="shop")
        wait(owner)
        assert "no MLflow answers at 127.0.0.1" in owner.get(begun.headers["location"]).text


def test_without_mlflow_it_says_what_to_install(local: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "MLflow" not in local.get(SETUP).text
    assert "where MLflow is installed" in post(local, PULL, experiment="shop", uri="http://localhost").text
