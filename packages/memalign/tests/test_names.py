"""One person, however their name is spelled; and two people where only a reader could
take them for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memalign import Feedback, Judge
from memalign.align.edit import set_policy
from memalign.evaluation import review_feedback
from memalign.evaluation.cases import labels_by_source
from memalign.keys import name_key, same_person, select_keys
from memalign.memory.label_policy import policy_label
from memalign.types import FeedbackKey
from tests.support.learning import in_state
from tests.support.names import names, spelled_otherwise
from tests.support.registry import judge, models, optimizer, row
from tests.support.rows import RawRow

ONE_PERSON = [
    ("José", "Jose\u0301"),  # as macOS writes it
    ("Ana@Example.org", "ana@example.org"),
    ("Li Wei", "Li\u00a0Wei"),  # as a sheet has it
    ("Ana Lima", "Ana  Lima"),
    ("Ana Lima", "Ana\u200b Lima"),
    ("Ana Lima", " ana lima\ufeff"),
    ("\uff21\uff2e\uff21", "ana"),
    ("Strauß", "STRAUSS"),
    ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    ("Zoë\u00ad", "zoe\u0308"),
    ("김민수", "\u1100\u1175\u11b7\u1106\u1175\u11ab\u1109\u116e"),
    ("Mia\u2800Berg", "Mia Berg"),
]
TWO_PEOPLE = [
    ("José", "Jose"),
    ("ana", "ana-maria"),
    ("Li Wei", "LiWei"),
    ("ana", "ben"),
    ("王伟", "王偉"),
    ("ana", ""),
]


@pytest.mark.parametrize(("one", "other"), ONE_PERSON)
def test_two_spellings_are_one_person(one, other):
    assert same_person(one, other)
    first = FeedbackKey("t-1", one)
    second = FeedbackKey("t-1", other)
    assert first == second
    assert (first != second) is False
    assert hash(first) == hash(second)
    written = f"t-1@{other}"
    assert select_keys([first], [written]) == {written: (first,)}


@pytest.mark.parametrize(("one", "other"), TWO_PEOPLE)
def test_two_names_are_two_people(one, other):
    assert not same_person(one, other)
    assert FeedbackKey("t-1", one) != FeedbackKey("t-1", other)


@given(names, st.data())
def test_any_spelling_folds_to_the_same_name(name, data):
    assert name_key(data.draw(spelled_otherwise(name))) == name_key(name)


@given(st.text() | names)
def test_folding_twice_is_folding_once(text):
    assert name_key(name_key(text)) == name_key(text)


@given(names, names, st.data())
def test_ties_authority_and_raters_do_not_depend_on_spelling(one, other, data):
    plain = []
    strange = []
    for number in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from((one, other)))
        row = Feedback(
            id=f"t-{number}",
            inputs="x",
            outputs="y",
            value=data.draw(st.booleans()),
            source=name,
        )
        plain.append(row)
        strange.append(replace(row, source=data.draw(spelled_otherwise(name))))
    authority = (one, other) if data.draw(st.booleans()) else ()
    odd_authority = [data.draw(spelled_otherwise(name)) for name in authority]
    assert policy_label(strange, odd_authority) == policy_label(plain, authority)
    raters = list(labels_by_source(plain).values())
    assert list(labels_by_source(strange).values()) == raters


def test_people_are_shown_as_they_first_wrote_their_name():
    rows = [
        row("t-1", "José", "warm"),
        row("t-2", "Jose\u0301", "warm"),
        row("t-3", "Ben", "cold"),
    ]
    assert review_feedback(rows, None).sources == {"José": 2, "Ben": 1}


def learn(*rows: RawRow, before: Judge | None = None) -> Judge:
    chat, embedding = models()
    one = before or judge(model=chat)
    return one.align(rows, optimizer=optimizer(chat, embedding)).judge


def test_a_person_who_writes_their_name_otherwise_replaces_their_own_comment():
    first = learn(row("t-1", "José", "too cold"))
    again = learn(row("t-1", "JOSE\u0301", "too long"), before=first)
    (kept,) = again.memory.annotations()
    assert kept.source == "JOSE\u0301"
    assert kept.rationale == "too long"
    for guideline in first.memory.guidelines:
        assert guideline not in again.memory.guidelines
    assert again.unalign("t-1@josé").judge.memory.cases == ()


def test_an_authority_decides_in_every_spelling():
    ben = row("t-1", "ben", "warm", value=True)
    tied = learn(row("t-1", "Li Wei", "cold"), ben)
    decided = set_policy(tied, authority=["li\u00a0wei"])
    assert decided(inputs="question t-1", outputs="answer t-1").value is False
    assert in_state(decided, "disputed") == {"t-1@ben"}
