"""The calibrator: what plain features and the judge's verdict together say, fitted on the memory's own cases."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Judge, aio, evaluate
from memalign.errors import InputError
from memalign.judge import calibrator
from memalign.judge.calibrator import FEWEST, fit_calibrator
from memalign.judge.features import plain_features
from memalign.judge.logit import conditional_logit, softmax
from memalign.models.base import ChatRequest, Limits
from memalign.models.resolve import resolve_embedding
from memalign.testing import ScriptedChatModel
from memalign.values import ValueType

WORDS = [
    "the",
    "parcel",
    "came",
    "late",
    "and",
    "the",
    "kettle",
    "was",
    "broken",
    "again",
    "so",
    "they",
    "wrote",
    "to",
    "us",
    "twice",
    "about",
    "a",
    "refund",
]


def taught(count: int, *, model: Any = None, **changes: Any) -> Judge:
    """A judge that says yes to everything, taught that a good answer is a long one."""

    def answer(request: ChatRequest) -> Any:
        return {"rationale": "r", "value": True} if request.schema_name == "judgment" else {"changes": []}

    settings_: dict[str, Any] = {
        "name": "length",
        "instructions": "Good? {{ inputs }} {{ outputs }}",
        "feedback_value_type": bool,
        "model": model or ScriptedChatModel(answer),
        "parameters": {"calibrate": True},
    }
    judge = Judge(**settings_ | changes)
    return judge.align([row(number) for number in range(count)]).judge if count else judge


def row(number: int) -> dict[str, Any]:
    good = number % 2 == 0
    return {
        "id": f"t-{number}",
        "source": "ana",
        "inputs": f"question {number}",
        "outputs": said(number, long=good),
        "value": good,
    }


def said(number: int, *, long: bool) -> str:
    return " ".join(WORDS[(number + n) % len(WORDS)] for n in range(40 if long else 5))


def count_fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cases each calibrator was fitted on; the embedder lets others run, as one that is still loading does."""
    counted, fit = [], calibrator.Fit.calibrator

    async def slowly(*args: Any) -> Any:
        await asyncio.sleep(0.01)
        return await plain_features(*args)

    def counting(self: Any, taught: Any) -> Any:
        counted.append(len(taught))
        return fit(self, taught)

    monkeypatch.setattr(calibrator.Fit, "calibrator", counting)
    monkeypatch.setattr(calibrator, "plain_features", slowly)
    return counted


class TestCalibratedValue:
    def test_judgments_at_once_fit_one_calibrator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fits = count_fits(monkeypatch)
        judge = taught(40)  # the align says what it is worth, and has it fitted
        items = [{"id": f"n-{n}", "inputs": "a question", "outputs": said(n, long=True)} for n in range(16)]
        judge.judge_many(items, concurrency=16)

        async def eight() -> None:
            await asyncio.gather(*(judge.ajudge(inputs="q", outputs=said(n, long=False)) for n in range(8)))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: asyncio.run(eight()), range(2)))
        assert fits == [40]

    def test_each_judge_and_memory_has_its_own_calibrator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fits = count_fits(monkeypatch)
        judge = taught(40)
        longer = judge.align([row(number) for number in range(40, 44)]).judge
        for each in (judge, longer, judge, longer.replace(retrieval_k=0), longer):
            each(inputs="q", outputs="a short answer")
        assert fits == [40, 44]

    @pytest.mark.parametrize("names", [("A", "B"), ("left", "right"), ("new", "old")])
    def test_sides_are_compared_whatever_their_names(self, names: tuple[str, str]) -> None:
        value_type, sides = ValueType.of(f"{'|'.join(names)}|tie"), ("a much longer answer than that one", "brief")
        pair = dict(zip(names, sides, strict=True))
        turned = dict(reversed(pair.items()))
        rows = aio.run(
            plain_features(
                [Example(id="p", inputs="q", outputs=pair), Example(id="t", inputs="q", outputs=turned)],
                value_type,
                resolve_embedding(None),
            )
        )
        assert rows[0, 0] == pytest.approx(math.log1p(len(sides[0])) - math.log1p(len(sides[1])))
        assert rows[0].tolist() == rows[1].tolist(), "the order in which an item shows them does not count"

    def test_a_calibrator_corrects_a_judge_with_one_answer(self) -> None:
        judge = taught(40)
        for number, long in ((100, True), (101, False)):
            made = judge(inputs="a new question", outputs=said(number, long=long))
            assert made.own_value is True
            assert (made.value, made.calibrated_value, made.decided_by) == (long, long, "calibrator")
            assert made.confidence == max((made.calibrated_probabilities or {}).values())
            assert made.calibrated_probabilities is not None
            assert sum(made.calibrated_probabilities.values()) == pytest.approx(1.0)

    def test_length_counts_up_to_three_spreads(self) -> None:
        judge = taught(40)
        long, longer = (judge(inputs="q", outputs="word " * count).calibrated_probabilities for count in (10**3, 10**5))
        assert long == longer

    def test_of_too_few_cases_there_is_none(self) -> None:
        assert taught(FEWEST - 1)(inputs="q", outputs="a").calibrated_value is None
        assert taught(FEWEST)(inputs="q", outputs="a").calibrated_value is not None

    def test_a_judge_without_the_setting_calibrates_nothing(self) -> None:
        assert taught(40).replace(parameters={})(inputs="q", outputs="a").calibrated_value is None

    def test_a_memory_of_one_label_has_no_calibrator(self) -> None:
        assert taught(0)(inputs="q", outputs="a").calibrated_value is None
        judge = taught(0).align([row(number) | {"value": True} for number in range(40)]).judge
        assert judge(inputs="q", outputs="a").calibrated_value is None

    def test_another_models_verdicts_calibrate_nothing(self) -> None:
        other = ScriptedChatModel(lambda _: {"rationale": "r", "value": False}, name="another")
        assert taught(40).replace(model=other)(inputs="q", outputs="a").calibrated_value is None

    def test_labels_no_longer_in_use_are_left_out(self) -> None:
        def answer(request: ChatRequest) -> Any:
            return {"rationale": "r", "value": "yes"} if request.schema_name == "judgment" else {"changes": []}

        judge = taught(0, feedback_value_type="yes|no|maybe", model=ScriptedChatModel(answer))
        judge = judge.align([row(number) | {"value": ("yes", "no", "maybe")[number % 3]} for number in range(45)]).judge
        assert judge(inputs="q", outputs="a").calibrated_value in ("yes", "no", "maybe")
        assert judge.replace(feedback_value_type="yes|no")(inputs="q", outputs="a").calibrated_value is None

    def test_too_many_labels_have_no_calibrator(self) -> None:
        labels = [f"label {number}" for number in range(40)]

        def answer(request: ChatRequest) -> Any:
            return {"rationale": "r", "value": labels[0]} if request.schema_name == "judgment" else {"changes": []}

        judge = taught(0, feedback_value_type="|".join(labels), model=ScriptedChatModel(answer))
        judge = judge.align([row(number) | {"value": labels[number % 40]} for number in range(60)]).judge
        assert judge(inputs="q", outputs="a").calibrated_value is None

    def test_a_calibrator_after_forgetting_fits_what_is_left(self) -> None:
        judge = taught(40)
        first = aio.run(fit_calibrator(judge))
        left = judge.unalign("t-3", "t-8").judge
        anew = taught(0).align([row(number) for number in range(40) if number not in (3, 8)]).judge
        others = [aio.run(fit_calibrator(each)) for each in (left, anew)]
        assert all(each is not None for each in (first, *others))
        assert np.array_equal(others[0].weights, others[1].weights)  # type: ignore[union-attr]
        assert not np.array_equal(others[0].weights, first.weights)  # type: ignore[union-attr]

    def test_free_text_has_none(self) -> None:
        with pytest.raises(InputError, match="free text has no labels"):
            taught(0, feedback_value_type="str")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(30, 120))
def test_the_regression_is_that_of_scikit_learn(seed: int, labels: int, n: int) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    codes = np.concatenate([np.arange(labels), rng.integers(0, labels, n - labels)])
    rows[:, 0] += codes  # something to find
    theirs = linear.LogisticRegression(max_iter=5000, tol=1e-8).fit(rows, codes)
    # One column a label and feature, and intercepts that nothing draws to 0; of two labels theirs are one line.
    spread = np.einsum("nf,lk->nklf", np.hstack([rows, np.ones((n, 1))]), np.eye(labels)).reshape(n, labels, -1)
    ridge = np.tile([2.0 if labels == 2 else 1.0] * 3 + [1e-9], labels)
    weights = conditional_logit(spread, codes, ridge, np.zeros(len(ridge)))
    assert np.allclose(softmax(spread @ weights), theirs.predict_proba(rows), atol=5e-3)


def test_an_evaluation_measures_calibrated_values_too() -> None:
    rows = [row(number) | {"id": f"new-{number}"} for number in range(200, 210)]
    found = evaluate(taught(40), rows)
    assert found.metrics["accuracy_own"].value == 0.5
    assert (found.metrics["accuracy_calibrated"].value or 0.0) >= 0.9
    assert found.metrics["accuracy"] == found.metrics["accuracy_calibrated"], "which decides"


class TestWorth:
    def test_an_align_says_which_verdict_decides(self) -> None:
        result = taught(0).align([row(number) for number in range(40)])
        (note,) = (note for note in result.notes if "decides" in note)
        assert note.startswith("the calibrator decides: on 40 taught cases, each hidden in turn")
        assert "the model's own verdict is 0.50" in note

    def test_a_strong_model_calibrates_only_when_told(self) -> None:
        result = taught(0, parameters={}).align([row(number) for number in range(40)])
        assert not [note for note in result.notes if "decides" in note]
        assert result.judge(inputs="q", outputs="a").calibrated_value is None

    def test_a_weak_models_judgments_are_calibrated_by_default(self) -> None:
        def answer(request: ChatRequest) -> Any:
            return {"rationale": "r", "value": True, "when": "", "because": ""}

        weak = ScriptedChatModel(answer, limits=Limits(brief=True, shard_size=1))
        result = taught(0, parameters={}, model=weak).align([row(number) for number in range(40)])
        item = {"inputs": "a new question", "outputs": said(101, long=False)}
        made = result.judge(**item)
        assert (made.own_value, made.value, made.calibrated_value) == (True, False, False)
        plain = result.judge.replace(parameters={"calibrate": False})(**item)
        assert (plain.value, plain.calibrated_value, plain.decided_by) == (True, None, "model")
        assert result.judge.replace(model=ScriptedChatModel(answer))(**item).calibrated_value is None

    def test_an_aligns_own_verdicts_fit_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        monkeypatch.setattr("memalign.judge.verdict.calibrate", lambda *given: asked.append(given))
        weak = ScriptedChatModel(
            lambda _: {"rationale": "r", "value": True, "when": "it is short", "because": "it says little"},
            limits=Limits(brief=True, shard_size=1),
        )
        rows = [row(number) | {"rationale": "Too short."} for number in range(40)]
        taught(0, parameters={}, model=weak, retrieval_k=0).align(rows)
        assert len(weak.requests) > len(rows), "or the test is about nothing"
        assert asked == []

    @pytest.mark.parametrize("changes", [{"parameters": {"calibrate": False}}, {"feedback_value_type": "str"}])
    def test_nothing_is_noted_where_calibration_is_set(self, changes: dict[str, Any]) -> None:
        rows = [row(number) | ({"value": "long"} if "feedback_value_type" in changes else {}) for number in range(40)]
        result = taught(0, **{"parameters": {}} | changes).align(rows)
        assert not [note for note in result.notes if "decides" in note]

    def test_a_right_judges_verdict_stands(self) -> None:
        judge = taught(0, model=ScriptedChatModel(by_length)).align([row(number) for number in range(40)]).judge
        fitted = aio.run(fit_calibrator(judge))
        assert fitted is not None
        assert (fitted.worth.n, fitted.worth.model, fitted.worth.decides) == (40, 1.0, False)
        assert judge(inputs="q", outputs=said(1, long=True)).decided_by == "model"

    def test_a_calibrator_is_measured_on_unseen_cases(self) -> None:
        # Of labels that nothing tells a calibrator has half right; on what it was fitted on it would have more.
        found = []
        for seed in range(12):
            labels = np.random.default_rng(seed).permutation([True, False] * 20)
            rows = [row(number) | {"value": bool(label)} for number, label in enumerate(labels)]
            fitted = aio.run(fit_calibrator(taught(0, retrieval_k=0).align(rows).judge))
            assert fitted is not None
            found.append(fitted.worth)
        assert all((worth.n, worth.model) == (40, 0.5) for worth in found)
        assert sum(worth.calibrator for worth in found) / len(found) < 0.53


def by_length(request: ChatRequest) -> Any:
    """A judge that sees what the expert sees."""
    if request.schema_name != "judgment":
        return {"changes": []}
    return {"rationale": "r", "value": len(request.user.rsplit("outputs:", 1)[1]) > 100}
