"""What an alignment costs is said before it asks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from mlflow.exceptions import MlflowException

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.mlflow_world import fetched, lesson, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

LOGGER = "memalign.integrations.mlflow.alignment_costs"


def test_an_estimate_asks_nothing_and_is_near(endpoint: Endpoint):
    optimizer = MemAlignOptimizer()
    traces = fetched(*(lesson(n) for n in range(6)))
    said = optimizer.estimate(tone_judge(), traces)
    assert endpoint.requests == []
    aligned = optimizer.align(tone_judge(), traces)
    assert aligned.alignment is not None
    spent = aligned.alignment.usage
    assert spent.calls == len(endpoint.requests)
    assert 0.5 < said.calls / spent.calls < 2
    assert said.input_tokens > 100


def test_an_align_says_its_cost_before_asking(endpoint: Endpoint, caplog: pytest.LogCaptureFixture):
    asked: list[int] = []

    def seen(_: logging.LogRecord) -> bool:
        asked.append(len(endpoint.requests))
        return True

    logger = logging.getLogger(LOGGER)
    logger.addFilter(seen)
    with caplog.at_level(logging.INFO, logger=LOGGER):
        aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    logger.removeFilter(seen)
    assert asked == [0]
    assert "memalign: aligning tone takes about 1 call, " in caplog.text
    assert "at an unknown price" in caplog.text  # at an address that is not the provider's
    with caplog.at_level(logging.INFO, logger=LOGGER):
        aligned.align(fetched(*aligned._episodic_trace_ids))
    assert caplog.text.count("takes about") == 1  # nothing new costs nothing


def test_a_watched_align_says_its_cost(endpoint: Endpoint, capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    assert "memalign: aligning tone takes about" in capsys.readouterr().err
    assert endpoint.requests


@pytest.mark.usefixtures("endpoint")
def test_an_estimate_refuses_what_an_align_refuses():
    with pytest.raises(MlflowException, match="no feedback named 'tone'"):
        MemAlignOptimizer().estimate(tone_judge(), fetched(traced(1)))
