"""What MLflow's own tests ask of an aligned judge, of ours, and of MLflow's where DSPy is.

docs/reference/mlflow-tests.md lists MLflow's tests, with the statement here or elsewhere that
holds for each. MLflow's own optimizer answers for its newest releases alone: those before 3.17
lack what the tests ask.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
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
from tests.support.endpoint import Body, Endpoint, system_of, user_of
from tests.support.mlflow_world import (
    INSTRUCTIONS,
    Mind,
    as_mlflow_asks,
    fetched,
    item,
    lesson,
    mlflows_optimizer,
    rules_of,
    says,
    tone_judge,
    traced,
)

LIST = Path(__file__).parents[5] / "docs" / "reference" / "mlflow-tests.md"
MLFLOW = tuple(map(int, mlflow.__version__.split(".")[:2]))
ABSENT = not find_spec("dspy") or MLFLOW < (3, 17)
NEW = item(1)
NEW_QUESTION = NEW["inputs"]["question"]

Optimizer = Callable[..., "AlignmentOptimizer"]
needs_theirs = pytest.mark.skipif(
    ABSENT, reason="there is no DSPy, or no MLflow 3.17 or newer"
)


@pytest.fixture(params=["memalign", pytest.param("MLflow", marks=needs_theirs)])
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
    return set(rules_of(judge))


def episodes(judge: Any) -> list[tuple[str, str, str]]:
    """The trace, label and comment of everything that people said."""
    said = []
    for case in judge._episodic_memory:
        said.append((case._trace_id, str(case.result).lower(), case.rationale or ""))
    return sorted(said)


def traces_of(judge: Any) -> Counter[str]:
    """How many people's words are kept of each trace."""
    return Counter(case._trace_id for case in judge._episodic_memory)


def labels_of(judge: Any) -> set[str]:
    return {label for _, label, _ in episodes(judge)}


def unkind(*numbers: int) -> set[str]:
    return {f"case {number} is unkind" for number in numbers}


def loaded(optimizer: Optimizer) -> Any:
    """The registered judge with its memory, as either side loads it."""
    if optimizer is MemAlignOptimizer:
        return load("tone")
    return scorers.get_scorer(name="tone")


def prompts(endpoint: Endpoint) -> list[str]:
    """The system texts of the judgments on `NEW`."""
    found = []
    for body in endpoint.requests:
        user = user_of(body)
        asked = user.rpartition("Now judge this item:")[2]
        if NEW_QUESTION in asked and "source_trace_ids" not in user:
            found.append(system_of(body))
    return found


# -- learning ----------------------------------------------------------------------


def test_an_aligned_judge_is_the_judge_with_guidelines(aligned, endpoint):
    base = tone_judge()
    for field in ("name", "model", "feedback_value_type"):
        assert getattr(aligned, field) == getattr(base, field)
    assert aligned.get_input_fields() == base.get_input_fields()
    assert texts(aligned) == unkind(1, 2, 3)
    assert len(traces_of(aligned)) == 3
    text, _, listed = aligned.instructions.partition("\n\nDistilled Guidelines (3):\n")
    assert text == base.instructions
    assert set(re.findall("^  - (.*)$", listed, re.MULTILINE)) == unkind(1, 2, 3)
    assert len(endpoint.requests) == 1
    said = {rationale: trace_id for trace_id, _, rationale in episodes(aligned)}
    for guideline in aligned._semantic_memory:
        behind = said[f"say: {guideline.guideline_text}"]
        assert list(guideline.source_trace_ids) == [behind]


def test_learning_more_keeps_what_was_learned(optimizer, endpoint):
    before = [lesson(1), lesson(2)]
    more = [lesson(3), lesson(4)]
    first = tone_judge().align(fetched(*before), optimizer())
    says(again := traced(7), False, "say: case 1 is unkind")
    second = optimizer().align(first, fetched(*more, again))
    # Words that are a guideline already add none.
    assert texts(second) == unkind(1, 2, 3, 4)
    assert set(second._episodic_trace_ids) == {*before, *more, again}
    assert texts(first) == unkind(1, 2)
    second(**NEW)
    (prompt,) = prompts(endpoint)
    for rule in unkind(1, 2):
        assert len(re.findall(f"[-:] {rule}\n", prompt)) == 1


def test_the_same_feedback_twice_or_again_costs_nothing(optimizer, endpoint):
    trace_id = lesson(1)
    (trace,) = fetched(trace_id)
    aligned = tone_judge().align([trace, trace], optimizer())
    assert aligned._episodic_trace_ids == list(traces_of(aligned)) == [trace_id]
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
    assert (changed, "true", "say: case 8 is unkind") in episodes(more)
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


# -- whose words count -------------------------------------------------------------


@pytest.mark.parametrize("who", [None, {}, {"kind": "LLM_JUDGE"}, {"name": "safety"}])
def test_nothing_to_learn_from_is_refused_without_a_call(optimizer, endpoint, who):
    """No trace, no feedback, a model's, and feedback of another judge."""
    trace_id = traced(1)
    if who:
        says(trace_id, False, "say: nothing", **who)
    with pytest.raises(MlflowException) as error:
        tone_judge().align([] if who is None else fetched(trace_id), optimizer())
    assert endpoint.bodies == []
    if optimizer is MemAlignOptimizer:
        assert error.value.error_code == "INVALID_PARAMETER_VALUE"


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
    if isinstance(aligned, MemAlignJudge):
        # The others' words are kept beside the label that counts.
        memory = aligned.memalign_judge.memory
        assert memory.label(memory.cases[0]) == counts
        assert len(aligned._episodic_memory) == len(labels.split())
    else:
        assert labels_of(aligned) == {counts}


def test_all_who_agree_are_kept_and_models_are_not(optimizer):
    one = lesson(1)
    two = lesson(2)
    for person in ("ben", "eva"):
        says(two, False, f"{person} too", by=person)
    says(two, True, "a model's", kind="LLM_JUDGE")
    aligned = tone_judge().align(fetched(one, two), optimizer())
    assert traces_of(aligned) == Counter({one: 1, two: 3})
    assert labels_of(aligned) == {"false"}


def test_what_one_of_several_takes_back_is_forgotten(optimizer):
    trace_id = traced(1)
    says(trace_id, False, "say: ana is right", by="ana")
    says(trace_id, False, "say: ben is right", by="ben")
    last = says(trace_id, False, "say: eva is right", by="eva")
    aligned = tone_judge().align(fetched(trace_id), optimizer())
    mlflow.delete_assessment(trace_id=trace_id, assessment_id=last)
    again = optimizer().align(aligned, fetched(trace_id))
    assert episodes(again) == [
        (trace_id, "false", "say: ana is right"),
        (trace_id, "false", "say: ben is right"),
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
    trace.info.assessments = []
    for name, who in (("TONE", "ana"), ("  Tone ", "ben")):
        source = AssessmentSource(source_type="HUMAN", source_id=who)
        said = Feedback(name=name, value=False, source=source)
        trace.info.assessments.append(said)
    assert len(tone_judge().align([trace], optimizer())._episodic_memory) == 2


# -- judging -----------------------------------------------------------------------


def test_memory_reaches_the_prompt_and_not_the_base_judge(optimizer, endpoint):
    judge = tone_judge()
    before = judge.model_dump()
    aligned = judge.align(fetched(lesson(1)), optimizer())
    verdict = aligned(**NEW)
    assert (verdict.value, verdict.metadata["guideline"]) == (False, INSTRUCTIONS)
    asked = endpoint.requests[-1]
    properties = asked["response_format"]["json_schema"]["schema"]["properties"]
    value = properties["value" if "value" in properties else "result"]
    assert value["type"] == "boolean"
    (prompt,) = prompts(endpoint)
    assert "case 1 is unkind" in prompt.replace("say: case 1 is unkind", "")
    assert "say: case 1 is unkind" in prompt + user_of(asked)
    aligned(trace=fetched(traced(7))[0])
    shown = user_of(endpoint.requests[-1])
    assert "question 7" in shown
    assert "answer 7" in shown
    assert judge.model_dump() == before
    assert judge.instructions == INSTRUCTIONS


def test_rows_judged_at_once_are_shown_and_told_their_own_cases(optimizer, endpoint):
    numbers = (1, 2, 3, 4)
    ids = {f"say: case {number} is unkind": lesson(number) for number in numbers}
    aligned = tone_judge().align(fetched(*ids.values()), optimizer(retrieval_k=2))
    asked = len(endpoint.requests)
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda number: aligned(**item(number)), numbers))
    shown = {}
    for body in endpoint.requests[asked:]:
        (number,) = re.findall(r"question (\d), as of today", user_of(body))
        text = str(body["messages"])
        shown[int(number)] = {ids[words] for words in ids if words in text}
    for number, verdict in zip(numbers, verdicts, strict=True):
        named = verdict.metadata["retrieved_example_trace_ids"]
        assert len(named) == 2
        assert set(named) == shown[number]
        # The loopback's vectors, which MLflow searches by, are near nothing.
        if optimizer is MemAlignOptimizer:
            assert named[0] == ids[f"say: case {number} is unkind"]


def test_a_judge_of_traces_keeps_its_tools(optimizer, endpoint, mind):
    def other(body: Body) -> dict[str, Any]:
        if body.get("tools"):
            return {"result": False, "rationale": "a tool"}
        return as_mlflow_asks(body)

    mind.other = other
    judge = tone_judge(
        instructions="Was a tool used? {{ trace }}",
        base_url=f"{endpoint.base_url}/chat/completions",
    )
    trace_id = lesson(1)
    aligned = judge.align(fetched(trace_id), optimizer(reflection_lm="openai:/large"))
    verdict = aligned(trace=fetched(traced(2))[0])
    assert verdict.value is False
    assert verdict.metadata["retrieved_example_trace_ids"] == [trace_id]
    asked = endpoint.requests[-1]
    assert "span" in str(asked["tools"])
    # The guideline, and the case's comment.
    assert system_of(asked).count("case 1 is unkind") == 2


# -- forgetting --------------------------------------------------------------------


def test_unalign_forgets_these_traces_and_no_others(aligned, caplog):
    first, second, third = traces_of(aligned)
    left = aligned.unalign(traces=fetched(first, third))
    assert traces_of(left) == Counter([second])
    (guideline,) = left._semantic_memory
    assert list(guideline.source_trace_ids) == [second]
    assert len(texts(aligned)) == 3
    stranger = traced(9)
    assert aligned.unalign(traces=fetched(stranger)) is aligned
    warned = f"never learned from {stranger}" in caplog.text
    assert warned == isinstance(aligned, MemAlignJudge)


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
    assert bare._episodic_memory == bare._episodic_trace_ids == []
    assert bare.instructions == INSTRUCTIONS
    assert bare(**NEW).value is True
    again = MemAlignOptimizer().align(bare, traces)
    assert (episodes(again), texts(again)) == (episodes(aligned), texts(aligned))
    assert again(**NEW).value is False
    assert "case 1 is unkind" in prompts(endpoint)[-1]


# -- the registry ------------------------------------------------------------------


def test_the_record_has_settings_guidelines_and_traces(optimizer):
    settings = {
        "reflection_lm": "openai:/large",
        "retrieval_k": 3,
        "embedding_model": "openai:/embed",
        "embedding_dim": 32,
    }
    traces = fetched(lesson(1), lesson(2))
    aligned = tone_judge().align(traces, optimizer(**settings))
    record = aligned.model_dump()
    ours = record["instructions_judge_pydantic_data"] or {}
    memory = record["memory_augmented_judge_data"] or ours["memalign"]
    stored = memory.get("settings", memory)
    assert stored.items() >= settings.items()
    assert set(memory["episodic_trace_ids"]) == set(traces_of(aligned))
    rules = [guideline["guideline_text"] for guideline in memory["semantic_memory"]]
    assert set(rules) == texts(aligned)
    for read in (
        Scorer.model_validate(record),
        Scorer.model_validate_json(json.dumps(record)),
    ):
        assert (read.name, read.instructions) == ("tone", aligned.instructions)


def test_a_loaded_judge_judges_learns_on_and_forgets(aligned, optimizer, endpoint):
    aligned.register()
    asked = len(endpoint.bodies)
    judge = loaded(optimizer)
    first, *others = traces_of(aligned)
    assert texts(judge) == texts(aligned)
    assert set(judge._episodic_trace_ids) == {first, *others}
    assert len(endpoint.bodies) == asked, "it asks nothing before it judges"
    verdict = judge(**NEW)
    assert verdict.value is False
    shown = verdict.metadata["retrieved_example_trace_ids"]
    assert set(shown) == {first, *others}
    more = optimizer().align(loaded(optimizer), fetched(first, lesson(4), lesson(5)))
    assert len(traces_of(more)) == 5
    assert texts(more) == unkind(1, 2, 3, 4, 5)
    less = loaded(optimizer).unalign(traces=fetched(first))
    assert traces_of(less) == Counter(others)
    assert less(**item(9)).value is True


# -- the list ----------------------------------------------------------------------


def test_every_line_of_the_list_names_tests_that_exist():
    page = LIST.read_text("utf-8")
    rows = re.findall(
        r"^\| `(test_\w+)` \| (held|differs) \| (.+) \|$", page, re.MULTILINE
    )
    names = [name for name, _, _ in rows]
    assert len(set(names)) == len(names)
    states = Counter(state for _, state, _ in rows)
    figures = f"{states['held']} hold here, {states['differs']} differ"
    assert f"{len(rows)} tests: {figures}" in page
    files = Path(__file__).parents[2].rglob("test_*.py")
    tests = "\n".join(path.read_text("utf-8") for path in files)
    for name, state, reason in rows:
        named = re.findall(r"`(test_\w+)`", reason)
        assert named or state == "differs", name
        for ours in named:
            assert f"def {ours}(" in tests, name


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON Schema."""
    if isinstance(schema, list):
        for part in schema:
            yield from _nodes(part)
    elif isinstance(schema, dict):
        yield schema
        yield from _nodes([*schema.values()])
