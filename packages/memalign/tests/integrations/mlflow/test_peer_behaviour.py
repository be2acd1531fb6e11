"""What MLflow's own tests ask of an aligned judge, asked of ours, and of MLflow's where DSPy is installed.

docs/reference/mlflow-tests.md lists MLflow's tests, with the statement here or elsewhere that holds for each. MLflow's
own optimizer answers for its newest releases alone: those before 3.17 lack what the tests ask.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Feedback
from mlflow.exceptions import MlflowException
from mlflow.genai import scorers
from mlflow.genai.judges.base import AlignmentOptimizer
from mlflow.genai.scorers import Scorer

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from tests.support.endpoint import Endpoint, system_of, user_of
from tests.support.mlflow_world import (
    INSTRUCTIONS,
    Mind,
    as_mlflow_asks,
    fetched,
    lesson,
    mlflows_optimizer,
    says,
    tone_judge,
    traced,
)

LIST = Path(__file__).parents[5] / "docs" / "reference" / "mlflow-tests.md"
ABSENT = not find_spec("dspy") or tuple(map(int, mlflow.__version__.split(".")[:2])) < (
    3,
    17,
)
NEW: dict[str, Any] = {
    "inputs": {"question": "question 1 again"},
    "outputs": "answer 1",
}

Optimizer = Callable[..., "AlignmentOptimizer"]


@pytest.fixture(
    params=[
        "memalign",
        pytest.param(
            "MLflow",
            marks=pytest.mark.skipif(
                ABSENT, reason="there is no DSPy, or no MLflow 3.17 or newer"
            ),
        ),
    ]
)
def optimizer(
    request: pytest.FixtureRequest,
    endpoint: Endpoint,
    mind: Mind,
    monkeypatch: pytest.MonkeyPatch,
) -> Optimizer:
    """The class whose instances align judges: `optimizer(retrieval_k=3)`."""
    if request.param == "memalign":
        return MemAlignOptimizer
    mind.other = as_mlflow_asks
    monkeypatch.setenv("OPENAI_API_BASE", endpoint.base_url)
    theirs: Optimizer = mlflows_optimizer()
    return theirs


@pytest.fixture
def aligned(optimizer: Optimizer) -> Any:
    """A judge that learned from three traces."""
    return tone_judge().align(fetched(*map(lesson, (1, 2, 3))), optimizer())


def texts(judge: Any) -> set[str]:
    return {guideline.guideline_text for guideline in judge._semantic_memory}


def episodes(judge: Any) -> list[tuple[str, str, str]]:
    """The trace, label and comment of everything that people said."""
    return sorted(
        (case._trace_id, str(case.result).lower(), case.rationale or "")
        for case in judge._episodic_memory
    )


def traces_of(judge: Any) -> Counter[str]:
    """How many people's words are kept of each trace."""
    return Counter(trace_id for trace_id, _, _ in episodes(judge))


def unkind(*numbers: int) -> set[str]:
    return {f"case {number} is unkind" for number in numbers}


def loaded(optimizer: Optimizer) -> Any:
    """The registered judge with its memory, as either side loads it."""
    return (
        load("tone")
        if optimizer is MemAlignOptimizer
        else scorers.get_scorer(name="tone")
    )


def prompts(endpoint: Endpoint, words: str) -> list[str]:
    """The system texts of the judgments whose item has these words."""
    judged = [
        body
        for body in endpoint.requests
        if words in user_of(body).rpartition("Now judge this item:")[2]
    ]
    return [
        system_of(body) for body in judged if "source_trace_ids" not in user_of(body)
    ]


# -- learning --------------------------------------------------------------------------------------------------------


def test_an_aligned_judge_is_the_judge_with_guidelines(aligned, endpoint):
    base = tone_judge()
    assert (aligned.name, aligned.model, aligned.feedback_value_type) == (
        base.name,
        base.model,
        bool,
    )
    assert aligned.get_input_fields() == base.get_input_fields()
    assert texts(aligned) == unkind(1, 2, 3)
    assert len(traces_of(aligned)) == 3
    text, _, listed = aligned.instructions.partition("\n\nDistilled Guidelines (3):\n")
    assert text == base.instructions
    assert {line.removeprefix("  - ") for line in listed.splitlines()} == unkind(
        1, 2, 3
    )
    assert len(endpoint.requests) == 1
    behind = {
        guideline.guideline_text: list(guideline.source_trace_ids)
        for guideline in aligned._semantic_memory
    }
    said = {
        rationale.removeprefix("say: "): [trace_id]
        for trace_id, _, rationale in episodes(aligned)
    }
    assert behind == said


def test_learning_more_keeps_what_was_learned(optimizer, endpoint):
    before = (1, 2)
    more = (3, 4)
    ids = {number: lesson(number) for number in (*before, *more)}
    first = tone_judge().align(
        fetched(*(ids[number] for number in before)), optimizer()
    )
    says(again := traced(7), False, "say: case 1 is unkind")
    second = optimizer().align(first, fetched(*(ids[number] for number in more), again))
    assert texts(second) == unkind(*before, *more), (
        "words that are a guideline already add none"
    )
    assert set(second._episodic_trace_ids) == {*ids.values(), again}
    assert texts(first) == unkind(*before)
    second(**NEW)
    (prompt,) = prompts(endpoint, "question 1 again")
    assert [
        prompt.count(f"- {rule}\n") + prompt.count(f": {rule}\n")
        for rule in unkind(*before)
    ] == [1] * len(before)


def test_the_same_feedback_twice_or_again_costs_nothing(optimizer, endpoint):
    (trace,) = fetched(lesson(1))
    aligned = tone_judge().align([trace, trace], optimizer())
    assert (
        aligned._episodic_trace_ids == list(traces_of(aligned)) == [trace.info.trace_id]
    )
    assert optimizer().align(aligned, [trace]) is aligned
    assert len(endpoint.requests) == 1


def test_changed_feedback_replaces_beside_old_and_new(aligned, optimizer, endpoint):
    old, changed, absent = traces_of(aligned)
    asked = len(endpoint.requests)
    (assessment,) = fetched(changed)[0].info.assessments
    source = AssessmentSource(source_type="HUMAN", source_id="ana")
    edit = Feedback(
        name="tone", value=True, rationale="say: case 8 is unkind", source=source
    )
    mlflow.update_assessment(
        trace_id=changed, assessment_id=assessment.assessment_id, assessment=edit
    )
    more = optimizer().align(aligned, fetched(old, changed, new := lesson(4)))
    assert traces_of(more) == Counter((old, changed, absent, new))
    assert [case[1:] for case in episodes(more) if case[0] == changed] == [
        ("true", "say: case 8 is unkind")
    ]
    assert texts(more) >= unkind(4, 8)
    assert len(texts(more)) == 4
    assert len(endpoint.requests) > asked


def test_schemas_are_as_strict_as_providers_want_them(aligned, endpoint):
    aligned(**NEW)
    formats = [body["response_format"]["json_schema"] for body in endpoint.requests]
    assert len(formats) == 2
    assert formats[0]["strict"]
    for node in _nodes([one["schema"] for one in formats]):
        assert "$ref" not in node
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert set(node["required"]) == set(node["properties"])


# -- whose words count -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [None, {}, {"kind": "LLM_JUDGE"}, {"name": "safety"}])
def test_nothing_to_learn_from_is_refused_without_a_call(optimizer, endpoint, who):
    """No trace, no feedback, a model's, and feedback of another judge."""
    trace_id = traced(1)
    if who:
        says(trace_id, False, "say: nothing", **who)
    with pytest.raises(MlflowException) as error:
        tone_judge().align([] if who is None else fetched(trace_id), optimizer())
    assert endpoint.bodies == []
    assert (
        optimizer is not MemAlignOptimizer
        or error.value.error_code == "INVALID_PARAMETER_VALUE"
    )


@pytest.mark.parametrize(
    ("labels", "counts"),
    [
        ("pass pass fail", "pass"),
        ("fail pass fail", "fail"),
        ("pass fail", "fail"),
        ("pass fail fail pass", "pass"),
        ("pass fail maybe", "maybe"),
    ],
)
def test_of_several_people_the_majority_counts_and_in_a_tie_the_latest(
    optimizer, labels, counts
):
    trace_id = traced(1)
    for number, label in enumerate(labels.split()):
        says(trace_id, label, f"reason {number}", by=f"person {number}")
        time.sleep(0.002)  # MLflow's clock has milliseconds
    judge = tone_judge(feedback_value_type=Literal["pass", "fail", "maybe"])
    aligned = judge.align(fetched(trace_id), optimizer())
    if isinstance(
        aligned, MemAlignJudge
    ):  # the others' words are kept beside the label that counts
        memory = aligned.memalign_judge.memory
        assert memory.label(memory.cases[0]) == counts
        assert len(aligned._episodic_memory) == len(labels.split())
    else:
        assert {label for _, label, _ in episodes(aligned)} == {counts}


def test_all_who_agree_are_kept_and_models_are_not(optimizer):
    ids = [lesson(number) for number in (1, 2)]
    for person in ("ben", "eva"):
        says(ids[1], False, f"{person} too", by=person)
    says(ids[1], True, "a model's", kind="LLM_JUDGE")
    aligned = tone_judge().align(fetched(*ids), optimizer())
    assert traces_of(aligned) == Counter({ids[0]: 1, ids[1]: 3})
    assert {label for _, label, _ in episodes(aligned)} == {"false"}


def test_what_one_of_several_takes_back_is_forgotten(optimizer):
    trace_id = traced(1)
    words = {
        person: says(trace_id, False, f"say: {person} is right", by=person)
        for person in ("ana", "ben", "eva")
    }
    aligned = tone_judge().align(fetched(trace_id), optimizer())
    mlflow.delete_assessment(trace_id=trace_id, assessment_id=words["eva"])
    again = optimizer().align(aligned, fetched(trace_id))
    assert [rationale for _, _, rationale in episodes(again)] == [
        "say: ana is right",
        "say: ben is right",
    ]
    assert texts(again) == {"ana is right", "ben is right"}


def test_a_trace_whose_feedback_is_all_gone_stops_the_align(
    aligned, optimizer, endpoint
):
    before = episodes(aligned)
    asked = len(endpoint.bodies)
    for trace_id in traces_of(aligned):
        (assessment,) = fetched(trace_id)[0].info.assessments
        mlflow.delete_assessment(
            trace_id=trace_id, assessment_id=assessment.assessment_id
        )
        with pytest.raises(MlflowException, match="unalign"):
            optimizer().align(aligned, fetched(*traces_of(aligned), lesson(4)))
    assert (episodes(aligned), len(endpoint.bodies)) == (before, asked)


def test_a_judges_name_is_matched_whatever_its_case_and_spaces(optimizer):
    (trace,) = fetched(traced(1))
    trace.info.assessments = [
        Feedback(
            name=name,
            value=False,
            source=AssessmentSource(source_type="HUMAN", source_id=who),
        )
        for name, who in (("TONE", "ana"), ("  Tone ", "ben"))
    ]
    assert len(tone_judge().align([trace], optimizer())._episodic_memory) == 2


# -- judging -----------------------------------------------------------------------------------------------------------


def test_memory_reaches_the_prompt_and_not_the_base_judge(optimizer, endpoint):
    judge = tone_judge()
    before = judge.model_dump()
    aligned = judge.align(fetched(lesson(1)), optimizer())
    verdict = aligned(**NEW)
    assert (verdict.value, verdict.metadata["guideline"]) == (False, INSTRUCTIONS)
    properties = endpoint.requests[-1]["response_format"]["json_schema"]["schema"][
        "properties"
    ]
    assert [
        part["type"] for name, part in properties.items() if name in ("value", "result")
    ] == ["boolean"]
    (prompt,) = prompts(endpoint, "question 1 again")
    assert "case 1 is unkind" in prompt.replace("say: case 1 is unkind", "")
    assert "say: case 1 is unkind" in prompt or "say: case 1 is unkind" in user_of(
        endpoint.requests[-1]
    )
    aligned(trace=fetched(traced(7))[0])
    assert {"question 7", "answer 7"} <= set(
        re.findall(r"(?:question|answer) 7", user_of(endpoint.requests[-1]))
    )
    assert judge.model_dump() == before
    assert judge.instructions == INSTRUCTIONS


def test_rows_judged_at_once_are_shown_and_told_their_own_cases(optimizer, endpoint):
    ids = {f"say: case {number} is unkind": lesson(number) for number in (1, 2, 3, 4)}
    aligned = tone_judge().align(fetched(*ids.values()), optimizer(retrieval_k=2))

    def judged(number: int) -> list[str]:
        item = {
            "inputs": {"question": f"question {number} again"},
            "outputs": f"answer {number}",
        }
        return list(aligned(**item).metadata["retrieved_example_trace_ids"])

    with ThreadPoolExecutor(4) as pool:
        told = dict(zip(range(1, 5), pool.map(judged, range(1, 5)), strict=True))
    for number, named in told.items():
        (request,) = (
            body
            for body in endpoint.requests
            if f"question {number} again" in user_of(body)
        )
        shown = {
            trace_id
            for words, trace_id in ids.items()
            if words in str(request["messages"])
        }
        assert len(named) == 2
        assert set(named) == shown
        if (
            optimizer is MemAlignOptimizer
        ):  # the loopback's vectors, which MLflow searches by, are near nothing
            assert named[0] == ids[f"say: case {number} is unkind"]


def test_a_judge_of_traces_keeps_its_tools(optimizer, endpoint, mind):
    mind.other = lambda body: (
        {"result": False, "rationale": "a tool"}
        if body.get("tools")
        else as_mlflow_asks(body)
    )
    judge = tone_judge(
        instructions="Was a tool used? {{ trace }}",
        base_url=f"{endpoint.base_url}/chat/completions",
    )
    aligned = judge.align(
        fetched(trace_id := lesson(1)), optimizer(reflection_lm="openai:/large")
    )
    verdict = aligned(trace=fetched(traced(2))[0])
    assert (verdict.value, verdict.metadata["retrieved_example_trace_ids"]) == (
        False,
        [trace_id],
    )
    assert any(
        "span" in tool["function"]["name"] for tool in endpoint.requests[-1]["tools"]
    )
    assert (
        system_of(endpoint.requests[-1]).count("case 1 is unkind") == 2
    )  # the guideline, and the case's comment


# -- forgetting --------------------------------------------------------------------------------------------------------


def test_unalign_forgets_these_traces_and_no_others(aligned, caplog):
    first, second, third = traces_of(aligned)
    left = aligned.unalign(traces=fetched(first, third))
    assert traces_of(left) == Counter([second])
    assert [
        list(guideline.source_trace_ids) for guideline in left._semantic_memory
    ] == [[second]]
    assert len(texts(aligned)) == 3
    assert aligned.unalign(traces=fetched(stranger := traced(9))) is aligned
    assert isinstance(aligned, MemAlignJudge) == (
        f"never learned from {stranger}" in caplog.text
    )


def test_a_guideline_of_several_traces_outlives_one_of_them(optimizer):
    ids = [traced(1), traced(2)]
    for trace_id in ids:
        says(trace_id, False, "say: case 1 is unkind")
    aligned = tone_judge().align(fetched(*ids), optimizer())
    (guideline,) = aligned._semantic_memory
    assert set(guideline.source_trace_ids) == set(ids)
    assert texts(aligned.unalign(traces=fetched(ids[0]))) == unkind(1)


def test_everything_unaligned_can_be_learned_again(endpoint):
    """MLflow's own crashes here, in the search for similar cases."""
    traces = fetched(lesson(1), lesson(2))
    aligned = tone_judge().align(traces, MemAlignOptimizer())
    bare = aligned.unalign(traces=traces)
    assert (bare._episodic_memory, bare._episodic_trace_ids, bare.instructions) == (
        [],
        [],
        INSTRUCTIONS,
    )
    assert bare(**NEW).value is True
    again = MemAlignOptimizer().align(bare, traces)
    assert (episodes(again), texts(again)) == (episodes(aligned), texts(aligned))
    assert again(**NEW).value is False
    assert "case 1 is unkind" in prompts(endpoint, "question 1 again")[-1]


# -- the registry ------------------------------------------------------------------------------------------------------


def test_the_record_has_settings_guidelines_and_traces(optimizer):
    settings = {
        "reflection_lm": "openai:/large",
        "retrieval_k": 3,
        "embedding_model": "openai:/embed",
    }
    aligned = tone_judge().align(
        fetched(lesson(1), lesson(2)), optimizer(**settings, embedding_dim=32)
    )
    record = aligned.model_dump()
    memory = (
        record["memory_augmented_judge_data"]
        or record["instructions_judge_pydantic_data"]["memalign"]
    )
    stored = memory.get("settings", memory)
    assert {name: stored[name] for name in (*settings, "embedding_dim")} == settings | {
        "embedding_dim": 32
    }
    assert set(memory["episodic_trace_ids"]) == set(traces_of(aligned))
    assert {
        guideline["guideline_text"] for guideline in memory["semantic_memory"]
    } == texts(aligned)
    for read in (
        Scorer.model_validate(record),
        Scorer.model_validate_json(json.dumps(record)),
    ):
        assert (read.name, read.instructions) == ("tone", aligned.instructions)


def test_a_loaded_judge_judges_learns_on_and_forgets(aligned, optimizer, endpoint):
    aligned.register()
    asked = len(endpoint.bodies)
    judge = loaded(optimizer)
    assert (texts(judge), set(judge._episodic_trace_ids)) == (
        texts(aligned),
        set(traces_of(aligned)),
    )
    assert len(endpoint.bodies) == asked, "it asks nothing before it judges"
    verdict = judge(**NEW)
    assert verdict.value is False
    assert set(verdict.metadata["retrieved_example_trace_ids"]) == set(
        traces_of(aligned)
    )
    first, *others = traces_of(aligned)
    more = optimizer().align(loaded(optimizer), fetched(first, lesson(4), lesson(5)))
    assert len(traces_of(more)) == 5
    assert texts(more) == unkind(1, 2, 3, 4, 5)
    less = loaded(optimizer).unalign(traces=fetched(first))
    assert traces_of(less) == Counter(others)
    assert less(inputs={"question": "question 9"}, outputs="answer 9").value is True


# -- the list ----------------------------------------------------------------------------------------------------------


def test_every_line_of_the_list_names_tests_that_exist():
    page = LIST.read_text("utf-8")
    rows = re.findall(
        r"^\| `(test_\w+)` \| (held|differs) \| (.+) \|$", page, re.MULTILINE
    )
    states = Counter(state for _, state, _ in rows)
    assert (
        f"{len(rows)} tests: {states['held']} hold here, {states['differs']} differ"
        in page
    )
    assert len({name for name, _, _ in rows}) == len(rows)
    files = Path(__file__).parents[2].rglob("test_*.py")
    tests = "\n".join(path.read_text("utf-8") for path in files)
    for name, state, reason in rows:
        named = re.findall(r"`(test_\w+)`", reason)
        assert named or state == "differs", name
        for ours in named:
            assert f"def {ours}(" in tests, name


def _nodes(schema: Any) -> list[dict[str, Any]]:
    """Every object of a JSON Schema."""
    inner = (
        schema.values()
        if isinstance(schema, dict)
        else schema
        if isinstance(schema, list)
        else ()
    )
    return [
        *([schema] if isinstance(schema, dict) else []),
        *(node for part in inner for node in _nodes(part)),
    ]
