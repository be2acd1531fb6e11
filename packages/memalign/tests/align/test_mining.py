"""Rules that code finds in labels, comments and items: those that are there, none that chance would explain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Feedback, Guideline, Judge
from memalign.align.admission import ALPHA, chance, chance_limit, least_chance
from memalign.align.mining import mined, with_mined
from memalign.judge.calibrator import calibrator_of, fit
from memalign.judge.code_tests import holds
from memalign.judge.observations import LabelledCase, Observation, expectations
from memalign.judge.observations import test_margins as margins_of_tests
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Annotation, Answers, Case, Expectation, Memory
from memalign.models.base import ChatRequest, Limits
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.values import Value, ValueType

FIELDS = ("inputs", "outputs")
OPENINGS = ("Thank you.", "Good morning,", "We looked it up.", "Gladly.", "In short:")
GOODS = ("flour", "lemons", "slates", "nails", "cider", "candles", "rope", "tiles")


def memory(rows: Iterable[Feedback]) -> Memory:
    return Memory(
        cases=tuple(Case(example=row.example, annotations=(Annotation.of(row),)) for row in rows if row.example)
    )


def rows(
    n: int, write: Callable[[int, random.Random], tuple[Any, Any, Value, str]], *, seed: int = 0
) -> list[Feedback]:
    rng = random.Random(seed)
    made = [write(number, rng) for number in range(n)]
    return [
        Feedback(id=f"t-{number:03d}", inputs=inputs, outputs=outputs, value=value, rationale=comment, source="ana")
        for number, (inputs, outputs, value, comment) in enumerate(made)
    ]


def reference(number: int, rng: random.Random) -> tuple[Any, Any, Value, str]:
    letters, digits, good = rng.choice(["KD", "PT", "RM"]), rng.randint(1000, 9999), number % 2 == 0
    written = f"{letters}/{digits}" if good else f"{letters}-{digits}"
    comment = f"{letters}/{digits} is our form" if good else f"write {letters}/{digits}, with a slash"
    return f"Where is the {rng.choice(GOODS)}?", f"{rng.choice(OPENINGS)} Under {written} it is packed.", good, comment


def pounds(number: int, rng: random.Random) -> tuple[Any, Any, Value, str]:
    norway, unit = number % 2 == 0, "pounds" if number % 4 < 2 else "kilograms"
    inputs = f"{'Norway' if norway else rng.choice(['Chile', 'Spain'])}: how heavy is the {rng.choice(GOODS)}?"
    good = norway == (unit == "pounds")
    return inputs, f"{rng.choice(OPENINGS)} It is {rng.randint(6, 88)} {unit}.", good, f"{unit}? pounds are for Norway"


def predicted(guidelines: Iterable[Guideline], row: Feedback) -> Value | None:
    for guideline in guidelines:
        if all(check.test and holds(check.test, row.content) == (check.answer == "yes") for check in guideline.checks):
            return guideline.checks[0].value
    return None


BOOL = ValueType.of(bool)


def test_a_plain_rule_is_found_in_ten_labels_and_holds_unseen() -> None:
    found = mined(memory(rows(10, reference)), BOOL, FIELDS)
    assert [guideline.text for guideline in found] == [
        "Where the reply has a piece like AA/0000: true.",
        "Where the reply does not have a piece like AA/0000: false.",
    ]
    unseen = rows(40, reference, seed=1)
    assert [predicted(found, row) for row in unseen] == [row.value for row in unseen]


def test_a_condition_is_found_as_guidelines_with_two_tests() -> None:
    found = mined(memory(rows(16, pounds)), BOOL, FIELDS)
    assert len(found) == 4
    assert all(len(guideline.checks) == 2 for guideline in found)
    unseen = rows(40, pounds, seed=1)
    assert [predicted(found, row) for row in unseen] == [row.value for row in unseen]


def test_too_few_labels_admit_nothing() -> None:
    assert mined(memory(rows(6, reference)), BOOL, FIELDS) == ()
    assert mined(memory(rows(8, pounds)), BOOL, FIELDS) == ()


@pytest.mark.parametrize("write", [reference, pounds])
def test_labels_dealt_at_random_admit_as_seldom_as_promised(write: Any) -> None:
    admitted = 0
    for seed in range(100):
        taught = rows(20, write)
        labels = [row.value for row in taught]
        random.Random(seed).shuffle(labels)
        dealt = [msgspec.structs.replace(row, value=label) for row, label in zip(taught, labels, strict=True)]
        admitted += bool(mined(memory(dealt), BOOL, FIELDS))
    assert admitted <= 100 * ALPHA


def test_a_rule_survives_some_wrong_labels() -> None:
    taught = rows(40, reference)
    wrong = [
        msgspec.structs.replace(row, value=not row.value) if n in (3, 8, 21) else row for n, row in enumerate(taught)
    ]
    found = mined(memory(wrong), BOOL, FIELDS)
    assert found[0].text == "Where the reply has a piece like AA/0000: true."


def test_of_three_labels_only_what_is_told_apart_is_said() -> None:
    def write(number: int, rng: random.Random) -> tuple[Any, Any, Value, str]:
        label = ("spam", "order", "question")[number % 3]
        text = f"{rng.choice(OPENINGS)} {'We won a prize' if label == 'spam' else rng.choice(GOODS)}"
        return "mail", text, label, "a prize is spam"

    found = mined(memory(rows(24, write)), ValueType.of("spam|order|question"), FIELDS)
    assert [guideline.text for guideline in found] == ['Where the reply has the words "a prize": spam.']


def test_scores_are_told_apart_at_their_median() -> None:
    def write(number: int, rng: random.Random) -> tuple[Any, Any, Value, str]:
        good = number % 2 == 0
        text = f"{rng.choice(OPENINGS)} {'Sorry for that.' if good else rng.choice(GOODS)}"
        return "mail", text, rng.choice([4, 5]) if good else rng.choice([1, 2]), "it must say sorry"

    found = mined(memory(rows(20, write)), ValueType.of("int:1..5"), FIELDS)
    assert [predicted(found, row) in (4, 5) for row in rows(20, write, seed=1)] == [True, False] * 10


def test_of_a_pair_the_better_side_is_described() -> None:
    def write(number: int, rng: random.Random) -> tuple[Any, Any, Value, str]:
        good, poor = f"{rng.choice(OPENINGS)} We are sorry.", f"{rng.choice(OPENINGS)} That is so."
        pair = {"A": good, "B": poor} if number % 3 else {"A": poor, "B": good}
        return "complaint", pair, "A" if number % 3 else "B", "one says sorry, the other does not"

    (found,) = mined(memory(rows(12, write)), ValueType.of("A|B|tie"), FIELDS)
    assert found.text == 'The better side is the one where the reply has the word "sorry".'
    (check,) = found.checks
    assert (check.answer, check.value) == ("yes", None)


def test_nothing_is_tried_without_shared_words() -> None:
    silent = [msgspec.structs.replace(row, rationale=None) for row in rows(20, reference)]
    assert mined(memory(silent), BOOL, FIELDS) == ()
    assert mined(Memory(), BOOL, FIELDS) == ()


# -- in a memory -------------------------------------------------------------------------------------------------------


def test_nothing_supports_it_and_all_labels_expose_it() -> None:
    taught = rows(12, reference)
    learned = with_mined(memory(taught), BOOL, FIELDS)
    assert [guideline.id for guideline in learned.semantic] == ["G1", "G2"]
    for guideline in learned.semantic:
        assert guideline.supported_by == ()
        assert guideline.exposed_to == tuple(sorted(row.key for row in taught))
    assert with_mined(learned, BOOL, FIELDS) is learned


def test_no_literal_of_a_case_is_in_a_shape() -> None:
    learned = with_mined(memory(rows(12, reference)), BOOL, FIELDS)
    text = "".join(map(repr, learned.guidelines))
    assert not any(letters in text for letters in ("KD", "PT", "RM"))


def test_a_rule_that_labels_no_longer_bear_out_goes() -> None:
    taught = rows(12, reference)
    learned = with_mined(memory(taught), BOOL, FIELDS)
    turned = [msgspec.structs.replace(row, value=number % 4 < 2) for number, row in enumerate(taught)]
    doubted = msgspec.structs.replace(memory(turned), guidelines=learned.guidelines, next_guideline=3)
    assert with_mined(doubted, BOOL, FIELDS).guidelines == ()


def test_the_order_of_the_rows_does_not_matter() -> None:
    taught = rows(16, pounds)
    shuffled = random.Random(3).sample(taught, len(taught))
    ordered = memory(sorted(shuffled, key=lambda row: row.id))
    assert mined(ordered, BOOL, FIELDS) == mined(memory(taught), BOOL, FIELDS)


# -- chance ------------------------------------------------------------------------------------------------------------

counts = st.integers(0, 12)


@settings(max_examples=60)
@given(st.tuples(counts, counts, counts, counts))
def test_fishers_test_is_that_of_the_field(table: tuple[int, int, int, int]) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.fisher_exact([table[:2], table[2:]], alternative="greater").pvalue
    assert chance(table, sides=False) == pytest.approx(expected)


@settings(max_examples=60)
@given(st.tuples(counts, counts, counts, counts))
def test_the_sign_test_is_that_of_the_field(table: tuple[int, int, int, int]) -> None:
    stats = pytest.importorskip("scipy.stats")
    said = sum(table)
    expected = stats.binomtest(table[0] + table[3], said, alternative="greater").pvalue if said else 1.0
    assert chance(table, sides=True) == pytest.approx(expected)


@given(st.tuples(counts, counts, counts, counts), st.booleans())
def test_labels_give_the_least_chance_at_least(table: tuple[int, int, int, int], sides: bool) -> None:
    assert chance(table, sides=sides) >= least_chance(table, sides=sides) * (1 - 1e-9)


@given(st.lists(st.floats(1e-9, 1), max_size=50))
def test_limits_add_up_to_alpha_at_most(least: list[float]) -> None:
    limit = chance_limit(least, ALPHA)
    assert sum(chance <= limit for chance in least) * limit <= ALPHA * (1 + 1e-9)


# -- in an align -------------------------------------------------------------------------------------------------------


def aligned(*, brief: bool) -> Judge:
    def reply(request: ChatRequest) -> Answer:
        if request.schema_name == "rule":
            return {"when": "", "because": "the form of the reference counts"}
        if request.schema_name == "changes":
            return {"changes": []}
        return {"checks": []} if request.schema_name == "checks" else {"rationale": "So.", "value": True}

    model = ScriptedChatModel(reply, limits=Limits(brief=brief, shard_size=1 if brief else 50))
    judge = Judge(
        name="desk",
        instructions="Right? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model=model,
        embedding_model=HashEmbedding(8),
    )
    return judge.align(rows(12, reference)).judge


def test_a_mined_rule_overrules_a_model_that_guesses() -> None:
    judge = aligned(brief=True).replace(model="local:qwen2.5-coder-1.5b")
    rng, judge_asked = random.Random(5), base_fingerprint_of(judge)
    asked = tuple(
        msgspec.structs.replace(case, answers=Answers(judge=judge_asked, verdict=rng.random() < 0.5))
        for case in judge.memory.cases
    )
    judge = judge.replace(memory=msgspec.structs.replace(judge.memory, cases=asked))
    calibrator = calibrator_of(judge)
    assert calibrator is not None
    assert calibrator.worth.decides
    assert (calibrator.worth.calibrator, calibrator.worth.broken) == (1.0, 0)


def test_guidelines_that_say_nothing_do_not_drown_a_mined_rule() -> None:
    learned, rng = with_mined(memory(rows(16, reference)), BOOL, FIELDS), random.Random(1)
    others = [
        Expectation(label=rng.random() < 0.5, checks=((f"q{n}", rng.choice((1, -1))), (f"q{n + 1}", 1)))
        for n in range(0, 24, 2)
    ]

    def observation(example: Example) -> Observation:
        margins = margins_of_tests(learned, example, BOOL) | {f"q{n}": rng.gauss(0, 2) for n in range(24)}
        expected = (*others, *expectations(learned.semantic))
        return Observation(answers=margins, expected=expected, verdict=rng.random() < 0.5)

    cases = [LabelledCase(observation(case.example), bool(learned.label(case))) for case in learned.cases]
    calibrator = fit(BOOL, cases)
    assert calibrator is not None
    assert calibrator.worth.decides
    unseen = [row for row in rows(40, reference, seed=1) if row.example]
    right = [calibrator.says(observation(row.example)).value == row.value for row in unseen if row.example]
    assert sum(right) >= 38


def test_only_a_weak_models_judge_mines() -> None:
    assert [each.text for each in aligned(brief=True).memory.semantic][-2:] == [
        "Where the reply has a piece like AA/0000: true.",
        "Where the reply does not have a piece like AA/0000: false.",
    ]
    assert not any(guideline.checks for guideline in aligned(brief=False).memory.guidelines)


def test_forgetting_mines_again_without_what_is_forgotten() -> None:
    judge = aligned(brief=True)
    mined_before = [each for each in judge.memory.semantic if each.checks]
    left = judge.unalign("t-000").judge
    mined_after = [each for each in left.memory.semantic if each.checks]
    assert [each.text for each in mined_after] == [each.text for each in mined_before]
    assert not {each.id for each in mined_after} & {each.id for each in mined_before}
    assert not any(key.id == "t-000" for each in left.memory.guidelines for key in each.exposed_to)
    nothing = judge.unalign(source="ana").judge
    assert not nothing.memory.guidelines
