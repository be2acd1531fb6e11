"""Answers of several people: what is held out, who differs, what an owner settles, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, select, update

from memalign import Example, Judge, ValueType
from memalign_server.pages.verdicts import question_of, scale_ends
from memalign_server.people.people import Role, add_person
from memalign_server.review.answers import (
    TEACHES,
    Answer,
    position,
    previous_case,
    review_of,
    save,
    say_drafts,
)
from memalign_server.review.cases import add_cases, next_cases, progress_of
from memalign_server.review.disputes import (
    difference,
    keep_answer,
    open_settlement,
    refresh_disputes,
    settle,
    take_over,
)
from memalign_server.store import Store
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
    add_cases(
        connection, JUDGE, [Example(id=f"{name}-{i:02}", inputs=f"{name} {i}", outputs="Hello.") for i in range(n)]
    )


def say(connection: Connection, person: str, case: str, value: Any = None, words: str = "", **form: Any) -> None:
    """Answer a case as somebody who sees what is there."""
    before = review_of(connection, JUDGE, person, case)
    form = {"state": "skipped" if value is None else "answered", "form": new_id(), "rationale": words, **form}
    answer = Answer(value=value, revision=before.revision if before else 0, **form)
    assert save(connection, JUDGE, person, case, answer, kind=YES_NO) is None


def waiting(connection: Connection, person: str) -> list[tuple[str, list[str]]]:
    """The first difference that waits for a person: the case, and who says otherwise."""
    row = difference(connection, JUDGE, person, kind=YES_NO)
    return [] if row is None else [(row.case.case_id, [other.person for other in row.answers])]


def for_owners(connection: Connection) -> list[tuple[str, list[str]]]:
    row = open_settlement(connection, JUDGE, kind=YES_NO)
    return [] if row is None else [(row.case.case_id, [answer.person for answer in row.answers])]


def taught(connection: Connection, case: str) -> list[str]:
    """Whose answers on a case may be taught."""
    query = select(reviews.c.person).join(queue, queue.c.case_id == reviews.c.case_id).where(TEACHES)
    query = query.where(reviews.c.judge == JUDGE, reviews.c.case_id == case, reviews.c.state == "answered")
    return sorted(connection.execute(query).scalars())


# -- what is held out --------------------------------------------------------------------------------------------------


def test_one_case_in_four_is_held_out_by_chance(tables: Connection, draws: Callable[[int | None], None]) -> None:
    draws(None)
    put_in(tables, 200, "d")
    query = select(queue.c.held_out).where(queue.c.case_id.like("d-%")).order_by(queue.c.number)
    drawn = tables.execute(query).scalars().all()
    fours = [tuple(drawn[start : start + 4]) for start in range(0, 200, 4)]
    assert {sum(four) for four in fours} == {1}
    assert len(set(fours)) == 4  # every place of the four


def test_a_case_that_is_held_out_comes_after_three_others(tables: Connection, draws: Callable[[int], None]) -> None:
    draws(0)
    put_in(tables, 8, "d")  # two of them are held out
    kinds = []
    for _ in range(20):
        (case,) = next_cases(tables, JUDGE, "ana", n=1)
        kinds.append(case.held_out)
        say(tables, "ana", case.case_id, None if len(kinds) % 5 == 0 else True)
    assert [place for place, held_out in enumerate(kinds) if held_out] == [3, 7]
    assert next_cases(tables, JUDGE, "ana", n=1) == []
    coming = next_cases(tables, JUDGE, "ben", n=5)
    assert [case.held_out for case in coming] == [0, 0, 0, 1, 0]


def test_no_answer_on_a_case_that_is_held_out_is_taught(tables: Connection) -> None:
    tables.execute(update(queue).where(queue.c.case_id == "c-01").values(held_out=1))
    for case in ("c-00", "c-01"):
        say(tables, "ana", case, False)
    assert (taught(tables, "c-00"), taught(tables, "c-01")) == (["ana"], [])


# -- people who differ -------------------------------------------------------------------------------------------------


def test_both_see_each_other_once_both_have_answered_differently(tables: Connection) -> None:
    say(tables, "ana", "c-00", False, "We cannot promise that.")
    say(tables, "ana", "c-01", True)
    say(tables, "ben", "c-01", True)
    assert waiting(tables, "ana") == waiting(tables, "ben") == []
    say(tables, "ben", "c-00", True)
    assert waiting(tables, "ana") == [("c-00", ["ben"])]
    assert waiting(tables, "ben") == [("c-00", ["ana"])]
    assert waiting(tables, "cleo") == []  # who has not answered sees nothing
    assert taught(tables, "c-00") == []
    assert taught(tables, "c-01") == ["ana", "ben"]


def test_an_answer_taken_over_loses_no_words_and_teaches_none(tables: Connection) -> None:
    say(tables, "ana", "c-00", False, "We cannot promise that.")
    say(tables, "ben", "c-00", True, "She is safe.")
    take_over(tables, JUDGE, "ana", "c-00", "ben", kind=YES_NO, revision=1)
    own = review_of(tables, JUDGE, "ana", "c-00")
    assert own is not None
    assert (own.value, own.rationale, own.blind_value) == (True, None, False)
    say_drafts(tables, JUDGE, "ana", kind=YES_NO)  # as before a teaching
    own = review_of(tables, JUDGE, "ana", "c-00")
    assert own is not None
    assert own.draft == "We cannot promise that."
    assert waiting(tables, "ana") == waiting(tables, "ben") == []
    assert taught(tables, "c-00") == ["ana", "ben"]


def test_what_a_colleague_has_changed_since_is_not_taken_over(tables: Connection) -> None:
    say(tables, "ana", "c-00", False)
    say(tables, "ben", "c-00", True)
    say(tables, "ben", "c-00", True, "With words.")
    take_over(tables, JUDGE, "ana", "c-00", "ben", kind=YES_NO, revision=1)
    own = review_of(tables, JUDGE, "ana", "c-00")
    assert own is not None
    assert own.value is False


def test_kept_by_all_it_goes_to_an_owner_and_teaches_nothing(tables: Connection) -> None:
    for person, value in (("ana", False), ("ben", True), ("cleo", True)):
        say(tables, person, "c-00", value)
        assert for_owners(tables) == []
    for person in ("ana", "ben", "cleo"):
        assert for_owners(tables) == []
        keep_answer(tables, JUDGE, person, "c-00")
        assert waiting(tables, person) == []
    say(tables, "ben", "c-00", True, "She is safe.")  # only words: still kept
    assert for_owners(tables) == [("c-00", ["ana", "ben", "cleo"])]
    assert taught(tables, "c-00") == []


def test_what_a_third_colleague_says_is_shown_to_whoever_kept(tables: Connection) -> None:
    kept_by_both(tables)
    say(tables, "cleo", "c-00", True)
    keep_answer(tables, JUDGE, "cleo", "c-00")
    assert (waiting(tables, "ana"), waiting(tables, "ben")) == ([("c-00", ["ben", "cleo"])], [])
    assert for_owners(tables) == []
    keep_answer(tables, JUDGE, "ana", "c-00")
    assert for_owners(tables) == [("c-00", ["ana", "ben", "cleo"])]
    say(tables, "cleo", "c-00", False)  # now it is Ben whom the change contradicts
    assert (waiting(tables, "ana"), waiting(tables, "ben")) == ([], [("c-00", ["ana", "cleo"])])


def kept_by_both(tables: Connection) -> None:
    for person, value in (("ana", False), ("ben", True)):
        say(tables, person, "c-00", value)
    for person in ("ana", "ben"):
        keep_answer(tables, JUDGE, person, "c-00")


def test_somebody_who_has_left_the_team_holds_nothing_up(tables: Connection) -> None:
    say(tables, "zoe", "c-00", True)
    say(tables, "ana", "c-00", False)
    assert for_owners(tables) == []
    keep_answer(tables, JUDGE, "ana", "c-00")
    assert for_owners(tables) == [("c-00", ["zoe", "ana"])]


@pytest.mark.parametrize(("holder", "teaches"), [("ana", ["ana"]), ("ben", ["ben"]), ("", [])])
def test_what_an_owner_settles_alone_is_taught(tables: Connection, holder: str, teaches: list[str]) -> None:
    kept_by_both(tables)
    settle(tables, JUDGE, "c-00", holder)
    assert for_owners(tables) == waiting(tables, "ana") == []
    assert taught(tables, "c-00") == teaches
    say(tables, "ana", "c-00", False, "More words.")
    assert taught(tables, "c-00") == teaches, "words alone open nothing again"


@pytest.mark.parametrize(
    ("person", "value", "teaches"),
    [("cleo", True, []), ("cleo", False, ["ana"]), ("ben", False, ["ana", "ben"]), ("ana", True, ["ana", "ben"])],
    ids=["somebody contradicts", "somebody agrees", "the other gives in", "the holder gives in"],
)
def test_a_new_answer_opens_what_was_settled(tables: Connection, person: str, value: bool, teaches: list[str]) -> None:
    kept_by_both(tables)
    settle(tables, JUDGE, "c-00", "ana")
    say(tables, person, "c-00", value)
    if (person, value) == ("ben", False):
        teaches = ["ana"]  # her answer still holds, and says the same
    assert taught(tables, "c-00") == teaches


def test_an_answer_that_goes_takes_its_dispute_with_it(tables: Connection) -> None:
    for holder in (None, "ben"):
        kept_by_both(tables)
        if holder:
            settle(tables, JUDGE, "c-00", holder)
        tables.execute(reviews.delete().where(reviews.c.person == "ben"))  # as an erasure does
        assert taught(tables, "c-00") == []
        assert waiting(tables, "ana") == for_owners(tables) == []
        refresh_disputes(tables, JUDGE, kind=YES_NO)  # as the next teaching does
        assert taught(tables, "c-00") == ["ana"]


def test_where_the_holder_was_erased_the_others_still_differ(tables: Connection) -> None:
    for person, value in (("ana", True), ("ben", False), ("cleo", True)):
        say(tables, person, "c-00", value)
    settle(tables, JUDGE, "c-00", "ana")
    tables.execute(delete(reviews).where(reviews.c.person == "ana"))  # as an erasure of all that she said does
    tables.execute(update(queue).where(queue.c.settled == "ana").values(settled=None))
    refresh_disputes(tables, JUDGE, kind=YES_NO)
    assert taught(tables, "c-00") == []
    assert waiting(tables, "ben") == [("c-00", ["cleo"])]


# -- the way through the cases -----------------------------------------------------------------------------------------


def place(connection: Connection, case: str | None = None) -> tuple[int, int]:
    progress = progress_of(connection, JUDGE, "ana")
    return position(connection, JUDGE, "ana", progress, case), progress.total


def test_back_leads_through_the_cases_as_they_were_answered(tables: Connection) -> None:
    assert previous_case(tables, JUDGE, "ana") is None
    for case, value in (("c-03", True), ("c-01", None), ("c-02", False)):
        say(tables, "ana", case, value)
    say(tables, "ana", "c-03", False)  # an answer that changes keeps its place
    say(tables, "ben", "c-05", True)
    way = list[tuple[str, tuple[int, int]]]()
    at: str | None = None
    while (at := previous_case(tables, JUDGE, "ana", at)) is not None:
        way.append((at, place(tables, at)))
    assert way == [("c-02", (3, 12)), ("c-01", (2, 12)), ("c-03", (1, 12))]
    assert place(tables) == (4, 12)
    say(tables, "ana", "c-01", True)  # what was skipped and is answered now is the latest
    assert previous_case(tables, JUDGE, "ana") == "c-01"


# -- the question ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instructions", "question"),
    [
        (
            "Is the reply warm and helpful?\nQuestion: {{ inputs }}\nReply: {{ outputs }}",
            "Is the reply warm and helpful?",
        ),
        ("You judge replies. Is this one good enough to send? {{ outputs }}", "Is this one good enough to send?"),
        ("Does {{ outputs }} help? Is it polite?", "Is it polite?"),
        ("{{ inputs }}\n\nRate the reply.\n{{ outputs }}", "Rate the reply."),
        ("Rate {{ outputs }}", JUDGE),
    ],
)
def test_the_question_is_read_from_the_instructions(instructions: str, question: str) -> None:
    assert question_of(Judge(name=JUDGE, instructions=instructions, feedback_value_type=bool)) == question


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("1 = cold, 5 = warm.", ("cold", "warm")),
        ("Rate from 1 (very cold) to 5 (very warm).", ("very cold", "very warm")),
        ("1 is cold and 5 is warm", ("cold", "warm")),
        ("1: cold\n3: neutral\n5: warm", ("cold", "warm")),
        ("Rate from 1 to 5, where 5 is best.", None),
        ("Rate 1-5.", None),
    ],
)
def test_the_ends_of_a_scale_are_read_from_the_instructions(words: str, ends: tuple[str, str] | None) -> None:
    judge = Judge(
        name=JUDGE, instructions=f"How warm is it? {words}\n{{{{ outputs }}}}", feedback_value_type="int:1..5"
    )
    assert scale_ends(judge) == ends


@pytest.mark.parametrize("chosen", [(), ("ana",), ("ana", "ben")])
def test_the_first_of_many_differences_is_found_without_reading_all(
    tables: Connection, chosen: tuple[str, ...]
) -> None:
    put_in(tables, 60, "d")
    for number in range(60):
        for person, value in (("ana", False), ("ben", True)):
            say(tables, person, f"d-{number:02}", value)
    for person in chosen:
        tables.execute(update(reviews).where(reviews.c.person == person).values(kept_revision=reviews.c.revision))
    sizes: list[int] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, _statement: str, parameters: Any, *_: Any) -> None:
        sizes.append(len(parameters))

    rows = (difference(tables, JUDGE, "ben", kind=YES_NO), open_settlement(tables, JUDGE, kind=YES_NO))
    assert [row.case.case_id for row in rows if row is not None] == ["d-00"]
    assert max(sizes) < 40, "values of one statement"
    assert len(sizes) < 8, "statements"


def test_what_is_in_question_no_more_hides_no_other_difference(tables: Connection) -> None:
    for case in ("c-00", "c-01"):
        for person, value in (("ana", False), ("ben", True)):
            say(tables, person, case, value)
    tables.execute(reviews.delete().where(reviews.c.person == "ben", reviews.c.case_id == "c-00"))
    assert waiting(tables, "ana") == [("c-01", ["ben"])]
