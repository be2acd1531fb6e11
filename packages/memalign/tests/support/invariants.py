"""What must be true of any judge's memory, at any moment, whatever was done to it before."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from memalign import Judge
from memalign.content.normal import word_form
from memalign.keys import FeedbackKey, name_key
from memalign.memory import Memory
from memalign.memory.forget import forget
from memalign.memory.guard import guideline_fault
from memalign.memory.status import LedgerEntry
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.registry.judge_rows import memory_contents, memory_of
from memalign.types import Guideline
from tests.support.learning import text_of, words_in

STATES = {"learned", "merged", "pending", "disputed", "rejected", "withdrawn", "erased"}


def check_memory(judge: Judge) -> None:
    """Check all of it; each part says in words what it holds."""
    memory = judge.memory
    check_whole(memory)
    what_was_taken_back_is_nowhere(memory)
    no_word_is_where_it_was_not_seen(memory)
    no_verdict_outlives_its_source(memory)
    it_can_be_kept(judge)
    for case in memory.cases:
        hidden = {annotation.key for annotation in memory.annotations_on(case)}
        for people_agree in (True, False):
            forgetting_takes_all_that_came_of_it(
                memory, hidden, people_agree=people_agree
            )


def forgetting_takes_all_that_came_of_it(
    memory: Memory, hidden: set[FeedbackKey], *, people_agree: bool
) -> None:
    left = forget(memory, hidden, people_agree=people_agree)
    assert hidden.isdisjoint(annotation.key for annotation in left.annotations())
    for guideline in left.guidelines:
        assert hidden.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
    written = " ".join(guideline.text for guideline in left.guidelines)
    assert set(words_in(written)) <= words_of(left, left.guidelines)
    each_guideline_has_the_status_that_it_should(left)
    no_verdict_outlives_its_source(left)
    wordings_stay_that_others_wrote_or_confirmed(
        memory, left, hidden, people_agree=people_agree
    )


def wordings_stay_that_others_wrote_or_confirmed(
    memory: Memory, left: Memory, hidden: set[FeedbackKey], *, people_agree: bool
) -> None:
    kept = {guideline.id for guideline in left.guidelines}
    sources = {name_key(key.source) for key in hidden}
    for guideline in memory.guidelines:
        exposed = not hidden.isdisjoint(guideline.exposed_to)
        people = {name_key(name) for name in guideline.people}
        theirs = bool(people) and people.isdisjoint(sources)
        goes = exposed and (people_agree or not theirs)
        assert (guideline.id not in kept) == goes, guideline


def check_whole(memory: Memory) -> None:
    """What its parts say of each other fits."""
    every_piece_of_feedback_is_in_one_state(memory)
    everything_named_is_there(memory)
    guidelines_are_fit_to_be_shown(memory)
    each_guideline_has_the_status_that_it_should(memory)


def every_piece_of_feedback_is_in_one_state(memory: Memory) -> None:
    annotations = {annotation.key: annotation for annotation in memory.annotations()}
    stones = {stone.key for stone in memory.tombstones}
    assert not annotations.keys() & stones
    listed = [entry.key for entry in memory.ledger()]
    assert listed == sorted({*annotations, *stones}), "each once, none missing"
    carried = {key for guideline in memory.guidelines for key in guideline.supported_by}
    for entry in memory.ledger():
        annotation = annotations.get(entry.key)
        outcome = annotation.outcome if annotation else None
        drew_nothing = outcome is not None and outcome.kind in ("example", "refused")
        a_state_has_its_ground(
            entry, carried=entry.key in carried, drew_nothing=drew_nothing
        )


def a_state_has_its_ground(
    entry: LedgerEntry, *, carried: bool, drew_nothing: bool
) -> None:
    """Check a piece of feedback against what carries it, and whether it is said to have
    taught nothing."""
    assert entry.state in STATES
    if entry.state in ("merged", "pending", "disputed", "rejected"):
        assert entry.reason, f"{entry.key} is {entry.state} and nobody is told why"
    if entry.state in ("merged", "pending"):
        assert carried == (entry.state == "merged")
    if entry.state in ("learned", "rejected"):
        assert carried or drew_nothing, (
            f"{entry.key} taught nothing, and nobody says so"
        )
    if entry.state == "rejected" and not carried:
        assert "its rule was refused" in entry.reason


def everything_named_is_there(memory: Memory) -> None:
    keys = {annotation.key for annotation in memory.annotations()}
    for conflict in memory.conflicts:
        assert len(conflict.feedback) > 1
        assert {*conflict.feedback, *conflict.exposed_to} <= keys
    for annotation in memory.annotations():
        assert annotation.outcome is None or keys.issuperset(
            annotation.outcome.exposed_to
        )
    guidelines_name_what_is_there(memory, keys)
    for name in memory.locks:
        assert memory.case(name) is not None


def guidelines_name_what_is_there(memory: Memory, keys: set[FeedbackKey]) -> None:
    ids = [guideline.id for guideline in memory.guidelines]
    numbers = [guideline.number for guideline in memory.guidelines]
    assert numbers == sorted(set(numbers))
    assert all(number < memory.next_guideline for number in numbers)
    for guideline in memory.guidelines:
        assert {*guideline.supported_by, *guideline.exposed_to} <= keys
        assert guideline.replaced_by in (None, *ids)


def guidelines_are_fit_to_be_shown(memory: Memory) -> None:
    for guideline in memory.guidelines:
        assert guideline_fault(guideline.text) is None
        seen = [
            case
            for case in memory.cases
            if any(v.key in guideline.exposed_to for v in case.annotations)
        ]
        if guideline.origin == "distilled":
            outputs = [("outputs", str(case.example.outputs)) for case in seen]
            assert guideline_fault(guideline.text, outputs) is None, (
                "a copy of what was judged is no rule"
            )


def each_guideline_has_the_status_that_it_should(memory: Memory) -> None:
    by_id = {guideline.id: guideline for guideline in memory.guidelines}
    for guideline in memory.guidelines:
        successor = memory.successor(guideline)
        assert (memory.status(guideline) == "superseded") == (successor is not None)
        if successor is not None and successor != guideline.replaced_by:
            a_double_stands_for_the_same_words(memory, guideline, by_id[successor])
    shown = [word_form(guideline.text) for guideline in memory.semantic]
    assert len(shown) == len(set(shown)), "of those that say the same one is shown"
    assert by_id.keys().isdisjoint(
        guideline.replaced_by for guideline in memory.semantic
    )
    what_a_person_retired_does_not_come_back_by_a_model(memory)


def a_double_stands_for_the_same_words(
    memory: Memory, guideline: Guideline, shown: Guideline
) -> None:
    assert word_form(guideline.text) == word_form(shown.text)
    assert memory.successor(shown) is None
    assert not guideline.pinned or shown.pinned
    assert memory.status(shown) == "active" or (
        shown.retired_by is not None and guideline.origin == "distilled"
    )


def what_a_person_retired_does_not_come_back_by_a_model(memory: Memory) -> None:
    retired = {
        word_form(g.text) for g in memory.guidelines if memory.status(g) == "retired"
    }
    for guideline in memory.semantic:
        if guideline.origin == "distilled" and not guideline.pinned:
            assert word_form(guideline.text) not in retired


def what_was_taken_back_is_nowhere(memory: Memory) -> None:
    text = text_of(memory, tombstones=False)
    cases = {case.id for case in memory.cases}
    for stone in memory.tombstones:
        for named in (str(stone.key), msgspec.json.encode(stone.key).decode()):
            assert named not in text, f"{named} was withdrawn and is still named"
        name = stone.key.id
        assert name in cases or not re.search(rf"\b{re.escape(name)}\b", text), (
            f"{name} is still named"
        )
    assert not words_in(msgspec.json.encode(memory.tombstones).decode())


def words_of(memory: Memory, guidelines: Iterable[Guideline]) -> set[str]:
    """The unique words of all feedback that these guidelines were exposed to, and those
    that people made theirs."""
    keys = {key for guideline in guidelines for key in guideline.exposed_to}
    found = people_words(memory)
    for case in memory.cases:
        mine = [annotation for annotation in case.annotations if annotation.key in keys]
        if mine:
            found.update(words_in(msgspec.json.encode(case.example).decode()))
        for annotation in mine:
            found.update(words_in(f"{annotation.rationale} {annotation.value}"))
    return found


def people_words(memory: Memory) -> set[str]:
    """The unique words of guidelines that a person wrote or confirmed: they stay,
    whoever said them first."""
    return {
        word
        for guideline in memory.guidelines
        if guideline.people
        for word in words_in(guideline.text)
    }


def no_word_is_where_it_was_not_seen(memory: Memory) -> None:
    for guideline in memory.guidelines:
        leaked = set(words_in(guideline.text)) - words_of(memory, [guideline])
        assert not leaked, (
            f"{guideline.id} holds {leaked} of feedback that it was not exposed to"
        )
    for case in memory.cases:
        if case.pre_alignment and case.pre_alignment.rationale:
            own = set(words_in(msgspec.json.encode(case.example).decode()))
            assert set(words_in(case.pre_alignment.rationale)) <= own
        for annotation in case.annotations:
            outcome = annotation.outcome
            assert outcome is None or not words_in(outcome.reason), (
                "a reason repeats nobody's words"
            )
    assert not any(words_in(f"{g.pinned_by} {g.retired_by}") for g in memory.guidelines)


def no_verdict_outlives_its_source(memory: Memory) -> None:
    live = {annotation.key for annotation in memory.annotations()}
    for case in memory.cases:
        assert case.pre_alignment is None or live.issuperset(
            case.pre_alignment.exposed_to
        )


def it_can_be_kept(judge: Judge) -> None:
    memory = judge.memory
    assert msgspec.json.decode(msgspec.json.encode(memory), type=Memory) == memory
    kept = memory_of(memory_contents(memory))
    assert kept.hash == memory.hash
    assert kept.conflicts == memory.conflicts
    assert load_bundle(bundle_of(judge)).memory == memory
