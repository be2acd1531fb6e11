"""What is sent goes where MLflow's own judge would send it, or nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mlflow.genai import scorers
from mlflow.genai.scorers import ScorerSamplingConfig

import memalign
from memalign.integrations.mlflow import MemAlignOptimizer, load
from tests.support.endpoint import Endpoint, bad_request
from tests.support.mlflow_world import (
    Mind,
    fetched,
    following,
    gateway_model,
    item,
    lesson,
    refused,
    taught,
    tone_judge,
)

NAMED: dict[str, Any] = {
    "reflection_lm": "openai:/large",
    "embedding_model": "openai:/embed",
}
CASE = item(1)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here() -> Iterator[Endpoint]:
    """The server that MLflow's judges ask."""
    with Endpoint(Mind(following).answer) as server:
        yield server


@pytest.fixture
def elsewhere() -> Iterator[Endpoint]:
    """A server that must not be asked."""
    with Endpoint(Mind(following).answer) as server:
        yield server
        assert server.bodies == []


def leads_here(
    here: Endpoint, monkeypatch: pytest.MonkeyPatch, way: str
) -> dict[str, Any]:
    """Set what MLflow reads, so that its judges ask `here`; the settings of a judge that does."""
    if way == "base_url":  # MLflow posts to it as it is
        return {"base_url": f"{here.base_url}/chat/completions"}
    if way == "gateway":
        monkeypatch.setenv("MLFLOW_GATEWAY_URI", here.base_url.removesuffix("/v1"))
        return {"model": "gateway:/small"}
    monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    return {}


@pytest.mark.parametrize(
    "way", ["OPENAI_API_BASE alone", "both variables", "base_url", "gateway"]
)
def test_words_go_where_mlflow_sends_them_and_nowhere_else(
    here: Endpoint, elsewhere: Endpoint, monkeypatch, tmp_path, way
):
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    if way != "OPENAI_API_BASE alone":
        monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.base_url)
    changes = leads_here(here, monkeypatch, way)
    optimizer = MemAlignOptimizer() if changes else MemAlignOptimizer(**NAMED)
    aligned = tone_judge(**changes).align(fetched(lesson(1)), optimizer)
    loaded = aligned
    if way != "gateway":  # whose endpoint MLflow looks for when a judge is registered
        aligned.register()
        loaded = load("tone")
    learned = loaded.align(fetched(lesson(2)))
    forgot = loaded.unalign(loaded._episodic_trace_ids)
    assert (learned(**CASE).value, forgot(**CASE).value) == (False, True)
    assert loaded.model == changes.get("model", "openai:/small")
    registry = memalign.Registry(f"sqlite:///{tmp_path / 'm.db'}")
    registry.save(aligned.memalign_judge)
    before = len(here.requests)
    assert registry.load("tone")(**CASE).value is False
    assert len(here.requests) > before
    models = {body["model"] for body in here.requests}
    assert models == ({"small"} if changes else {"small", "large"})
    assert bool(here.embedding_requests) is not bool(changes)


def test_a_password_in_an_address_is_hidden(
    here: Endpoint, tmp_path, caplog, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    address = here.base_url.replace("://", "://ana:hunter2@")
    aligned = taught(lesson(1), base_url=address)
    assert aligned(**CASE).value is False
    assert "hunter2" not in str(aligned.memalign_judge.model_name)
    registry = memalign.Registry(f"sqlite:///{tmp_path / 'm.db'}")
    registry.save(aligned.memalign_judge)
    assert b"hunter2" not in (tmp_path / "m.db").read_bytes()
    here.answer = bad_request("Invalid access token", status=401)
    taught(lesson(2), base_url=address)
    assert "Check OPENAI_API_KEY" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("databricks:/served", "a name of Databricks' own"),
        ("endpoints:/mine", "a name of Databricks' own"),
        ("nobody:/m", "nobody:m cannot be used: Unknown provider: nobody"),
        ("anthropic:/m", "needs a key"),
        ("openai:/m", "OPENAI_API_KEY"),
        # Not sent to the provider's own address instead.
        ("mistral:/m", "MISTRAL_API_BASE names a server"),
    ],
)
def test_a_model_that_cannot_be_asked_is_named_before_any_call(
    here: Endpoint, monkeypatch, model, message
):
    monkeypatch.setenv("MISTRAL_API_BASE", here.base_url)
    served = tone_judge(base_url=here.base_url)
    for judge, settings in (
        (tone_judge(model=model), {}),
        (served, {"reflection_lm": model}),
    ):
        with refused(message):
            MemAlignOptimizer(**settings).align(judge, fetched(lesson(1)))
    assert here.bodies == []


@pytest.mark.slow
@pytest.mark.usefixtures("on_server")
def test_a_gateway_judge_is_scheduled_and_stopped(here: Endpoint):
    registered = taught(lesson(1), model=gateway_model(here, "house")).register()
    started = registered.start(sampling_config=ScorerSamplingConfig(sample_rate=0.5))
    assert (started.sample_rate, started.status.value) == (0.5, "STARTED")
    assert scorers.get_scorer(name="tone").sample_rate == 0.5
    stopped = scorers.list_scorers()[0].stop()
    assert (stopped.status.value, stopped.model) == ("STOPPED", "gateway:/house")
    assert load("tone")(**CASE).value is False
