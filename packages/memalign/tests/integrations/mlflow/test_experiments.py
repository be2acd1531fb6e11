"""An experiment's traces as cases: what is read, what is left, and what is said where there is nothing."""

from __future__ import annotations

import socket

import mlflow
import pytest

from memalign.errors import InputError
from memalign.integrations.mlflow.experiments import cases_of_experiment
from tests.support.mlflow_world import traced

FIELDS = ("inputs", "outputs")


def test_traces_of_an_experiment_are_cases(experiment: str, store: str):
    ids = [traced(n) for n in range(3)]
    with mlflow.start_span("nothing"):
        pass
    mlflow.set_trace_tag(ids[0], "kept", "yes")
    told: list[int] = []
    mlflow.set_tracking_uri("sqlite:///elsewhere.db")  # what the process has set does not count
    found = cases_of_experiment(
        experiment, FIELDS, tracking_uri=store, progress=lambda _phase, done, _total: told.append(done)
    )
    assert [each.id for each in found.examples] == ids[::-1]
    assert found.examples[2].inputs == {"question": "question 0"}
    assert found.examples[2].outputs == "answer 0"
    assert (found.skipped, found.more, told) == (1, False, [4])
    found = cases_of_experiment(experiment, FIELDS, tracking_uri=store, most=2)
    assert (len(found.examples), found.more) == (1, True)
    found = cases_of_experiment(experiment, FIELDS, tracking_uri=store, filter_string="tag.kept = 'yes'")
    assert [example.id for example in found.examples] == ids[:1]


def test_a_session_is_one_case(experiment: str, store: str):
    first = traced(1, session="s-1")
    traced(2, session="s-1")
    (case,) = cases_of_experiment(experiment, ("conversation",), tracking_uri=store).examples
    assert case.id == first
    assert "question 2" in str(case.conversation)


def test_what_is_not_there_is_named(experiment: str, store: str):
    with pytest.raises(InputError, match="no experiment 'nowhere'"):
        cases_of_experiment("nowhere", FIELDS, tracking_uri=store)
    with pytest.raises(InputError, match="MLflow cannot give"):
        cases_of_experiment(experiment, FIELDS, tracking_uri=store, filter_string="not a filter")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(InputError, match=r"no MLflow answers at 127\.0\.0\.1"):
            cases_of_experiment("any", FIELDS, tracking_uri=address)
