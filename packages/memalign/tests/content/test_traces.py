"""Traces in every usual form become one tree of spans."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign.content import span_tree, turns_of
from tests.support.spans import FORMS, Step, flat, runs


@settings(max_examples=30, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_every_form_and_order_gives_the_same_span_tree(run: list[Step], shuffler: random.Random) -> None:
    shuffled = flat(run)
    shuffler.shuffle(shuffled)
    trees = {name: span_tree(form(run)) for name, form in FORMS.items()} | {"shuffled": span_tree(shuffled)}
    assert len(set(map(repr, trees.values()))) == 1, trees
    tree = trees["otlp"]
    assert tree is not None
    assert len(tree.spans) == len(run)
    assert not tree.notes


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(0, 9)), min_size=1, max_size=10))
def test_every_span_stands_once_below_its_parent(links: list[tuple[int, int | None]]) -> None:
    spans = [{"span_id": f"s{own}", "parent_id": up and f"s{up}", "name": f"n{n}"} for n, (own, up) in enumerate(links)]
    tree = span_tree(spans)
    assert tree is not None
    assert sorted(span.name for span in tree.spans) == sorted(f"n{n}" for n in range(len(links)))
    depths = {span.id: span.depth for span in tree.spans}
    assert all(span.depth == (0 if span.parent is None else depths[span.parent] + 1) for span in tree.spans)


def test_what_had_to_be_repaired_is_named() -> None:
    tree = span_tree(
        [
            {"span_id": "a", "parent_id": "gone", "name": "orphan"},
            {"span_id": "x", "parent_id": "b", "name": "below a circle"},
            {"span_id": "b", "parent_id": "c", "name": "first of a circle"},
            {"span_id": "c", "parent_id": "b", "name": "second"},
            {"span_id": "c", "name": "twice"},
        ]
    )
    assert tree is not None
    orphans = "orphan, below a circle, first of a circle"
    assert tree.notes == (f"trace: 3 of 5 spans ({orphans}) have no parent in it; shown as uppermost",)
    assert [(span.name, span.depth) for span in tree.spans] == [
        *(("orphan", 0), ("twice", 0), ("below a circle", 0), ("first of a circle", 0), ("second", 1)),
    ]


def test_ten_thousand_levels_are_no_recursion() -> None:
    tree = span_tree([{"span_id": str(n), "parent_id": str(n - 1), "name": "s"} for n in range(10_000)])
    assert tree is not None
    assert tree.spans[-1].depth == 9_999


@pytest.mark.parametrize(
    "trace",
    [
        *("a plain log\nline 2", "{not json} span", 7, [], {}, [1, 2], {"steps": [1, 2]}, {"spans": []}),
        {"resourceSpans": []},
        {"name": "a run", "start": 1, "steps": ["SEEN"]},
        [{"span_id": "1", "name": "a"}, "a line of a log"],
    ],
)
def test_other_json_and_text_have_no_tree(trace: Any) -> None:
    assert span_tree(trace) is None


@pytest.mark.parametrize("odd", ["²", "--5", "5" * 5000, "0001-01-01T00:00:00", "yesterday", "1.5."])
def test_a_time_or_whole_number_that_is_none_is_unknown_or_stays(odd: str) -> None:
    attributes = [{"key": "tries", "value": {"intValue": odd}}]
    tree = span_tree([{"name": "a", "span_id": "1", "start_time": odd, "attributes": attributes}])
    assert tree is not None
    assert (tree.spans[0].start, tree.spans[0].attributes) == (None, {"tries": odd})


def test_brackets_in_a_text_end_nobodys_stack() -> None:
    small, deep = "[" * 20 + "]" * 20, "[" * 960 + "]" * 960
    for text, opened in ((small, True), (deep, False)):
        tree = span_tree(
            json.dumps([{"name": "a", "span_id": "1", "inputs": text}])
        )  # the text of a trace is the trace
        assert tree is not None
        assert (tree.spans[0].inputs != text) is opened
        (turn,) = turns_of([{"role": "assistant", "tool_calls": [{"name": "f", "arguments": text}]}]) or ()
        assert (turn.calls[0]["arguments"] != text) is opened


def test_conventions_of_tracers_are_known() -> None:
    tree = span_tree(
        [
            {"name": "a", "span_id": "1", "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[1]"}},
            {"name": "b", "context": {"trace_id": "t", "span_id": "2"}, "kind": "SpanKind.CLIENT", "status": {"status_code": "ERROR", "description": "down"}},
            {"name": "c", "id": "3", "trace_id": "t", "run_type": "tool", "start_time": "2026-03-01T12:00:00Z", "end_time": "2026-03-01T12:00:02+00:00", "error": "boom"},
            {"name": "d", "span_id": "4", "start": 1_700_000_000.5, "end": 1_700_000_001.0},
        ]
    )  # fmt: skip
    assert tree is not None
    by_name = {span.name: span for span in tree.spans}
    assert (by_name["a"].kind, by_name["a"].inputs) == ("CHAT", [1])
    assert (by_name["b"].kind, by_name["b"].status, by_name["b"].message) == ("CLIENT", "error", "down")
    assert (by_name["c"].kind, by_name["c"].status, by_name["c"].message) == ("TOOL", "error", "boom")
    assert (by_name["c"].seconds, by_name["d"].seconds) == (2.0, 0.5)
