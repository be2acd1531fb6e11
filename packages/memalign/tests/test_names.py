"""One person, however their name is spelled; and two people where only a reader could
take them for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Feedback
from memalign.align.edit import set_policy
from memalign.evaluation import review_feedback
from memalign.evaluation.cases import labels_by_source
from memalign.keys import name_key, same_person, select_keys
from memalign.memory.label_policy import policy_label
from memalign.types import FeedbackKey
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
def test_two_spellings_are_one_person(one: str, other: str) -> None:
    assert same_person(one, other)
    keys = (FeedbackKey("t-1", one), FeedbackKey("t-1", other))
    assert len({*keys}) == 1
    assert keys[0] == keys[1]
    assert (keys[0] != keys[1]) is False
    assert select_keys(keys[:1], [f"t-1@{other}"])[f"t-1@{other}"] == keys[:1]


@pytest.mark.parametrize(("one", "other"), TWO_PEOPLE)
def test_two_names_are_two_people(one: str, other: str) -> None:
    assert not same_person(one, other)
    assert FeedbackKey("t-1", one) != FeedbackKey("t-1", other)


@given(names, st.data())
def test_any_spelling_folds_to_the_same_name(name: str, data: st.DataObject) -> None:
    other = data.draw(spelled_otherwise(name))
    assert name_key(other) == name_key(name) == name_key(name_key(name))


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert name_key(name_key(text)) == name_key(text)


def _rows(people: list[str], values: list[bool]) -> list[Feedback]:
    pairs = enumerate(zip(people, values, strict=True))
    return [
        Feedback(id=f"t-{number}", inputs="x", outputs="y", value=value, source=who)
        for number, (who, value) in pairs
    ]


@given(names, names, st.data())
def test_ties_authority_and_raters_do_not_depend_on_spelling(
    one: str, other: str, data: st.DataObject
) -> None:
    written = data.draw(st.lists(st.sampled_from((one, other)), min_size=1, max_size=5))
    values = data.draw(
        st.lists(st.booleans(), min_size=len(written), max_size=len(written))
    )
    odd = [data.draw(spelled_otherwise(name)) for name in written]
    authority = (one, other) if data.draw(st.booleans()) else ()
    odd_authority = tuple(data.draw(spelled_otherwise(name)) for name in authority)
    plain = _rows(written, values)
    strange = _rows(odd, values)
    assert policy_label(strange, odd_authority) == policy_label(plain, authority)
    assert list(labels_by_source(strange).values()) == list(
        labels_by_source(plain).values()
    )


def test_people_are_shown_as_they_first_wrote_their_name() -> None:
    rows = [
        row("t-1", "José", "warm"),
        row("t-2", "Jose\u0301", "warm"),
        row("t-3", "Ben", "cold"),
    ]
    assert review_feedback(rows, None).sources == {"José": 2, "Ben": 1}


def test_a_person_who_writes_their_name_otherwise_replaces_their_own_comment() -> None:
    chat, embedding = models()
    first = (
        judge(model=chat)
        .align([row("t-1", "José", "too cold")], optimizer=optimizer(chat, embedding))
        .judge
    )
    again = first.align(
        [row("t-1", "JOSE\u0301", "too long")], optimizer=optimizer(chat, embedding)
    ).judge
    (kept,) = again.memory.annotations()
    assert (kept.source, kept.rationale) == ("JOSE\u0301", "too long")
    assert not [g for g in first.memory.guidelines if g in again.memory.guidelines]
    assert again.unalign("t-1@josé").judge.memory.cases == ()


def test_an_authority_decides_in_every_spelling() -> None:
    chat, embedding = models()
    rows: list[RawRow] = [
        row("t-1", "Li Wei", "cold"),
        row("t-1", "ben", "warm", value=True),
    ]
    tied = judge(model=chat).align(rows, optimizer=optimizer(chat, embedding)).judge
    decided = set_policy(tied, authority=["li\u00a0wei"])
    assert decided(inputs="question t-1", outputs="answer t-1").value is False
    assert [e.key.source for e in decided.memory.ledger() if e.state == "disputed"] == [
        "ben"
    ]
