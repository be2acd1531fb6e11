"""Which of MLflow's judges can be aligned, with what of theirs, and how the others are refused."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le
from mlflow.exceptions import MlflowException
from mlflow.genai.scorers import (
    ConversationCompleteness,
    Correctness,
    Guidelines,
    RelevanceToQuery,
    RetrievalGroundedness,
    Safety,
    Scorer,
    get_scorer,
    scorer,
)

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from memalign.integrations.mlflow.base_judges import (
    base_of,
    core_label,
    core_of,
    value_type_of,
)
from memalign.integrations.mlflow.verdicts import metadata_of
from memalign.memory import Memory
from memalign.types import Guideline
from tests.support.decision_servers import openai_decisions, system_one
from tests.support.endpoint import Body, Endpoint, system_of
from tests.support.mlflow_world import (
    fetched,
    item,
    labelled,
    lesson,
    refused,
    rules_of,
    says,
    taught,
    tone_judge,
    traced,
)


def verdict_of(value: Any) -> Any:
    """A model that learns nothing, and judges everything so."""
    return lambda body: (
        {"rationale": "so", "value": value}
        if "judgment" in str(body["response_format"])
        else {"changes": []}
    )


# -- value types -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (bool, "bool"),
        (str, "str"),
        (Literal["yes", "no"], "yes|no"),
        (Literal[True, False], "bool"),
        (Literal[1, 2, 3, 4, 5], "int:1..5"),
        (Literal[1, 3, 9], "1|3|9"),
        (Literal[0.0, 0.5], "0.0|0.5"),
        (Annotated[int, Ge(1), Le(5)], "int:1..5"),
        (int, "int:-1000000000..1000000000"),
        (float, "float:-1000000000..1000000000"),
        (list[str], None),
        (dict[str, bool], None),
        (int | None, None),
    ],
)
def test_a_value_type_of_mlflow_becomes_ours_or_is_refused(theirs, ours):
    if ours:
        assert value_type_of(theirs).spec == ours
        return
    with refused("cannot be aligned"):
        value_type_of(theirs)


@pytest.mark.parametrize(
    ("spec", "shown"), [("int:1..5", "from 1 to 5"), (None, "a whole number")]
)
def test_a_prompt_names_only_bounds_that_somebody_gave(
    endpoint: Endpoint, spec: str | None, shown: str
):
    endpoint.answer = verdict_of(4)
    says(trace_id := traced(1), 2, "two points")
    (trace,) = fetched(trace_id)
    judge = tone_judge(feedback_value_type=int)
    aligned = judge.align([trace], MemAlignOptimizer(value_type=spec))
    assert aligned(trace=trace).value == 2, "what people said of this very trace"
    assert aligned(**item(2)).value == 4
    assert shown in system_of(endpoint.requests[-1])
    assert "1000000000" not in str(endpoint.requests[-1])
    says(other := traced(3), 7)
    if spec is not None:
        with pytest.raises(MlflowException, match="a whole number from 1 to 5"):
            judge.align(fetched(other), MemAlignOptimizer(value_type=spec))


def test_a_judge_of_traces_keeps_to_what_experts_said_of_a_trace(endpoint: Endpoint):
    trace_id = lesson(1)
    aligned = taught(trace_id, instructions="Was a tool used? {{ trace }}")
    before = len(endpoint.requests)
    # An assessment is not part of the trace.
    says(trace_id, True, by="gpt", kind="LLM_JUDGE")
    verdict = aligned(trace=fetched(trace_id)[0])
    assert (verdict.value, verdict.metadata["memalign.decided_by"]) == (False, "expert")
    assert len(endpoint.requests) == before


def test_numbered_choices_are_asked_and_answered_as_choices(endpoint: Endpoint):
    endpoint.answer = verdict_of("3")
    says(trace_id := traced(1), 9, "nine of nine")
    aligned = taught(trace_id, feedback_value_type=Literal[1, 3, 9])
    assert aligned(trace=fetched(trace_id)[0]).value == 9
    assert aligned(**item(2)).value == 3
    label = core_label(aligned.memalign_judge.value_type, 3.0)
    assert label == "3", "as a tracking server sends it"


# -- models ------------------------------------------------------------------------


def test_inference_parameters_address_and_headers_are_always_used(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    params = {"temperature": 0.3, "top_p": 0.5, "max_tokens": 77, "house_rule": 1}
    with Endpoint(verdict_of(True)) as server:
        aligned = taught(
            lesson(1),
            labelled(2),
            base_url=server.base_url,
            extra_headers={"X-Team": "support"},
            inference_params=params,
        )
        aligned(**item(3))
        aligned.unalign(aligned._episodic_trace_ids)(**item(3))
    assert len(server.requests) == 3
    for body in server.requests[1:]:
        assert body.items() >= params.items()
    for headers in server.headers:
        assert headers["x-team"] == "support"


def test_an_embedding_model_embeds_known_cases_once(endpoint: Endpoint):
    optimizer = MemAlignOptimizer(embedding_model="openai:/embed", embedding_dim=32)
    aligned = tone_judge().align(fetched(lesson(1)), optimizer)
    aligned.align(fetched(lesson(2)))
    for body in endpoint.embedding_requests:
        assert body["dimensions"] == 32
    embedded = str(endpoint.embedding_requests)
    assert embedded.count("answer 1") == 1
    assert "unkind" not in embedded


# -- decision models: `model_api="decisions"`, TypeSafe's, System One of a gateway -----


def takes_model_api() -> bool:
    try:
        tone_judge(model_api="decisions")
    except TypeError:
        return False
    return True


deciding = pytest.mark.skipif(
    not takes_model_api(), reason="this MLflow's judges have no model_api"
)


def unkind(_state: str, question: str) -> float | dict[str, float]:
    if "against this guideline" in question:
        return 0.1
    return {"false": 0.9, "true": 0.1, "yes": 0.9, "no": 0.1}


def learned_by(judge: Any, **settings: Any) -> MemAlignJudge:
    learned: MemAlignJudge = judge.align(
        fetched(lesson(1), labelled(2)), MemAlignOptimizer(**settings)
    )
    assert rules_of(learned) == ["case 1 is unkind"]
    return learned


def models_asked(bodies: list[Body]) -> set[str]:
    return {body["model"] for body in bodies}


@deciding
def test_openais_decisions_are_a_base_and_guidelines_are_written_by_mlflows_default(
    endpoint: Endpoint,
):
    with openai_decisions(unkind) as decider:
        judge = tone_judge(
            model="openai:/luna", model_api="decisions", base_url=decider.base_url
        )
        learned = learned_by(judge)
        assert models_asked(endpoint.requests) == {"gpt-4.1-mini"}
        verdict = learned(**item(7))
        assert (verdict.value, verdict.source.source_id) == (False, "openai:/luna")
        assert verdict.metadata["memalign.confidence"] > 0.5
        assert models_asked(decider.bodies) == {"luna"}
        learned.register()
        plain = get_scorer(name="tone")
        assert str(plain.model_api) == "decisions"
        assert plain.instructions == learned.instructions
        assert load("tone")(**item(7)).value is False


@deciding
@pytest.mark.parametrize("way", ["typesafe", "gateway"])
def test_system_one_models_keep_address_and_headers(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, way: str
):
    with system_one(unkind) as decider:
        if way == "typesafe":
            headers = {"Authorization": "Bearer theirs"}
            judge = tone_judge(
                model="typesafe:/jev", base_url=decider.base_url, extra_headers=headers
            )
        else:
            monkeypatch.setenv(
                "MLFLOW_GATEWAY_URI", decider.base_url.removesuffix("/v1")
            )
            judge = tone_judge(model="gateway:/jev", model_api="decisions")
        learned = learned_by(judge, reflection_lm="openai:/large")
        assert learned(**item(7)).value is False
    assert models_asked(endpoint.requests) == {"large"}
    assert models_asked(decider.bodies) == {"jev"}
    if way == "gateway":
        assert set(decider.paths) == {"/gateway/typesafe/v1/systemone"}
        return
    for asked in decider.headers:
        assert asked["authorization"] == "Bearer theirs"


# -- other judges ------------------------------------------------------------------


def _custom() -> Any:
    @scorer
    def length(outputs: Any) -> bool:
        return len(str(outputs)) > 3

    return length


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize(
    ("built_in", "fields"),
    [
        (RelevanceToQuery, {"inputs", "outputs"}),
        (Correctness, {"inputs", "outputs", "expectations"}),
        (Safety, {"outputs"}),
        (ConversationCompleteness, {"conversation"}),
    ],
)
def test_a_built_in_judge_is_aligned_by_its_instructions(built_in, fields):
    theirs = built_in(model="openai:/small")
    base = base_of(theirs)
    named = {field.name for field in base.get_input_fields()}
    assert named >= fields - {"conversation"}
    assert (base.name, base.model) == (theirs.name, "openai:/small")
    assert set(core_of(base, value_type_of(base.feedback_value_type)).fields) == fields


def test_guidelines_of_a_built_in_judge_name_no_field():
    rules = ["Be kind.", "Say {{ please }}"]
    base = base_of(Guidelines(name="kind", guidelines=rules, model="openai:/small"))
    assert "- Be kind.\n- Say { { please } }" in base.instructions


def grounded() -> Any:
    return RetrievalGroundedness(model="openai:/small")


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (grounded, "RetrievalGroundedness cannot be aligned"),
        (_custom, "cannot be aligned: it does not judge by instructions alone"),
        (lambda: "tone", "str cannot be aligned"),
    ],
)
def test_an_unalignable_judge_is_refused_with_reason(
    endpoint: Endpoint, judge, message
):
    with refused(message):
        MemAlignOptimizer().align(judge(), fetched(lesson(1)))
    assert endpoint.requests == []


# -- an aligned judge as MLflow's other code handles it ----------------------------


def test_a_copy_judges_learns_and_forgets_too(endpoint):
    # A model with connections of its own cannot be copied.
    params = {"temperature": 0.2, "timeout": 20}
    settings = {"base_url": endpoint.base_url, "inference_params": params}
    aligned = taught(lesson(1), lesson(2), **settings)
    first, second = aligned._episodic_trace_ids
    for other in (
        copy.copy(aligned),
        copy.deepcopy(aligned),
        aligned.model_copy(),
        aligned.model_copy(deep=True),
        aligned.register() and load("tone"),
    ):
        assert other is not aligned
        assert (other.name, other.instructions) == (aligned.name, aligned.instructions)
        assert other.memalign_judge.memory == aligned.memalign_judge.memory
        assert other(**item(1)).value is False
        assert other.align(fetched(first, second)) is other
        assert len(rules_of(other.unalign([first]))) == 1
        assert len(rules_of(aligned)) == 2


def test_mlflow_cannot_ask_a_model_in_this_process_and_nothing_is_patched():
    from mlflow.genai.judges.adapters import utils

    with pytest.raises(MlflowException):
        tone_judge(model="local:/qwen2.5-coder-0.5b")(inputs="q", outputs="a")
    assert utils.get_adapter.__module__ == "mlflow.genai.judges.adapters.utils"
    assert Scorer.model_validate.__func__.__module__ == "mlflow.genai.scorers.base"


def test_a_verdict_looks_up_only_the_guidelines_that_applied(monkeypatch):
    """With a thousand guidelines, looking all of them up took a quarter of a second each time."""
    looked_up: list[str] = []
    sources_of = Memory.sources_of

    def counted(memory: Memory, rule: Guideline) -> Any:
        looked_up.append(rule.id)
        return sources_of(memory, rule)

    monkeypatch.setattr(Memory, "sources_of", counted)
    rules = [Guideline(id=f"G{n}", text=f"Never promise day {n}.") for n in range(9)]
    memory = Memory().with_guidelines(rules)
    metadata = metadata_of(memory, ["G3", "G7"], [])
    assert looked_up == ["G3", "G7"]
    assert len(metadata["memalign.guidelines"]) == 2
