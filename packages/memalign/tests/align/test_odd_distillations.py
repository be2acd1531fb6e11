"""A distillation is one call whatever its answer looks like: a bad entry costs itself,
never the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest
from memalign.testing import ScriptedChatModel
from memalign.types import Usage
from tests.support.learning import bare, learn, states
from tests.support.scripted import change

ROWS = [
    {
        "id": f"t-{n}",
        "inputs": f"question {n}",
        "outputs": f"answer {n}",
        "source": "ana",
        "value": n % 2 == 0,
    }
    | {"rationale": f"It should name matter {n}, says ana."}
    for n in (1, 2, 3)
]
GOOD = [
    change("ADD", f"F{n}", text=f"When matter {n} comes up, say so at once.")
    for n in (1, 2, 3)
]


def learned(text: str) -> tuple[int, list[str], dict[Any, str]]:
    """Align with a model that answers this text: how many calls, which rules, and the
    state of the feedback."""

    def answer(request: ChatRequest) -> ChatReply:
        data, problem = answer_object(text, request.schema, optional=request.optional)
        assert data is not None
        assert not problem
        return ChatReply(data=data, text=text, usage=Usage(calls=1))

    model = ScriptedChatModel(answer)
    result = learn(bare(model=model)[0], ROWS)
    return (
        len(model.requests),
        sorted(rule.text for rule in result.guidelines),
        states(result.judge),
    )


RULES = sorted(rule["text"] for rule in GOOD)

ODD: list[tuple[str, list[Any]]] = [
    ("guideline", [None, [], {}, 7, "none", "G99"]),
    ("action", ["add", " Add ", None, "", "REVISE", "revise"]),
    ("feedback", ["F1", "f1", ["f1"], ["F1", "F99"], "F1, F99", [1], 1, ["F1", "F1"]]),
    (
        "tests",
        [None, "none", {}, [None, 3, {"kind": "?"}], [{"kind": "word", "text": None}]],
    ),
    ("checks", [None, "no", [None, "x"]]),
]
ONE_ODD: list[dict[str, Any]] = [
    *({name: odd} for name, odds in ODD for odd in odds),
    {"text": ["When matter 1 comes up, say so at once."]},
    {"confidence": 0.9, "reason": "…", "guideline_id": None},
]


@pytest.mark.parametrize("odd", ONE_ODD, ids=repr)
def test_a_nicety_that_is_wrong_costs_nothing(odd: dict[str, Any]) -> None:
    calls, rules, ended = learned(
        json.dumps({"changes": [GOOD[0] | odd, *GOOD[1:]], "conflicts": []})
    )
    assert (calls, rules) == (1, RULES)
    assert {*ended.values()} == {"learned"}


@pytest.mark.parametrize("left_out", ["guideline", "action", "conflicts"])
def test_a_part_that_is_missing_costs_nothing(left_out: str) -> None:
    changes = [
        {name: part for name, part in each.items() if name != left_out} for each in GOOD
    ]
    calls, rules, _ = learned(
        json.dumps(
            {"changes": changes}
            | ({} if left_out == "conflicts" else {"conflicts": []})
        )
    )
    assert (calls, rules) == (1, RULES)


BAD_ENTRIES: list[Any] = [
    *(
        None,
        3,
        "Say sorry.",
        [],
        {},
        {"text": None},
        {"action": "DELETE", "guideline": "G1"},
    ),
    *(
        change("ADD", "F99", text="A rule about nothing."),
        change("ADD", text="A rule of nobody."),
    ),
    *(change("ADD", "F1", text=""), change("REVISE", "F1", text="", guideline="G99")),
    *(
        change("SUPPORT", "F1", guideline="G99"),
        {"action": ["ADD"], "feedback": {"F1": 1}, "text": {"a": 1}},
    ),
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


@given(
    st.lists(st.sampled_from(BAD_ENTRIES), max_size=4),
    st.permutations(GOOD),
    st.sampled_from(ODD_CONFLICTS),
    st.sampled_from(
        [
            str,
            "```json\n{}\n```".format,
            "I think {{so}}.</think>{}".format,
            '{{"answer": {}}}'.format,
        ]
    ),
)
def test_bad_entries_cost_themselves_and_good_ones_teach(
    bad: list[Any], good: list[Any], conflicts: Any, wrapped: Callable[[str], str]
) -> None:
    calls, rules, ended = learned(
        wrapped(json.dumps({"changes": [*bad, *good], "conflicts": conflicts}))
    )
    assert (calls, rules) == (1, RULES)
    assert {*ended.values()} == {"learned"}


LISTS: list[Any] = [
    *(
        GOOD,
        {"Changes": GOOD},
        {"rules": GOOD, "note": "That is all."},
        {"answer": {"changes": GOOD}},
    ),
    *(
        {"changes": {f"C{n}": rule for n, rule in enumerate(GOOD)}},
        {"changes": [json.dumps(rule) for rule in GOOD]},
    ),
]


@pytest.mark.parametrize(
    "text",
    [
        *map(json.dumps, LISTS),
        "[" + json.dumps(GOOD)[1:-1] + ",]",
        "\n".join(map(json.dumps, GOOD)),
    ],
)
def test_a_list_in_another_form_is_an_answer(text: str) -> None:
    assert learned(text)[:2] == (1, RULES)


def test_an_answer_that_changes_nothing_is_one() -> None:
    for text in ('{"changes": null}', '{"changes": []}'):
        assert learned(text)[:2] == (1, [])


def test_one_change_without_its_list_is_an_answer() -> None:
    calls, rules, _ = learned(json.dumps(GOOD[0]))
    assert (calls, rules) == (1, [GOOD[0]["text"]])
