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


class TestOneTokenTellsLabelsApart:
    def test_true_and_false(self) -> None:
        told = chances(answer('{"', "value", '":', {" true": 0.6, " false": 0.2, " maybe": 0.2}, "}"), "true", "false")
        assert told == pytest.approx({"true": 0.75, "false": 0.25})

    def test_a_score(self) -> None:
        told = chances(answer('{"value": ', {"4": 0.5, "3": 0.3, "5": 0.2, "7": 0.4}, "}"), *"12345")
        assert told == pytest.approx({"1": 0, "2": 0, "3": 0.3, "4": 0.5, "5": 0.2})

    def test_a_verdict_quoted_in_reasons_does_not_count(self) -> None:
        content = answer('{"rationale": "it says \\"value\\": true', '", "value": ', {"false": 0.9, "true": 0.1}, "}")
        assert chances(content, "true", "false") == pytest.approx({"true": 0.1, "false": 0.9})

    def test_a_written_label_counts_though_it_is_unlikely(self) -> None:
        content = answer('{"value":', {" false": 0.01}, "}")
        content[1]["top_logprobs"] = [{"token": " true", "logprob": math.log(0.3)}]
        assert chances(content, "true", "false") == pytest.approx({"true": 0.3 / 0.31, "false": 0.01 / 0.31})


class TestLabelsOfSeveralTokens:
    LABELS = ('"Supported"', '"Refuted"', '"Not enough"')

    def test_they_part_at_their_first_letters(self) -> None:
        content = answer('{"value":', ' "', {"Ref": 0.5, "Support": 0.4, "Not": 0.1}, "uted", '"}')
        assert chances(content, *self.LABELS) == pytest.approx(dict(zip(self.LABELS, (0.4, 0.5, 0.1), strict=True)))

    def test_a_common_beginning_says_nothing(self) -> None:
        labels = ('"Argument A"', '"Argument B"', '"tie"')
        content = answer(
            '{"value": ', {'"': 0.9, '"Arg': 0.1}, {"Argument": 0.8, "tie": 0.2}, {" B": 0.75, " A": 0.25}, '"}'
        )
        told = chances(content, *labels)
        assert told == pytest.approx({'"Argument A"': 0.2, '"Argument B"': 0.6, '"tie"': 0.2})

    def test_one_is_told_from_ten(self) -> None:
        labels = ("1", "2", "10")
        content = answer('{"value": ', {"1": 0.7, "2": 0.3}, {"}": 0.6, "0": 0.4})
        assert chances(content, *labels) == pytest.approx({"1": 0.42, "2": 0.3, "10": 0.28})

    @pytest.mark.parametrize(
        "weights",
        [
            {"2": 0.55, "1": 0.4, "10": 0.05},
            {"1": 0.5, "10": 0.4, "2": 0.1},
            {"10": 0.6, "1": 0.4},
            {"10": 0.3, "9": 0.3, "1": 0.4},
        ],
    )
    def test_one_does_not_begin_a_single_token_ten(self, weights: dict[str, float]) -> None:
        told = chances(answer('{"value": ', weights, "}"), *(str(n) for n in range(1, 11)))
        assert told == pytest.approx({str(n): weights.get(str(n), 0.0) for n in range(1, 11)})

    def test_another_numbers_token_tells_ten_from_one(self) -> None:
        told = chances(answer('{"value": ', {"2": 0.6, "1": 0.3, "12": 0.1}, "}"), "1", "2", "10")
        assert told == pytest.approx({"1": 1 / 3, "2": 2 / 3, "10": 0})

    def test_labels_in_an_untaken_branch_share_its_probability(self) -> None:
        labels = ('"no"', '"partly yes"', '"partly no"')
        content = answer('{"value": "', {"no": 0.4, "partly": 0.6}, '"}')
        assert chances(content, *labels) == pytest.approx({labels[0]: 0.4, labels[1]: 0.3, labels[2]: 0.3})

    def test_a_letter_may_be_split_between_tokens(self) -> None:
        content = answer('{"value": "')
        for first, second in (((b"\xc3", 0.8), (b"b", 0.2)), ((b"\xa9", 1.0), (b"\xa8", 0.0))):
            rows = [{"token": "?", "bytes": list(text), "logprob": math.log(p or 1e-9)} for text, p in (first, second)]
            content.append({**rows[0], "top_logprobs": rows})
        content += answer('"}')
        told = chances(content, '"é"', '"è"', '"b"')
        assert told == pytest.approx({'"é"': 0.8, '"è"': 0.0, '"b"': 0.2}, abs=1e-6)


class TestNothingIsMadeUp:
    def test_an_answer_without_a_verdict(self) -> None:
        assert chances(answer('{"rationale": "', "cut"), "true", "false") is None

    def test_an_answer_that_is_none_of_the_labels(self) -> None:
        assert chances(answer('{"value": ', "maybe", "}"), "true", "false") is None

    def test_an_endpoint_that_tells_only_the_written_token(self) -> None:
        content = answer('{"value": ', {"true": 0.6}, "}")
        assert chances(content, "true", "false") is None

    @pytest.mark.parametrize("bytes_", [[300], [-1]])
    def test_bytes_that_are_none_do_not_count(self, bytes_: list[int]) -> None:
        content = answer('{"value": ', {"true": 0.6, "false": 0.4}, "}")
        content[1]["top_logprobs"][0]["bytes"] = content[1]["bytes"] = bytes_
        assert chances(content, "true", "false") == pytest.approx({"true": 0.6, "false": 0.4})

    def test_a_probability_that_is_no_number(self) -> None:
        content = answer('{"value": ', {"true": 0.6, "false": 0.4}, "}")
        content[1]["top_logprobs"][1]["logprob"] = math.nan
        assert chances(content, "true", "false") == pytest.approx({"true": 1.0, "false": 0.0})

    @given(
        st.lists(st.text(st.sampled_from('ab1" é'), max_size=4), min_size=1, max_size=6),
        st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
        st.data(),
    )
    def test_any_tokens_give_a_distribution_or_nothing(
        self, texts: list[str], weights: list[float], data: st.DataObject
    ) -> None:
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


def margin(**weights: float) -> float:
    told = {text.replace("_", " "): p for text, p in weights.items()}
    return yes_no_margin(read_tokens(answer(told))[0])


class TestYesAgainstNo:
    def test_all_spellings_are_added_up(self) -> None:
        assert margin(Yes=0.2, yes=0.2, _YES=0.2, No=0.1, _no=0.1, The=0.1) == pytest.approx(math.log(3))

    def test_words_that_only_begin_alike_are_neither(self) -> None:
        assert margin(Yes=0.2, No=0.2, Not=0.3, Yesterday=0.1) == pytest.approx(0.0)

    def test_an_untold_side_equals_the_least_told_one(self) -> None:
        assert margin(Yes=0.9, The=0.03, Maybe=0.01) == pytest.approx(math.log(90))
        assert margin(No=0.9, The=0.03, Maybe=0.01) == pytest.approx(-math.log(90))

    def test_neither_is_no_evidence(self) -> None:
        assert margin(The=0.9, A=0.1) == 0.0

    def test_it_is_finite_whatever_is_told(self) -> None:
        assert margin(Yes=1.0, No=1e-30) == 15.0
        content = answer({"Yes": 0.5, "No": 0.5})
        content[0]["top_logprobs"][1]["logprob"] = -math.inf
        assert yes_no_margin(read_tokens(content)[0]) == 0.0  # of one alternative nothing is told

    @given(st.dictionaries(st.text(st.sampled_from("yesnoYN .")), st.floats(1e-12, 1), min_size=1))
    def test_yes_and_no_are_treated_alike(self, weights: dict[str, float]) -> None:
        swap = {"yes": "no", "no": "yes"}
        turned = {swap.get(text.strip(" .").lower(), text): p for text, p in weights.items()}
        if len(turned) == len(weights):
            one, other = (yes_no_margin(read_tokens(answer(each))[0]) for each in (weights, turned))
            assert one == pytest.approx(-other, abs=1e-9)
            assert -15.0 <= one <= 15.0
