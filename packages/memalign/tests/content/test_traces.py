"""Traces in every usual form become one tree of spans."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign.content import SpanTree, span_tree, turns_of
from memalign.content.traces import Span
from tests.support.lists import table
from tests.support.spans import FORMS, Step, flat, runs


def tree_of(trace: Any) -> SpanTree:
    """Its tree, of a trace that has one."""
    tree = span_tree(trace)
    assert tree is not None
    return tree


@settings(max_examples=30, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_every_form_and_order_gives_the_same_span_tree(run, shuffler):
    shuffled = flat(run)
    shuffler.shuffle(shuffled)
    expected = tree_of(shuffled)
    assert len(expected.spans) == len(run)
    assert not expected.notes
    for name, form in FORMS.items():
        assert repr(tree_of(form(run))) == repr(expected), name


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.none() | st.integers(0, 9)),
        min_size=1,
        max_size=10,
    )
)
def test_every_span_stands_once_below_its_parent(links):
    spans = []
    names = set()
    for n, (own, up) in enumerate(links):
        parent = up and f"s{up}"
        spans.append({"span_id": f"s{own}", "parent_id": parent, "name": f"n{n}"})
        names.add((f"n{n}",))
    tree = tree_of(spans)
    assert {*table(tree.spans, "name")} == names
    assert len(tree.spans) == len(names)
    depths: dict[str | None, int] = {None: -1}
    for span in tree.spans:
        assert span.depth == depths[span.parent] + 1
        depths[span.id] = span.depth


def test_what_had_to_be_repaired_is_named():
    tree = tree_of(
        [
            {"span_id": "a", "parent_id": "gone", "name": "orphan"},
            {"span_id": "x", "parent_id": "b", "name": "below a circle"},
            {"span_id": "b", "parent_id": "c", "name": "first of a circle"},
            {"span_id": "c", "parent_id": "b", "name": "second"},
            {"span_id": "c", "name": "twice"},
        ]
    )
    orphans = "orphan, below a circle, first of a circle"
    assert tree.notes == (
        f"trace: 3 of 5 spans ({orphans}) have no parent in it; shown as uppermost",
    )
    assert table(tree.spans, "name", "depth") == [
        ("orphan", 0),
        ("twice", 0),
        ("below a circle", 0),
        ("first of a circle", 0),
        ("second", 1),
    ]


def test_ten_thousand_levels_are_no_recursion():
    spans = []
    for n in range(10_000):
        spans.append({"span_id": str(n), "parent_id": str(n - 1), "name": "s"})
    assert tree_of(spans).spans[-1].depth == 9_999


@pytest.mark.parametrize(
    "trace",
    [
        "a plain log\nline 2",
        "{not json} span",
        7,
        [],
        {},
        [1, 2],
        {"steps": [1, 2]},
        {"spans": []},
        {"resourceSpans": []},
        {"name": "a run", "start": 1, "steps": ["SEEN"]},
        [{"span_id": "1", "name": "a"}, "a line of a log"],
    ],
)
def test_other_json_and_text_have_no_tree(trace):
    assert span_tree(trace) is None


@pytest.mark.parametrize(
    "odd", ["²", "--5", "5" * 5000, "0001-01-01T00:00:00", "yesterday", "1.5."]
)
def test_a_time_or_whole_number_that_is_none_is_unknown_or_stays(odd):
    attributes = [{"key": "tries", "value": {"intValue": odd}}]
    span = span_of(span_id="1", start_time=odd, attributes=attributes)
    assert span.start is None
    assert span.attributes == {"tries": odd}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns"])
def test_a_time_without_a_zone_is_the_same_on_every_machine(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        start = "2026-03-29T01:59:59"  # a second before clocks in Berlin change
        span = span_of(span_id="1", start_time=start, end_time="2026-03-29T02:00:01Z")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert span.seconds == 2.0


@pytest.mark.parametrize(("depth", "opened"), [(20, True), (960, False)])
def test_brackets_in_a_text_end_nobodys_stack(depth, opened):
    text = "[" * depth + "]" * depth
    # The text of a trace is the trace.
    trace = json.dumps([{"name": "a", "span_id": "1", "inputs": text}])
    assert (tree_of(trace).spans[0].inputs != text) is opened
    call = {"name": "f", "arguments": text}
    turns = turns_of([{"role": "assistant", "tool_calls": [call]}])
    assert turns is not None
    assert (turns[0].calls[0]["arguments"] != text) is opened


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (1_772_366_400, 1_772_366_403),
        ("1772366400", "1772366403"),
        (1_772_366_400.0, 1_772_366_403.0),
        (1_772_366_400_000_000_000, 1_772_366_403_000_000_000),
    ],
)
def test_whole_seconds_are_seconds(start, end):
    span = span_of(span_id="1", start=start, end=end)
    assert span.start == 1_772_366_400_000_000_000
    assert span.seconds == 3.0


def test_housekeeping_of_a_tool_is_not_shown():
    span = span_of(
        id="1",
        traceId="t",
        isRootObservation=True,
        completionStartTime="z",
        bookmarked=False,
        createdAt="x",
        updatedAt="y",
        environment="default",
        public=True,
        model="m",
    )
    assert span.attributes == {"model": "m"}


def span_of(**parts: Any) -> Span:
    """The span of a trace that has one."""
    (span,) = tree_of([{"name": "a", **parts}]).spans
    return span


@pytest.mark.parametrize(
    ("parts", "read"),
    [
        (
            {
                "span_id": "1",
                "attributes": {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.input.messages": "[1]",
                },
            },
            {"kind": "CHAT", "inputs": [1]},
        ),
        (
            {
                "context": {"trace_id": "t", "span_id": "2"},
                "kind": "SpanKind.CLIENT",
                "status": {"status_code": "ERROR", "description": "down"},
            },
            {"kind": "CLIENT", "status": "error", "message": "down"},
        ),
        (
            {
                "id": "3",
                "trace_id": "t",
                "run_type": "tool",
                "start_time": "2026-03-01T12:00:00Z",
                "end_time": "2026-03-01T12:00:02+00:00",
                "error": "boom",
            },
            {"kind": "TOOL", "status": "error", "message": "boom", "seconds": 2.0},
        ),
        (
            {"span_id": "4", "start": 1_700_000_000.5, "end": 1_700_000_001.0},
            {"seconds": 0.5},
        ),
    ],
)
def test_conventions_of_tracers_are_known(parts, read):
    span = span_of(**parts)
    for name, value in read.items():
        assert getattr(span, name) == value


FLAT = {"name": "agent", "start_time": 1, "input": "q", "output": "LATE"}
BELOW = {"name": "look up", "start_time": 2, "input": "q"}
TRACERS: dict[str, Any] = {
    "LangSmith": [
        {"id": "a", "trace_id": "a", "parent_run_id": None, **FLAT},
        {"id": "b", "trace_id": "a", "parent_run_id": "a", **BELOW},
    ],
    "Zipkin": [
        {"id": "a", "traceId": "t", **FLAT},
        {"id": "b", "traceId": "t", "parentId": "a", **BELOW},
    ],
    "Langfuse": {
        "id": "t",
        "scores": [{"name": "LEAK", "value": 0}],
        "observations": [
            {"id": "a", "traceId": "t", "parentObservationId": None, **FLAT},
            {"id": "b", "traceId": "t", "parentObservationId": "a", **BELOW},
        ],
    },
    "Phoenix": [
        {"context.span_id": "a", "context.trace_id": "t", "parent_id": None, **FLAT},
        {"context.span_id": "b", "context.trace_id": "t", "parent_id": "a", **BELOW},
    ],
    "numbers": [
        {"span_id": 0, "parent_id": None, **FLAT},
        {"span_id": 1, "parent_id": 0, **BELOW},
    ],
    "runs inside runs": {
        **{"id": "a", "trace_id": "a", "parent_run_id": None, **FLAT},
        "feedback_stats": {"tone": "LEAK"},
        "child_runs": [{"id": "b", "trace_id": "a", "parent_run_id": "a", **BELOW}],
    },
    "Braintrust": [
        {
            **{"id": "1", "span_id": "a", "root_span_id": "a", "span_parents": None},
            **FLAT,
            "name": None,
            "span_attributes": {"name": "agent", "type": "task"},
            "scores": {"tone": "LEAK"},
        },
        {"span_id": "b", "root_span_id": "a", "span_parents": ["a"], **BELOW},
        {
            **{"span_id": "c", "root_span_id": "a", "span_parents": ["a"]},
            "span_attributes": {"type": "score"},
            "output": "LEAK",
        },
    ],
    "Weave": [
        {"id": "a", "trace_id": "t", "op_name": "agent", **FLAT, "name": None},
        None,
        {"id": "b", "trace_id": "t", "parent_id": "a", **BELOW},
    ],
    "Tempo": {
        "batches": [
            {"scopeSpans": [{"spans": [{"spanId": "a", **FLAT}]}]},
            {
                "scopeSpans": [
                    {"spans": [{"spanId": "b", "parentSpanId": "a", **BELOW}]}
                ]
            },
        ]
    },
    "a tracer that writes empty ids": [
        {"span_id": "a", "parent_id": "", **FLAT},
        {"span_id": "", "id": "b", "trace_id": "t", "parent_id": ["a"], **BELOW},
    ],
}


@pytest.mark.parametrize("name", TRACERS)
def test_traces_of_tracers_are_trees(name):
    tree = tree_of(TRACERS[name])
    first, second = tree.spans
    assert first.name == "agent"
    assert first.inputs == "q"
    assert first.outputs == "LATE"
    assert second.name == "look up"
    assert second.parent == "S1"
    assert second.inputs == "q"
    assert first.attributes == second.attributes == {}
    assert "LEAK" not in repr(tree)


# -- what is said of a run is not part of it -------------------------------------------

JUDGED_SPANS: dict[str, dict[str, Any]] = {
    "mlflow": {"parent_id": "1", "attributes": {"mlflow.spanType": '"EVALUATOR"'}},
    "phoenix": {"parent_id": "1", "span_kind": "EVALUATOR"},
    "phoenix nested": {
        "parent_id": "1",
        "attributes": {"openinference": {"span": {"kind": "EVALUATOR"}}},
    },
    "openinference": {
        "parent_id": "1",
        "attributes": {"openinference.span.kind": "EVALUATOR"},
    },
    "two kinds": {
        "parent_id": "1",
        "attributes": {"openinference.span.kind": "CHAIN"},
        "type": "EVALUATOR",
    },
    "langfuse": {"parentObservationId": "1", "type": "EVALUATOR"},
    "langfuse otel": {
        "parent_id": "1",
        "attributes": {"langfuse.observation.type": "evaluator"},
    },
    "braintrust": {"span_parents": ["1"], "kind": "score"},
    "braintrust raw": {
        "span_parents": ["1"],
        "span_attributes": {"name": "x", "type": "score"},
    },
    "braintrust otel": {
        "parent_id": "1",
        "attributes": {"braintrust.span_attributes": '{"type": "score"}'},
    },
    "braintrust review": {"span_parents": ["1"], "kind": "review"},
    "inspect": {"parent_id": "1", "type": "scorer"},
    "inspect group": {"parent_id": "1", "type": "scorers"},
    "laminar": {"parent_id": "1", "attributes": {"lmnr.span.type": "HUMAN_EVALUATOR"}},
    "nested evaluation": {"parent_id": "1", "kind": "evaluation"},
    "pydantic-evals": {"parent_id": "1", "attributes": {"evaluator_name": "Tone"}},
    "humanloop": {"parent_id": "1", "type": "evaluator"},
    "evaluation otel": {
        "parent_id": "1",
        "attributes": {"lmnr.span.type": "EVALUATION"},
    },
    "annotation": {"parent_id": "1", "kind": "ANNOTATION"},
    "grader": {"parent_id": "1", "kind": "LLM_GRADER"},
}


@pytest.mark.parametrize("vendor", JUDGED_SPANS)
def test_a_span_that_judges_is_left_out_with_all_below_it(vendor):
    run = {"span_id": "1", "trace_id": "t", "name": "agent", "outputs": "the answer"}
    judged = {
        "span_id": "2",
        "trace_id": "t",
        "name": "LEAK",
        "outputs": "LEAK",
        **JUDGED_SPANS[vendor],
    }
    below = {
        "span_id": "3",
        "trace_id": "t",
        "parent_id": "2",
        "name": "LEAK",
        "kind": "LLM",
        "inputs": "LEAK",
    }
    step = {
        "span_id": "4",
        "trace_id": "t",
        "parent_id": "1",
        "name": "look up",
        "kind": "TOOL",
    }
    for spans in ([run, judged, below, step], [below, step, judged, run]):
        tree = tree_of(spans)
        assert table(tree.spans, "name", "depth") == [("agent", 0), ("look up", 1)]
        assert not tree.notes


def test_a_run_of_nothing_but_an_evaluator_shows_nothing():
    span = {"span_id": "1", "name": "LEAK", "kind": "EVALUATOR", "outputs": "LEAK"}
    assert tree_of([span]).spans == ()


def test_an_evaluation_that_holds_the_run_is_shown():
    spans = [
        {"span_id": "1", "name": "eval", "kind": "eval"},
        {"span_id": "2", "parent_id": "1", "name": "task"},
    ]
    assert table(tree_of(spans).spans, "name") == [("eval",), ("task",)]


SAID_OF_A_RUN = """
    metadata tag.tags tags langfuse.trace.tags langfuse.observation.metadata.reviewed
    eval.score feedback user_feedback userFeedback humanRating rating human_label
    gen_ai.evaluation.score.value annotations scores mlflow.assessments
    traceloop.association.properties.label ai.telemetry.metadata.x logfire.scores verdict
    evaluator comment feedback_stats thumbs_up
"""


@pytest.mark.parametrize("name", SAID_OF_A_RUN.split())
def test_what_was_said_of_a_run_is_hidden_wherever_it_stands(name):
    leak = {"key": "is", "value": {"stringValue": "LEAK"}}
    pairs = [
        {"key": name, "value": {"kvlistValue": {"values": [leak]}}},
        {"key": "order", "value": {"intValue": "7"}},
    ]
    events = [
        {"name": "a", "attributes": {name: "LEAK"}},
        {"name": name, "body": "LEAK"},
    ]
    ways: list[dict[str, Any]] = [
        {"attributes": {name: ["LEAK"], "order": 7}},
        {"attributes": pairs},
        {name: "LEAK", "order": 7},
        {"events": events, "order": 7},
    ]
    for parts in ways:
        span = span_of(span_id="1", outputs="the answer", **parts)
        assert "LEAK" not in repr(span)
        assert span.attributes == {"order": 7}


@pytest.mark.parametrize(
    "name",
    [
        "retrieval.documents.0.document.score",
        "operating_system",
        "gen_ai.usage.input_tokens",
        "tagger",
        "order",
    ],
)
def test_what_the_application_did_is_shown(name):
    attributes = {name: 5, "form": {"comment": "ring twice"}}
    assert span_of(span_id="1", attributes=attributes).attributes == attributes


def test_names_that_a_tracer_nests_are_read_as_with_dots():
    attributes = {
        "langfuse": {"trace": {"tags": ["LEAK"], "name": "shop"}},
        "tag": {"tags": ["LEAK"]},
    }
    span = span_of(span_id="1", attributes=attributes)
    assert span.attributes == {"langfuse": {"trace": {"name": "shop"}}}


@settings(max_examples=30, deadline=None)
@given(runs(), st.sampled_from(sorted(FORMS)), st.data())
def test_no_word_of_a_step_that_judges_is_shown_in_any_form(run, form, data):
    place = data.draw(st.integers(1, len(run) - 1)) if len(run) > 1 else 0
    kind = data.draw(st.sampled_from(["EVALUATOR", "SCORER", "SCORE", "ANNOTATION"]))
    run[place] = Step(
        parent=0 if place else None, name="LEAK", kind=kind, outputs="LEAK"
    )
    run.append(
        Step(
            parent=place,
            name="LEAK",
            kind="LLM",
            inputs=["LEAK"],
            start=run[-1].start + 1,
        )
    )
    tree = tree_of(FORMS[form](run))
    assert "LEAK" not in repr(tree)
