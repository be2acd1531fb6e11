"""A judge of conversations learns from what people said of whole sessions."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from tests.support.endpoint import Endpoint, user_of
from tests.support.mlflow_world import fetched, says, tone_judge, traced

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
    says(
        two[1], False, "say: case 4 is unkind", by="ben"
    )  # on any trace of the session
    return [*one, *two]


@pytest.fixture
def aligned(endpoint: Endpoint, ids: list[str]) -> MemAlignJudge:
    return MemAlignOptimizer().align(
        tone_judge(instructions=INSTRUCTIONS), fetched(*ids)
    )


def test_a_session_is_one_case_named_by_trace(aligned, ids, endpoint):
    assert aligned.is_session_level_scorer
    assert aligned._episodic_trace_ids == sorted([ids[0], ids[2]])
    turns = turns_of(aligned, ids[0])
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2
    assert turns[3]["content"] == "answer 2"
    assert len(aligned._semantic_memory) == 2
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
    assert len(more._semantic_memory) == 3
    forgot = more.unalign(traces=fetched(*ids[:2]))
    # Whether reports are captured too is for the logger's level, which other tests set.
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert forgot._episodic_trace_ids == sorted([ids[2], new[0]])
    assert {guideline.guideline_text for guideline in forgot._semantic_memory} == {
        "case 4 is unkind",
        "case 6 is unkind",
    }


def test_a_grown_session_is_one_case_as_it_is_now(endpoint, ids):
    part = MemAlignOptimizer().align(
        tone_judge(instructions=INSTRUCTIONS), fetched(ids[3])
    )
    again = part.align(fetched(*ids[2:], *session("s-2", 7)))
    assert again._episodic_trace_ids == [ids[3]]
    turns = turns_of(again, ids[3])
    assert "question 3" in turns[0]["content"]
    assert turns[-1]["content"] == "answer 7"
    assert len(again._episodic_memory) == 1


def test_a_session_scorer_comes_back_from_the_registry(aligned, ids):
    aligned.register()
    loaded = load("tone")
    assert loaded.unalign(fetched(ids[3]))._episodic_trace_ids == [ids[0]], (
        "any turn stands for its session"
    )
    assert loaded.is_session_level_scorer
    assert loaded.memalign_judge == aligned.memalign_judge
    result = mlflow.genai.evaluate(data=fetched(*ids[:2]), scorers=[loaded])
    verdicts = [str(each) for each in result.result_df["tone/value"].dropna()]
    assert verdicts in (["False"], ["0.0"])
