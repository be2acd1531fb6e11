"""Traces in every usual form become one tree of spans."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign.content import SpanTree, span_tree, turns_of
from tests.support.spans import FORMS, Step, flat, runs


def tree_of(trace: Any) -> SpanTree:
    """Its tree, of a trace that has one."""
    tree = span_tree(trace)
    assert tree is not None
    return tree


@settings(max_examples=30, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_every_form_and_order_gives_the_same_span_tree(
    run: list[Step], shuffler: random.Random
) -> None:
    shuffled = flat(run)
    shuffler.shuffle(shuffled)
    trees = {name: tree_of(form(run)) for name, form in FORMS.items()} | {
        "shuffled": tree_of(shuffled)
    }
    assert len(set(map(repr, trees.values()))) == 1, trees
    tree = trees["otlp"]
    assert len(tree.spans) == len(run)
    assert not tree.notes


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.none() | st.integers(0, 9)),
        min_size=1,
        max_size=10,
    )
)
def test_every_span_stands_once_below_its_parent(
    links: list[tuple[int, int | None]],
) -> None:
    spans = [
        {"span_id": f"s{own}", "parent_id": up and f"s{up}", "name": f"n{n}"}
        for n, (own, up) in enumerate(links)
    ]
    tree = tree_of(spans)
    assert sorted(span.name for span in tree.spans) == sorted(
        f"n{n}" for n in range(len(links))
    )
    depths = {span.id: span.depth for span in tree.spans}
    assert all(
        span.depth == (0 if span.parent is None else depths[span.parent] + 1)
        for span in tree.spans
    )


def test_what_had_to_be_repaired_is_named() -> None:
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
    assert [(span.name, span.depth) for span in tree.spans] == [
        *(
            ("orphan", 0),
            ("twice", 0),
            ("below a circle", 0),
            ("first of a circle", 0),
            ("second", 1),
        ),
    ]


def test_ten_thousand_levels_are_no_recursion() -> None:
    tree = tree_of(
        [
            {"span_id": str(n), "parent_id": str(n - 1), "name": "s"}
            for n in range(10_000)
        ]
    )
    assert tree.spans[-1].depth == 9_999


@pytest.mark.parametrize(
    "trace",
    [
        *(
            "a plain log\nline 2",
            "{not json} span",
            7,
            [],
            {},
            [1, 2],
            {"steps": [1, 2]},
            {"spans": []},
        ),
        {"resourceSpans": []},
        {"name": "a run", "start": 1, "steps": ["SEEN"]},
        [{"span_id": "1", "name": "a"}, "a line of a log"],
    ],
)
def test_other_json_and_text_have_no_tree(trace: Any) -> None:
    assert span_tree(trace) is None


@pytest.mark.parametrize(
    "odd", ["²", "--5", "5" * 5000, "0001-01-01T00:00:00", "yesterday", "1.5."]
)
def test_a_time_or_whole_number_that_is_none_is_unknown_or_stays(odd: str) -> None:
    attributes = [{"key": "tries", "value": {"intValue": odd}}]
    tree = tree_of(
        [{"name": "a", "span_id": "1", "start_time": odd, "attributes": attributes}]
    )
    assert (tree.spans[0].start, tree.spans[0].attributes) == (None, {"tries": odd})


def test_brackets_in_a_text_end_nobodys_stack() -> None:
    small = "[" * 20 + "]" * 20
    deep = "[" * 960 + "]" * 960
    for text, opened in ((small, True), (deep, False)):
        tree = tree_of(
            json.dumps([{"name": "a", "span_id": "1", "inputs": text}])
        )  # the text of a trace is the trace
        assert (tree.spans[0].inputs != text) is opened
        (turn,) = (
            turns_of(
                [
                    {
                        "role": "assistant",
                        "tool_calls": [{"name": "f", "arguments": text}],
                    }
                ]
            )
            or ()
        )
        assert (turn.calls[0]["arguments"] != text) is opened


@pytest.mark.parametrize(
    "start", [1_772_366_400, "1772366400", 1_772_366_400.0, 1_772_366_400_000_000_000]
)
def test_whole_seconds_are_seconds(start: Any) -> None:
    end = (
        start + (3 * 10**9 if start == 1_772_366_400_000_000_000 else 3)
        if not isinstance(start, str)
        else "1772366403"
    )
    tree = tree_of([{"name": "a", "span_id": "1", "start": start, "end": end}])
    assert (tree.spans[0].start, tree.spans[0].seconds) == (
        1_772_366_400_000_000_000,
        3.0,
    )


def test_housekeeping_of_a_tool_is_not_shown() -> None:
    kept = {
        "bookmarked": False,
        "createdAt": "x",
        "updatedAt": "y",
        "environment": "default",
        "public": True,
    }
    span = {
        "name": "a",
        "id": "1",
        "traceId": "t",
        "isRootObservation": True,
        "completionStartTime": "z",
        **kept,
    }
    tree = tree_of([{**span, "model": "m"}])
    assert tree.spans[0].attributes == {"model": "m"}


def test_conventions_of_tracers_are_known() -> None:
    tree = tree_of(
        [
            {"name": "a", "span_id": "1", "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[1]"}},
            {"name": "b", "context": {"trace_id": "t", "span_id": "2"}, "kind": "SpanKind.CLIENT", "status": {"status_code": "ERROR", "description": "down"}},
            {"name": "c", "id": "3", "trace_id": "t", "run_type": "tool", "start_time": "2026-03-01T12:00:00Z", "end_time": "2026-03-01T12:00:02+00:00", "error": "boom"},
            {"name": "d", "span_id": "4", "start": 1_700_000_000.5, "end": 1_700_000_001.0},
        ]
    )  # fmt: skip
    by_name = {span.name: span for span in tree.spans}
    assert (by_name["a"].kind, by_name["a"].inputs) == ("CHAT", [1])
    assert (by_name["b"].kind, by_name["b"].status, by_name["b"].message) == (
        "CLIENT",
        "error",
        "down",
    )
    assert (by_name["c"].kind, by_name["c"].status, by_name["c"].message) == (
        "TOOL",
        "error",
        "boom",
    )
    assert (by_name["c"].seconds, by_name["d"].seconds) == (2.0, 0.5)


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
    "a tracer that writes empty ids": [
        {"span_id": "a", "parent_id": "", **FLAT},
        {"span_id": "", "id": "b", "trace_id": "t", "parent_id": ["a"], **BELOW},
    ],
}


@pytest.mark.parametrize("name", TRACERS)
def test_traces_of_tracers_are_trees(name: str) -> None:
    tree = tree_of(TRACERS[name])
    first, second = tree.spans
    assert (first.name, first.inputs, first.outputs) == ("agent", "q", "LATE")
    assert (second.name, second.parent, second.inputs) == ("look up", "S1", "q")
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
def test_a_span_that_judges_is_left_out_with_all_below_it(vendor: str) -> None:
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
        assert [(span.name, span.depth) for span in tree.spans] == [
            ("agent", 0),
            ("look up", 1),
        ]
        assert not tree.notes


def test_a_run_of_nothing_but_an_evaluator_shows_nothing() -> None:
    tree = tree_of(
        [{"span_id": "1", "name": "LEAK", "kind": "EVALUATOR", "outputs": "LEAK"}]
    )
    assert tree.spans == ()


def test_an_evaluation_that_holds_the_run_is_shown() -> None:
    spans = [
        {"span_id": "1", "name": "eval", "kind": "eval"},
        {"span_id": "2", "parent_id": "1", "name": "task"},
    ]
    tree = tree_of(spans)
    assert [span.name for span in tree.spans] == ["eval", "task"]


@pytest.mark.parametrize("name", [
    "metadata", "tag.tags", "tags", "langfuse.trace.tags", "langfuse.observation.metadata.reviewed", "eval.score",
    "feedback", "user_feedback", "userFeedback", "humanRating", "rating", "human_label", "gen_ai.evaluation.score.value",
    "annotations", "scores", "mlflow.assessments", "traceloop.association.properties.label", "ai.telemetry.metadata.x",
    "logfire.scores", "verdict", "evaluator", "comment", "feedback_stats", "thumbs_up",
])  # fmt: skip
@pytest.mark.parametrize("place", ["attribute", "pairs", "field", "event"])
def test_what_was_said_of_a_run_is_hidden_wherever_it_stands(
    name: str, place: str
) -> None:
    span: dict[str, Any] = {"span_id": "1", "name": "agent", "outputs": "the answer"}
    match place:
        case "attribute":
            span["attributes"] = {name: ["LEAK"], "order": 7}
        case "pairs":
            value = {
                "kvlistValue": {
                    "values": [{"key": "is", "value": {"stringValue": "LEAK"}}]
                }
            }
            span["attributes"] = [
                {"key": name, "value": value},
                {"key": "order", "value": {"intValue": "7"}},
            ]
        case "field":
            span |= {name: "LEAK", "order": 7}
        case _:
            span |= {
                "events": [
                    {"name": "a", "attributes": {name: "LEAK"}},
                    {"name": name, "body": "LEAK"},
                ],
                "order": 7,
            }
    tree = tree_of([span])
    assert "LEAK" not in repr(tree)
    assert tree.spans[0].attributes == {"order": 7}


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
def test_what_the_application_did_is_shown(name: str) -> None:
    attributes = {name: 5, "form": {"comment": "ring twice"}}
    tree = tree_of([{"span_id": "1", "name": "agent", "attributes": attributes}])
    assert tree.spans[0].attributes == attributes


def test_names_that_a_tracer_nests_are_read_as_with_dots() -> None:
    attributes = {
        "langfuse": {"trace": {"tags": ["LEAK"], "name": "shop"}},
        "tag": {"tags": ["LEAK"]},
    }
    tree = tree_of([{"span_id": "1", "name": "agent", "attributes": attributes}])
    assert tree.spans[0].attributes == {"langfuse": {"trace": {"name": "shop"}}}


@settings(max_examples=30, deadline=None)
@given(runs(), st.sampled_from(sorted(FORMS)), st.data())
def test_no_word_of_a_step_that_judges_is_shown_in_any_form(
    run: list[Step], form: str, data: st.DataObject
) -> None:
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
