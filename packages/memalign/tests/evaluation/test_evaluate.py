"""Agreement with people: which label counts, what is measured, and which of two judges is ahead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import (
    ScoredCase,
    aevaluate,
    compare,
    evaluate,
    next_cases,
    review_feedback,
)
from memalign.io import read_judgments
from memalign.memory import Case, Memory
from memalign.metrics import Estimate, ccc
from memalign.types import Example, Feedback, Usage
from memalign.values import ValueType
from tests.support.evens import asked, judging, said
from tests.support.lists import ids
from tests.support.scored import scored

VERDICTS = "A" * 20 + "A" * 5 + "B" * 10 + "B" * 15
LABELS = "A" * 20 + "B" * 5 + "A" * 10 + "B" * 15
TABLE = list(zip(VERDICTS, LABELS, strict=True))
FLOATS = ccc([0.1, 0.5, 0.9], [0.2, 0.5, 0.6])
CCC = ccc([1, 2, 5, 4, 3], [1, 3, 5, 2, 3])


def true_of(*numbers):
    return [said(number, True) for number in numbers]


def width(estimate):
    return estimate.high - estimate.low


def judge_of(kind, verdicts, **more):
    """A judge that has a verdict on each of these items, and none on another, as where a
    call times out."""
    failed = ModelUnavailable("timed out", usage=Usage(calls=1))

    def verdict(number):
        return verdicts.get(number, failed)

    return judging(verdict, name="helpfulness", feedback_value_type=kind, **more)


# -- what is compared with what --------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "label"), [(Memory(), False), (Memory(authority=("ana",)), True)]
)
def test_of_several_annotations_the_judges_policy_gives_the_label(memory, label):
    rows = [
        said(1, True, "ana"),
        said(1, False, "ben"),
        said(1, False, "eva"),
        said(2, True),
        # The content of the second once more.
        Feedback(id="again", outputs="item 2", value=True, source="ben"),
    ]
    judge = judge_of("bool", {1: label, 2: True}, memory=memory)
    result = evaluate(judge, rows)
    assert asked(judge) == [1, 2], "once each"
    assert ids(result.cases) == ["h-1", "h-2"]
    assert result.cases[0].label == label
    assert result.metrics["accuracy"].value == 1.0


def test_a_failed_judgment_is_unscored_and_not_wrong():
    result = evaluate(judge_of("bool", {1: True}), true_of(1, 2))
    assert result.n == 1
    assert result.unscored == 1
    assert result.usage.calls == 2
    assert result.metrics["accuracy"].value == 1.0
    failed = result.cases[1]
    assert failed.error == "ModelUnavailable: timed out"
    assert failed.correct is None
    nothing = evaluate(judge_of("bool", {}), true_of(1))
    assert nothing.n == 0
    assert set(nothing.metrics.values()) == {Estimate(value=None)}
    assert "n/a" in str(nothing)


def test_a_case_without_labels_is_not_judged():
    judge = judge_of("bool", {1: True})
    comment = said(2, None, rationale="too cold")
    result = evaluate(judge, [said(1, True), comment])
    assert result.n == 1
    assert result.unlabelled == 1
    assert asked(judge) == [1]
    for rows in ([comment], []):
        with pytest.raises(InputError, match="there are no labelled cases"):
            evaluate(judge, rows)


def remembering(texts):
    """A memory of cases with these replies, beside inputs that no instructions name."""
    cases = []
    for name, text in texts.items():
        example = Example(id=name, outputs=text, inputs="by the way")
        cases.append(Case(example=example, annotations=()))
    return Memory(cases=tuple(cases))


NUMBERS = [1, 2, 3, 4, 5]
some = st.sets(st.sampled_from(NUMBERS))


@settings(max_examples=30, deadline=None)
@given(by_id=some, by_content=some)
def test_whatever_was_taught_in_whatever_way_counts_nowhere(by_id, by_content):
    """The memory gives its label, so that every figure would be right by construction."""
    texts = {f"h-{number}": "another reply" for number in by_id}
    texts |= {f"old-{number}": f"item {number}" for number in by_content}
    verdicts = dict.fromkeys(NUMBERS, True)
    judge = judge_of("bool", verdicts, memory=remembering(texts))
    taught = by_id | by_content
    rows = [said(number, number not in taught) for number in NUMBERS]
    if len(taught) == len(rows):
        with pytest.raises(InputError, match="every labelled case"):
            evaluate(judge, rows)
        return
    result = evaluate(judge, rows)
    assert list(result.taught_ids) == [f"h-{number}" for number in sorted(taught)]
    assert result.metrics["accuracy"].value == 1.0
    assert {*asked(judge)} == {*NUMBERS} - taught, "nor is another paid for"
    assert result.n == len(asked(judge))


def test_taught_cases_are_named_and_count_for_neither_judge():
    memory = remembering({"h-1": "changed since", "old": "item 2"})
    verdicts = {1: True, 2: True, 3: True, 4: False}
    judge = judge_of("bool", verdicts, memory=memory)
    rows = true_of(1, 2, 3, 4)
    result = evaluate(judge, rows)
    assert result.metrics["accuracy"].value == 0.5
    named = "2 of 4 cases were taught and are left out of every figure: h-1, h-2"
    assert named in str(result).splitlines()
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["taught_ids"] == ["h-1", "h-2"]
    other = judge.replace(memory=Memory())
    both = evaluate(other, rows, against=judge)
    assert both.n == 2, "nor one that only the other judge was taught"


def test_taught_cases_are_a_figure_of_their_own_when_asked_for():
    judge = judge_of(
        "bool",
        {1: False, 2: True, 3: True},
        memory=remembering({"h-1": "item 1"}),
    )
    rows = true_of(1, 2, 3)
    assert evaluate(judge, rows).taught_accuracy is None
    result = evaluate(judge, rows, include_taught=True)
    seen = result.taught_accuracy
    assert seen is not None
    assert seen.value == 0.0
    assert result.n == 2
    assert result.metrics["accuracy"].value == 1.0
    assert "taught cases alone: accuracy 0.00 [0.00, 0.95], n = 1" in str(result)
    with pytest.raises(InputError, match=r"every labelled case \(1\) is in the judge"):
        evaluate(judge, rows[:1])
    alone = evaluate(judge, rows[:1], include_taught=True)
    assert alone.n == 0
    assert alone.taught == 1
    assert alone.taught_accuracy == seen


@pytest.mark.parametrize(
    "swapped", [[{"id": "t-1", "outputs": "x", "value": True}], "held_out.jsonl", None]
)
def test_swapped_arguments_are_told(swapped):
    judge = judge_of("bool", {})
    message = r"the judge comes first, and this is a (list|str|NoneType)"
    for call in (evaluate, next_cases):
        with pytest.raises(TypeError, match=message):
            call(swapped, judge)
    with pytest.raises(TypeError, match="against=judge"):
        evaluate(judge, true_of(1), against="1")  # type: ignore[arg-type]


async def test_concurrency_out_and_progress_reach_the_judge(tmp_path):
    steps = []
    judge = judge_of("bool", {1: True})
    out = tmp_path / "out.jsonl"
    await aevaluate(
        judge,
        true_of(1),
        concurrency=3,
        out=out,
        progress=lambda *step: steps.append(step),
    )
    assert steps == [("judge", 1, 1)]
    assert list(read_judgments(out).judgments) == ["h-1"]
    with pytest.raises(InputError, match="concurrency"):
        await aevaluate(judge, true_of(1), concurrency=0)


# -- what is measured ------------------------------------------------------------------


def many(kind, pairs, groups=None):
    """Evaluate a judge with these pairs of a verdict and a label."""
    verdicts = {}
    rows = []
    for n, (value, label) in enumerate(pairs):
        meta = {"group": f"g-{groups(n)}"} if groups else {}
        verdicts[n] = value
        rows.append(said(n, label, meta=meta))
    return evaluate(judge_of(kind, verdicts), rows)


@pytest.mark.parametrize(
    ("kind", "pairs", "metrics", "wrong"),
    [
        ("A|B|tie", TABLE, {"accuracy": 0.7, "kappa": 0.4}, list(range(20, 35))),
        # Those that are furthest apart come first, and of floats a tenth of the scale
        # is the same.
        (
            "int:1..5",
            [(1, 1), (2, 3), (5, 5), (4, 2), (3, 3)],
            {"accuracy": 0.6, "weighted_kappa": CCC},
            [3, 1],
        ),
        (
            "float:0..1",
            [(0.1, 0.2), (0.5, 0.5), (0.9, 0.6)],
            {"accuracy": 2 / 3, "ccc": FLOATS},
            [2],
        ),
        ("str", [("SELECT 1 ", "SELECT 1"), ("x", "y")], {"accuracy": 0.5}, [1]),
    ],
)
def test_every_value_type_has_its_measures(kind, pairs, metrics, wrong):
    result = many(kind, pairs)
    assert ids(result.disagreements) == [f"h-{n}" for n in wrong]
    assert result.metrics.keys() == metrics.keys()
    for name, value in metrics.items():
        assert result.metrics[name].value == pytest.approx(value, abs=0.005)
        assert name.split("_")[0] in str(result)


def test_the_confusion_matrix_has_people_in_rows():
    labels = many("A|B|tie", TABLE)
    assert labels.labels == ("A", "B", "tie")
    # Ten times people said A and the judge B.
    assert labels.confusion == ((20, 10, 0), (5, 15, 0), (0, 0, 0))
    for figure in labels.metrics.values():
        assert figure.low < figure.value < figure.high


@pytest.mark.parametrize(
    ("kind", "pair"),
    [("int:0..100", (10, 20)), ("float:0..1", (0.1, 0.2)), ("str", ("x", "y"))],
)
def test_many_labels_have_no_confusion_matrix(kind, pair):
    result = many(kind, [pair])
    assert result.labels == ()
    assert result.confusion == ()


def test_five_of_five_is_no_proof_of_perfection():
    pairs = [(True, True)] * 3 + [(False, False)] * 2
    right = many("bool", pairs).metrics
    assert right["accuracy"].value == 1.0
    assert right["accuracy"].low == pytest.approx(0.4629, abs=1e-4)
    assert right["kappa"].value == right["kappa"].high == 1.0
    assert right["kappa"].low < 0


@pytest.mark.parametrize(
    ("kind", "scores"),
    [("int:1..5", (1, 5)), ("float:0..1", (0.0, 1.0)), ("int:0..100", (0, 50, 100))],
)
def test_a_judge_that_turns_every_scale_around_has_its_figure(kind, scores):
    pairs = list(zip(scores, reversed(scores), strict=True))
    turned = many(kind, pairs * 6)
    _, figure = turned.metrics.values()
    assert figure.value == pytest.approx(-1)
    assert figure.low == -1 < figure.high < 0


def test_cases_of_one_group_count_together():
    pairs = [(i // 8 % 4 != 0, True) for i in range(80)]
    alone = many("bool", pairs)
    grouped = many("bool", pairs, groups=lambda i: i // 8)
    wide = width(grouped.metrics["accuracy"])
    assert wide > 1.5 * width(alone.metrics["accuracy"])
    assert grouped.cases[0].group == "g-0"
    two = many("bool", pairs, groups=lambda i: i % 2)
    figure = two.metrics["accuracy"]
    why = "too few groups for an interval: there are 2, and 10 are needed"
    assert figure.low is None
    assert figure.high is None
    assert figure.no_interval == why
    assert why in str(two)


def test_an_evaluation_prints_and_dumps_json():
    result = many("bool", [(True, True), (False, True), (False, False), (True, True)])
    text = str(result)
    assert text.startswith(
        "Of the cases that people call true, the judge calls 67 % true (n = 3); of"
    )
    for words in (
        "\n\nhelpfulness (bool) on scripted, memory ",
        "n = 4 of 4 cases; 0 unscored (no verdict), 0 without a label",
        "accuracy",
        "people say true, the judge says: 2 true, 1 false",
    ):
        assert words in text
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["metrics"]["accuracy"]["value"] == 0.75
    assert plain["confusion"] == [[2, 1], [0, 1]]
    assert plain["usage"]["calls"] == 4
    assert plain["disagreements"] == ["h-1"]


# -- comparison ------------------------------------------------------------------------


def test_a_judge_that_fixes_many_is_ahead():
    fixed = [(False, True)] * 12
    before = many("bool", fixed + [(True, True)] * 20)
    after = many("bool", [(True, True)] * 32)
    result = compare(before, after)
    assert result.verdict == "ahead"
    assert result.n == 32
    assert result.left_out == 0
    assert result.first.value == 20 / 32
    assert result.second.value == 1.0
    assert result.broken == ()
    assert result.fixed == tuple(f"h-{n}" for n in range(12))
    assert result.difference.value == pytest.approx(12 / 32)
    assert compare(after, before).verdict == "behind"
    assert "the second judge is better, n = 32" in str(result)


@pytest.mark.parametrize(
    ("fixed", "same", "p", "verdict"),
    [
        (0, 3, 1.0, "tied"),
        (3, 2, 0.25, "tied"),
        (5, 0, 0.0625, "tied"),
        (6, 0, 0.03125, "ahead"),
    ],
)
def test_few_fixed_cases_are_no_proof(fixed, same, p, verdict):
    before = [False] * fixed + [True] * same
    after = [True] * len(before)
    result = compare(scored(before, True), scored(after, True))
    assert result.verdict == verdict
    assert result.mcnemar_p == pytest.approx(p)
    assert ("no clear difference" in str(result)) == (verdict == "tied")


def failed(name):
    return ScoredCase(id=name, label=True, error="timed out")


def test_only_cases_that_both_scored_count():
    right = scored([True], True)
    before = [*right, *scored([False], True, start=1), failed("t-2")]
    after = [*right, failed("t-1"), *scored([True], True, start=2)]
    result = compare(before, after)
    assert result.n == 1
    assert result.left_out == 2
    with pytest.raises(InputError, match="no case was scored in both"):
        compare([failed("t-2")], after)
    message = "'t-0' has label true in the first and false in the second"
    with pytest.raises(InputError, match=message):
        compare(right, scored([True], False))


@pytest.mark.parametrize(
    ("wrong", "n", "together", "verdict"),
    [
        (8, 80, 1, "ahead"),
        # All that was fixed is in one document of ten.
        (8, 80, 8, "tied"),
        (32, 32, 11, "tied"),
    ],
)
def test_grouped_cases_are_compared_by_group(wrong, n, together, verdict):
    before = [False] * wrong + [True] * (n - wrong)
    grouped = scored(before, True, together=together)
    result = compare(grouped, scored([True] * n, True))
    assert result.verdict == verdict
    assert result.difference.value == pytest.approx(wrong / n)
    why = "too few groups for an interval: there are 3, and 10 are needed"
    assert (why in str(result)) == (wrong == 32)


# -- feedback before a judge learns from it; the command: tests/cli/test_check.py ------


def test_labels_that_nobody_gave_and_large_numbers_are_counted():
    three = review_feedback(true_of(1, 2, 3), ValueType.of("bool"))
    assert three.labels == {"true": 3, "false": 0}
    large = [said(n, 1_000_000.0 + n) for n in range(9)]
    review = review_feedback(large, ValueType.of("float:0..2000000"))
    assert len(review.labels) == 9


@pytest.mark.parametrize(("other", "conflicts"), [(0.71, 0), (0.95, 1)])
def test_numbers_within_the_tolerance_of_the_scale_are_no_conflict(other, conflicts):
    rows = [said(1, 0.70), said(1, other, "ben")]
    review = review_feedback(rows, ValueType.of("float:0..1"))
    assert len(review.conflicts) == conflicts


def test_of_people_on_a_scale_it_matters_how_far_they_are_apart():
    rows = []
    for source, scores in {"ana": (1, 5, 2, 4), "ben": (1, 5, 2, 5)}.items():
        for n, label in enumerate(scores):
            rows.append(said(n, label, source))
    alpha = review_feedback(rows, ValueType.of("int:1..5")).alpha
    assert alpha is not None
    assert 0.9 < alpha < 1
