"""What careful users of MLflow try: odd names, odd ids, and what an error tells them to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai import scorers
from pydantic_ai.exceptions import ModelHTTPError

from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.integrations.mlflow.errors import in_mlflows_words
from memalign.models.provider_errors import failure_of
from memalign.models.providers import Target
from tests.support.mlflow_world import fetched, lesson, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("name", ["team/tone", "tone\\warm", "t" * 150])
def test_any_name_that_mlflow_takes_is_kept(name: str):
    aligned = tone_judge(name=name).align(fetched(lesson(1, name=name)), MemAlignOptimizer())
    assert aligned.name == name
    aligned.register()
    assert [each.name for each in scorers.list_scorers()] == [name]
    loaded = load(name)
    assert loaded(inputs="q", outputs="answer 1").name == name
    assert loaded(inputs="q", outputs="answer 1").value is False
    assert len(loaded.align(fetched(lesson(2, name=name)))._semantic_memory) == 2


def test_an_id_with_line_breaks_is_skipped(endpoint: Endpoint, caplog: pytest.LogCaptureFixture):
    good, odd = fetched(lesson(1), lesson(2))
    odd.info.trace_id = "two\nlines"
    aligned = tone_judge().align([good, odd], MemAlignOptimizer())
    assert aligned._episodic_trace_ids == [good.info.trace_id]
    assert r"its id 'two\nlines' is not one line of text" in caplog.text
    asked = len(endpoint.requests)
    with pytest.raises(MlflowException, match="is not one line of text") as error:
        tone_judge().align([odd], MemAlignOptimizer())
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"
    assert len(endpoint.requests) == asked


def test_a_missing_key_is_told_without_options(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MlflowException, match="OPENAI_API_KEY") as error:
        tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    assert "--" not in str(error.value)
    assert "local:/" in str(error.value)


def test_a_wrong_label_is_told_without_options(endpoint: Endpoint):
    trace_id = traced(1)
    says(trace_id, "perhaps")
    traces = fetched(trace_id, lesson(2))
    with pytest.raises(MlflowException, match=r"MemAlignOptimizer\(skip_invalid=True\)") as error:
        tone_judge().align(traces, MemAlignOptimizer())
    assert "--" not in str(error.value)
    assert endpoint.requests == []
    aligned = tone_judge().align(traces, MemAlignOptimizer(skip_invalid=True))
    assert len(aligned._episodic_memory) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", None])
def test_advice_on_servers_names_no_options(address: str | None):
    target = Target(provider="openai", model="m", base_url=address)
    for error in (ConnectionRefusedError(), ModelHTTPError(500, "m")):
        advice = failure_of(error, target).advice
        assert "--" in advice
        assert "--" not in in_mlflows_words(advice)
