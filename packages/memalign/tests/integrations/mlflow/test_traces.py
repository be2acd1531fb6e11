"""Which assessments are feedback, what of a trace a judge reads, an experiment as cases.

And we leave no traces of our own.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import mlflow
import pytest
from mlflow.entities import AssessmentSource

import memalign as ma
from memalign.errors import InputError
from memalign.integrations.mlflow import MemAlignOptimizer, feedback_of
from memalign.integrations.mlflow.assessments import read_feedback
from memalign.integrations.mlflow.experiments import cases_of_experiment
from memalign.integrations.mlflow.traces import content_of, without_verdicts
from tests.support.mlflow_world import (
    fetched,
    item,
    labelled,
    lesson,
    refused,
    says,
    taught,
    tone_judge,
    traced,
)

TRACE_JUDGE = "Was a tool used? {{ trace }}"
JUDGE = ma.Judge(
    name="tone",
    instructions="{{ inputs }} {{ outputs }}",
    feedback_value_type=str,
    model="openai:m",
)


def said(*ids: str) -> list[tuple[str, object, str | None]]:
    rows = read_feedback(fetched(*ids), "tone", JUDGE).rows
    return [(row.source, row.value, row.rationale) for row in rows]


def override(
    trace_id: str, given: str, value: object, *, by: str = "ana", kind: str = "HUMAN"
) -> str:
    source = AssessmentSource(source_type=kind, source_id=by)
    made = mlflow.override_feedback(
        trace_id=trace_id, assessment_id=given, value=value, source=source
    )
    return str(made.assessment_id)


def test_the_last_override_in_a_chain_counts():
    trace_id = traced(1)
    first = says(trace_id, True, by="gpt", kind="LLM_JUDGE")
    second = override(trace_id, first, False, by="ana")
    third = override(trace_id, second, True, by="ben")
    assert said(trace_id) == [("ben", True, None)]
    override(trace_id, third, False, by="gpt", kind="LLM_JUDGE")
    assert said(trace_id) == [], "whom a program overrides said nothing"


def test_people_behind_one_placeholder_are_told_apart():
    trace_id = traced(1)
    cold = says(trace_id, False, "cold", by="User")
    warm = says(trace_id, False, "warm", by="default")
    short = says(trace_id, False, "short", by="User")
    edited = override(trace_id, short, True, by="User")
    edited_again = override(trace_id, edited, False, by="User")
    assert set(said(trace_id)) == {
        (f"unknown:{cold}", False, "cold"),
        (f"unknown:{warm}", False, "warm"),
        (f"unknown:{edited_again}", False, None),
    }


def test_a_person_in_two_spellings_says_the_latest_of_both():
    trace_id = traced(1)
    for who, word in (("Ana@example.org", "cold"), ("ana@example.org ", "warm")):
        says(trace_id, False, word, by=who)
    assert said(trace_id) == [("Ana@example.org", False, "warm")]


def test_what_people_say_of_a_crashed_application_is_feedback():
    with contextlib.suppress(RuntimeError), mlflow.start_span("reply") as span:
        span.set_inputs({"question": "question 1"})
        raise RuntimeError("no stock")
    says(span.trace_id, False, "It crashed.")
    (row,) = read_feedback(fetched(span.trace_id), "tone", JUDGE).rows
    assert row.content == {
        "inputs": {"question": "question 1"},
        "outputs": "(the application gave no outputs)",
    }


@pytest.mark.usefixtures("endpoint")
def test_a_trace_lacking_a_field_or_spans_is_skipped():
    with mlflow.start_span("bare") as span:
        pass
    says(span.trace_id, True)
    found = read_feedback(fetched(span.trace_id), "tone", JUDGE)
    reason = "the judge's instructions name {{ inputs }}, and the trace has none"
    assert found.skipped == {span.trace_id: reason}
    whole = labelled(1)
    bare = mlflow.search_traces(return_type="list", include_spans=False)
    found = read_feedback(bare, "tone", JUDGE)
    assert set(found.skipped) == {span.trace_id, whole}
    assert found.content == {}, "and takes nothing back"
    reason = r"2 of 2: .* came without its spans; search_traces\(include_spans=True\)"
    with refused(reason):
        tone_judge().align(bare, MemAlignOptimizer())


@pytest.mark.usefixtures("endpoint")
def test_a_trace_whose_application_logged_no_inputs_teaches():
    with mlflow.start_span("reply") as span:
        span.set_outputs("answer 1")
    says(span.trace_id, False, "say: case 1 is unkind")
    (trace,) = fetched(span.trace_id)
    aligned = tone_judge().align([trace], MemAlignOptimizer())
    (case,) = aligned.memalign_judge.memory.cases
    assert case.example.inputs == "(the application logged no inputs)"
    assert aligned(trace=trace).metadata["memalign.decided_by"] == "expert"


PIXELS = "data:image/png;base64,iVBORw0KGgo="
ATTACHED = "mlflow-attachment://9b1c?content_type=image%2Fpng&trace_id=tr-1&size=5"


@pytest.mark.parametrize(
    "held",
    [
        ATTACHED,
        PIXELS,
        "mlflow-attachment://9b1c?trace_id=tr-1&content_type=application%2Fpdf",
    ],
)
def test_a_picture_or_a_file_costs_its_own_trace(endpoint, caplog, held: str):
    with mlflow.start_span("reply") as span:
        span.set_inputs({"question": "what is this?", "picture": held})
        span.set_outputs("answer 5")
    says(span.trace_id, False, "say: case 5 is unkind")
    aligned = taught(span.trace_id, lesson(1))
    assert len(aligned._episodic_trace_ids) == 1
    assert f"skipped 1 of 2 traces, {span.trace_id} (inputs.picture is " in caplog.text
    with refused("inputs.picture is (an image|a file)"):
        aligned(trace=fetched(span.trace_id)[0])
    with refused("1 of 1: inputs.picture is "):
        taught(span.trace_id)
    assert "mlflow-attachment" not in str(endpoint.requests)


@pytest.mark.usefixtures("endpoint")
def test_traces_are_rows_of_an_evaluation():
    aligned = taught(lesson(1), labelled(2))
    held_out = [labelled(5), labelled(6), labelled(7)]
    says(wrong := traced(8), False)
    for traces in (
        fetched(*held_out, wrong, traced(9)),
        mlflow.search_traces(max_results=5),
    ):
        rows = feedback_of(traces, aligned)
        assert {row.id for row in rows} == {*held_out, wrong}
        found = ma.evaluate(aligned.memalign_judge, rows)
        assert (found.n, found.metrics["accuracy"].value) == (4, 0.75)
    way = r"not Trace; memalign.integrations.mlflow.feedback_of\(traces, judge\)"
    with pytest.raises(InputError, match=way):
        ma.evaluate(aligned.memalign_judge, fetched(*held_out))
    for traces in ([], fetched(traced(10))):
        with refused("No valid feedback records found"):
            feedback_of(traces, aligned)


@pytest.mark.usefixtures("endpoint")
def test_a_wrong_label_is_named_by_its_trace_and_how_to_go_on():
    says(wrong := traced(1), "perhaps")
    way = f"MemAlignOptimizer\\(skip_invalid=True\\) learns the others\n  {wrong}: "
    with refused(way):
        taught(wrong, lesson(2))


def test_a_judge_of_a_level_of_sessions_is_refused():
    class Leveled(type(tone_judge())):  # type: ignore[misc]  # as MLflow 3.18 has it
        session_level: str | None = "trip"

    judge = Leveled(
        name="tone",
        instructions="{{ conversation }}",
        model="openai:/small",
        feedback_value_type=bool,
    )
    with refused("'trip'.*make it without session_level"):
        MemAlignOptimizer().align(judge, fetched(traced(1, session="s")))


def test_only_people_say_what_was_expected():
    trace_id = traced(1)
    for kind, by, value in (("CODE", "script", "guess"), ("HUMAN", "ana", "Paris")):
        source = AssessmentSource(source_type=kind, source_id=by)
        mlflow.log_expectation(
            trace_id=trace_id, name="capital", value=value, source=source
        )
    content = content_of(fetched(trace_id), ("expectations",))
    assert content == {"expectations": {"capital": "Paris"}}


def test_feedback_on_a_trace_is_not_judged():
    trace_id = traced(1)
    before = content_of(fetched(trace_id), ("trace",))
    says(trace_id, False, "a secret verdict")
    after = content_of(fetched(trace_id), ("trace",))
    assert after == before
    assert "secret" not in str(after)


def test_what_evaluators_and_people_said_is_not_shown_to_a_judge_of_traces(endpoint):
    with mlflow.start_span("reply") as span:
        span.set_inputs({"question": "question 1"})
        with mlflow.start_span("LEAK", span_type="EVALUATOR") as inner:
            inner.set_outputs({"LEAK": 0.2})
            with mlflow.start_span("LEAK", span_type="LLM"):
                pass
        span.set_outputs("answer 1")
    says(span.trace_id, False, "LEAK", name="LEAK")
    says(span.trace_id, True, "LEAK", by="gpt", kind="LLM_JUDGE")
    (trace,) = fetched(span.trace_id)
    assert "LEAK" not in str(content_of([trace], ("trace",)))
    shown = without_verdicts(trace)
    (seen,) = shown.data.spans
    assert seen.name == "reply"
    assert shown.info.assessments == []
    assert len(trace.info.assessments) == 2
    assert len(trace.data.spans) == 3
    aligned = taught(lesson(1), instructions=TRACE_JUDGE, base_url=endpoint.base_url)
    aligned(trace=trace)
    assert "LEAK" not in str(endpoint.requests)


@pytest.mark.slow
@pytest.mark.usefixtures("on_server")
def test_feedback_is_the_same_over_http_as_from_the_store(store: str):
    one = traced(1)
    two = traced(2)
    says(one, False, "cold", by="User")
    says(one, True, "warm", by="User")
    override(two, says(two, False, "late"), True)
    served = read_feedback(fetched(one, two), "tone", JUDGE)
    sources = sorted(row.source.partition(":")[0] for row in served.rows)
    assert sources == ["ana", "unknown", "unknown"]
    mlflow.set_tracking_uri(store)
    assert read_feedback(fetched(one, two), "tone", JUDGE) == served


@pytest.fixture
def logged() -> Iterator[None]:
    mlflow.openai.autolog()
    yield
    mlflow.openai.autolog(disable=True)


@pytest.mark.usefixtures("logged")
def test_learning_judging_and_forgetting_leave_no_trace(endpoint, experiment):
    """Whatever is logged by itself; the user's own traces stay."""
    *traces, new = fetched(lesson(1), lesson(2), labelled(3), traced(4))

    def count() -> int:
        return len(mlflow.search_traces(locations=[experiment], return_type="list"))

    before = count()
    optimizer = MemAlignOptimizer(embedding_model="openai:/embed")
    aligned = tone_judge().align(traces, optimizer)
    assert aligned(trace=traces[0], inputs=item(1)["inputs"]).value is False
    aligned.unalign(traces[:1])(**item(1))
    of_traces = tone_judge(instructions=TRACE_JUDGE, base_url=endpoint.base_url)
    of_traces.align(traces, optimizer)(trace=new)
    assert len(endpoint.requests) >= 6
    assert count() == before
    mlflow.genai.evaluate(data=[item(1), item(2)], scorers=[aligned])
    assert count() == before + 2, "those of the evaluation's rows alone"


# -- an experiment's traces as cases -----------------------------------------------

FIELDS = ("inputs", "outputs")


def test_traces_of_an_experiment_are_cases(experiment: str, store: str):
    ids = [traced(n) for n in range(3)]
    with mlflow.start_span("nothing"):
        pass
    mlflow.set_trace_tag(ids[0], "kept", "yes")
    told: list[int] = []
    # What the process has set does not count.
    mlflow.set_tracking_uri("sqlite:///elsewhere.db")
    found = cases_of_experiment(
        experiment,
        FIELDS,
        tracking_uri=store,
        progress=lambda _phase, done, _total: told.append(done),
    )
    assert [each.id for each in found.examples] == ids[::-1]
    assert found.examples[2].inputs == {"question": "question 0"}
    assert found.examples[2].outputs == "answer 0"
    assert (found.skipped, found.more, told) == (1, False, [4])
    found = cases_of_experiment(experiment, FIELDS, tracking_uri=store, most=2)
    assert (len(found.examples), found.more) == (1, True)
    found = cases_of_experiment(
        experiment, FIELDS, tracking_uri=store, filter_string="tag.kept = 'yes'"
    )
    (example,) = found.examples
    assert example.id == ids[0]


def test_a_session_is_one_case(experiment: str, store: str):
    first = traced(1, session="s-1")
    traced(2, session="s-1")
    found = cases_of_experiment(experiment, ("conversation",), tracking_uri=store)
    (case,) = found.examples
    assert case.id == first
    assert "question 2" in str(case.conversation)


def test_what_is_not_there_is_named(experiment: str, store: str):
    with pytest.raises(InputError, match="no experiment 'nowhere'"):
        cases_of_experiment("nowhere", FIELDS, tracking_uri=store)
    with pytest.raises(InputError, match="MLflow cannot give"):
        cases_of_experiment(
            experiment, FIELDS, tracking_uri=store, filter_string="not a filter"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(InputError, match=r"no MLflow answers at 127\.0\.0\.1"):
            cases_of_experiment("any", FIELDS, tracking_uri=address)
