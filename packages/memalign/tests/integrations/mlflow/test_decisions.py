"""Decision models as base judges: `model_api="decisions"`, TypeSafe's, and System One endpoints of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mlflow.genai.scorers import get_scorer

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from tests.support.decision_servers import openai_decisions, system_one
from tests.support.mlflow_world import fetched, labelled, lesson, tone_judge

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

CASE: dict[str, Any] = {"inputs": {"question": "question 7"}, "outputs": "answer 7"}


def takes_model_api() -> bool:
    try:
        tone_judge(model_api="decisions")
    except TypeError:
        return False
    return True


pytestmark = pytest.mark.skipif(not takes_model_api(), reason="this MLflow's judges have no model_api")


def unkind(_state: str, _question: str) -> dict[str, float]:
    return {"false": 0.9, "true": 0.1, "yes": 0.9, "no": 0.1}


def aligned(judge: Any, **settings: Any) -> MemAlignJudge:
    learned: MemAlignJudge = judge.align(fetched(lesson(1), labelled(2)), MemAlignOptimizer(**settings))
    assert [guideline.guideline_text for guideline in learned._semantic_memory] == ["case 1 is unkind"]
    return learned


def test_openais_decisions_are_a_base_and_guidelines_are_written_by_mlflows_default(endpoint: Endpoint):
    with openai_decisions(unkind) as decider:
        judge = tone_judge(model="openai:/luna", model_api="decisions", base_url=decider.base_url)
        learned = aligned(judge)
        assert {body["model"] for body in endpoint.requests} == {"gpt-4.1-mini"}
        verdict = learned(**CASE)
        assert (verdict.value, verdict.source.source_id) == (False, "openai:/luna")
        assert verdict.metadata["memalign.confidence"] > 0.5
        assert {body["model"] for body in decider.bodies} == {"luna"}
        learned.register()
        plain = get_scorer(name="tone")
        assert str(plain.model_api) == "decisions"
        assert plain.instructions == learned.instructions
        assert load("tone")(**CASE).value is False


@pytest.mark.parametrize("way", ["typesafe", "gateway"])
def test_system_one_models_keep_address_and_headers(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, way: str):
    with system_one(unkind) as decider:
        if way == "typesafe":
            headers = {"Authorization": "Bearer theirs"}
            judge = tone_judge(model="typesafe:/jev", base_url=decider.base_url, extra_headers=headers)
        else:
            monkeypatch.setenv("MLFLOW_GATEWAY_URI", decider.base_url.removesuffix("/v1"))
            judge = tone_judge(model="gateway:/jev", model_api="decisions")
        learned = aligned(judge, reflection_lm="openai:/large")
        assert learned(**CASE).value is False
    assert {body["model"] for body in endpoint.requests} == {"large"}
    assert {body["model"] for body in decider.bodies} == {"jev"}
    if way == "typesafe":
        assert {headers["authorization"] for headers in decider.headers} == {"Bearer theirs"}
    else:
        assert set(decider.paths) == {"/gateway/typesafe/v1/systemone"}
