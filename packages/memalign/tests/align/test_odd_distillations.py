"""A distillation is one call whatever its answer looks like: a bad entry costs itself,
never the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest
from memalign.testing import ScriptedChatModel
from memalign.types import Usage
from tests.support.learning import bare, learn, states
from tests.support.lists import texts
from tests.support.scripted import change
from tests.support.world import said

RULES = [
    "When matter 1 comes up, say so at once.",
    "When matter 2 comes up, say so at once.",
    "When matter 3 comes up, say so at once.",
]
ROWS = [
    said(1, "It should name matter 1.", value=False),
    said(2, "It should name matter 2.", value=True),
    said(3, "It should name matter 3.", value=False),
]
GOOD = [change("ADD", f"F{n}", text=text) for n, text in enumerate(RULES, 1)]


def learned(text: str) -> list[str]:
    """The rules learned from a model that answers this text, in one call; all feedback
    is learned where there are as many as there should be."""

    def answer(request: ChatRequest) -> ChatReply:
        data, problem = answer_object(text, request.schema, optional=request.optional)
        assert data is not None
        assert not problem
        return ChatReply(data=data, text=text, usage=Usage(calls=1))

    model = ScriptedChatModel(answer)
    result = learn(bare(model=model)[0], ROWS)
    assert len(model.requests) == 1
    rules = sorted(texts(result.guidelines))
    assert rules != RULES or {*states(result.judge).values()} == {"learned"}
    return rules


@pytest.mark.parametrize(
    ("name", "odds"),
    [
        ("guideline", [None, [], {}, 7, "none", "G99"]),
        ("action", ["add", " Add ", None, "", "REVISE", "revise"]),
        ("action", ["**ADD**", "Create", "new", {"type": "ADD"}]),
        ("feedback", ["F1", "f1", ["f1"], ["F1", "F99"], "F1, F99", [1], 1]),
        ("feedback", [["F1", "F1"], [["F1"]], [{"id": "F1"}], {"name": "F1"}]),
        ("feedback", ["[F1]", ["#1"], "F1.", "feedback F1 and F99"]),
        ("tests", [None, "none", {}, [None, 3, {"kind": "?"}]]),
        ("tests", [[{"kind": "word", "text": None}]]),
        ("checks", [None, "no", [None, "x"]]),
        ("text", [[RULES[0]], {"text": RULES[0]}, RULES[0].partition(" ")[::2]]),
        ("confidence", [0.9]),
        ("guideline_id", [None]),
    ],
)
def test_a_nicety_that_is_wrong_costs_nothing(name, odds):
    for odd in odds:
        changes = [GOOD[0] | {name: odd}, *GOOD[1:]]
        assert learned(json.dumps({"changes": changes, "conflicts": []})) == RULES, odd


@pytest.mark.parametrize("left_out", ["guideline", "action"])
def test_a_part_that_is_missing_costs_nothing(left_out):
    changes = []
    for each in GOOD:
        changes.append({name: each[name] for name in each if name != left_out})
    assert learned(json.dumps({"changes": changes})) == RULES


BAD_ENTRIES: list[Any] = [
    None,
    3,
    "Say sorry.",
    [],
    {},
    {"text": None},
    {"action": "DELETE", "guideline": "G1"},
    change("ADD", "F99", text="A rule about nothing."),
    change("ADD", text="A rule of nobody."),
    change("ADD", "F1", text=""),
    change("REVISE", "F1", text="", guideline="G99"),
    change("SUPPORT", "F1", guideline="G99"),
    {"action": ["ADD"], "feedback": {"F1": 1}, "text": {"a": 1}},
]
ODD_CONFLICTS: list[Any] = [
    None,
    [],
    "none",
    {},
    [None, 3, "F1"],
    [{"feedback": "F1"}],
    [{"feedback": ["F1", "F9"]}],
]
ENVELOPES = [
    "{}",
    "```json\n{}\n```",
    "I think {{so}}.</think>{}",
    '{{"answer": {}}}',
]


@given(
    st.lists(st.sampled_from(BAD_ENTRIES), max_size=4),
    st.permutations(GOOD),
    st.sampled_from(ODD_CONFLICTS),
    st.sampled_from(ENVELOPES),
)
def test_bad_entries_cost_themselves_and_good_ones_teach(
    bad, good, conflicts, envelope
):
    answer = json.dumps({"changes": [*bad, *good], "conflicts": conflicts})
    assert learned(envelope.format(answer)) == RULES


JSON_OF_EACH = [json.dumps(rule) for rule in GOOD]


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        {"Changes": GOOD},
        {"rules": GOOD, "note": "That is all."},
        {"answer": {"changes": GOOD}},
        {"changes": {"C0": GOOD[0], "C1": GOOD[1], "C2": GOOD[2]}},
        {"changes": JSON_OF_EACH},
        {"changes": json.dumps(GOOD)},
        {"changes": [GOOD]},
        {"changes": [[rule] for rule in GOOD]},
        [GOOD],
        {"changes": [{name.title(): rule[name] for name in rule} for rule in GOOD]},
        "[" + ",".join(JSON_OF_EACH) + ",]",
        "\n".join(JSON_OF_EACH),
    ],
)
def test_a_list_in_another_form_is_an_answer(answer):
    assert learned(answer if isinstance(answer, str) else json.dumps(answer)) == RULES


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        ({"changes": None}, []),
        ({"changes": []}, []),
        (GOOD[0], [RULES[0]]),  # one change without its list
    ],
)
def test_an_answer_that_changes_little_is_one(answer, rules):
    assert learned(json.dumps(answer)) == rules
