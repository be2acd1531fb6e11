"""What a judge's figures are worth: shares of traffic, what may pass without a person, how many labels that takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import ScoredCase, as_html, as_markdown, evaluate, report
from memalign.evaluation.intervals import mean_interval
from memalign.evaluation.promise import binomial_tail, fewest_for, passing, promise_of
from memalign.evaluation.sentences import constant_label, half_width
from memalign.evaluation.traffic import (
    corrected_mean,
    corrected_share,
    refusal,
    traffic_of,
)
from memalign.metrics import Estimate
from memalign.models.base import ChatRequest, Question
from memalign.testing import ScriptedChatModel, ScriptedDecisionModel
from memalign.types import Feedback, Judgment, Usage
from memalign.values import ValueType
from tests.support.rows import RawRow
from tests.support.scripted import scripted

ITEM = re.compile(r"item (\d+)")
PLACES = np.arange(80)
LABELS = (PLACES * 7) % 10 < 6
VERDICTS = LABELS ^ ((PLACES * 3) % 11 == 0)
OTHERS = (np.arange(900) * 13) % 17 < 9
SCORES = 1 + (PLACES * 7) % 5
GIVEN = np.clip(SCORES + (PLACES * 3) % 4 - 1, 1, 5)
GIVEN_OTHERS = 1 + (np.arange(900) * 13) % 5


def ends(figure: Estimate | None) -> tuple[float, float, float]:
    """The figure and the ends of its interval, which must be there."""
    assert figure is not None
    assert figure.value is not None
    assert figure.low is not None
    assert figure.high is not None
    return figure.value, figure.low, figure.high


def width(figure: Estimate) -> float:
    _, low, high = ends(figure)
    return high - low


# -- the corrected share -----------------------------------------------------------------------------------------------


def test_a_share_is_that_of_prediction_powered_inference() -> None:
    """The figures of ppi-python 0.2.3 (ppi_mean_ci, power-tuned); its intervals are normal, ours a little wider."""
    share = corrected_share(list(LABELS), list(VERDICTS), list(OTHERS))
    assert ends(share) == pytest.approx((0.5673, 0.4976, 0.6369), abs=0.015)
    assert width(share) > 0.6369 - 0.4976
    mean = corrected_mean(list(SCORES), list(GIVEN), list(GIVEN_OTHERS))
    assert ends(mean) == pytest.approx((2.7526, 2.5435, 2.9617), abs=0.01)


def test_a_judge_that_says_nothing_leaves_the_labels_alone() -> None:
    """Wilson's interval with Student's t, as scipy has it with the normal's for many labels."""
    labels = [place % 4 > 0 for place in range(2_000)]
    same = [True] * 2_000
    share = corrected_share(labels, same, [True] * 9_000)
    wilson = stats.binomtest(1_500, 2_000).proportion_ci(method="wilson")
    assert ends(share) == pytest.approx((0.75, wilson.low, wilson.high), abs=1e-3)


def test_a_perfect_judge_has_the_share_of_all_rows() -> None:
    share = corrected_share(list(LABELS), list(LABELS), list(OTHERS))
    assert share.value == pytest.approx((LABELS.sum() + OTHERS.sum()) / 980)
    assert width(share) > 0, "eighty labels prove no perfection"


def test_cases_that_belong_together_tell_less() -> None:
    one = corrected_share(list(LABELS), list(VERDICTS), list(OTHERS))
    # four copies of each of twenty cases are twenty cases
    few = np.repeat(LABELS[:20], 4).tolist()
    said = np.repeat(VERDICTS[:20], 4).tolist()
    groups = [f"g{place // 4}" for place in range(80)]
    copies = corrected_share(few, said, list(OTHERS), groups)
    alone = corrected_share(few, said, list(OTHERS))
    assert copies.value == alone.value
    assert width(copies) > 1.7 * width(alone)
    assert width(one) < width(copies)


@pytest.mark.parametrize(
    ("labels", "verdicts", "groups", "why"),
    [
        ([], [], None, "it takes 20 labelled cases, and 0 count here"),
        (
            [True] * 19,
            [True] * 19,
            None,
            "it takes 20 labelled cases, and 19 count here",
        ),
        (
            [True, False] * 20,
            [True] * 40,
            None,
            "the judge says the same of 40 of 40 labelled cases",
        ),
        (
            [True, False] * 20,
            [True] * 38 + [False] * 2,
            None,
            "says the same of 38 of 40",
        ),
        (
            [True, True, False, False] * 10,
            [True, False] * 20,
            None,
            "no more than by chance, on 40 cases",
        ),
        ([True] * 40, [True, False] * 20, None, "no more than by chance"),
        (
            [True, False] * 20,
            [True, False] * 20,
            ["a", "b"] * 20,
            "it takes 10 groups of labelled cases, and there are 2",
        ),
        ([True, False] * 20, [True, False] * 20, None, ""),
        ([1.0, 5.0] * 20, [2.0, 4.0] * 20, None, ""),
    ],
)
def test_a_correction_is_refused_in_words(
    labels: Any, verdicts: Any, groups: Any, why: str
) -> None:
    said = refusal(labels, verdicts, groups)
    assert why in said
    assert bool(said) == bool(why)


# -- an evaluation on traffic ------------------------------------------------------------------------------------------


def right(number: int) -> bool:
    return number % 5 > 0


def label(number: int) -> bool:
    return number % 2 == 0


def number_in(text: str) -> int:
    """The number of the item that a prompt ends with."""
    return int(ITEM.findall(text)[-1])


def sure(number: int) -> float:
    """The probability of yes: all but every fifth item is right, and these are said with less confidence."""
    yes = 0.97 if right(number) else 0.7
    return yes if label(number) == right(number) else 1 - yes


def deciding() -> Judge:
    """A decision model that is right on four of five items, and less sure of the fifth."""

    def decide(state: str, question: Question) -> dict[str, float]:
        yes = sure(number_in(state))
        return {"true": yes, "false": 1 - yes}

    return even(None, model=ScriptedDecisionModel(decide))


def chatting() -> Judge:
    def answer(request: ChatRequest) -> dict[str, Any]:
        number = number_in(request.user)
        return {"rationale": "Read.", "value": label(number) == right(number)}

    return even(answer)


def even(answer: Any, **changes: Any) -> Judge:
    """A judge of whether an item is even, which answers so."""
    return scripted(answer, **{"instructions": "Even? {{ outputs }}"} | changes)[0]


def rows(first: int, last: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=label(n), source="ana", **more)
        for n in range(first, last)
    ]


def items(first: int, last: int, **more: Any) -> list[RawRow]:
    return [
        {"id": f"r-{n}", "outputs": f"item {n}", **more} for n in range(first, last)
    ]


def scored(*pairs: tuple[Any, Any], system: str | None = None) -> list[ScoredCase]:
    """Cases by what the judge says and what people say of each; traffic has no label."""
    return [
        ScoredCase(id=str(n), value=value, label=truth, system=system)
        for n, (value, truth) in enumerate(pairs)
    ]


def items_of(*numbers: int) -> list[RawRow]:
    return [{"id": f"h-{n}", "outputs": f"item {n}"} for n in numbers]


def test_the_share_in_traffic_is_said_in_words(tmp_path: Path) -> None:
    judge = chatting()
    out = tmp_path / "judged.jsonl"
    judge.judge_many(items(1_000, 2_000), out=out)
    result = evaluate(judge, rows(0, 100), on=out)
    (traffic,) = result.traffic
    (share,) = traffic.shares
    assert (traffic.labelled, traffic.judged, share.label) == (100, 1_000, "true")
    assert ends(share.corrected)[1] < 0.5 < ends(share.corrected)[2]
    said = "Of 1,000 judged rows, 50 % are true as the judge says it, and 50 % ["
    assert any(line.startswith(said) for line in str(result).splitlines()[:5])
    assert (
        "corrected for its errors on 100 labelled cases. People's labels alone: 50 % [40 %, 60 %]."
        in str(result)
    )
    assert json.loads(json.dumps(result.to_dict()))["traffic"][0]["shares"][0][
        "judge"
    ] == pytest.approx(0.5)
    in_memory = evaluate(judge, rows(0, 100), on=judge.judge_many(items(1_000, 2_000)))
    assert in_memory.traffic == result.traffic
    page = report(judge, result)
    for text in (
        as_markdown(page).replace("\\", ""),
        as_html(page).replace("\N{NO-BREAK SPACE}", " "),
    ):
        assert said in text
    assert page.headline == result.sentences()[0]
    assert page.sections[0].title == "In short"


def test_labelled_rows_may_be_a_part_of_the_traffic(tmp_path: Path) -> None:
    """Then nothing is judged twice, and no row counts twice."""
    judge = chatting()
    out = tmp_path / "judged.jsonl"
    judge.judge_many(items_of(*range(400)), out=out)
    asked = len(judge.model.requests)  # type: ignore[union-attr]
    result = evaluate(judge, rows(0, 50), on=out)
    assert len(judge.model.requests) == asked  # type: ignore[union-attr]
    assert (result.n, result.traffic[0].judged, result.traffic[0].labelled) == (
        50,
        400,
        50,
    )


def test_only_labelled_cases_that_the_traffic_lacks_are_judged(tmp_path: Path) -> None:
    """One is missing, one has changed since, and of one the call failed."""
    judge = chatting()
    out = tmp_path / "judged.jsonl"
    failing = judge.replace(
        model=ScriptedChatModel(lambda _: ModelUnavailable("HTTP 503"))
    )
    failing.judge_many([{"id": "h-3", "outputs": "item 3"}], out=out)
    changed = [{"id": "h-2", "outputs": "item 22"}]
    judge.judge_many(
        changed + items_of(*range(4, 400)), out=(rest := tmp_path / "rest.jsonl")
    )
    out.write_bytes(out.read_bytes() + rest.read_bytes())
    result = evaluate(judge, rows(1, 50), on=out)
    asked = [number_in(request.user) for request in judge.model.requests]  # type: ignore[union-attr]
    assert asked[397:] == [1, 2, 3]
    assert (result.n, result.usage.calls) == (49, 3)


def test_only_this_judges_verdicts_are_corrected(tmp_path: Path) -> None:
    out = tmp_path / "judged.jsonl"
    chatting().replace(instructions="Odd? {{ outputs }}").judge_many(
        items(0, 9), out=out
    )
    with pytest.raises(InputError, match="was judged by another judge"):
        evaluate(chatting(), rows(0, 40), on=out)
    with pytest.raises(InputError, match="no judged row has a verdict"):
        evaluate(chatting(), rows(0, 40), on=[Judgment(id="x", error="timed out")])


def test_rows_that_do_not_count_are_named() -> None:
    judge = chatting()
    judged = judge.judge_many(items(100, 300))
    more = [
        Judgment(id="x", error="timed out"),
        Judgment(id="y", value=True, decided_by="expert"),
    ]
    (traffic,) = evaluate(judge, rows(0, 40), on=[*judged, *more]).traffic
    assert (traffic.judged, traffic.unscored, traffic.taught) == (200, 1, 1)


def test_each_system_is_corrected_by_its_own_labels() -> None:
    judge = chatting()
    labelled = rows(0, 60, meta={"system": "week 1"}) + rows(
        60, 70, meta={"system": "week 2"}
    )
    traffic = items(1_000, 1_200, system="week 1") + items(
        2_000, 2_200, system="week 2"
    )
    judged = [
        *judge.judge_many(traffic),
        Judgment(id="y", value=True, decided_by="expert"),
    ]
    traffic += [{"id": "y", "outputs": "taught", "system": "week 2"}]
    result = evaluate(judge, labelled, on=judged, on_examples=traffic)
    first, second = result.traffic
    assert (first.system, first.labelled, first.judged, first.warnings) == (
        "week 1",
        60,
        200,
        (),
    )
    assert (first.taught, second.taught) == (0, 1)
    assert second.shares[0].refused == "it takes 20 labelled cases, and 10 count here"
    assert (
        "week 2: Of 200 judged rows, 50 % are true as the judge says it. That is not corrected: it takes 20"
        in str(result)
    )


@pytest.mark.parametrize(
    ("labelled", "traffic", "warning"),
    [
        (
            {"system": "A"},
            {"system": "B"},
            "labelled cases come from A, and the judged rows from B",
        ),
        (
            {},
            {"system": "B"},
            "labelled cases come from no system, and the judged rows from B",
        ),
        ({"system": "A"}, {"system": "A"}, ""),
    ],
)
def test_labels_of_another_system_are_warned_of(
    labelled: Any, traffic: Any, warning: str
) -> None:
    cases = scored(*((label(n) == right(n), label(n)) for n in range(50)), **labelled)
    judged = scored(*((label(n), "") for n in range(200)), **traffic)
    (result,) = traffic_of(ValueType.of("bool"), cases, judged)
    assert list(result.warnings) == ([warning] if warning else [])


def test_labels_that_were_not_drawn_at_random_are_warned_of() -> None:
    cases = scored(*((n % 10 > 0, label(n)) for n in range(60)))
    judged = scored(*((n % 3 == 0, "") for n in range(300)))
    (result,) = traffic_of(ValueType.of("bool"), cases, judged)
    assert result.warnings == (
        "by the judge's verdicts, true is 0.90 of labelled and 0.33 of other rows, so the labelled ones do not look drawn "
        "at random",
    )


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [
        ("A|B|C", ["A", "B", "C"], ["A", "B", "C"]),
        ("int:1..5", [1, 3, 5], ["mean"]),
        ("float:0..1", [0.0, 0.5, 1.0], ["mean"]),
        ("str", ["x", "y", "z"], []),
    ],
)
def test_every_value_type_has_its_shares(
    kind: str, values: list[Any], names: list[str]
) -> None:
    said = [values[n % 3 if n % 4 else (n + 1) % 3] for n in range(60)]
    cases = scored(*zip(said, values * 20, strict=True))
    judged = scored(*((value, "") for value in values * 100))
    (result,) = traffic_of(ValueType.of(kind), cases, judged)
    assert [share.label for share in result.shares] == names
    assert all(width(share.corrected) > 0 for share in result.shares)
    assert all(share.people.value is not None for share in result.shares)


# -- what may pass -----------------------------------------------------------------------------------------------------


def test_the_binomial_tail_is_scipys() -> None:
    for most, n, share in (
        (0, 59, 0.05),
        (3, 100, 0.05),
        (40, 100, 0.5),
        (7, 7, 0.3),
        (20, 5_000, 0.01),
    ):
        assert binomial_tail(most, n, share) == pytest.approx(
            stats.binom.cdf(most, n, share)
        )
    assert [fewest_for(least) for least in (0.9, 0.95, 0.99)] == [29, 59, 299]
    assert fewest_for(0.95, 1) == 93
    assert fewest_for(0.999999999) == 2_995_732_357  # at once


def surely(
    confidences: list[float], right: list[bool], groups: list[str] | None = None
) -> list[ScoredCase]:
    """Cases of which the judge is so sure, and is right or not."""
    return [
        ScoredCase(
            id=str(n),
            label=True,
            value=good,
            confidence=confidences[n],
            group=None if groups is None else groups[n],
        )
        for n, good in enumerate(right)
    ]


def test_a_promise_names_the_lowest_threshold_that_is_proven() -> None:
    confidences = [0.99] * 200 + [0.6] * 200
    found = promise_of(
        surely(confidences, [True] * 200 + [n % 2 == 0 for n in range(200)]), 0.95
    )
    assert found.kept is not None
    assert (found.kept.at, found.kept.n, found.kept.share) == (0.7, 200, 0.5)
    all_right = surely(confidences, [True] * 400)
    assert promise_of(all_right, 0.95).kept == passing(all_right, 0.0)


@pytest.mark.parametrize(
    ("n", "wrong", "least", "why", "missing"),
    [
        (
            0,
            0,
            0.95,
            "even without an error it takes 59 labelled cases, and 0 are here: at least 59 more",
            59,
        ),
        (20, 0, 0.9, "it takes 29 labelled cases, and 20 are here: at least 9 more", 9),
        (
            100,
            20,
            0.9,
            "people agree in 80.0% of 100 cases, so that labels alone will not help",
            None,
        ),
        (
            80,
            5,
            0.95,
            "people agree in 93.8% of 80 cases, which does not tell yet: label more",
            None,
        ),
        (100, 4, 0.95, "about 1,183 more labels would prove it", 1183),
    ],
)
def test_a_promise_that_is_not_proven_says_what_is_missing(
    n: int, wrong: int, least: float, why: str, missing: int | None
) -> None:
    found = promise_of(surely([0.9] * n, [place >= wrong for place in range(n)]), least)
    assert (found.kept, found.missing) == (None, missing)
    assert why in found.why


def test_labels_that_go_together_tell_less_of_what_is_missing() -> None:
    alone = promise_of(surely([0.9] * 100, [n >= 4 for n in range(100)]), 0.95)
    groups = [f"g{n // 5}" for n in range(100)]
    good = [n >= 4 for n in range(100)]
    together = promise_of(surely([0.9] * 100, good, groups), 0.95)
    assert alone.missing is not None
    assert together.missing is not None
    assert together.missing > 1.5 * alone.missing

    few = promise_of(
        surely([0.9] * 100, good, [f"g{n // 20}" for n in range(100)]), 0.9
    )
    assert (few.kept, few.missing) == (None, None)
    assert "of 100 cases of 5 groups; 10 are needed: label cases of others" in few.why


def test_a_promise_is_a_share() -> None:
    for least in (0, 1, 95, -0.5, float("nan"), "0.9"):
        with pytest.raises(
            InputError, match=r"a promise is a share above 0 and below 1, such as 0\.95"
        ):
            evaluate(deciding(), rows(0, 4), promise=cast("float", least))


def test_verdicts_that_go_together_prove_less() -> None:
    confidences = [0.9] * 100
    good = [n >= 4 for n in range(100)]
    assert promise_of(surely(confidences, good), 0.9).kept is not None
    groups = [f"g{n // 10}" for n in range(100)]
    assert promise_of(surely(confidences, good, groups), 0.9).kept is None


def test_a_decision_models_judge_says_what_may_pass() -> None:
    result = evaluate(deciding(), rows(0, 300), promise=0.95)
    assert result.promise is not None
    assert result.promise.kept is not None
    assert result.promise.kept.at == 0.75
    assert (
        "Verdicts with a confidence of 0.75 or more may pass without a person: people agree with at least 95 %"
        in str(result)
    )
    assert (
        "So 80 % of the verdicts pass, and 20 % are left for people: memalign judge … --ask-below 0.75"
        in str(result)
    )
    assert {step.label for step in result.thresholds} == {None, "true", "false"}
    page = report(deciding(), result)
    assert "What may pass without a person" in [
        section.title for section in page.sections
    ]


def test_a_chat_models_judge_has_no_probability_to_promise_by() -> None:
    result = evaluate(chatting(), rows(0, 40), promise=0.95)
    assert "the verdicts carry no probability; those of decision models do" in str(
        result
    )
    assert result.thresholds == ()


# -- plain sentences ---------------------------------------------------------------------------------------------------


def test_the_first_sentences_need_no_statistics() -> None:
    verdicts = {
        n: label(n) if n % 8 else True for n in range(80)
    }  # right of every even item, and of odd ones mostly

    def answer(request: ChatRequest) -> dict[str, Any]:
        number = number_in(request.user)
        return {"rationale": "", "value": verdicts[number] or number % 3 == 0}

    first, second, third = evaluate(even(answer), rows(0, 80)).sentences()
    assert first == (
        "Of the cases that people call true, the judge calls 100 % true (n = 40); "
        "of those they call false, it calls 68 % false (n = 40)."
    )
    assert (
        second
        == "Always answering true would be right in 50 %; the judge is right in 84 % [73 %, 91 %], n = 80."
    )
    assert third == "It leans to true: it says so 53 times, and people 40 times."


@pytest.mark.parametrize(
    ("kind", "pairs", "constant", "lean"),
    [
        (
            "bool",
            [(True, True)] * 30 + [(True, False)] * 10,
            (True, 0.75),
            "It leans to true: it says so 40 times, and",
        ),
        (
            "A|B|C",
            [("A", "A")] * 10 + [("B", "B")] * 20,
            ("B", 2 / 3),
            "It is not shown to lean to any label.",
        ),
        (
            "int:1..5",
            [(4, 3)] * 10 + [(2, 2)] * 5,
            (3, 2 / 3),
            "On average its score is +0.67 [+0.4, +0.94] from people's",
        ),
        (
            "float:0..1",
            [(0.2, 0.6)] * 8 + [(0.4, 0.1)] * 7,
            (0.6, 8 / 15),
            "not clearly too high or too low.",
        ),
    ],
)
def test_the_plain_figures(kind: str, pairs: Any, constant: Any, lean: str) -> None:
    value, share = constant_label(ValueType.of(kind), scored(*pairs))
    assert value == constant[0]
    assert share == pytest.approx(constant[1])
    verdicts = {n: value for n, (value, _) in enumerate(pairs)}

    def answer(request: ChatRequest) -> dict[str, Any]:
        return {"rationale": "", "value": verdicts[number_in(request.user)]}

    judge = even(answer, instructions="How? {{ outputs }}", feedback_value_type=kind)
    labelled = [
        Feedback(id=str(n), outputs=f"item {n}", value=truth)
        for n, (_, truth) in enumerate(pairs)
    ]
    assert lean in evaluate(judge, labelled).sentences()[-1]


def test_the_mean_has_scipys_interval() -> None:
    errors = [1.0 + n % 5 - (1 + (n * 3) % 5) for n in range(50)]
    assert mean_interval(errors) == pytest.approx(
        stats.t.interval(0.95, 49, np.mean(errors), stats.sem(errors)), abs=1e-3
    )
    assert mean_interval([1.0, 2.0]) is None


def test_a_judge_no_better_than_one_answer_is_told_so() -> None:
    always = even({"rationale": "", "value": True})
    said = evaluate(always, rows(0, 40)).sentences()
    assert said[1].endswith("So it is no better than that answer.")


# -- asked again, and how many labels ----------------------------------------------------------------------------------


def test_verdicts_that_turn_are_counted() -> None:
    asked = Counter[int]()

    def answer(request: ChatRequest) -> dict[str, Any]:
        number = number_in(request.user)
        asked[number] += 1
        turns = number % 4 == 0 and asked[number] > 1
        return {"rationale": "", "value": label(number) != turns}

    judge = even(answer)
    result = evaluate(judge, rows(0, 16), repeat=3)
    assert result.repeated is not None
    assert (result.repeated.times, result.repeated.n, result.repeated.turned) == (
        3,
        16,
        4,
    )
    assert set(asked.values()) == {3}, "no answer is kept"
    assert (
        "Asked 3 times, the judge changed its verdict on 4 of 16 cases: 25 % ["
        in str(result)
    )
    assert result.usage.calls == 48
    with pytest.raises(
        InputError, match="repeat is how often a case is judged: 2 or more, not 1"
    ):
        evaluate(judge, rows(0, 16), repeat=1)


def test_a_repetition_that_fails_is_told() -> None:
    asked = set[int]()

    def answer(request: ChatRequest) -> Any:
        number = number_in(request.user)
        if number in asked:
            return ModelUnavailable("HTTP 503", usage=Usage(calls=1))
        asked.add(number)
        return {"rationale": "", "value": True}

    assert "No case could be judged again: ModelUnavailable: HTTP 503" in str(
        evaluate(even(answer), rows(0, 4), repeat=2)
    )


def test_a_plan_says_what_more_labels_show() -> None:
    lines = evaluate(chatting(), rows(0, 84)).plan()
    assert lines[0] == "With 84 cases agreement is known to ±9.1 points."
    assert re.fullmatch(r"\d{3} more labels: half of that\.", lines[1])
    assert half_width(0.9, 100) == pytest.approx(0.0636, abs=1e-3)


def test_means_stay_on_their_scale_and_many_labels_are_not_all_listed() -> None:
    high = scored(*((5 - (n % 25 == 0), 5 - (n % 20 == 0)) for n in range(60)))
    scale = ValueType.of("int:1..5")
    (result,) = traffic_of(scale, high, scored(*[(5, "")] * 9))
    assert ends(result.shares[0].corrected)[2] <= 5
    kind = ValueType.of("|".join(f"L{n}" for n in range(30)))
    many = scored(*((f"L{n % 30}", "") for n in range(90)))
    assert len(traffic_of(kind, [], many)[0].shares) == 12


def test_a_promise_is_not_called_hopeless_where_surer_verdicts_are_better() -> None:
    """Of all verdicts people share too few; of the surer half nearly enough, on too few cases to tell."""
    cases = surely(
        [0.97] * 36 + [0.6] * 44,
        [n > 1 for n in range(36)] + [n > 7 for n in range(44)],
    )
    found = promise_of(cases, 0.95)
    assert (
        "people agree in 94.4% of 36 cases, which does not tell yet: label more"
        in found.why
    )
