"""A judge of conversations learns from what people said of whole sessions."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignJudge, load
from tests.support.endpoint import Endpoint, user_of
from tests.support.mlflow_world import fetched, rules_of, says, taught, traced

INSTRUCTIONS = "Was the customer treated kindly? {{ conversation }}"


def session(name: str, *numbers: int) -> list[str]:
    """A session of several questions and answers; the ids of its traces."""
    return [traced(number, session=name) for number in numbers]


def turns_of(judge: MemAlignJudge, case_id: str) -> Any:
    case = judge.memalign_judge.memory.case(case_id)
    assert case is not None
    return case.example.conversation


@pytest.fixture
def ids(experiment: str) -> list[str]:
    one = session("s-1", 1, 2)
    two = session("s-2", 3, 4)
    says(one[0], False, "say: case 2 is unkind")
    # On any trace of the session.
    says(two[1], False, "say: case 4 is unkind", by="ben")
    return [*one, *two]


@pytest.fixture
def aligned(endpoint: Endpoint, ids: list[str]) -> Any:
    return taught(*ids, instructions=INSTRUCTIONS)


def test_a_session_is_one_case_named_by_trace(aligned, ids, endpoint):
    assert aligned.is_session_level_scorer
    assert aligned._episodic_trace_ids == sorted([ids[0], ids[2]])
    turns = turns_of(aligned, ids[0])
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2
    assert turns[3]["content"] == "answer 2"
    assert len(rules_of(aligned)) == 2
    assert aligned(session=fetched(*ids[:2])).value is False
    assert aligned(session=fetched(*session("s-3", 8, 9))).value is True
    assert "answer 9" in user_of(endpoint.requests[-1])


def test_sessions_add_and_are_forgotten_by_their_traces(aligned, ids, endpoint, caplog):
    before = len(endpoint.requests)
    assert aligned.align(fetched(*ids)) is aligned
    assert len(endpoint.requests) == before
    new = session("s-3", 5, 6)
    says(new[0], False, "say: case 6 is unkind")
    more = aligned.align(fetched(*new))
    assert len(rules_of(more)) == 3
    forgot = more.unalign(traces=fetched(*ids[:2]))
    # Whether reports are captured too is for the logger's level, which other tests set.
    assert "WARNING" not in caplog.text
    assert forgot._episodic_trace_ids == sorted([ids[2], new[0]])
    assert sorted(rules_of(forgot)) == ["case 4 is unkind", "case 6 is unkind"]


@pytest.mark.usefixtures("endpoint")
def test_a_grown_session_is_one_case_as_it_is_now(ids):
    part = taught(ids[3], instructions=INSTRUCTIONS)
    again = part.align(fetched(*ids[2:], *session("s-2", 7)))
    assert again._episodic_trace_ids == [ids[3]]
    turns = turns_of(again, ids[3])
    assert "question 3" in turns[0]["content"]
    assert turns[-1]["content"] == "answer 7"
    assert len(again._episodic_memory) == 1


def test_a_session_scorer_comes_back_from_the_registry(aligned, ids):
    aligned.register()
    loaded = load("tone")
    left = loaded.unalign(fetched(ids[3]))
    assert left._episodic_trace_ids == [ids[0]], "any turn stands for its session"
    assert loaded.is_session_level_scorer
    assert loaded.memalign_judge == aligned.memalign_judge
    result = mlflow.genai.evaluate(data=fetched(*ids[:2]), scorers=[loaded])
    (verdict,) = result.result_df["tone/value"].dropna()
    assert str(verdict) in ("False", "0.0")
