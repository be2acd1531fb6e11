"""The weights of checks: what the answers to them say of labels, sides, ranks and numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge, aio
from memalign.judge.calibrator import FEWEST, Calibrated, Worth, calibrate, fit_calibrator
from memalign.judge.columns import HABIT, VERDICT
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Annotation, Answers, Case, Memory
from memalign.testing import ScriptedChatModel
from memalign.types import Check, Example, FeedbackKey, Guideline

TYPES: dict[str, Sequence[Any]] = {
    "bool": (True, False),
    "A|B": ("A", "B"),
    "good|fair|poor": ("good", "fair", "poor"),
    "int:1..5": (1, 2, 3, 4, 5),
    "float:0..1": (0.0, 0.25, 0.5, 0.75, 1.0),
}
TELLING, USELESS = "Does it tell?", "Is it useless?"


def speaks(kind: str, label: Any, check: Any) -> float:
    """How much an answer of yes is expected where the label is `label`, of a check that was written for `check`."""
    if kind == "A|B":
        return 1.0 if label == "A" else -1.0
    if isinstance(label, bool | str):
        return 1.0 if label == check else -1.0
    values = TYPES[kind]
    return float(np.sign(check - np.mean(values)) * (label - np.mean(values)) / (max(values) - np.mean(values)))


def judge_of(kind: str, *, count: int = 40, seed: int = 0, turned: bool = False, margins: bool = True) -> Judge:
    """A judge whose model's verdicts are drawn at random, and of whose checks one in three tells the label."""
    rng, labels = random.Random(seed), TYPES[kind]
    model = ScriptedChatModel(lambda _: {"rationale": "r", "value": labels[0]})
    judge = Judge(name="j", feedback_value_type=kind, model=model, instructions="Good? {{ outputs }}")
    written = {f"{TELLING[:-1]} {n}?": labels[-1 if n % 2 else 0] for n in range(2)}
    written |= {f"{USELESS[:-1]} {n}?": labels[0] for n in range(4)}
    guidelines = tuple(
        Guideline(
            id=f"G{n}",
            text=f"rule {n}",
            supported_by=(FeedbackKey(f"t-{n}", "ana"),),
            checks=(
                Check(question=question, answer="no" if turned else "yes", value=None if kind == "A|B" else label),
            ),
        )
        for n, (question, label) in enumerate(written.items(), 1)
    )
    cases = []
    for number in range(count):
        label = labels[number % len(labels)]
        outputs: Any = f"text {number}" if kind != "A|B" else {"A": f"one {number}", "B": f"two {number}"}
        found = {
            question: (speaks(kind, label, expected) if question.startswith(TELLING[:-1]) else 0.0) * 2
            + rng.gauss(0, 0.5)
            for question, expected in written.items()
        }
        cases.append(
            Case(
                example=Example(id=f"c-{number:03}", outputs=outputs),
                annotations=(Annotation(id=f"c-{number:03}", source="ana", value=label),),
                answers=Answers(
                    judge=base_fingerprint_of(judge), margins=found if margins else {}, verdict=rng.choice(list(labels))
                ),
            )
        )
    return judge.replace(memory=Memory(cases=tuple(cases), guidelines=guidelines))


def says(judge: Judge, margins: Mapping[str, float], verdict: Any = None) -> Calibrated:
    kind = judge.value_type.spec
    outputs = "a text" if kind != "A|B" else {"A": "one", "B": "two"}
    example = Example(id="new", outputs=outputs)
    found = aio.run(calibrate(judge, example, TYPES[kind][0] if verdict is None else verdict, margins))
    assert found is not None
    return found


def telling(kind: str, label: Any) -> dict[str, float]:
    labels = TYPES[kind]
    return {f"{TELLING[:-1]} {n}?": 3 * speaks(kind, label, labels[-1 if n % 2 else 0]) for n in range(2)}


@pytest.mark.parametrize("kind", TYPES)
def test_checks_decide_where_the_verdict_tells_nothing(kind: str) -> None:
    judge = judge_of(kind)
    fitted = aio.run(fit_calibrator(judge))
    assert fitted is not None
    assert fitted.worth.decides
    assert fitted.worth.calibrator > fitted.worth.model + 0.1
    lowest, highest = TYPES[kind][0], TYPES[kind][-1]
    for label in (lowest, highest):
        found = says(judge, telling(kind, label)).value
        if kind.startswith("float"):
            assert abs(float(found) - float(label)) < 0.3
        else:
            assert found == label


@pytest.mark.parametrize("kind", ["bool", "A|B", "int:1..5"])  # of three labels a no to one speaks for two others
def test_a_wrong_sign_in_a_guideline_is_corrected(kind: str) -> None:
    judge = judge_of(kind, count=80, turned=True)
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        assert says(judge, telling(kind, label)).value == label


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.startswith("float")])
def test_contributions_add_up_to_the_log_odds(kind: str) -> None:
    judge = judge_of(kind)
    found = says(judge, telling(kind, TYPES[kind][1]))
    assert found.probabilities is not None
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    first, second = sorted(found.probabilities.values(), reverse=True)[:2]
    assert sum(part for _, part in found.parts) == pytest.approx(np.log(first / second))
    assert {HABIT, VERDICT} <= dict(found.parts).keys()


def test_swapping_the_sides_turns_every_check() -> None:
    judge = judge_of("A|B")
    margins = telling("A|B", "A")
    parts = dict(says(judge, margins).parts)
    other = dict(says(judge, {question: -margin for question, margin in margins.items()}).parts)
    assert all(parts[question] == pytest.approx(other[question]) for question in margins), "each speaks for its side"


def test_an_answer_that_is_missing_says_nothing() -> None:
    judge = judge_of("bool")
    parts = dict(says(judge, {}).parts)
    assert all(part == 0.0 for name, part in parts.items() if name.endswith("?"))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.startswith("float")])
def test_checks_of_few_cases_count_alike_without_deciding(kind: str) -> None:
    judge = judge_of(kind, count=FEWEST - 1)
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        found = says(judge, telling(kind, label))
        assert (found.value, found.decides) == (label, False)
        assert dict(found.parts)[VERDICT] == 0.0
    fitted = aio.run(fit_calibrator(judge_of(kind, count=FEWEST)))
    assert fitted is not None
    assert fitted.worth.n == FEWEST


def test_few_cases_without_checks_have_no_calibrator() -> None:
    assert aio.run(fit_calibrator(judge_of("bool", count=FEWEST - 1, margins=False))) is None
    assert aio.run(fit_calibrator(judge_of("bool", count=FEWEST, margins=False))) is not None


def test_answers_of_another_judge_do_not_count() -> None:
    judge = judge_of("bool")
    assert aio.run(fit_calibrator(judge.replace(instructions="Otherwise? {{ outputs }}"))) is None


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(TYPES)), st.integers(0, 10**6), st.booleans())
def test_the_order_of_cases_does_not_count(kind: str, seed: int, margins: bool) -> None:
    judge = judge_of(kind, count=20, seed=seed, margins=margins)
    cases = list(judge.memory.cases)
    random.Random(seed).shuffle(cases)
    other = judge.replace(memory=Memory(cases=tuple(cases), guidelines=judge.memory.guidelines))
    one, two = (aio.run(fit_calibrator(each)) for each in (judge, other))
    assert one is not None
    assert two is not None
    assert np.array_equal(one.weights, two.weights)


def test_two_answers_together_teach_a_conditional_rule() -> None:
    # Fahrenheit in the United States, Celsius elsewhere: neither answer alone tells anything.
    there, unit = "Is the customer in the United States?", "Are the temperatures in Fahrenheit?"
    rng, cases = random.Random(1), []
    judge = Judge(
        name="j", feedback_value_type=bool, model=ScriptedChatModel(lambda _: {}), instructions="{{ outputs }}"
    )
    for number in range(40):
        american, fahrenheit = number % 2 == 0, number % 4 < 2
        margins = {there: 2.0 if american else -2.0, unit: 2.0 if fahrenheit else -2.0}
        margins = {question: margin + rng.gauss(0, 0.5) for question, margin in margins.items()}
        name = f"c-{number:02}"
        cases.append(
            Case(
                example=Example(id=name, outputs=f"text {number}"),
                annotations=(Annotation(id=name, source="ana", value=american == fahrenheit),),
                answers=Answers(judge=base_fingerprint_of(judge), margins=margins, verdict=True),
            )
        )
    checks = (Check(question=there, answer="yes", value=False), Check(question=unit, answer="no", value=False))
    rule = Guideline(id="G1", text="In the United States temperatures are in Fahrenheit.", checks=checks)
    judge = judge.replace(memory=Memory(cases=tuple(cases), guidelines=(rule,)))
    for american in (True, False):
        for fahrenheit in (True, False):
            margins = {there: 2.0 if american else -2.0, unit: 2.0 if fahrenheit else -2.0}
            assert says(judge, margins).value is (american == fahrenheit)
    fitted = aio.run(fit_calibrator(judge))
    assert fitted is not None
    assert fitted.worth.decides


def test_a_pinned_check_keeps_a_least_weight() -> None:
    judge = judge_of("bool", count=60)
    useless = next(each for each in judge.memory.guidelines if each.checks[0].question.startswith(USELESS[:-1]))
    pinned = tuple(
        msgspec.structs.replace(each, pinned_by="cleo") if each is useless else each for each in judge.memory.guidelines
    )
    memory = msgspec.structs.replace(judge.memory, guidelines=pinned)
    margins = {useless.checks[0].question: 3.0}
    parts = [dict(says(each, margins).parts) for each in (judge, judge.replace(memory=memory))]
    assert abs(parts[1][useless.checks[0].question]) >= abs(parts[0][useless.checks[0].question])
    assert abs(parts[1][useless.checks[0].question]) > 0.3


def test_an_unknown_verdict_is_neither_right_nor_wrong() -> None:
    judge = judge_of("bool", count=40)
    cases = [
        case
        if number % 2 or case.answers is None
        else msgspec.structs.replace(case, answers=msgspec.structs.replace(case.answers, verdict=None))
        for number, case in enumerate(judge.memory.cases)
    ]
    fitted = aio.run(fit_calibrator(judge.replace(memory=msgspec.structs.replace(judge.memory, cases=tuple(cases)))))
    assert fitted is not None
    assert fitted.worth.n == 20
    assert fitted.worth.model > 0.2, "half of the verdicts are drawn right, and no missing one counts as wrong"


def test_of_few_numbers_nothing_is_expected() -> None:
    assert aio.run(fit_calibrator(judge_of("float:0..1", count=FEWEST - 1))) is None


# -- what a check and a case may not do ----------------------------------------------------------------------------------


def with_lesson(judge: Judge, question: str) -> Judge:
    """The judge with one guideline more, whose check no past case was asked about."""
    label = TYPES[judge.value_type.spec][0]
    new = Guideline(id="G99", text="rule 99", checks=(Check(question=question, answer="yes", value=label),))
    memory = msgspec.structs.replace(judge.memory, guidelines=(*judge.memory.guidelines, new))
    return judge.replace(memory=memory)


@pytest.mark.parametrize("kind", ["bool", "good|fair|poor", "int:1..5", "float:0..1"])
def test_a_check_that_no_case_answered_turns_no_verdict(kind: str) -> None:
    judge, question = judge_of(kind), "Was it learned today?"
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        before = says(judge, telling(kind, label))
        after = says(with_lesson(judge, question), telling(kind, label) | {question: 4.0})
        assert after.value == before.value
        assert after.probabilities == pytest.approx(before.probabilities)


@pytest.mark.parametrize("n", [10, 12, 16, 20, 24, 30, 40, 50])
@pytest.mark.parametrize(
    ("fixed", "broken", "decides"),
    [(1, 0, False), (0, 1, False), (2, 0, True), (3, 1, False), (4, 1, True), (5, 3, False), (9, 4, True)],
)
def test_fixed_and_broken_cases_decide_whatever_their_number(n: int, fixed: int, broken: int, decides: bool) -> None:
    if fixed + broken > n:
        pytest.skip("more turned verdicts than cases")
    model = [0.0] * fixed + [1.0] * broken + [1.0] * (n - fixed - broken)
    calibrator = [1.0] * fixed + [0.0] * broken + [1.0] * (n - fixed - broken)
    worth = Worth.of(model, calibrator)
    assert (worth.fixed, worth.broken, worth.decides) == (fixed, broken, decides)


def test_does_not_apply_is_no_answer() -> None:
    # A yes-leaning model: were "n/a" a margin between its answers, it would count as a no.
    question, rng, cases = "Is the price named?", random.Random(4), []
    judge = Judge(
        name="j", feedback_value_type=bool, model=ScriptedChatModel(lambda _: {}), instructions="{{ outputs }}"
    )
    for number in range(40):
        margin, name = (1.0, 1.0, 1.0, -1.0, 0.0)[number % 5], f"c-{number:02}"
        label = margin > 0 if margin else rng.random() < 0.5
        cases.append(
            Case(
                example=Example(id=name, outputs=f"text {number}"),
                annotations=(Annotation(id=name, source="ana", value=label),),
                answers=Answers(judge=base_fingerprint_of(judge), margins={question: margin}, verdict=number % 2 == 0),
            )
        )
    rule = Guideline(id="G1", text="Name it.", checks=(Check(question=question, answer="yes", value=True),))
    judge = judge.replace(memory=Memory(cases=tuple(cases), guidelines=(rule,)))
    not_applying, missing = says(judge, {question: 0.0}), says(judge, {})
    assert dict(not_applying.parts)[question] == 0.0
    assert not_applying.probabilities == pytest.approx(missing.probabilities)


class TestConfidence:
    """It is that of the verdict which is delivered."""

    def judged(self, judge: Judge, margin: float, verdict: bool) -> Any:
        checks = {f"C{n}": "yes" if margin > 0 else "no" for n in range(1, 7)}
        model = ScriptedChatModel(lambda _: {"checks": checks, "rationale": "r", "value": verdict})
        return judge.replace(model=model)(outputs="a new text")

    def test_without_a_fitted_calibrator_it_is_the_models_own(self) -> None:
        for verdict in (True, False):
            made = self.judged(judge_of("bool", count=FEWEST - 1), 1.0, verdict)
            assert (made.value, made.decided_by, made.confidence) == (verdict, "model", None)

    def test_a_verdict_is_never_delivered_with_the_confidence_of_another(self) -> None:
        for count in (FEWEST - 1, FEWEST, 40):
            for seed in range(6):
                for margin in (1.0, -1.0):
                    for verdict in (True, False):
                        made = self.judged(judge_of("bool", count=count, seed=seed), margin, verdict)
                        assert made.confidence is None or made.confidence >= 0.5
                        if made.decided_by == "calibrator":
                            assert made.confidence == made.calibrated_probabilities[str(made.value).lower()]
