"""What must be true of any judge's memory, at any moment, whatever was done to it before."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from memalign import Judge
from memalign.content.normal import word_form
from memalign.keys import FeedbackKey, name_key
from memalign.memory import Annotation, Case, Memory
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
    words = words_of(left, left.guidelines)
    for guideline in left.guidelines:
        assert hidden.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
        assert words.issuperset(words_in(guideline.text))
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
        people = set(map(name_key, guideline.people))
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
    keys = keys_in(memory)
    stones = {stone.key for stone in memory.tombstones}
    assert not keys & stones
    listed = [entry.key for entry in memory.ledger()]
    assert listed == sorted(keys | stones), "each once, none missing"
    carried: set[FeedbackKey] = set()
    for guideline in memory.guidelines:
        carried.update(guideline.supported_by)
    for entry in memory.ledger():
        annotation = memory.annotation(entry.key)
        a_state_has_its_ground(entry, annotation, carried=entry.key in carried)


def said_to_have_taught_nothing(annotation: Annotation | None) -> bool:
    if annotation is None or annotation.outcome is None:
        return False
    return annotation.outcome.kind in ("learned", "rejected")


def a_state_has_its_ground(
    entry: LedgerEntry, annotation: Annotation | None, *, carried: bool
) -> None:
    """Check a piece of feedback against what carries it, and what is said of it."""
    assert entry.state in STATES
    if entry.state in ("merged", "pending", "disputed", "rejected"):
        assert entry.reason, f"{entry.key} is {entry.state} and nobody is told why"
    if entry.state in ("merged", "pending"):
        assert carried == (entry.state == "merged")
    if entry.state in ("learned", "rejected"):
        assert carried or said_to_have_taught_nothing(annotation), (
            f"{entry.key} taught nothing, and nobody says so"
        )
    if entry.state == "rejected" and not carried:
        assert "its rule was refused" in entry.reason


def keys_in(memory: Memory) -> set[FeedbackKey]:
    return {annotation.key for annotation in memory.annotations()}


def everything_named_is_there(memory: Memory) -> None:
    keys = keys_in(memory)
    for conflict in memory.conflicts:
        assert len(conflict.feedback) > 1
        assert {*conflict.feedback, *conflict.exposed_to} <= keys
    for annotation in memory.annotations():
        if annotation.outcome is not None:
            assert keys.issuperset(annotation.outcome.exposed_to)
    guidelines_name_what_is_there(memory, keys)
    for name in memory.locks:
        assert memory.case(name) is not None


def guidelines_name_what_is_there(memory: Memory, keys: set[FeedbackKey]) -> None:
    ids = [guideline.id for guideline in memory.guidelines]
    numbers = [guideline.number for guideline in memory.guidelines]
    assert numbers == sorted(set(numbers))
    for guideline in memory.guidelines:
        assert guideline.number < memory.next_guideline
        assert {*guideline.supported_by, *guideline.exposed_to} <= keys
        assert guideline.replaced_by in (None, *ids)


def guidelines_are_fit_to_be_shown(memory: Memory) -> None:
    for guideline in memory.guidelines:
        assert guideline_fault(guideline.text) is None
        if guideline.origin == "distilled":
            assert (
                guideline_fault(guideline.text, outputs_seen(memory, guideline)) is None
            ), "a copy of what was judged is no rule"


def outputs_seen(memory: Memory, guideline: Guideline) -> list[tuple[str, str]]:
    """The outputs of the cases in the prompt that wrote a guideline."""
    found = []
    for case in memory.cases:
        if any(said.key in guideline.exposed_to for said in case.annotations):
            found.append(("outputs", str(case.example.outputs)))
    return found


def each_guideline_has_the_status_that_it_should(memory: Memory) -> None:
    for guideline in memory.guidelines:
        successor = memory.successor(guideline)
        assert (memory.status(guideline) == "superseded") == (successor is not None)
        if successor is not None and successor != guideline.replaced_by:
            double = memory.guideline(successor)
            a_double_stands_for_the_same_words(memory, guideline, double)
    ids = [guideline.id for guideline in memory.guidelines]
    for guideline in memory.semantic:
        assert guideline.replaced_by not in ids
    shown = [word_form(guideline.text) for guideline in memory.semantic]
    assert len(shown) == len(set(shown)), "of those that say the same one is shown"
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
    retired = set()
    for guideline in memory.guidelines:
        if memory.status(guideline) == "retired":
            retired.add(word_form(guideline.text))
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
    keys: set[FeedbackKey] = set()
    for guideline in guidelines:
        keys.update(guideline.exposed_to)
    found = people_words(memory)
    for case in memory.cases:
        for annotation in case.annotations:
            if annotation.key in keys:
                found.update(words_of_case(case))
                found.update(words_in(f"{annotation.rationale} {annotation.value}"))
    return found


def words_of_case(case: Case) -> list[str]:
    return words_in(msgspec.json.encode(case.example).decode())


def people_words(memory: Memory) -> set[str]:
    """The unique words of guidelines that a person wrote or confirmed: they stay,
    whoever said them first."""
    found = set()
    for guideline in memory.guidelines:
        if guideline.people:
            found.update(words_in(guideline.text))
    return found


def no_word_is_where_it_was_not_seen(memory: Memory) -> None:
    for guideline in memory.guidelines:
        leaked = set(words_in(guideline.text)) - words_of(memory, [guideline])
        assert not leaked, (
            f"{guideline.id} holds {leaked} of feedback that it was not exposed to"
        )
        assert not words_in(f"{guideline.pinned_by} {guideline.retired_by}")
    for case in memory.cases:
        if case.pre_alignment and case.pre_alignment.rationale:
            rationale = set(words_in(case.pre_alignment.rationale))
            assert rationale.issubset(words_of_case(case))
    for annotation in memory.annotations():
        if annotation.outcome is not None:
            assert not words_in(annotation.outcome.reason), (
                "a reason repeats nobody's words"
            )


def no_verdict_outlives_its_source(memory: Memory) -> None:
    live = keys_in(memory)
    for case in memory.cases:
        if case.pre_alignment is not None:
            assert live.issuperset(case.pre_alignment.exposed_to)


def it_can_be_kept(judge: Judge) -> None:
    memory = judge.memory
    assert msgspec.json.decode(msgspec.json.encode(memory), type=Memory) == memory
    kept = memory_of(memory_contents(memory))
    assert kept.hash == memory.hash
    assert kept.conflicts == memory.conflicts
    assert load_bundle(bundle_of(judge)).memory == memory
