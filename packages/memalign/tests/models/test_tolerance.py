"""What a model means is understood however it spells it; what it may mean in two ways is not guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Judge
from memalign.models.answers import read_answer, understood
from tests.support.chat_models import model_at
from tests.support.endpoint import Endpoint, says

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string"},
        "value": {"type": "boolean"},
        "score": {"type": "integer", "enum": [1, 2, 3]},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "label": {"type": "string", "enum": ["good", "bad"]},
        "grade": {"type": "string", "enum": ["1", "2"]},
        "checks": {"type": "array", "items": {"type": "string", "enum": ["yes", "no", "n/a"]}},
    },
    "required": ["rationale", "value"],
    "additionalProperties": False,
}
PLAIN: dict[str, Any] = {"rationale": "Kind.", "value": True}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (PLAIN | {"confidence": 0.9, "secret": {"a": 1}}, {}),
        (PLAIN | {"value": "True"}, {}),
        (PLAIN | {"value": " yes "}, {}),
        (PLAIN | {"value": "FALSE"}, {"value": False}),
        (PLAIN | {"value": "No"}, {"value": False}),
        (PLAIN | {"score": "3"}, {"score": 3}),
        (PLAIN | {"score": "2.0"}, {"score": 2}),
        (PLAIN | {"share": "0.25"}, {"share": 0.25}),
        (PLAIN | {"label": "GOOD"}, {"label": "good"}),
        (PLAIN | {"label": " Bad\n"}, {"label": "bad"}),
        (PLAIN | {"grade": 2}, {"grade": "2"}),
        (PLAIN | {"checks": ["Yes", True, False, "N/A"]}, {"checks": ["yes", "yes", "no", "n/a"]}),
        ({"Rationale": "Kind.", "VALUE ": "Yes", "Score": "1"}, {"score": 1}),
        ({"rationale": "Kind.", "Value": False, "value": True}, {}),  # an exact key goes before other spellings
    ],
)
def test_another_spelling_of_the_same_is_understood(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert read_answer(json.dumps(written), SCHEMA) == (PLAIN | meant, "")


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        *((PLAIN | {"value": value}, "value") for value in (1, "1", "probably", "yes, mostly", None)),
        *((PLAIN | {"score": value}, "score") for value in ("3/3", "three", "4", True, "2.5")),
        *((PLAIN | {"share": value}, "share") for value in ("25 %", "1e400")),
        *((PLAIN | {"label": value}, "label") for value in ("goo", True)),
        (PLAIN | {"grade": True}, "grade"),
        *((PLAIN | {"rationale": value}, "rationale") for value in (None, 3)),
        ({"rationale": "Kind.", "Value": True, "VALUE": False}, "required"),
        ({"verdict": PLAIN}, "required"),
        ({"rationale": "Kind."}, "required"),
    ],
)
def test_a_meaning_is_not_guessed(odd: dict[str, Any], reason: str) -> None:
    assert reason in read_answer(json.dumps(odd), SCHEMA)[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "Value", "x"]), JSON, max_size=6))
def test_what_is_understood_stays_as_it_is(answer: dict[str, Any]) -> None:
    once, reason = read_answer(json.dumps(answer), SCHEMA)
    assert understood(once, SCHEMA) == once
    if not reason:
        assert read_answer(json.dumps(once), SCHEMA) == (once, "")


def test_any_spelling_makes_a_judgment_in_one_call() -> None:
    with Endpoint(says('{"Rationale": "Kind.", "Value": "True", "confidence": "high"}')) as endpoint:
        judge = Judge(
            name="kind", instructions="Kind? {{ outputs }}", feedback_value_type=bool, model=model_at(endpoint)
        )
        assert judge(outputs="Hello!").value is True
    assert len(endpoint.requests) == 1
