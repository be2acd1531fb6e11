"""How probable each label was, from token probabilities as endpoints give them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.models.probabilities import label_probabilities, read_tokens, yes_no_margin


def answer(*tokens: str | dict[str, float]) -> list[dict[str, Any]]:
    """An answer's tokens; one with alternatives is given as a dict, of which the first entry was written."""
    content = []
    for token in tokens:
        weights = {token: 1.0} if isinstance(token, str) else token
        rows = [{"token": text, "bytes": list(text.encode()), "logprob": math.log(p)} for text, p in weights.items()]
        content.append({**rows[0], "top_logprobs": rows})
    return content


def chances(content: list[dict[str, Any]], *labels: str) -> dict[str, float] | None:
    return label_probabilities(read_tokens(content), labels)


TRUTH, QUOTED = ("true", "false"), ('"Supported"', '"Refuted"', '"Not enough"')
ARGUMENTS = ('"Argument A"', '"Argument B"', '"tie"')
TEN = tuple(str(n) for n in range(1, 11))
PARTLY = ('"no"', '"partly yes"', '"partly no"')


@pytest.mark.parametrize(
    ("tokens", "labels", "expected"),
    [
        (['{"', "value", '":', {" true": 0.6, " false": 0.2, " maybe": 0.2}, "}"], TRUTH, (0.75, 0.25)),
        (['{"value": ', {"4": 0.5, "3": 0.3, "5": 0.2, "7": 0.4}, "}"], TEN[:5], (0, 0, 0.3, 0.5, 0.2)),
        # A verdict that is quoted in the reason does not count.
        (
            ['{"rationale": "it says \\"value\\": true', '", "value": ', {"false": 0.9, "true": 0.1}, "}"],
            TRUTH,
            (0.1, 0.9),
        ),
        # Labels of several tokens part at their first letters; a common beginning says nothing.
        (['{"value":', ' "', {"Ref": 0.5, "Support": 0.4, "Not": 0.1}, "uted", '"}'], QUOTED, (0.4, 0.5, 0.1)),
        (
            ['{"value": ', {'"': 0.9, '"Arg': 0.1}, {"Argument": 0.8, "tie": 0.2}, {" B": 0.75, " A": 0.25}, '"}'],
            ARGUMENTS,
            (0.2, 0.6, 0.2),
        ),
        # One is told from ten.
        (['{"value": ', {"1": 0.7, "2": 0.3}, {"}": 0.6, "0": 0.4}], ("1", "2", "10"), (0.42, 0.3, 0.28)),
        (['{"value": ', {"2": 0.6, "1": 0.3, "12": 0.1}, "}"], ("1", "2", "10"), (1 / 3, 2 / 3, 0)),
        *(
            (['{"value": ', weights, "}"], TEN, tuple(weights.get(label, 0.0) for label in TEN))
            for weights in (
                {"2": 0.55, "1": 0.4, "10": 0.05},
                {"1": 0.5, "10": 0.4, "2": 0.1},
                {"10": 0.6, "1": 0.4},
                {"10": 0.3, "9": 0.3, "1": 0.4},
            )
        ),
        # Labels in a branch that was not taken share its probability.
        (['{"value": "', {"no": 0.4, "partly": 0.6}, '"}'], PARTLY, (0.4, 0.3, 0.3)),
        # Nothing is made up: no verdict, none of the labels, or only the token that was written.
        (['{"rationale": "', "cut"], TRUTH, None),
        (['{"value": ', "maybe", "}"], TRUTH, None),
        (['{"value": ', {"true": 0.6}, "}"], TRUTH, None),
    ],
)
def test_each_label_has_its_share(
    tokens: list[Any], labels: tuple[str, ...], expected: tuple[float, ...] | None
) -> None:
    shares = expected and pytest.approx(dict(zip(labels, expected, strict=True)))
    assert chances(answer(*tokens), *labels) == shares


def test_a_written_label_counts_though_it_is_unlikely() -> None:
    content = answer('{"value":', {" false": 0.01}, "}")
    content[1]["top_logprobs"] = [{"token": " true", "logprob": math.log(0.3)}]
    assert chances(content, *TRUTH) == pytest.approx({"true": 0.3 / 0.31, "false": 0.01 / 0.31})


def test_a_letter_may_be_split_between_tokens() -> None:
    content = answer('{"value": "')
    for first, second in (((b"\xc3", 0.8), (b"b", 0.2)), ((b"\xa9", 1.0), (b"\xa8", 0.0))):
        rows = [{"token": "?", "bytes": list(text), "logprob": math.log(p or 1e-9)} for text, p in (first, second)]
        content.append({**rows[0], "top_logprobs": rows})
    told = chances([*content, *answer('"}')], '"é"', '"è"', '"b"')
    assert told == pytest.approx({'"é"': 0.8, '"è"': 0.0, '"b"': 0.2}, abs=1e-6)


@pytest.mark.parametrize(
    ("place", "change", "expected"),
    [(0, {"bytes": [300]}, (0.6, 0.4)), (0, {"bytes": [-1]}, (0.6, 0.4)), (1, {"logprob": math.nan}, (1.0, 0.0))],
)
def test_bytes_and_numbers_that_are_none_do_not_count(
    place: int, change: dict[str, Any], expected: tuple[float, float]
) -> None:
    content = answer('{"value": ', {"true": 0.6, "false": 0.4}, "}")
    content[1]["top_logprobs"][place] |= change
    content[1] |= change if place == 0 else {}
    assert chances(content, *TRUTH) == pytest.approx(dict(zip(TRUTH, expected, strict=True)))


@given(
    st.lists(st.text(st.sampled_from('ab1" é'), max_size=4), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    st.data(),
)
def test_any_tokens_give_a_distribution_or_nothing(texts: list[str], weights: list[float], data: st.DataObject) -> None:
    labels = ('"a"', '"ab"', '"b1"', '"é"')
    tokens: list[str | dict[str, float]] = ['{"value": ']
    for _ in range(data.draw(st.integers(0, 5))):
        chosen = data.draw(st.permutations(texts))
        tokens.append(dict(zip(chosen, weights, strict=False)))
    told = chances(answer(*tokens), *labels)
    if told is not None:
        assert set(told) == set(labels)
        assert sum(told.values()) == pytest.approx(1.0)
        assert all(-1e-9 <= p <= 1 + 1e-9 for p in told.values())


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"Yes": 0.2, "yes": 0.2, " YES": 0.2, "No": 0.1, " no": 0.1, "The": 0.1}, math.log(3)),  # all spellings
        ({"Yes": 0.2, "No": 0.2, "Not": 0.3, "Yesterday": 0.1}, 0.0),  # these only begin alike
        ({"Yes": 0.9, "The": 0.03, "Maybe": 0.01}, math.log(90)),  # an untold side equals the least told token
        ({"No": 0.9, "The": 0.03, "Maybe": 0.01}, -math.log(90)),
        ({"The": 0.9, "A": 0.1}, 0.0),  # neither is no evidence
        ({"Yes": 1.0, "No": 1e-30}, 15.0),
    ],
)
def test_yes_is_weighed_against_no(weights: dict[str, float], expected: float) -> None:
    assert yes_no_margin(read_tokens(answer(weights))[0]) == pytest.approx(expected)


def test_of_one_alternative_nothing_is_told() -> None:
    content = answer({"Yes": 0.5, "No": 0.5})
    content[0]["top_logprobs"][1]["logprob"] = -math.inf
    assert yes_no_margin(read_tokens(content)[0]) == 0.0


@given(st.dictionaries(st.text(st.sampled_from("yesnoYN .")), st.floats(1e-12, 1), min_size=1))
def test_yes_and_no_are_treated_alike(weights: dict[str, float]) -> None:
    swap = {"yes": "no", "no": "yes"}
    turned = {swap.get(text.strip(" .").lower(), text): p for text, p in weights.items()}
    if len(turned) == len(weights):
        one, other = (yes_no_margin(read_tokens(answer(each))[0]) for each in (weights, turned))
        assert one == pytest.approx(-other, abs=1e-9)
        assert -15.0 <= one <= 15.0
