"""What is sent goes where MLflow's own judge would send it, or nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mlflow.exceptions import MlflowException

import memalign
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.integrations.mlflow.routes import judge_model
from tests.support.endpoint import Endpoint, bad_request
from tests.support.mlflow_world import Mind, fetched, following, lesson, tone_judge

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENAI = ("OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_KEY")
DATABRICKS = ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "MLFLOW_DEPLOYMENTS_TARGET")
AZURE = ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")
NAMED: dict[str, Any] = {"reflection_lm": "openai:/large", "embedding_model": "openai:/embed"}
CASE: dict[str, Any] = {"inputs": {"question": "question 1, as of today"}, "outputs": "answer 1"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OPENAI, *AZURE, *DATABRICKS, "OPENAI_API_VERSION", "TOGETHER_API_KEY", "TOGETHERAI_API_KEY"):
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


def asked(server: Endpoint) -> int:
    return len(server.requests) + len(server.embedding_requests)


def test_openai_api_base_is_the_route_of_all(here: Endpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer(**NAMED))
    assert aligned(**CASE).value is False
    assert {body["model"] for body in here.requests} == {"small", "large"}
    assert here.embedding_requests
    assert {headers["authorization"] for headers in here.headers} == {"Bearer theirs"}


def test_openai_api_base_goes_before_openai_base_url(here: Endpoint, elsewhere: Endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer(**NAMED))
    aligned.register()
    loaded = load("tone")
    assert loaded.align(fetched(lesson(2)))(**CASE).value is False
    assert loaded.unalign(loaded._episodic_trace_ids)(**CASE).value is True
    assert asked(elsewhere) == 0
    assert {body["model"] for body in here.requests} == {"small", "large"}
    assert here.embedding_requests


@pytest.mark.parametrize("way", ["base_url", "both variables", "gateway"])
def test_nor_does_its_registry_send_words_elsewhere(here: Endpoint, elsewhere: Endpoint, monkeypatch, tmp_path, way):
    monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    changes: dict[str, Any] = {}
    if way == "base_url":
        changes = {"base_url": here.base_url}
    elif way == "gateway":
        changes = {"model": "gateway:/small"}
        monkeypatch.setenv("MLFLOW_GATEWAY_URI", here.base_url.removesuffix("/v1"))
    else:
        monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    aligned = tone_judge(**changes).align(fetched(lesson(1)), MemAlignOptimizer())
    registry = memalign.Registry(f"sqlite:///{tmp_path / 'm.db'}")
    registry.save(aligned.memalign_judge)
    before = asked(here)
    assert registry.load("tone")(**CASE).value is False
    assert asked(here) > before
    assert asked(elsewhere) == 0


def test_a_password_in_an_address_is_hidden(here: Endpoint, tmp_path):
    judge = tone_judge(base_url=here.base_url.replace("://", "://ana:hunter2@"))
    aligned = judge.align(fetched(lesson(1)), MemAlignOptimizer())
    assert aligned(**CASE).value is False
    assert "hunter2" not in str(aligned.memalign_judge.model_name)
    registry = memalign.Registry(f"sqlite:///{tmp_path / 'm.db'}")
    registry.save(aligned.memalign_judge)
    assert b"hunter2" not in (tmp_path / "m.db").read_bytes()


def test_a_base_url_keeps_the_path_it_has(here: Endpoint, monkeypatch):
    # MLflow posts to a judge's base_url as it is, so this is how one that works there looks.
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    here.elsewhere = None
    judge = tone_judge(base_url=f"{here.base_url}/chat/completions")
    aligned = judge.align(fetched(lesson(1)), MemAlignOptimizer())
    assert aligned(**CASE).value is False
    assert set(here.paths) == {"/v1/chat/completions"}


def test_azures_three_variables_are_the_route_of_all(here: Endpoint, elsewhere: Endpoint, monkeypatch):
    monkeypatch.setenv("AZURE_API_KEY", "theirs")
    monkeypatch.setenv("AZURE_API_BASE", here.base_url.removesuffix("/v1"))
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", elsewhere.base_url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "other")
    monkeypatch.setenv("OPENAI_API_VERSION", "2023-05-15")
    optimizer = MemAlignOptimizer(reflection_lm="azure:/large", embedding_model="azure:/embed")
    aligned = tone_judge(model="azure:/small").align(fetched(lesson(1)), optimizer)
    assert aligned(**CASE).value is False
    assert asked(elsewhere) == 0
    assert set(here.paths) == {
        f"/openai/deployments/{model}/{call}?api-version=2024-10-21"
        for model, call in (("small", "chat/completions"), ("large", "chat/completions"), ("embed", "embeddings"))
    }
    assert {headers["api-key"] for headers in here.headers} == {"theirs"}
    for name in ("AZURE_API_BASE", "AZURE_API_VERSION"):
        monkeypatch.delenv(name)
    with pytest.raises(MlflowException, match="needs AZURE_API_BASE and AZURE_API_VERSION"):
        optimizer.align(tone_judge(model="azure:/small"), fetched(lesson(2)))


@pytest.mark.parametrize("provider", ["togetherai", "together_ai"])
def test_together_has_mlflows_name_and_key(provider, monkeypatch):
    from memalign.models.provider_client import open_chat
    from memalign.models.providers import target_of

    with pytest.raises(MlflowException, match="TOGETHERAI_API_KEY"):
        MemAlignOptimizer().align(tone_judge(model=f"{provider}:/m"), fetched(lesson(1)))
    monkeypatch.setenv("TOGETHERAI_API_KEY", "theirs")
    _, opened = open_chat(target_of(f"{provider}:/m"))
    assert (opened.client.api_key, str(opened.client.base_url)) == ("theirs", "https://api.together.xyz/v1/")


@pytest.mark.parametrize("name", ["databricks", "databricks:/gte", "endpoints:/gte"])
@pytest.mark.parametrize("setting", ["reflection_lm", "embedding_model"])
def test_a_databricks_model_is_refused_before_any_call(here: Endpoint, monkeypatch, name, setting):
    monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    with pytest.raises(
        MlflowException, match=f"{setting} '{name}' runs in MLflow's or Databricks' own service"
    ) as error:
        MemAlignOptimizer(**{setting: name}).align(tone_judge(), fetched(lesson(1)))
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"
    assert asked(here) == 0


def test_models_of_databricks_are_asked_at_its_host(here: Endpoint, elsewhere: Endpoint, monkeypatch):
    monkeypatch.setenv("DATABRICKS_HOST", here.base_url.removesuffix("/v1"))
    monkeypatch.setenv("DATABRICKS_TOKEN", "theirs")
    monkeypatch.setenv("OPENAI_API_BASE", elsewhere.base_url)
    optimizer = MemAlignOptimizer(
        reflection_lm="databricks:/system.ai.large", embedding_model="endpoints:/embed", embedding_dim=32
    )
    aligned = tone_judge(model="databricks:/small").align(fetched(lesson(1)), optimizer)
    assert aligned(**CASE).value is False
    assert aligned.model == "databricks:/small"
    aligned.register()
    assert load("tone")(**CASE).value is False
    assert asked(elsewhere) == 0
    asked_for = {(path, body["model"]) for path, body in zip(here.paths, here.bodies, strict=True)}
    assert asked_for == {
        ("/serving-endpoints/chat/completions", "small"),
        ("/ai-gateway/mlflow/v1/chat/completions", "system.ai.large"),
        ("/serving-endpoints/embeddings", "embed"),
    }
    assert {headers["authorization"] for headers in here.headers} == {"Bearer theirs"}


def test_ollama_needs_no_variable(here: Endpoint, monkeypatch):
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    assert judge_model(tone_judge(model="ollama:/llama3")).name == "openai:llama3@http://localhost:11434/v1"  # type: ignore[union-attr]
    monkeypatch.setenv("OLLAMA_BASE_URL", here.base_url)
    aligned = tone_judge(model="ollama:/llama3").align(fetched(lesson(1)), MemAlignOptimizer())
    assert aligned(**CASE).value is False
    assert {body["model"] for body in here.requests} == {"llama3"}


def test_an_endpoint_of_another_deployments_server_is_refused(here: Endpoint, monkeypatch):
    monkeypatch.setenv("DATABRICKS_HOST", here.base_url.removesuffix("/v1"))
    monkeypatch.setenv("DATABRICKS_TOKEN", "theirs")
    monkeypatch.setenv("MLFLOW_DEPLOYMENTS_TARGET", "http://127.0.0.1:9")
    with pytest.raises(MlflowException, match="names a deployments server"):
        MemAlignOptimizer().align(tone_judge(model="endpoints:/small"), fetched(lesson(1)))
    assert asked(here) == 0


def test_an_address_that_only_litellm_reads_is_refused(here: Endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_BASE", here.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "theirs")
    monkeypatch.setenv("ANTHROPIC_API_BASE", "http://127.0.0.1:9")
    with pytest.raises(MlflowException, match="ANTHROPIC_API_BASE names a server") as error:
        MemAlignOptimizer(reflection_lm="anthropic:/large").align(tone_judge(), fetched(lesson(1)))
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"
    assert asked(here) == 0


def test_a_refused_key_is_named_by_its_variable(here: Endpoint, monkeypatch):
    monkeypatch.setenv("DATABRICKS_HOST", here.base_url.removesuffix("/v1").replace("://", "://ana:hunter2@"))
    monkeypatch.setenv("DATABRICKS_TOKEN", "theirs")
    here.answer = bad_request("Invalid access token", status=401)
    with pytest.raises(MlflowException, match="Check DATABRICKS_TOKEN") as error:
        tone_judge(model="databricks:/small").align(fetched(lesson(1)), MemAlignOptimizer())
    assert "hunter2" not in str(error.value)
