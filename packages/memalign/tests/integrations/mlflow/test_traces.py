"""Which assessments of a trace are feedback, and what of a trace a judge reads."""

from __future__ import annotations

import contextlib

import mlflow
from mlflow.entities import AssessmentSource

import memalign as ma
from memalign.integrations.mlflow.assessments import read_feedback
from memalign.integrations.mlflow.traces import content_of
from tests.support.mlflow_world import fetched, says, traced

JUDGE = ma.Judge(name="tone", instructions="{{ inputs }} {{ outputs }}", feedback_value_type=str, model="openai:m")


def said(*ids: str) -> list[tuple[str, object, str | None]]:
    return [(row.source, row.value, row.rationale) for row in read_feedback(fetched(*ids), "tone", JUDGE).rows]


def override(trace_id: str, given: str, value: object, *, by: str = "ana", kind: str = "HUMAN") -> str:
    source = AssessmentSource(source_type=kind, source_id=by)
    return mlflow.override_feedback(trace_id=trace_id, assessment_id=given, value=value, source=source).assessment_id  # type: ignore[no-any-return]


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
    words: dict[str, str | None] = {
        says(trace_id, False, word, by=who): word for who, word in (("User", "cold"), ("default", "warm"))
    }
    first = says(trace_id, False, "short", by="User")
    words[override(trace_id, override(trace_id, first, True, by="User"), False, by="User")] = None  # an edited edit
    assert {(source, word) for source, _, word in said(trace_id)} == {
        (f"unknown:{n}", word) for n, word in words.items()
    }


def test_what_people_say_of_a_crashed_application_is_feedback():
    with contextlib.suppress(RuntimeError), mlflow.start_span("reply") as span:
        span.set_inputs({"question": "question 1"})
        raise RuntimeError("no stock")
    says(span.trace_id, False, "It crashed.")
    (row,) = read_feedback(fetched(span.trace_id), "tone", JUDGE).rows
    assert row.content == {"inputs": {"question": "question 1"}, "outputs": "(the application gave no outputs)"}


def test_a_trace_lacking_a_field_or_spans_is_skipped():
    with mlflow.start_span("bare") as span:
        pass
    says(span.trace_id, True)
    found = read_feedback(fetched(span.trace_id), "tone", JUDGE)
    assert found.skipped == {span.trace_id: "the judge's instructions name {{ inputs }}, and the trace has none"}
    says(whole := traced(1), False, "cold")
    found = read_feedback(mlflow.search_traces(return_type="list", include_spans=False), "tone", JUDGE)
    assert (set(found.skipped), found.content) == ({span.trace_id, whole}, {}), "and takes nothing back"


def test_only_people_say_what_was_expected():
    trace_id = traced(1)
    for kind, by, value in (("CODE", "script", "guess"), ("HUMAN", "ana", "Paris")):
        source = AssessmentSource(source_type=kind, source_id=by)
        mlflow.log_expectation(trace_id=trace_id, name="capital", value=value, source=source)
    assert content_of(fetched(trace_id), ("expectations",)) == {"expectations": {"capital": "Paris"}}


def test_feedback_on_a_trace_is_not_judged():
    trace_id = traced(1)
    before = content_of(fetched(trace_id), ("trace",))
    says(trace_id, False, "a secret verdict")
    after = content_of(fetched(trace_id), ("trace",))
    assert after == before
    assert "secret" not in str(after)
