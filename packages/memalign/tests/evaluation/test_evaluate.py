"""Agreement with people: which label counts, what is measured, and which of two judges is ahead."""

from __future__ import annotations

import json
import re

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
from tests.support.scripted import scripted

TABLE = [("A", "A")] * 20 + [("A", "B")] * 5 + [("B", "A")] * 10 + [("B", "B")] * 15
FLOATS = ccc([0.1, 0.5, 0.9], [0.2, 0.5, 0.6])
CCC = ccc([1, 2, 5, 4, 3], [1, 3, 5, 2, 3])


def said(example_id, value=None, source="ana", **more):
    return Feedback(
        id=example_id, outputs=f"reply {example_id}", value=value, source=source, **more
    )


def width(estimate):
    return estimate.high - estimate.low


def judge_of(kind, verdicts, **more):
    """A judge that has a verdict for each of these replies, and none for another, as where a call times out."""

    def answer(request):
        name = re.findall(r'"reply ([^"]*)"', request.user)[-1]
        reply = {"rationale": f"about {name}", "value": verdicts.get(name)}
        return (
            reply
            if name in verdicts
            else ModelUnavailable("timed out", usage=Usage(calls=1))
        )

    return scripted(answer, name="helpfulness", feedback_value_type=kind, **more)[0]


def asked(judge):
    return [
        re.findall(r'"reply ([^"]*)"', request.user)[-1]
        for request in judge.model.requests
    ]


# -- what is compared with what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "label"), [(Memory(), False), (Memory(authority=("ana",)), True)]
)
def test_of_several_annotations_the_judges_policy_gives_the_label(memory, label):
    rows = [said("t-1", who == "ana", who) for who in ("ana", "ben", "eva")]
    judge = judge_of("bool", {"t-1": label, "t-2": True}, memory=memory)
    again = Feedback(
        id="t-9", outputs="reply t-2", value=True, source="ben"
    )  # the content of t-2
    result = evaluate(judge, [*rows, said("t-2", True), again])
    assert asked(judge) == ["t-1", "t-2"], "once each"
    assert [case.id for case in result.cases] == ["t-1", "t-2"]
    assert (result.cases[0].label, result.metrics["accuracy"].value) == (label, 1.0)


def test_a_failed_judgment_is_unscored_and_not_wrong():
    result = evaluate(
        judge_of("bool", {"t-1": True}), [said("t-1", True), said("t-2", True)]
    )
    assert (result.n, result.unscored, result.usage.calls) == (1, 1, 2)
    assert result.metrics["accuracy"].value == 1.0
    assert (result.cases[1].error, result.cases[1].correct) == (
        "ModelUnavailable: timed out",
        None,
    )
    nothing = evaluate(judge_of("bool", {}), [said("t-1", True)])
    assert (nothing.n, set(nothing.metrics.values())) == (0, {Estimate(value=None)})
    assert "n/a" in str(nothing)


def test_a_case_without_labels_is_not_judged():
    judge = judge_of("bool", {"t-1": True})
    comment = said("t-2", rationale="too cold")
    result = evaluate(judge, [said("t-1", True), comment])
    assert (result.n, result.unlabelled, asked(judge)) == (1, 1, ["t-1"])
    for rows in ([comment], []):
        with pytest.raises(InputError, match="there are no labelled cases"):
            evaluate(judge, rows)


def remembering(**texts):
    """A memory of cases with these replies."""
    return Memory(
        cases=tuple(
            Case(
                example=Example(
                    id=name.replace("_", "-"), outputs=text, inputs="by the way"
                ),
                annotations=(),
            )
            for name, text in texts.items()
        )
    )


@pytest.mark.parametrize(
    ("memory", "taught"),
    [
        (remembering(t_1="reply t-1"), ["t-1"]),
        # by its id, and by its content beside inputs that these instructions do not name
        (remembering(t_1="changed since", old="reply t-2"), ["t-1", "t-2"]),
    ],
)
def test_a_taught_case_counts_in_no_figure(memory, taught):
    """The memory gives its label, so that every figure would be right by construction."""
    judge = judge_of(
        "bool", {"t-1": True, "t-2": True, "t-3": True, "t-4": False}, memory=memory
    )
    rows = [said(f"t-{i}", True) for i in (1, 2, 3, 4)]
    result = evaluate(judge, rows)
    left = 4 - len(taught)
    assert (result.n, result.taught, list(result.taught_ids)) == (
        left,
        len(taught),
        taught,
    )
    assert result.metrics["accuracy"].value == pytest.approx((left - 1) / left)
    assert not {case.id for case in result.cases} & {*taught}
    assert not {*asked(judge)} & {*taught}, "nor is it paid for"
    named = f"{len(taught)} of 4 cases were taught and are left out of every figure: {', '.join(taught)}"
    assert named in str(result).splitlines()
    assert json.loads(json.dumps(result.to_dict()))["taught_ids"] == taught
    other = judge.replace(memory=Memory())
    assert evaluate(other, rows, against=judge).n == left, (
        "nor one that only the other judge was taught"
    )


@settings(max_examples=30, deadline=None)
@given(by_id=st.sets(st.integers(0, 9)), by_content=st.sets(st.integers(0, 9)))
def test_whatever_was_taught_in_whatever_way_counts_nowhere(by_id, by_content):
    texts = {f"t_{n}": "another reply" for n in by_id} | {
        f"old_{n}": f"reply t-{n}" for n in by_content
    }
    judge = judge_of(
        "bool", {f"t-{n}": True for n in range(10)}, memory=remembering(**texts)
    )
    rows = [said(f"t-{n}", n not in by_id | by_content) for n in range(10)]
    taught = {f"t-{n}" for n in by_id | by_content}
    if len(taught) == len(rows):
        with pytest.raises(InputError, match="every labelled case"):
            evaluate(judge, rows)
        return
    result = evaluate(judge, rows)
    assert set(result.taught_ids) == taught
    assert (result.n, result.metrics["accuracy"].value) == (10 - len(taught), 1.0)


def test_taught_cases_are_a_figure_of_their_own_when_asked_for():
    judge = judge_of(
        "bool",
        {"t-1": False, "t-2": True, "t-3": True},
        memory=remembering(t_1="reply t-1"),
    )
    rows = [said(f"t-{i}", True) for i in (1, 2, 3)]
    assert evaluate(judge, rows).taught_accuracy is None
    result = evaluate(judge, rows, include_taught=True)
    seen = result.taught_accuracy
    assert seen is not None
    assert (result.metrics["accuracy"].value, seen.value, result.n) == (1.0, 0.0, 2)
    assert "taught cases alone: accuracy 0.00 [0.00, 0.95], n = 1" in str(result)
    with pytest.raises(
        InputError, match="every labelled case \\(1\\) is in the judge's memory"
    ):
        evaluate(judge, rows[:1])
    alone = evaluate(judge, rows[:1], include_taught=True)
    assert (alone.n, alone.taught, alone.taught_accuracy) == (0, 1, seen)


@pytest.mark.parametrize(
    "swapped", [[{"id": "t-1", "outputs": "x", "value": True}], "held_out.jsonl", None]
)
def test_swapped_arguments_are_told(swapped):
    judge = judge_of("bool", {})
    for call in (evaluate, next_cases):
        with pytest.raises(
            TypeError, match=r"the judge comes first, and this is a (list|str|NoneType)"
        ):
            call(swapped, judge)
    with pytest.raises(TypeError, match="against=judge"):
        evaluate(judge, [said("t-1", True)], against="1")  # type: ignore[arg-type]


async def test_concurrency_out_and_progress_reach_the_judge(tmp_path):
    steps = list[object]()
    judge = judge_of("bool", {"t-1": True})
    out = tmp_path / "out.jsonl"
    await aevaluate(
        judge,
        [said("t-1", True)],
        concurrency=3,
        out=out,
        progress=lambda *step: steps.append(step),
    )
    assert (steps, list(read_judgments(out).judgments)) == ([("judge", 1, 1)], ["t-1"])
    with pytest.raises(InputError, match="concurrency"):
        await aevaluate(judge, [said("t-1", True)], concurrency=0)


# -- what is measured ----------------------------------------------------------------------------------------------------


def many(kind, pairs, groups=None):
    verdicts = {f"t-{i}": value for i, (value, _) in enumerate(pairs)}
    meta = [
        {} if groups is None else {"group": f"g-{groups(i)}"} for i in range(len(pairs))
    ]
    rows = [said(f"t-{i}", label, meta=meta[i]) for i, (_, label) in enumerate(pairs)]
    return evaluate(judge_of(kind, verdicts), rows)


@pytest.mark.parametrize(
    ("kind", "pairs", "metrics", "wrong"),
    [
        ("A|B|tie", TABLE, {"accuracy": 0.7, "kappa": 0.4}, list(range(20, 35))),
        # those that are furthest apart come first, and of floats a tenth of the scale is the same
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
    assert {
        name: figure.value for name, figure in result.metrics.items()
    } == pytest.approx(metrics, abs=0.005)
    assert [case.id for case in result.disagreements] == [f"t-{n}" for n in wrong]
    assert all(name.split("_")[0] in str(result) for name in metrics)


def test_the_confusion_matrix_has_people_in_rows():
    labels = many("A|B|tie", TABLE)
    assert labels.labels == ("A", "B", "tie")
    assert labels.confusion == (
        (20, 10, 0),
        (5, 15, 0),
        (0, 0, 0),
    )  # 10 times people said A and the judge B
    assert all(
        figure.low < figure.value < figure.high for figure in labels.metrics.values()
    )
    for kind, pair in (
        ("int:0..100", (10, 20)),
        ("float:0..1", (0.1, 0.2)),
        ("str", ("x", "y")),
    ):
        assert (many(kind, [pair]).labels, many(kind, [pair]).confusion) == ((), ())


def test_five_of_five_is_no_proof_of_perfection():
    right = many("bool", [(True, True)] * 3 + [(False, False)] * 2).metrics
    assert (right["accuracy"].value, right["accuracy"].low) == (
        1.0,
        pytest.approx(0.4629, abs=1e-4),
    )
    assert (
        right["kappa"].value,
        right["kappa"].high,
        (right["kappa"].low or 0) < 0,
    ) == (
        1.0,
        1.0,
        True,
    )


@pytest.mark.parametrize(
    ("kind", "scores"),
    [("int:1..5", (1, 5)), ("float:0..1", (0.0, 1.0)), ("int:0..100", (0, 50, 100))],
)
def test_a_judge_that_turns_every_scale_around_has_its_figure(kind, scores):
    turned = many(kind, list(zip(scores, reversed(scores), strict=True)) * 6)
    figure = list(turned.metrics.values())[1]
    assert figure.value == pytest.approx(-1)
    assert figure.low == -1 < figure.high < 0


def test_cases_of_one_group_count_together():
    pairs = [(i // 8 % 4 != 0, True) for i in range(80)]
    alone = many("bool", pairs)
    grouped = many("bool", pairs, groups=lambda i: i // 8)
    assert width(grouped.metrics["accuracy"]) > 1.5 * width(alone.metrics["accuracy"])
    assert grouped.cases[0].group == "g-0"
    two = many("bool", pairs, groups=lambda i: i % 2)
    figure = two.metrics["accuracy"]
    why = "too few groups for an interval: there are 2, and 10 are needed"
    assert (figure.low, figure.high, figure.no_interval) == (None, None, why)
    assert why in str(two)


def test_an_evaluation_prints_and_dumps_json():
    result = many("bool", [(True, True), (False, True), (False, False), (True, True)])
    text = str(result)
    assert text.splitlines()[0].startswith(
        "Of the cases that people call true, the judge calls 67 % true (n = 3); of"
    )
    assert "\n\nhelpfulness (bool) on scripted, memory " in text
    counts = "n = 4 of 4 cases; 0 unscored (no verdict), 0 without a label"
    for words in (
        counts,
        "accuracy",
        "people say true, the judge says: 2 true, 1 false",
    ):
        assert words in text
    plain = json.loads(json.dumps(result.to_dict()))
    assert (plain["metrics"]["accuracy"]["value"], plain["confusion"]) == (
        0.75,
        [[2, 1], [0, 1]],
    )
    assert (plain["usage"]["calls"], plain["disagreements"]) == (4, ["t-1"])


# -- comparison ----------------------------------------------------------------------------------------------------------


def cases(*pairs, start=0, groups=None):
    return [
        ScoredCase(
            id=f"t-{i}",
            value=value,
            label=label,
            group=None if groups is None else f"g{groups(i)}",
        )
        for i, (value, label) in enumerate(pairs, start)
    ]


def test_a_judge_that_fixes_many_is_ahead():
    before = many("bool", [(False, True)] * 12 + [(True, True)] * 20)
    after = many("bool", [(True, True)] * 32)
    result = compare(before, after)
    assert (result.verdict, result.n, result.left_out) == ("ahead", 32, 0)
    assert (result.broken, result.first.value, result.second.value) == (
        (),
        20 / 32,
        1.0,
    )
    assert result.fixed == tuple(f"t-{i}" for i in range(12))
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
    result = compare(
        cases(*[(False, True)] * fixed, *[(True, True)] * same),
        cases(*[(True, True)] * (fixed + same)),
    )
    assert result.verdict == verdict
    assert result.mcnemar_p == pytest.approx(p)
    assert ("no clear difference" in str(result)) == (verdict == "tied")


def test_only_cases_that_both_scored_count():
    before = [
        *cases((True, True), (False, True)),
        ScoredCase(id="t-2", label=True, error="timed out"),
    ]
    after = [
        *cases((True, True)),
        ScoredCase(id="t-1", label=True, error="timed out"),
        *cases((True, True), start=2),
    ]
    result = compare(before, after)
    assert (result.n, result.left_out) == (1, 2)
    right = cases((True, True))
    wrong = cases((True, False))
    for first, second, message in (
        (before[2:], after, "no case was scored in both"),
        (right, wrong, "'t-0' has label true in the first and false in the second"),
    ):
        with pytest.raises(InputError, match=message):
            compare(first, second)


@pytest.mark.parametrize(
    ("wrong", "n", "groups", "verdict"),
    [
        (8, 80, None, "ahead"),
        (
            8,
            80,
            lambda i: i // 8,
            "tied",
        ),  # all that was fixed is in one document of ten
        (32, 32, lambda i: i % 3, "tied"),
    ],
)
def test_grouped_cases_are_compared_by_group(wrong, n, groups, verdict):
    before = cases(*[(i >= wrong, True) for i in range(n)], groups=groups)
    result = compare(before, cases(*[(True, True)] * n))
    assert result.verdict == verdict
    assert result.difference.value == pytest.approx(wrong / n)
    assert (
        "too few groups for an interval: there are 3, and 10 are needed" in str(result)
    ) == (wrong == 32)


# -- feedback before a judge learns from it; the command: tests/cli/test_check.py --------------------------------------


def test_labels_that_nobody_gave_and_large_numbers_are_counted():
    assert review_feedback(
        [said(f"t-{n}", True) for n in range(3)], ValueType.of("bool")
    ).labels == {
        "true": 3,
        "false": 0,
    }
    large = review_feedback(
        [said(f"t-{n}", 1_000_000.0 + n) for n in range(9)],
        ValueType.of("float:0..2000000"),
    )
    assert len(large.labels) == 9


def test_numbers_within_the_tolerance_of_the_scale_are_no_conflict():
    scale = ValueType.of("float:0..1")
    near = review_feedback([said("t-1", 0.70), said("t-1", 0.71, "ben")], scale)
    far = review_feedback([said("t-1", 0.70), said("t-1", 0.95, "ben")], scale)
    assert (len(near.conflicts), len(far.conflicts)) == (0, 1)


def test_of_people_on_a_scale_it_matters_how_far_they_are_apart():
    labels = {"ana": (1, 5, 2, 4), "ben": (1, 5, 2, 5)}
    rows = [
        said(f"t-{n}", label, source)
        for source, scores in labels.items()
        for n, label in enumerate(scores)
    ]
    alpha = review_feedback(rows, ValueType.of("int:1..5")).alpha
    assert alpha is not None
    assert 0.9 < alpha < 1
