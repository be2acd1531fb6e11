from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memalign.errors import InputError, InvalidRows
from memalign.evaluation import Evaluation, ScoredCase, aevaluate, compare, evaluate
from memalign.memory import Case, Memory
from memalign.metrics import Estimate, ccc
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import Value, ValueType


@dataclass(frozen=True, kw_only=True)
class PreparedJudge:
    """Gives each example the verdict prepared for its id; an id without one fails, as a timed-out call does."""

    verdicts: dict[str, Value]
    value_type: ValueType
    memory: Memory = field(default_factory=Memory)
    name: str = "helpfulness"
    asked: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()

    async def ajudge_many(
        self,
        examples: Sequence[Example],
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        max_cost: object = None,
    ) -> list[Judgment]:
        del max_cost
        self.asked.extend(example.id for example in examples)
        if out is not None:
            Path(out).write_text(f"{concurrency}")  # noqa: ASYNC240  # a few bytes in a test
        judgments = []
        for done, example in enumerate(examples, 1):
            value = self.verdicts.get(example.id)
            judgments.append(
                Judgment(
                    value=value,
                    rationale=f"about {example.id}",
                    error="ModelUnavailable: timed out" if value is None else None,
                    model="test:prepared",
                    memory_hash=self.memory.hash,
                    usage=Usage(calls=1, input_tokens=100, seconds={"model": 0.5}),
                )
            )
            if progress is not None:
                progress("judge", done, len(examples))
        return judgments


def said(example_id, value=None, source="ana", **more):
    return Feedback(id=example_id, outputs=f"reply {example_id}", value=value, source=source, **more)


def width(estimate):
    return estimate.high - estimate.low


def judge_of(kind, verdicts, **more):
    return PreparedJudge(verdicts=verdicts, value_type=ValueType.of(kind), **more)


# -- what is compared with what ------------------------------------------------------------------------------------------


def test_a_case_of_several_annotations_is_judged_once():
    annotations = [
        said("t-1", True, "ana"),
        said("t-1", False, "ben"),
        said("t-1", False, "eva"),
        said("t-2", True),
    ]
    judge = judge_of("bool", {"t-1": False, "t-2": True})
    found = evaluate(judge, annotations)
    assert judge.asked == ["t-1", "t-2"]
    assert (found.n, found.metrics["accuracy"].value) == (2, 1.0)
    with_authority = judge_of("bool", {"t-1": False, "t-2": True}, memory=Memory(authority=("ana",)))
    assert evaluate(with_authority, annotations).metrics["accuracy"].value == 0.5


def test_the_judges_own_policy_says_which_label_counts():
    rows = [
        said("t-1", True, "ana", created_at="2026-01-01"),
        said("t-1", True, "ben", created_at="2026-01-02"),
        said("t-1", False, "cat", created_at="2026-03-01"),
    ]
    judge = judge_of("bool", {"t-1": True}, memory=Memory(policy=("recency", "majority")))
    assert evaluate(judge, rows).cases[0].label is False


def test_one_content_under_several_ids_is_one_case():
    rows = [Feedback(id=f"t-{n}", outputs="the same", value=n > 1, source=f"p{n}") for n in range(3)]
    judge = judge_of("bool", {"t-0": False})
    found = evaluate(judge, rows)
    assert judge.asked == ["t-0"]
    assert [(case.id, case.label) for case in found.cases] == [("t-0", False)]


def test_a_failed_judgment_is_unscored_and_not_wrong():
    found = evaluate(judge_of("bool", {"t-1": True}), [said("t-1", True), said("t-2", True)])
    assert (found.n, found.unscored) == (1, 1)
    assert found.metrics["accuracy"].value == 1.0
    assert found.cases[1].error == "ModelUnavailable: timed out"
    assert found.cases[1].correct is None
    assert found.usage.calls == 2


def test_when_every_judgment_fails_there_is_no_figure():
    found = evaluate(judge_of("bool", {}), [said("t-1", True)])
    assert (found.n, found.unscored) == (0, 1)
    assert set(found.metrics.values()) == {Estimate(value=None)}
    assert "n/a" in str(found)
    json.dumps(found.to_dict())


def test_a_case_without_labels_is_not_judged():
    judge = judge_of("bool", {"t-1": True})
    found = evaluate(judge, [said("t-1", True), said("t-2", rationale="too cold")])
    assert (found.n, found.unlabelled, judge.asked) == (1, 1, ["t-1"])
    with pytest.raises(InputError, match="no case has a label"):
        evaluate(judge, [said("t-2", rationale="too cold")])
    with pytest.raises(InputError, match="there is no labelled case"):
        evaluate(judge, [])


def test_remembered_cases_are_seen_by_id_or_content():
    remembered = tuple(Case(example=Example(id=i, outputs=text), annotations=()) for i, text in
                       (("t-1", "changed since"), ("old", "reply t-2")))  # fmt: skip
    judge = judge_of("bool", {"t-1": True, "t-2": True, "t-3": True}, memory=Memory(cases=remembered))
    found = evaluate(judge, [said(f"t-{i}", True) for i in (1, 2, 3)])
    assert (found.n, found.seen) == (3, 2)
    assert "2 of the 3 are in the judge's memory" in str(found)


def test_a_labelled_file_is_checked_like_any_feedback(tmp_path):
    path = tmp_path / "held_out.csv"
    path.write_text("id,outputs,value\nt-1,a,yes\nt-2,b,perhaps\n")
    judge = judge_of("bool", {"t-1": True, "t-2": False})
    with pytest.raises(InvalidRows, match="line 3 \\(t-2\\): value 'perhaps' is not allowed"):
        evaluate(judge, path)
    path.write_text("id,outputs,value\nt-1,a,yes\nt-2,b,no\n")
    assert evaluate(judge, str(path)).metrics["accuracy"].value == 1.0


async def test_concurrency_out_and_progress_reach_the_judge(tmp_path):
    seen = []
    await aevaluate(
        judge_of("bool", {"t-1": True}),
        [said("t-1", True)],
        concurrency=3,
        out=tmp_path / "out",
        progress=lambda *step: seen.append(step),
    )
    assert seen == [("judge", 1, 1)]
    assert (tmp_path / "out").read_text() == "3"


# -- what is measured ----------------------------------------------------------------------------------------------------


def many(kind, pairs, **more):
    verdicts = {f"t-{i}": value for i, (value, _) in enumerate(pairs)}
    return evaluate(judge_of(kind, verdicts, **more), [said(f"t-{i}", label) for i, (_, label) in enumerate(pairs)])


def test_choices_have_kappa_and_a_confusion_matrix():
    found = many("A|B|tie", [("A", "A")] * 20 + [("A", "B")] * 5 + [("B", "A")] * 10 + [("B", "B")] * 15)
    assert list(found.metrics) == ["accuracy", "balanced_accuracy", "kappa"]
    assert found.metrics["accuracy"].value == pytest.approx(0.7)
    assert found.metrics["kappa"].value == pytest.approx(0.4)
    assert found.labels == ("A", "B", "tie")
    assert found.confusion == ((20, 10, 0), (5, 15, 0), (0, 0, 0))  # 10 times people said A and the judge B
    for estimate in found.metrics.values():
        assert estimate.low < estimate.value < estimate.high


def test_whole_numbers_get_weighted_kappa_concordance_and_distance():
    found = many("int:1..5", [(1, 1), (2, 3), (5, 5), (4, 2), (3, 3)])
    assert list(found.metrics) == ["accuracy", "weighted_kappa", "ccc", "mae"]
    assert found.metrics["accuracy"].value == pytest.approx(0.6)
    assert found.metrics["mae"].value == pytest.approx(0.6)
    assert found.metrics["ccc"].value == pytest.approx(ccc([1, 2, 5, 4, 3], [1, 3, 5, 2, 3]))
    assert [(d.id, d.value, d.label) for d in found.disagreements] == [("t-3", 4, 2), ("t-1", 2, 3)]


def test_a_long_scale_lists_only_occurring_scores():
    found = many("int:0..100", [(10, 10), (90, 70)])
    assert found.labels == (10, 70, 90)
    assert found.confusion == ((1, 0, 0), (0, 0, 1), (0, 0, 0))


def test_real_numbers_get_concordance_and_distance():
    found = many("float:0..1", [(0.1, 0.2), (0.5, 0.5), (0.9, 0.6)])
    assert list(found.metrics) == ["ccc", "mae"]
    assert (found.labels, found.confusion) == ((), ())
    assert [d.id for d in found.disagreements] == ["t-2"], "a tenth of the scale apart is the same score"
    assert "ccc" in str(found)


def test_free_text_matches_whatever_white_space_surrounds_it():
    found = many("str", [("SELECT 1 ", "SELECT 1"), ("x", "y")])
    assert found.metrics["accuracy"].value == 0.5
    assert [d.id for d in found.disagreements] == ["t-1"]


def test_five_of_five_is_no_proof_of_perfection():
    found = many("bool", [(True, True)] * 3 + [(False, False)] * 2)
    assert found.metrics["accuracy"].value == 1.0
    assert found.metrics["accuracy"].low == pytest.approx(0.4629, abs=1e-4)
    kappa = found.metrics["kappa"]
    assert (kappa.value, kappa.high) == (1.0, 1.0)
    assert (kappa.low or 0) < 0, "of four cases more, half are wrong"
    wrong = many("bool", [(True, False)] * 5)
    assert wrong.metrics["accuracy"].low == 0.0
    assert wrong.metrics["accuracy"].high == pytest.approx(1 - 0.4629, abs=1e-4)


def test_cases_of_one_group_are_resampled_together():
    pairs = [(i % 4 != 0, True) for i in range(10) for _ in range(8)]
    verdicts = {f"t-{i}": value for i, (value, _) in enumerate(pairs)}
    alone = [said(f"t-{i}", True) for i in range(80)]
    grouped = [said(f"t-{i}", True, meta={"group": f"g-{i // 8}"}) for i in range(80)]
    narrow = evaluate(judge_of("bool", verdicts), alone).metrics["accuracy"]
    wide = evaluate(judge_of("bool", verdicts), grouped)
    assert width(wide.metrics["accuracy"]) > 1.5 * width(narrow)
    assert wide.cases[0].group == "g-0"
    assert "10 groups" in str(wide)


def test_two_groups_are_too_few_for_an_interval():
    pairs = [(i % 4 != 0, True) for i in range(40)]
    verdicts = {f"t-{i}": value for i, (value, _) in enumerate(pairs)}
    found = evaluate(
        judge_of("bool", verdicts), [said(f"t-{i}", True, meta={"group": f"g-{i % 2}"}) for i in range(40)]
    )
    figure = found.metrics["accuracy"]
    why = "too few groups for an interval: 2, and 10 are needed"
    assert (figure.value, figure.low, figure.high, figure.no_interval) == (0.75, None, None, why)
    assert why in str(found)
    assert "0.75  no interval" in str(found)
    assert found.to_dict()["metrics"]["accuracy"]["no_interval"] == why


def test_a_disagreement_shows_the_reasons_of_both():
    annotations = [said("t-1", False, "ana", rationale="cold"), said("t-1", rationale="rude", source="ben")]
    (found,) = evaluate(judge_of("bool", {"t-1": True}), annotations).disagreements
    assert (found.value, found.label, found.rationale) == (True, False, "about t-1")
    assert found.people == {"ana": "cold", "ben": "rude"}


def test_an_evaluation_prints_tables_and_dumps_json():
    found = many("bool", [(True, True), (False, True), (False, False), (True, True)])
    text = str(found)
    assert text.splitlines()[0].startswith("helpfulness (bool) on test:prepared, memory ")
    assert "n = 4 of 4 cases; 0 unscored (no verdict), 0 without a label" in text
    assert "accuracy" in text
    assert "people \\ judge" in text
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["metrics"]["accuracy"]["value"] == 0.75
    assert plain["confusion"] == [[2, 1], [0, 1]]
    assert plain["usage"]["calls"] == 4
    first = {"id": "t-0", "label": True, "value": True, "error": None, "group": None}
    assert plain["cases"][0] == first | {"own": None, "tolerance": 0.0}


def test_the_same_seed_gives_the_same_figures():
    pairs = [(i % 3 == 0, i % 2 == 0) for i in range(30)]
    assert many("bool", pairs) == many("bool", pairs)


# -- comparison ----------------------------------------------------------------------------------------------------------


def cases(*pairs, start=0, **more):
    return [ScoredCase(id=f"t-{i}", value=value, label=label, **more) for i, (value, label) in enumerate(pairs, start)]


def test_a_judge_that_fixes_many_is_ahead():
    before = many("bool", [(False, True)] * 12 + [(True, True)] * 20)
    after = many("bool", [(True, True)] * 12 + [(True, True)] * 20)
    found = compare(before, after)
    assert (found.verdict, found.metric, found.n, found.left_out) == ("ahead", "accuracy", 32, 0)
    assert (len(found.fixed), found.broken, found.both_right, found.both_wrong) == (12, (), 20, 0)
    assert found.mcnemar_p == pytest.approx(2 / 2**12)
    assert found.differences["accuracy"].value == pytest.approx(12 / 32)
    assert compare(after, before).verdict == "behind"
    assert "the second judge is ahead (accuracy), n = 32" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["fixed"] == [f"t-{i}" for i in range(12)]


def test_three_fixed_of_five_is_no_proof():
    before = cases(*[(False, True)] * 3, (True, True), (True, True))
    after = cases(*[(True, True)] * 5)
    found = compare(before, after)
    assert (found.differences["accuracy"].low or 0) < 0
    assert found.verdict == "tied"
    assert found.mcnemar_p == pytest.approx(0.25)
    assert "do not tell the two apart" in str(found)


def test_of_all_fixed_it_takes_six():
    assert compare(cases(*[(False, True)] * 5), cases(*[(True, True)] * 5)).verdict == "tied"
    assert compare(cases(*[(False, True)] * 6), cases(*[(True, True)] * 6)).verdict == "ahead"


def test_a_judge_is_tied_with_itself():
    same = cases((True, True), (False, True), (True, False))
    found = compare(same, same)
    assert (found.verdict, found.mcnemar_p, found.fixed, found.broken) == ("tied", 1.0, (), ())
    assert (found.both_right, found.both_wrong) == (1, 2)


def test_only_cases_that_both_scored_count():
    before = [*cases((True, True), (False, True)), ScoredCase(id="t-2", label=True, error="timed out")]
    after = [*cases((True, True)), ScoredCase(id="t-1", label=True, error="timed out"), *cases((True, True), start=2)]
    found = compare(before, after)
    assert (found.n, found.left_out, found.both_right) == (1, 2, 1)
    with pytest.raises(InputError, match="no case was scored in both"):
        compare(before[2:], after)


def test_evaluations_of_different_labels_are_not_compared():
    with pytest.raises(InputError, match="'t-0' has label true in the first and false in the second"):
        compare(cases((True, True)), cases((True, False)))
    with pytest.raises(InputError, match="comes twice"):
        compare([*cases((True, True)), *cases((True, True))], cases((True, True)))


def test_scores_are_compared_by_concordance():
    truth = [1, 2, 3, 4, 5] * 8
    before = cases(*[(6 - label, label) for label in truth])
    after = cases(*[(min(5, label + (i % 3 == 0)), label) for i, label in enumerate(truth)])
    found = compare(before, after)
    assert (found.metric, found.verdict) == ("ccc", "ahead")
    assert set(found.differences) == {"accuracy", "ccc"}
    assert found.first["ccc"] == pytest.approx(-1.0)
    assert found.mcnemar_p is not None


def test_scores_of_one_label_compare_by_being_right():
    right = compare([ScoredCase(id=str(n), label=5, value=2 + n % 2) for n in range(30)],
                    [ScoredCase(id=str(n), label=5, value=5) for n in range(30)])  # fmt: skip
    assert (right.metric, right.verdict, len(right.fixed)) == ("accuracy", "ahead", 30)


def test_real_numbers_have_no_right_and_wrong():
    before = cases((0.1, 0.5), (0.5, 0.9), (0.3, 0.2))
    after = cases((0.4, 0.5), (0.9, 0.9), (0.2, 0.2))
    found = compare(before, after)
    assert (found.both_right, found.mcnemar_p, found.fixed, set(found.differences)) == (None, None, (), {"ccc"})
    assert "ccc: " in str(found)


def test_grouped_cases_are_compared_by_group():
    before = cases(*[(False, True)] * 8, *[(True, True)] * 24)
    after = cases(*[(True, True)] * 32)
    assert compare(before, after).verdict == "ahead"
    before, after = cases(*[(i < 72, True) for i in range(80)]), cases(*[(True, True)] * 80)
    one_document = [ScoredCase(id=c.id, value=c.value, label=c.label, group=f"g{i // 8}") for i, c in enumerate(before)]
    assert compare(before, after).verdict == "ahead"
    assert compare(one_document, after).verdict == "tied"  # all that was fixed is in one document of ten


def test_few_groups_tell_no_two_judges_apart():
    before, after = cases(*[(False, True)] * 32), cases(*[(True, True)] * 32)
    three = [ScoredCase(id=c.id, value=c.value, label=c.label, group=f"g{i % 3}") for i, c in enumerate(before)]
    found = compare(three, after)
    assert (found.verdict, found.differences["accuracy"].value) == ("tied", 1.0)
    assert "too few groups for an interval: 3, and 10 are needed" in str(found)


def test_an_evaluation_is_a_value():
    found = many("bool", [(True, True), (False, True)])
    assert isinstance(found, Evaluation)
    with pytest.raises(AttributeError):
        found.n = 3  # type: ignore[misc]
