"""An owner and two experts at a few cases, doing what they can in any order: who must choose, and what is taught."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import and_, delete, select, update
from sqlalchemy import case as case_when

from memalign import Example, ValueType
from memalign.errors import InputError
from memalign_server.people.people import Role, add_person
from memalign_server.review import disputes
from memalign_server.review.answers import TEACHES, Answer, previous_case, review_of, save
from memalign_server.review.cases import add_cases, cases_of, next_cases
from memalign_server.store import Store
from memalign_server.store.tables import new_id, people, queue, reviews
from server_support import world

KIND = ValueType.of("A|B|tie")
TEAM = ("ana", "ben", "olga")
CASES = ("c-0", "c-1", "c-2", "c-3")
HELD_OUT = "c-3"
PEOPLE, ITEMS = st.sampled_from(TEAM), st.sampled_from(CASES)


class Reviewing(RuleBasedStateMachine):
    """What the tables hold, beside a plain account of who said what."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.connection = self.stack.enter_context(self.store.write())
        for table in (reviews, queue, people):
            self.connection.execute(delete(table))
        for name in TEAM:
            add_person(self.connection, name, Role.OWNER if name == "olga" else Role.REVIEWER)
        add_cases(self.connection, "tone", [Example(id=case, inputs=case, outputs="Hello.") for case in CASES])
        held_out = case_when((queue.c.case_id == HELD_OUT, 1), else_=0)
        self.connection.execute(update(queue).values(held_out=held_out))
        self.values: dict[tuple[str, str], str] = {}
        self.firsts: dict[tuple[str, str], str] = {}  # the answer before anything was in view
        self.words: dict[tuple[str, str], str] = {}  # the last that a person wrote of a case
        self.chosen: set[tuple[str, str]] = set()  # who keeps theirs
        self.holders: dict[str, str] = {}
        self.way: dict[str, list[str]] = {name: [] for name in TEAM}  # the cases in the order of their answers

    def teardown(self) -> None:
        self.stack.close()

    def answers(self, case: str) -> dict[str, str]:
        return {name: self.values[name, case] for name in TEAM if (name, case) in self.values}

    def may_be_taught(self) -> set[tuple[str, str]]:
        """The person and case of every answer that a teaching takes."""
        of_case = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
        query = select(reviews.c.person, reviews.c.case_id).join(queue, of_case).where(TEACHES)
        return {tuple(row) for row in self.connection.execute(query.where(reviews.c.state == "answered"))}

    def rows(self) -> dict[tuple[str, str], Any]:
        query = select(reviews).where(reviews.c.judge == "tone")
        return {(row.person, row.case_id): row for row in self.connection.execute(query)}

    def answers_but(self, person: str, case: str) -> dict[tuple[str, str], Any]:
        """All other answers, whether they were kept or not."""
        rows = self.rows().items()
        return {key: {**row._mapping, "kept_revision": 0} for key, row in rows if key != (person, case)}

    def changed(self, person: str, case: str, value: str) -> None:
        """What follows from a new verdict: it was not kept yet, and what it contradicts is open again."""
        if self.values.get((person, case)) == value:
            return
        self.chosen.discard((person, case))
        holder = self.holders.get(case)
        agrees = holder and self.values.get((holder, case)) == value
        if holder is not None and (holder in ("", person) or not agrees):
            del self.holders[case]
        self.values[person, case] = value
        differing = {name for name, other in self.answers(case).items() if other != value}
        self.chosen -= {(name, case) for name in differing}  # they are shown it before an owner is

    @rule(person=PEOPLE, case=ITEMS, value=st.sampled_from(KIND.labels), words=st.sampled_from(["", "Cold.", "Late."]))
    def answer(self, person: str, case: str, value: str, words: str) -> None:
        others = self.answers_but(person, case)
        before = review_of(self.connection, "tone", person, case)
        revision = before.revision if before else 0
        form = Answer(state="answered", revision=revision, value=value, rationale=words, form=new_id())
        assert save(self.connection, "tone", person, case, form, kind=KIND) is None
        own = self.rows()[person, case]
        assert save(self.connection, "tone", person, case, form, kind=KIND) is None
        assert self.rows()[person, case] == own, "the same form saves once"
        older = Answer(state="answered", value="tie", form="another window", revision=0)
        assert save(self.connection, "tone", person, case, older, kind=KIND) == own, "an older one changes nothing"
        if before is None:
            self.firsts[person, case] = value
        if (person, case) not in self.values:
            self.way[person].append(case)
        self.words[person, case] = words
        self.changed(person, case, value)
        assert others == self.answers_but(person, case), "nobody else's changes"

    @rule(person=PEOPLE, case=ITEMS)
    def be_erased(self, person: str, case: str) -> None:
        """What somebody said of a case goes, as an erasure takes it; the next teaching sees who still differs."""
        self.connection.execute(delete(reviews).where(reviews.c.person == person, reviews.c.case_id == case))
        disputes.refresh_disputes(self.connection, "tone", kind=KIND)
        self.words.pop((person, case), None)
        if (person, case) in self.values:
            self.firsts.pop((person, case))
            self.way[person].remove(case)
            self.chosen.discard((person, case))
            del self.values[person, case]
            if self.holders.get(case) == person:
                del self.holders[case]

    @rule(person=PEOPLE, other=PEOPLE, case=ITEMS)
    def agree_with(self, person: str, other: str, case: str) -> None:
        theirs = review_of(self.connection, "tone", other, case)
        revision = theirs.revision if theirs else 0
        try:
            disputes.take_over(self.connection, "tone", person, case, other, kind=KIND, revision=revision)
        except InputError:
            assert {person, other} - self.answers(case).keys(), "refused only where one has not answered"
            return
        self.changed(person, case, self.values[other, case])

    @rule(person=PEOPLE, case=ITEMS)
    def keep_own(self, person: str, case: str) -> None:
        disputes.keep_answer(self.connection, "tone", person, case)
        if (person, case) in self.values:
            self.chosen.add((person, case))

    @precondition(lambda self: disputes.open_settlement(self.connection, "tone", kind=KIND) is not None)
    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        row = disputes.open_settlement(self.connection, "tone", kind=KIND)
        assert row is not None
        case = row.case.case_id
        holder = data.draw(st.sampled_from([*(answer.person for answer in row.answers), ""]))
        disputes.settle(self.connection, "tone", case, holder)
        self.holders[case] = holder

    @rule()
    def teach(self) -> None:
        """Mark what may be taught as taught, as a teaching does."""
        for person, case in self.may_be_taught():
            own = (reviews.c.person == person, reviews.c.case_id == case)
            self.connection.execute(update(reviews).where(*own).values(taught=reviews.c.revision))

    @invariant()
    def the_tables_say_what_was_said(self) -> None:
        rows = {key: row for key, row in self.rows().items() if row.state == "answered"}
        assert {key: row.value for key, row in rows.items()} == self.values
        assert {key: row.blind_value for key, row in rows.items() if row.blind_value} == {
            key: value for key, value in self.firsts.items() if key in self.values
        }

    @invariant()
    def no_words_are_lost(self) -> None:
        for (person, case), words in self.words.items():
            row = review_of(self.connection, "tone", person, case)
            assert not words or (row is not None and words in (row.draft, row.rationale)), (person, case)

    @invariant()
    def only_what_nobody_contradicts_or_an_owner_settled_is_taught(self) -> None:
        for case in CASES:
            answers, holder = self.answers(case), self.holders.get(case)
            agree = len({*answers.values()}) < 2
            expected = {*answers} if agree else {holder} - {"", None}
            if holder is not None and agree:
                expected = {holder} - {""}
            expected = set() if case == HELD_OUT else expected
            assert {person for person, on in self.may_be_taught() if on == case} == expected, case

    @invariant()
    def each_who_differs_chooses_and_then_an_owner_does(self) -> None:
        waiting_for_owner, waiting_for = set[str](), {name: dict[str, set[str]]() for name in TEAM}
        for case in CASES:
            answers = self.answers(case)
            if case in self.holders or len({*answers.values()}) < 2:
                answers = {}
            elif all((name, case) in self.chosen for name in answers):
                waiting_for_owner.add(case)
            for name in TEAM:
                contradict = {one for one in answers if name in answers and answers[one] != answers[name]}
                if contradict and (name, case) not in self.chosen:
                    waiting_for[name][case] = contradict
        for name in TEAM:
            row = disputes.difference(self.connection, "tone", name, kind=KIND)
            assert (row is None) == (not waiting_for[name])
            assert row is None or {one.person for one in row.answers} == waiting_for[name][row.case.case_id]
        first = disputes.open_settlement(self.connection, "tone", kind=KIND)
        assert (first is None) == (not waiting_for_owner)
        assert first is None or first.case.case_id in waiting_for_owner

    @invariant()
    def every_case_comes_once_and_back_leads_through_those_answered(self) -> None:
        for name in TEAM:
            coming = [case.case_id for case in next_cases(self.connection, "tone", name, n=9)]
            assert sorted(coming) == sorted(set(CASES) - set(self.way[name]))
            way = list[str]()
            at: str | None = None
            while (at := previous_case(self.connection, "tone", name, at)) is not None:
                way.append(at)
            assert way == self.way[name][::-1]
        assert len(cases_of(self.connection, "tone", CASES)) == len(CASES)


class TestReviewing(Reviewing.TestCase):  # type: ignore[misc,valid-type]  # made by Hypothesis
    settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

    @classmethod
    def setup_class(cls) -> None:
        folder = Path(tempfile.mkdtemp(prefix="memalign-reviewing-"))
        Reviewing.store = Store(world.registry(folder).url)
