"""What is held out, the way through the cases, and what people who differ say and teach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, update

from memalign import Example, Judge, ValueType
from memalign.errors import InputError
from memalign_server.pages.verdicts import question_of, scale_ends
from memalign_server.people.service import Role, add_person
from memalign_server.review import disputes
from memalign_server.review.service import (
    NewAnswer,
    position,
    save,
    say_drafts,
)
from memalign_server.store import Store
from memalign_server.store.answers import answer_of, lessons, previous_case
from memalign_server.store.cases import add_cases, next_cases, progress_of
from memalign_server.store.tables import new_id, queue, reviews
from server_support import world

YES_NO = ValueType.of("bool")
JUDGE = "tone"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Connection]:
    """The tables of a judge with twelve cases, of a team of ana, ben and cleo."""
    url = f"sqlite:///{tmp_path / 'memalign.db'}"
    world.opened(url).create(world.judge(JUDGE))
    with Store(url).write() as connection:
        for name in ("ana", "ben", "cleo"):
            add_person(connection, name, Role.REVIEWER)
        put_in(connection, 12)
        yield connection


def put_in(connection: Connection, n: int, name: str = "c") -> None:
    rows = []
    for number in range(n):
        inputs = f"{name} {number}"
        rows.append(Example(id=f"{name}-{number:02}", inputs=inputs, outputs="Hello."))
    add_cases(connection, JUDGE, rows)


def say(
    connection: Connection,
    person: str,
    case: str,
    value: Any = None,
    words: str = "",
    **form: Any,
) -> None:
    """Answer a case as somebody who sees what is there."""
    before = answer_of(connection, JUDGE, person, case)
    form = {
        "state": "skipped" if value is None else "answered",
        "form": new_id(),
        "rationale": words,
        **form,
    }
    answer = NewAnswer(value=value, revision=before.revision if before else 0, **form)
    assert save(connection, JUDGE, person, case, answer, kind=YES_NO) is None


def test_one_case_in_four_is_held_out_by_chance(
    tables: Connection, draws: Callable[[int | None], None]
) -> None:
    draws(None)
    put_in(tables, 200, "d")
    new = select(queue.c.held_out).where(queue.c.case_id.like("d-%"))
    drawn = tables.execute(new.order_by(queue.c.number)).scalars().all()
    places = set[int]()
    for start in range(0, 200, 4):
        four = drawn[start : start + 4]
        assert sum(four) == 1
        places.add(four.index(1))
    assert places == {0, 1, 2, 3}


def test_a_case_that_is_held_out_comes_after_three_others(
    tables: Connection, draws: Callable[[int], None]
) -> None:
    draws(0)
    put_in(tables, 8, "d")  # two of them are held out
    kinds = []
    for _ in range(20):
        (case,) = next_cases(tables, JUDGE, "ana", n=1)
        kinds.append(case.held_out)
        say(tables, "ana", case.case_id, None if len(kinds) % 5 == 0 else True)
    assert kinds == [0, 0, 0, 1, 0, 0, 0, 1, *[0] * 12]
    assert next_cases(tables, JUDGE, "ana", n=1) == []
    coming = next_cases(tables, JUDGE, "ben", n=5)
    assert [case.held_out for case in coming] == [0, 0, 0, 1, 0]


def test_an_answer_taken_over_loses_no_words_and_teaches_none(
    tables: Connection,
) -> None:
    say(tables, "ana", "c-00", False, "We cannot promise that.")
    say(tables, "ben", "c-00", True, "She is safe.")

    def own() -> tuple[Any, ...]:
        row = answer_of(tables, JUDGE, "ana", "c-00")
        return (row.value, row.rationale, row.blind_value, row.draft) if row else ()

    def take_over(person: str, revision: int) -> None:
        disputes.take_over(
            tables, JUDGE, person, "c-00", "ben", kind=YES_NO, revision=revision
        )

    take_over("ana", 0)  # he has said something else since
    assert own() == (False, "We cannot promise that.", False, None)
    take_over("ana", 1)
    say_drafts(tables, JUDGE, "ana", kind=YES_NO)  # as before a teaching
    assert own() == (True, None, False, "We cannot promise that.")
    say(tables, "cleo", "c-00")
    with pytest.raises(InputError, match="have not both answered this case"):
        take_over("cleo", 1)


def test_somebody_who_has_left_the_team_holds_nothing_up(tables: Connection) -> None:
    say(tables, "zoe", "c-00", True)
    say(tables, "ana", "c-00", False)
    assert disputes.open_settlement(tables, JUDGE, kind=YES_NO) is None
    disputes.keep_answer(tables, JUDGE, "ana", "c-00")
    row = disputes.open_settlement(tables, JUDGE, kind=YES_NO)
    assert row is not None
    assert [answer.person for answer in row.answers] == ["zoe", "ana"]


def test_back_leads_through_the_cases_as_they_were_answered(tables: Connection) -> None:
    say(tables, "ana", "c-03", True)
    say(tables, "ana", "c-01")
    say(tables, "ana", "c-02", False)
    say(tables, "ana", "c-03", False)  # an answer that changes keeps its place
    progress = progress_of(tables, JUDGE, "ana")
    way = list[tuple[str, int]]()
    at = None
    while (at := previous_case(tables, JUDGE, "ana", at)) is not None:
        way.append((at, position(tables, JUDGE, "ana", progress, at)))
    assert way == [("c-02", 3), ("c-01", 2), ("c-03", 1)]
    assert position(tables, JUDGE, "ana", progress) == 4
    # What was skipped and is answered now is the latest.
    say(tables, "ana", "c-01", True)
    assert previous_case(tables, JUDGE, "ana") == "c-01"


@pytest.mark.parametrize(
    ("instructions", "question"),
    [
        (world.INSTRUCTIONS, "Is the reply warm and helpful?"),
        ("You judge replies. Is this one fine? {{ outputs }}", "Is this one fine?"),
        ("Does {{ outputs }} help? Is it polite?", "Is it polite?"),
        ("{{ inputs }}\n\nRate the reply.\n{{ outputs }}", "Rate the reply."),
        ("Rate {{ outputs }}", JUDGE),
        ("Score it from 1 to 10: {{ outputs }}", "Score it from 1 to 10"),
        ("Score the reply. It is {{ outputs }}", "Score the reply."),
    ],
)
def test_the_question_is_read(instructions: str, question: str) -> None:
    assert question_of(rating(instructions)) == question


@pytest.mark.parametrize(
    ("scale", "ends"),
    [
        ("How warm is it? 1 = cold, 5 = warm.", ("cold", "warm")),
        ("Rate from 1 (very cold) to 5 (very warm).", ("very cold", "very warm")),
        ("How warm is it? 1 is cold and 5 is warm", ("cold", "warm")),
        ("1: cold\n3: neutral\n5: warm", ("cold", "warm")),
        ("Rate from 1 to 5, where 5 is best.", None),
        ("Rate 1-5.", None),
    ],
)
def test_the_ends_of_a_scale_are_read(scale: str, ends: tuple[str, str] | None) -> None:
    assert scale_ends(rating(f"{scale}\n{{{{ outputs }}}}")) == ends


def rating(instructions: str) -> Judge:
    changes: Any = {"instructions": instructions, "feedback_value_type": "int:1..5"}
    return world.judge(JUDGE).replace(**changes)


@pytest.mark.parametrize("chosen", [(), ("ana",), ("ana", "ben")])
def test_the_first_of_many_differences_is_found_without_reading_all(
    tables: Connection, chosen: tuple[str, ...]
) -> None:
    put_in(tables, 60, "d")
    differ(tables, *(f"d-{number:02}" for number in range(60)))
    for person in chosen:
        own = update(reviews).where(reviews.c.person == person)
        tables.execute(own.values(kept_revision=reviews.c.revision))
    sizes: list[int] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        sizes.append(len(arguments[3]))  # its values

    found: Any = disputes.difference(tables, JUDGE, "ben", kind=YES_NO)
    settles: Any = disputes.open_settlement(tables, JUDGE, kind=YES_NO)
    assert (found or settles).case.case_id == "d-00"
    assert max(sizes) < 40, "values of one statement"
    assert len(sizes) < 8, "statements"


def differ(connection: Connection, *cases: str) -> None:
    for case in cases:
        say(connection, "ana", case, False)
        say(connection, "ben", case, True)


@pytest.mark.parametrize(
    ("holder", "person", "value", "teaches"),
    [
        ("ana", "ana", False, ["ana"]),  # words alone open nothing again
        ("ben", "ana", False, ["ben"]),
        ("", "ana", False, []),
        ("ana", "cleo", True, []),
        ("ana", "cleo", False, ["ana"]),
        ("ana", "ben", False, ["ana"]),
        ("ana", "ana", True, ["ana", "ben"]),
    ],
)
def test_what_an_owner_settles_is_taught_until_an_answer_opens_it_again(
    tables: Connection, holder: str, person: str, value: bool, teaches: list[str]
) -> None:
    differ(tables, "c-00")
    disputes.settle(tables, JUDGE, "c-00", holder, by="olga")
    say(tables, person, "c-00", value, "More words.")
    taught = [pair.answer.person for pair in lessons(tables, JUDGE)]
    assert sorted(taught) == teaches


def waiting(connection: Connection, person: str) -> list[str]:
    """Who says otherwise than a person, on the first case that waits for their choice."""
    row = disputes.difference(connection, JUDGE, person, kind=YES_NO)
    return [] if row is None else [other.person for other in row.answers]


def test_only_what_everybody_keeps_goes_to_an_owner(tables: Connection) -> None:
    differ(tables, "c-00")
    say(tables, "cleo", "c-00", True)
    differing = {"ana": ["ben", "cleo"], "ben": ["ana"], "cleo": ["ana"]}
    for person, others in differing.items():
        assert disputes.open_settlement(tables, JUDGE, kind=YES_NO) is None
        assert waiting(tables, person) == others
        disputes.keep_answer(tables, JUDGE, person, "c-00")
        assert waiting(tables, person) == []
    say(tables, "ben", "c-00", True, "She is safe.")  # only words: still kept
    row = disputes.open_settlement(tables, JUDGE, kind=YES_NO)
    assert row is not None
    assert [answer.person for answer in row.answers] == ["ana", "ben", "cleo"]
    say(tables, "cleo", "c-00", False)  # Ben has kept his once, and is not asked again
    assert disputes.open_settlement(tables, JUDGE, kind=YES_NO) is None
    assert waiting(tables, "ana") == waiting(tables, "ben") == []
    assert waiting(tables, "cleo") == ["ben"]
    disputes.keep_answer(tables, JUDGE, "cleo", "c-00")
    assert disputes.open_settlement(tables, JUDGE, kind=YES_NO) is not None


def test_where_the_holder_was_erased_the_others_still_differ(
    tables: Connection,
) -> None:
    differ(tables, "c-00")
    say(tables, "cleo", "c-00", False)
    disputes.settle(tables, JUDGE, "c-00", "ana", by="olga")
    tables.execute(reviews.delete().where(reviews.c.person == "ana"))
    disputes.refresh_disputes(tables, JUDGE, kind=YES_NO)  # as the next teaching does
    assert waiting(tables, "ben") == ["cleo"]


def test_what_is_in_question_no_more_hides_no_other_difference(
    tables: Connection,
) -> None:
    differ(tables, "c-00", "c-01")
    of_ben = reviews.c.person == "ben"
    tables.execute(reviews.delete().where(of_ben, reviews.c.case_id == "c-00"))
    assert waiting(tables, "ana") == ["ben"]
