"""What a judge's figures are worth: shares of traffic, what may pass without a person,
how many labels that takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

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
from memalign.models.base import Question
from memalign.testing import ScriptedChatModel, ScriptedDecisionModel
from memalign.types import Judgment, Usage
from memalign.values import ValueType
from tests.support.evens import asked, is_even, judging, labelled, number_in, said
from tests.support.rows import RawRow
from tests.support.scored import scored

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


# -- the corrected share ---------------------------------------------------------------


def test_a_share_is_that_of_prediction_powered_inference():
    """The figures of ppi-python 0.2.3 (ppi_mean_ci, power-tuned); its intervals are
    normal, ours a little wider."""
    share = corrected_share(list(LABELS), list(VERDICTS), list(OTHERS))
    assert ends(share) == pytest.approx((0.5673, 0.4976, 0.6369), abs=0.015)
    assert width(share) > 0.6369 - 0.4976
    mean = corrected_mean(list(SCORES), list(GIVEN), list(GIVEN_OTHERS))
    assert ends(mean) == pytest.approx((2.7526, 2.5435, 2.9617), abs=0.01)


def test_a_judge_that_says_nothing_leaves_the_labels_alone():
    """Wilson's interval with Student's t, as scipy has it with the normal's for many
    labels."""
    labels = [True, True, True, False] * 500
    share = corrected_share(labels, [True] * 2_000, [True] * 9_000)
    wilson = stats.binomtest(1_500, 2_000).proportion_ci(method="wilson")
    assert ends(share) == pytest.approx((0.75, wilson.low, wilson.high), abs=1e-3)


def test_a_perfect_judge_has_the_share_of_all_rows():
    share = corrected_share(list(LABELS), list(LABELS), list(OTHERS))
    assert share.value == pytest.approx((LABELS.sum() + OTHERS.sum()) / 980)
    assert width(share) > 0, "eighty labels prove no perfection"


def test_cases_that_belong_together_tell_less():
    one = corrected_share(list(LABELS), list(VERDICTS), list(OTHERS))
    # Four copies of each of twenty cases are twenty cases.
    few = np.repeat(LABELS[:20], 4).tolist()
    said = np.repeat(VERDICTS[:20], 4).tolist()
    groups = [f"g{n // 4}" for n in range(80)]
    copies = corrected_share(few, said, list(OTHERS), groups)
    alone = corrected_share(few, said, list(OTHERS))
    assert copies.value == alone.value
    assert width(copies) > 1.7 * width(alone)
    assert width(one) < width(copies)


TURNS = [True, False] * 20


@pytest.mark.parametrize(
    ("labels", "verdicts", "groups", "why"),
    [
        ([], [], None, "it takes 20 labelled cases, and 0 count here"),
        ([True] * 19, [True] * 19, None, "20 labelled cases, and 19 count here"),
        (TURNS, [True] * 40, None, "judge says the same of 40 of 40 labelled cases"),
        (TURNS, [True] * 38 + [False] * 2, None, "says the same of 38 of 40"),
        (
            [True, True, False, False] * 10,
            TURNS,
            None,
            "no more than by chance, on 40 cases",
        ),
        ([True] * 40, TURNS, None, "no more than by chance"),
        (
            TURNS,
            TURNS,
            ["a", "b"] * 20,
            "it takes 10 groups of labelled cases, and there are 2",
        ),
        (TURNS, TURNS, None, ""),
        ([1.0, 5.0] * 20, [2.0, 4.0] * 20, None, ""),
    ],
)
def test_a_correction_is_refused_in_words(labels, verdicts, groups, why):
    said = refusal(labels, verdicts, groups)
    assert why in said
    assert bool(said) == bool(why)


# -- an evaluation on traffic ----------------------------------------------------------


def right(number: int) -> bool:
    return number % 5 > 0


def sure(number: int) -> float:
    """The probability of yes: all but every fifth item is right, and these are said
    with less confidence."""
    yes = 0.97 if right(number) else 0.7
    return yes if is_even(number) == right(number) else 1 - yes


def deciding() -> Judge:
    """A decision model that is right on four of five items, and less sure of the fifth."""

    def decide(state: str, question: Question) -> dict[str, float]:
        yes = sure(number_in(state))
        return {"true": yes, "false": 1 - yes}

    return judging(is_even).replace(model=ScriptedDecisionModel(decide))


def chatting() -> Judge:
    return judging(lambda number: is_even(number) == right(number))


def items(first: int, last: int, *, start: str = "r", **more: Any) -> list[RawRow]:
    """Items of traffic."""
    found = []
    for n in range(first, last):
        found.append({"id": f"{start}-{n}", "outputs": f"item {n}"} | more)
    return found


EXPERTS = Judgment(id="y", value=True, decided_by="expert")


def test_the_share_in_traffic_is_said_in_words(tmp_path):
    judge = chatting()
    out = tmp_path / "judged.jsonl"
    judged = judge.judge_many(items(1_000, 2_000), out=out)
    result = evaluate(judge, labelled(0, 100), on=out)
    (traffic,) = result.traffic
    (share,) = traffic.shares
    assert traffic.labelled == 100
    assert traffic.judged == 1_000
    assert share.label == "true"
    assert ends(share.corrected)[1] < 0.5 < ends(share.corrected)[2]
    said = "Of 1,000 judged rows, 50 % are true as the judge says it, and 50 % ["
    assert f"\n{said}" in str(result)
    assert "corrected for its errors on 100 labelled cases. " in str(result)
    assert "People's labels alone: 50 % [40 %, 60 %]." in str(result)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["traffic"][0]["shares"][0]["judge"] == pytest.approx(0.5)
    assert evaluate(judge, labelled(0, 100), on=judged).traffic == result.traffic


def test_a_page_begins_with_the_share_in_traffic():
    judge = chatting()
    traffic = judge.judge_many(items(1_000, 1_200))
    result = evaluate(judge, labelled(0, 60), on=traffic)
    page = report(judge, result)
    said = "Of 200 judged rows, 50 % are true as the judge says it, and 50 % ["
    assert page.headline == result.sentences()[0]
    assert page.sections[0].title == "In short"
    assert said in as_markdown(page).replace("\\", "")
    assert said in as_html(page).replace("\N{NO-BREAK SPACE}", " ")


def test_only_labelled_cases_that_the_traffic_lacks_are_judged(tmp_path):
    """One is missing, one has changed since, and of one the call failed; the others are
    judged and counted once."""
    judge = chatting()
    out = tmp_path / "judged.jsonl"
    rest = tmp_path / "rest.jsonl"
    failing = ScriptedChatModel(lambda _: ModelUnavailable("HTTP 503"))
    judge.replace(model=failing).judge_many(items(3, 4, start="h"), out=out)
    changed = {"id": "h-2", "outputs": "item 22"}
    judge.judge_many([changed, *items(4, 400, start="h")], out=rest)
    out.write_bytes(out.read_bytes() + rest.read_bytes())
    result = evaluate(judge, labelled(1, 50), on=out)
    assert asked(judge)[397:] == [1, 2, 3]
    assert result.n == 49
    assert result.usage.calls == 3
    assert result.traffic[0].labelled == 49
    assert result.traffic[0].judged == 397


def test_only_this_judges_verdicts_are_corrected(tmp_path):
    out = tmp_path / "judged.jsonl"
    other = chatting().replace(instructions="Odd? {{ outputs }}")
    other.judge_many(items(0, 9), out=out)
    with pytest.raises(InputError, match="was judged by another judge"):
        evaluate(chatting(), labelled(0, 40), on=out)
    with pytest.raises(InputError, match="no judged row has a verdict"):
        evaluate(chatting(), labelled(0, 40), on=[Judgment(id="x", error="timed out")])


def test_rows_that_do_not_count_are_named():
    judge = chatting()
    judged = judge.judge_many(items(100, 300))
    failed = Judgment(id="x", error="timed out")
    result = evaluate(judge, labelled(0, 40), on=[*judged, failed, EXPERTS])
    (traffic,) = result.traffic
    assert traffic.judged == 200
    assert traffic.unscored == 1
    assert traffic.taught == 1


def test_each_system_is_corrected_by_its_own_labels():
    judge = chatting()
    rows = labelled(0, 60, meta={"system": "week 1"})
    rows += labelled(60, 70, meta={"system": "week 2"})
    traffic = items(1_000, 1_200, system="week 1")
    traffic += items(2_000, 2_200, system="week 2")
    judged = [*judge.judge_many(traffic), EXPERTS]
    traffic += [{"id": "y", "outputs": "taught", "system": "week 2"}]
    result = evaluate(judge, rows, on=judged, on_examples=traffic)
    first, second = result.traffic
    assert first.system == "week 1"
    assert first.labelled == 60
    assert first.judged == 200
    assert first.warnings == ()
    assert first.taught == 0
    assert second.taught == 1
    assert second.shares[0].refused == "it takes 20 labelled cases, and 10 count here"
    said = "week 2: Of 200 judged rows, 50 % are true as the judge says it."
    assert f"{said} That is not corrected: it takes 20" in str(result)


@pytest.mark.parametrize(
    ("labelled", "traffic", "warning"),
    [
        ("A", "B", "labelled cases come from A, and the judged rows from B"),
        (None, "B", "labelled cases come from no system, and the judged rows from B"),
        ("A", "A", None),
    ],
)
def test_labels_of_another_system_are_warned_of(labelled, traffic, warning):
    truths = [True, False] * 25
    verdicts = [is_even(n) == right(n) for n in range(50)]
    cases = scored(verdicts, truths, system=labelled)
    judged = scored(truths * 4, system=traffic)
    (result,) = traffic_of(ValueType.of("bool"), cases, judged)
    assert result.warnings == ((warning,) if warning else ())


def test_labels_that_were_not_drawn_at_random_are_warned_of():
    verdicts = [False, *[True] * 9] * 6
    cases = scored(verdicts, [True, False] * 30)
    judged = scored([True, False, False] * 100)
    (result,) = traffic_of(ValueType.of("bool"), cases, judged)
    assert result.warnings == (
        "by the judge's verdicts, true is 0.90 of labelled and 0.33 of other rows, "
        "so the labelled ones do not look drawn at random",
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
def test_every_value_type_has_its_shares(kind, values, names):
    first, second, third = values
    # Three of four are right.
    said = [second, second, third, first, third, third, first, second, first, first]
    said += [second, third]
    cases = scored(said * 5, values * 20)
    (result,) = traffic_of(ValueType.of(kind), cases, scored(values * 100))
    assert [share.label for share in result.shares] == names
    for share in result.shares:
        assert width(share.corrected) > 0
        assert share.people.value is not None


def test_means_stay_on_their_scale():
    verdicts = [4, *[5] * 24, 4, *[5] * 24, 4, *[5] * 9]
    cases = scored(verdicts, [4, *[5] * 19] * 3)
    (result,) = traffic_of(ValueType.of("int:1..5"), cases, scored([5] * 9))
    assert ends(result.shares[0].corrected)[2] <= 5


def test_of_many_labels_not_all_have_their_share():
    labels = [f"L{n}" for n in range(30)]
    kind = ValueType.of("|".join(labels))
    (result,) = traffic_of(kind, [], scored(labels * 3))
    assert len(result.shares) == 12


# -- what may pass ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "n", "share"),
    [
        (0, 59, 0.05),
        (3, 100, 0.05),
        (40, 100, 0.5),
        (7, 7, 0.3),
        (20, 5_000, 0.01),
    ],
)
def test_the_binomial_tail_is_scipys(most, n, share):
    expected = stats.binom.cdf(most, n, share)
    assert binomial_tail(most, n, share) == pytest.approx(expected)


def test_the_fewest_labels_for_a_promise_are_known_at_once():
    assert fewest_for(0.99) == 299
    assert fewest_for(0.95, 1) == 93
    assert fewest_for(0.999999999) == 2_995_732_357


def alike(n: int, wrong: int, **how: Any) -> list[ScoredCase]:
    """So many cases of one confidence, of which the first few are wrong."""
    right = [False] * wrong + [True] * (n - wrong)
    return scored(right, True, confidence=0.9, **how)


def test_a_promise_names_the_lowest_threshold_that_is_proven():
    surer = scored([True] * 200, True, confidence=0.99)
    others = scored([True, False] * 100, True, confidence=0.6)
    found = promise_of([*surer, *others], 0.95).kept
    assert found is not None
    assert found.at == 0.7
    assert found.n == 200
    assert found.share == 0.5
    all_right = [*surer, *scored([True] * 200, True, confidence=0.6)]
    assert promise_of(all_right, 0.95).kept == passing(all_right, 0.0)


@pytest.mark.parametrize(
    ("n", "wrong", "least", "missing", "why"),
    [
        (0, 0, 0.95, 59, "it takes 59 labelled cases, and 0 are here: at least 59"),
        (20, 0, 0.9, 9, "it takes 29 labelled cases, and 20 are here: at least 9 more"),
        (100, 20, 0.9, None, "80.0% of 100 cases, so that labels alone will not help"),
        (80, 5, 0.95, None, "93.8% of 80 cases, which does not tell yet: label more"),
        (100, 4, 0.95, 1183, "about 1,183 more labels would prove it"),
    ],
)
def test_a_promise_that_is_not_proven_says_what_is_missing(
    n, wrong, least, missing, why
):
    found = promise_of(alike(n, wrong), least)
    assert found.kept is None
    assert found.missing == missing
    assert why in found.why


def test_a_promise_is_not_called_hopeless_where_surer_verdicts_are_better():
    """Of all verdicts people share too few; of the surer half nearly enough, on too few
    cases to tell."""
    surer = scored([False] * 2 + [True] * 34, True, confidence=0.97)
    others = scored([False] * 8 + [True] * 36, True, confidence=0.6)
    found = promise_of([*surer, *others], 0.95)
    why = "people agree in 94.4% of 36 cases, which does not tell yet: label more"
    assert why in found.why


def test_labels_that_go_together_tell_less_of_what_is_missing():
    alone = promise_of(alike(100, 4), 0.95)
    together = promise_of(alike(100, 4, together=5), 0.95)
    assert alone.missing is not None
    assert together.missing is not None
    assert together.missing > 1.5 * alone.missing
    few = promise_of(alike(100, 4, together=20), 0.9)
    assert few.kept is None
    assert few.missing is None
    assert "of 100 cases of 5 groups; 10 are needed: label cases of others" in few.why


def test_verdicts_that_go_together_prove_less():
    assert promise_of(alike(100, 4), 0.9).kept is not None
    assert promise_of(alike(100, 4, together=10), 0.9).kept is None


@pytest.mark.parametrize("least", [0, 1, 95, -0.5, float("nan"), "0.9"])
def test_a_promise_is_a_share(least):
    message = r"a promise is a share above 0 and below 1, such as 0\.95"
    with pytest.raises(InputError, match=message):
        evaluate(deciding(), labelled(0, 4), promise=least)


def test_a_decision_models_judge_says_what_may_pass():
    result = evaluate(deciding(), labelled(0, 300), promise=0.95)
    assert result.promise is not None
    assert result.promise.kept is not None
    assert result.promise.kept.at == 0.75
    for words in (
        "Verdicts with a confidence of 0.75 or more may pass without a person: "
        "people agree with at least 95 %",
        "So 80 % of the verdicts pass, and 20 % are left for people: "
        "memalign judge … --ask-below 0.75",
    ):
        assert words in str(result)
    assert {step.label for step in result.thresholds} == {None, "true", "false"}
    assert "What may pass without a person" in as_markdown(report(deciding(), result))


def test_a_chat_models_judge_has_no_probability_to_promise_by():
    result = evaluate(chatting(), labelled(0, 40), promise=0.95)
    why = "the verdicts carry no probability; those of decision models do"
    assert why in str(result)
    assert result.thresholds == ()


# -- plain sentences -------------------------------------------------------------------


def test_the_first_sentences_need_no_statistics():
    def verdict(number: int) -> bool:
        """Right of every even item, and of odd ones mostly."""
        return number % 8 == 0 or is_even(number) or number % 3 == 0

    first, second, third = evaluate(judging(verdict), labelled(0, 80)).sentences()
    assert first == (
        "Of the cases that people call true, the judge calls 100 % true (n = 40); "
        "of those they call false, it calls 68 % false (n = 40)."
    )
    assert second == (
        "Always answering true would be right in 50 %; "
        "the judge is right in 84 % [73 %, 91 %], n = 80."
    )
    assert third == "It leans to true: it says so 53 times, and people 40 times."


@pytest.mark.parametrize(
    ("kind", "verdicts", "truths", "constant", "lean"),
    [
        (
            "bool",
            [True] * 40,
            [True] * 30 + [False] * 10,
            (True, 0.75),
            "It leans to true: it says so 40 times, and",
        ),
        (
            "A|B|C",
            ["A"] * 10 + ["B"] * 20,
            ["A"] * 10 + ["B"] * 20,
            ("B", 2 / 3),
            "It is not shown to lean to any label.",
        ),
        (
            "int:1..5",
            [4] * 10 + [2] * 5,
            [3] * 10 + [2] * 5,
            (3, 2 / 3),
            "On average its score is +0.67 [+0.4, +0.94] from people's",
        ),
        (
            "float:0..1",
            [0.2] * 8 + [0.4] * 7,
            [0.6] * 8 + [0.1] * 7,
            (0.6, 8 / 15),
            "not clearly too high or too low.",
        ),
    ],
)
def test_the_plain_figures(kind, verdicts, truths, constant, lean):
    value, share = constant_label(ValueType.of(kind), scored(verdicts, truths))
    assert value == constant[0]
    assert share == pytest.approx(constant[1])
    judge = judging(verdicts.__getitem__, feedback_value_type=kind)
    rows = [said(n, truth) for n, truth in enumerate(truths)]
    assert lean in evaluate(judge, rows).sentences()[-1]


def test_the_mean_has_scipys_interval():
    errors = [0.0, -2.0, 1.0, -1.0, 2.0] * 10
    mean = np.mean(errors)
    expected = stats.t.interval(0.95, 49, mean, stats.sem(errors))
    assert mean_interval(errors) == pytest.approx(expected, abs=1e-3)
    assert mean_interval([1.0, 2.0]) is None


def test_a_judge_no_better_than_one_answer_is_told_so():
    said = evaluate(judging(lambda _: True), labelled(0, 40)).sentences()
    assert said[1].endswith("So it is no better than that answer.")


# -- asked again, and how many labels --------------------------------------------------


def test_verdicts_that_turn_are_counted():
    times = Counter[int]()

    def verdict(number: int) -> bool:
        times[number] += 1
        turns = number % 4 == 0 and times[number] > 1
        return is_even(number) != turns

    result = evaluate(judging(verdict), labelled(0, 16), repeat=3)
    again = result.repeated
    assert again is not None
    assert again.times == 3
    assert again.n == 16
    assert again.turned == 4
    assert set(times.values()) == {3}, "no answer is kept"
    said = "Asked 3 times, the judge changed its verdict on 4 of 16 cases: 25 % ["
    assert said in str(result)
    assert result.usage.calls == 48
    message = "repeat is how often a case is judged: 2 or more, not 1"
    with pytest.raises(InputError, match=message):
        evaluate(judging(verdict), labelled(0, 16), repeat=1)


def test_a_repetition_that_fails_is_told():
    seen = set[int]()

    def verdict(number: int) -> Any:
        if number in seen:
            return ModelUnavailable("HTTP 503", usage=Usage(calls=1))
        seen.add(number)
        return True

    result = evaluate(judging(verdict), labelled(0, 4), repeat=2)
    why = "No case could be judged again: ModelUnavailable: HTTP 503"
    assert why in str(result)


def test_a_plan_says_what_more_labels_show():
    lines = evaluate(chatting(), labelled(0, 84)).plan()
    assert lines[0] == "With 84 cases agreement is known to ±9.1 points."
    assert re.fullmatch(r"\d{3} more labels: half of that\.", lines[1])
    assert half_width(0.9, 100) == pytest.approx(0.0636, abs=1e-3)
