"""What holds of every alignment, however badly the model behaves."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge
from memalign.align import AlignResult
from memalign.errors import ModelUnavailable
from memalign.memory import Memory
from memalign.memory.guard import guideline_fault, normalised
from memalign.testing import ScriptedChatModel
from memalign.types import FeedbackKey
from tests.support.learning import (
    LEFT,
    REFUSED,
    SETTINGS,
    TAKEN,
    Imp,
    bare,
    batches,
    key_of,
    learn,
    own_words,
    prompts_of,
    row,
    text_of,
    words_in,
)


@dataclass(frozen=True)
class Way:
    """How a judge learns: what its model takes."""

    shard_size: int
    brief: bool

    def bare(self, *imp: Imp, **changes: Any) -> tuple[Judge, ScriptedChatModel]:
        return bare(*imp, shard_size=self.shard_size, brief=self.brief, **changes)

    def learn(self, judge: Judge, rows: Iterable[dict[str, Any]] = ()) -> AlignResult:
        return learn(judge, rows)


WAYS = [Way(size, brief) for size, brief in SETTINGS]
ways = st.sampled_from(WAYS)
one_a_call = st.sampled_from([way for way in WAYS if way.shard_size == 1])
some = settings(max_examples=20)
pytestmark = pytest.mark.usefixtures("few_are_enough")


def divide(rows: list[dict[str, Any]], chosen: Iterable[bool]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows in two parts."""
    flags = list(chosen)
    kept = [row for row, flag in zip(rows, flags, strict=False) if flag]
    return kept, [row for row in rows if row not in kept]


choices = st.lists(st.booleans(), min_size=15, max_size=15)


def rows_of(memory: Memory) -> list[dict[str, Any]]:
    """The feedback that a memory holds, as rows that could be given again."""
    return [
        {"id": case.id, "source": annotation.source, "value": annotation.value, "rationale": annotation.rationale}
        | case.example.content
        | ({"created_at": annotation.created_at} if annotation.created_at else {})
        for case in memory.cases
        for annotation in case.annotations
    ]


def check_whole(memory: Memory) -> None:
    """What must be true of any memory."""
    keys = [annotation.key for annotation in memory.annotations()]
    ledger = memory.ledger()
    assert len({entry.key for entry in ledger}) == len(ledger), "one state for each piece of feedback"
    assert {entry.key for entry in ledger} == {*keys, *(stone.key for stone in memory.tombstones)}
    numbers = [guideline.number for guideline in memory.guidelines]
    assert numbers == sorted(set(numbers))
    assert all(number < memory.next_guideline for number in numbers)
    texts = [normalised(guideline.text) for guideline in memory.semantic]
    assert len(texts) == len(set(texts)), "a rule is shown once"
    known = {guideline.id: guideline for guideline in memory.guidelines}
    for guideline in memory.guidelines:
        assert guideline_fault(guideline.text) is None
        assert {*guideline.supported_by, *guideline.exposed_to} <= set(keys)
        assert (memory.status(guideline) == "superseded") == (memory.successor(guideline) is not None)
        assert memory.successor(guideline) is None or memory.successor(guideline) in known
    carried = {key for guideline in memory.guidelines for key in guideline.supported_by}
    for entry in memory.ledger():
        if entry.state == "merged":
            assert entry.key in carried
        if entry.state in ("pending", "disputed", "rejected"):
            assert entry.reason
            assert entry.state != "pending" or entry.key not in carried
        if entry.state in ("learned", "rejected"):
            assert (entry.key in carried) != is_example(memory, entry.key)


def is_example(memory: Memory, key: FeedbackKey) -> bool:
    """Whether the last call made of the annotation that there is no guideline for it."""
    annotation = memory.annotation(key)
    return (
        annotation is not None and annotation.outcome is not None and annotation.outcome.kind in ("example", "refused")
    )


def state_of(memory: Memory, key: FeedbackKey) -> str | None:
    return {entry.key: entry.state for entry in memory.ledger()}.get(key)


def words(text: str) -> set[str]:
    return set(words_in(text))


class TestLearning:
    @some
    @given(batches(faults=True), ways)
    def test_all_feedback_is_in_exactly_one_state(self, rows, way) -> None:
        judge, _ = way.bare()
        result = way.learn(judge, rows)
        check_whole(result.judge.memory)
        assert {str(entry.key) for entry in result.judge.memory.ledger()} == {key_of(row) for row in rows}
        assert [report.key for report in result.rows] == [key_of(row) for row in rows]
        assert all(report.status == "new" and report.state for report in result.rows)

    @some
    @given(batches(), ways)
    def test_the_judge_that_learns_is_never_changed(self, rows, way) -> None:
        judge, _ = way.bare()
        aligned = way.learn(judge, rows[:1]).judge
        before, fingerprint, text = aligned.memory, aligned.fingerprint, text_of(aligned.memory)
        way.learn(aligned, rows)
        aligned.unalign(key_of(rows[0]))
        assert judge.memory == Memory()
        assert aligned.memory is before
        assert (aligned.fingerprint, text_of(aligned.memory)) == (fingerprint, text)

    @some
    @given(batches(orders=TAKEN), ways)
    def test_aligning_twice_is_aligning_once_and_asks_nothing(self, rows, way) -> None:
        judge, model = way.bare()
        once = way.learn(judge, rows)
        assert once.changed
        assert not once.pending
        asked = len(model.requests)
        twice = way.learn(once.judge, rows)
        assert twice.judge == once.judge
        assert twice.judge.fingerprint == once.judge.fingerprint
        assert not twice.changed
        assert {report.status for report in twice.rows} == {"unchanged"}
        assert len(model.requests) == asked

    @some
    @given(batches(orders=LEFT + REFUSED), ways)
    def test_pending_feedback_is_asked_again_and_changes_nothing(self, rows, way) -> None:
        judge, _ = way.bare()
        once = way.learn(judge, rows).judge
        again = way.learn(once)
        assert again.judge == once
        assert not again.changed

    @some
    @given(batches(faults=True), ways, st.randoms(use_true_random=False))
    def test_row_order_does_not_matter(self, rows, way, shuffler: random.Random) -> None:
        mixed = list(rows)
        shuffler.shuffle(mixed)
        one, other = (way.learn(way.bare()[0], each).judge.memory for each in (rows, mixed))
        assert one == other
        assert text_of(one) == text_of(other)

    @settings(max_examples=15)
    @given(batches(faults=True), ways, st.permutations([0.0, 0.002, 0.004, 0.006]))
    def test_it_does_not_matter_which_call_finishes_first(self, rows, way, delays) -> None:
        quick, _ = way.bare()
        slow, _ = way.bare(Imp(delays=dict(enumerate(delays))))
        single, _ = way.bare(concurrency=1)
        expected = text_of(way.learn(quick, rows).judge.memory)
        assert text_of(way.learn(slow, rows).judge.memory) == expected
        assert text_of(way.learn(single, rows).judge.memory) == expected

    @some
    @given(batches(), choices, ways)
    def test_a_second_batch_keeps_the_first_lessons(self, rows, chosen, way) -> None:
        first, second = divide(rows, chosen)
        judge, _ = way.bare()
        before = way.learn(judge, first).judge.memory
        after = way.learn(judge.replace(memory=before), second).judge.memory
        check_whole(after)
        precedence = {guideline.id for guideline in after.guidelines}
        for guideline in before.guidelines:
            # A new annotation may silence an old one; what was learned from those that still count stands.
            silenced = any(state_of(after, key) in (None, "disputed") for key in guideline.exposed_to)
            assert guideline.id in precedence or silenced
        for annotation in before.annotations():
            if before.state(annotation) in ("learned", "merged"):
                taught = [g for g in before.guidelines if annotation.key in (*g.supported_by, *g.exposed_to)]
                beside = {key for guideline in taught for key in guideline.exposed_to}
                beside.update(annotation.outcome.exposed_to if annotation.outcome else ())
                disputed = any(state_of(after, key) == "disputed" for key in beside | {annotation.key})
                assert state_of(after, annotation.key) in ("learned", "merged") or disputed

    @some
    @given(batches(orders=TAKEN, faults=True), one_a_call)
    def test_once_the_model_heals_everything_is_learned(self, rows, way) -> None:
        imp = Imp()
        judge, _ = way.bare(imp)
        ill = way.learn(judge, rows).judge
        check_whole(ill.memory)
        imp.healed = True
        well = way.learn(ill).judge.memory
        check_whole(well)
        assert {entry.state for entry in well.ledger()} <= {"learned", "merged", "disputed"}

    @some
    @given(batches(orders=TAKEN), st.sets(st.integers(0, 20)), st.just(Way(1, brief=True)))
    def test_a_healed_memory_ends_like_a_sound_one(self, rows, ill, way) -> None:
        # Failed calls cost time and numbers, no lesson: the same rules, from the same feedback. (A stronger model that
        # is asked later has the guidelines in view that stand by then.)
        for number, one in enumerate(rows):
            if number in ill and "rationale" in one:
                one["rationale"] += " fault:down"
        imp = Imp()
        judge, _ = way.bare(imp)
        mended = way.learn(judge, rows).judge
        imp.healed = True
        mended = way.learn(mended).judge
        healthy, _ = way.bare(Imp(healed=True))
        expected = way.learn(healthy, rows).judge
        assert lessons(mended.memory) == lessons(expected.memory)
        assert cases(mended.memory) == cases(expected.memory) or way.shard_size > 1 or reordered(mended.memory)


def lessons(memory: Memory) -> set[Any]:
    """The rules of a memory without their numbers."""
    return {(g.text, g.supported_by, g.exposed_to, g.retired_by, g.pinned) for g in memory.guidelines}


def cases(memory: Memory) -> list[Any]:
    """The cases of a memory, with their answers."""
    return list(memory.cases)


def reordered(memory: Memory) -> bool:
    """Whether two rules say the same: which of them counts, and so whose annotation is merged, depends on their age."""
    texts = [normalised(guideline.text) for guideline in memory.guidelines]
    return len(texts) != len(set(texts))


class TestForgetting:
    @settings(max_examples=40)
    @given(batches(faults=True), choices, ways, st.booleans())
    def test_withdrawn_feedback_leaves_no_word_and_no_key(self, rows, chosen, way, late: bool) -> None:
        gone, kept = divide(rows, chosen)
        imp = Imp()
        judge, model = way.bare(imp)
        # Withdrawn first, so that what survives was learned with their words in memory; or all at once.
        aligned = (
            way.learn(judge, rows).judge
            if late
            else way.learn(way.learn(judge, gone).judge if gone else judge, kept).judge
        )
        asked = len(model.requests)
        if not gone:
            return
        keys = [key_of(row) for row in gone]
        result = aligned.unalign(*keys)
        memory = result.judge.memory
        check_whole(memory)
        assert set(map(str, result.removed)) == set(keys)
        imp.healed = True
        final = way.learn(result.judge).judge
        final(inputs="question about it", outputs="another answer, to judge")
        for text in (text_of(memory, tombstones=False), text_of(final.memory, tombstones=False)):
            assert not [word for word in own_words(gone, kept) if word in words(text)]
            assert not [key for key in keys if f'"{key}"' in text]
        later = words(prompts_of(model, asked))
        assert not own_words(gone, kept) & later
        stones = msgspec.json.encode(memory.tombstones).decode()
        assert not words(stones)
        assert {str(entry.key) for entry in memory.ledger() if entry.state == "withdrawn"} == set(keys)

    @some
    @given(batches(), choices, ways)
    def test_a_rebuild_from_survivors_gives_the_same_memory(self, rows, chosen, way) -> None:
        gone, kept = divide(rows, chosen)
        if not gone or not kept:
            return
        judge, _ = way.bare()
        forgot = way.learn(judge, rows).judge.unalign(*(key_of(row) for row in gone)).judge
        rebuilt = way.learn(judge, rows_of(forgot.memory)).judge
        alone = way.learn(judge, kept).judge
        assert rebuilt.memory == alone.memory
        assert rebuilt.fingerprint == alone.fingerprint

    @some
    @given(batches(orders=TAKEN), choices, one_a_call)
    def test_forgetting_leaves_what_the_others_alone_would_teach(self, rows, chosen, way) -> None:
        gone, kept = divide(rows, chosen)
        if not gone or not kept:
            return
        judge, _ = way.bare()
        forgot = way.learn(judge, rows).judge.unalign(*(key_of(row) for row in gone)).judge
        alone = way.learn(judge, kept).judge
        assert lessons(forgot.memory) == lessons(alone.memory)

    @some
    @given(batches(), choices, ways)
    def test_forgetting_needs_no_model(self, rows, chosen, way) -> None:
        gone, _ = divide(rows, chosen)
        if not gone:
            return
        judge, _ = way.bare()
        aligned = way.learn(judge, rows).judge
        down, _ = way.bare(model=ScriptedChatModel(lambda _: ModelUnavailable("down")))
        keys = {key_of(row) for row in gone}
        memory = down.replace(memory=aligned.memory).unalign(*keys).judge.memory
        check_whole(memory)
        assert keys.isdisjoint(str(annotation.key) for annotation in memory.annotations())
        assert not any(not keys.isdisjoint(map(str, guideline.exposed_to)) for guideline in memory.guidelines)

    @some
    @given(batches(), ways)
    def test_forgetting_all_feedback_leaves_the_unaligned_judge(self, rows, way) -> None:
        judge, model = way.bare()
        empty = way.learn(judge, rows).judge.unalign(*{row["id"] for row in rows}).judge
        assert not empty.memory
        assert not empty.memory.conflicts
        assert empty.fingerprint == judge.fingerprint
        judge(inputs="q", outputs="a")
        empty(inputs="q", outputs="a")
        assert model.requests[-1] == model.requests[-2]

    @some
    @given(batches(orders=TAKEN), ways)
    def test_changed_feedback_leaves_no_word_of_the_old(self, rows, way) -> None:
        worded = [row for row in rows if "rationale" in row]
        if not worded:
            return
        old = worded[0]
        new = old | {"rationale": "word99999 do:add"}
        judge, model = way.bare()
        aligned = way.learn(judge, rows).judge
        asked = len(model.requests)
        result = way.learn(aligned, [new])
        assert [report.status for report in result.rows] == ["changed"]
        lost = own_words([old], [row for row in rows if row is not old] + [new])
        assert lost
        assert not lost & words(text_of(result.judge.memory))
        assert not lost & words(prompts_of(model, asked))
        check_whole(result.judge.memory)


class TestFreeText:
    """A judge of free text answers in words, and words can leak."""

    @some
    @given(st.integers(1, 4), st.integers(1, 4), ways)
    def test_withdrawn_feedback_leaves_no_free_label(self, before: int, after: int, way) -> None:
        gone = [row(n, "ana", "add", value=f"label{n}") for n in range(before)]
        kept = [row(50 + n, "ben", "add", value=f"label{50 + n}") for n in range(after)]
        judge, model = way.bare(feedback_value_type=str)
        aligned = way.learn(way.learn(judge, gone).judge, kept).judge
        asked = len(model.requests)
        memory = aligned.unalign(source="ana").judge.memory
        assert not own_words(gone) & words(text_of(memory, tombstones=False))
        assert not own_words(gone) & words(prompts_of(model, asked))

    def test_a_disputed_annotation_forgets_what_overrode_it(self) -> None:
        judge, _ = bare(feedback_value_type=str)
        rows = [
            row(1, source, "add", value=f"label{n}", created_at=f"2026-01-0{n}")
            for n, source in enumerate(["ana", "ben", "cleo"], 1)
        ]
        memory = learn(judge, rows).judge.unalign("t-1@cleo").judge.memory
        assert [(annotation.source, memory.state(annotation)) for annotation in memory.annotations()] == [
            ("ana", "disputed"),
            ("ben", "learned"),
        ]
        assert "label3" not in text_of(memory)


class TestPrompts:
    @some
    @given(batches(), ways)
    def test_every_item_gets_the_same_system_prompt(self, rows, way) -> None:
        judge, model = way.bare()
        aligned: Judge = way.learn(judge, rows).judge
        reloaded = aligned.replace(memory=msgspec.json.decode(msgspec.json.encode(aligned.memory), type=Memory))
        start = len(model.requests)
        for each in (aligned, reloaded):
            for row_ in rows[:3]:
                each(inputs=row_["inputs"], outputs=row_["outputs"])
            each(inputs={"b": 1, "a": [2]}, outputs="something new")
        asked = model.requests[start:]
        half = len(asked) // 2
        assert asked[:half] == asked[half:]
        assert len({request.system for request in asked}) == 1

    @some
    @given(batches(orders=("add",)), ways)
    def test_a_longer_version_begins_as_the_one_before(self, rows, way) -> None:
        judge, model = way.bare()
        first = way.learn(judge, [row(90, "dora", "add", value=True)]).judge
        second = way.learn(first, rows).judge
        first(inputs="q", outputs="a")
        second(inputs="q", outputs="a")
        assert len(second.memory.semantic) >= len(first.memory.semantic) == 1
        # The checks come last: those of fewer guidelines end where the checks of more go on.
        before, _, _ = model.requests[-2].system.partition("\n\n# Checks")
        assert model.requests[-1].system.startswith(before)
        assert before.endswith(first.memory.semantic[0].text)


@pytest.mark.parametrize("way", WAYS)
def test_the_scripted_model_really_leaks_what_it_sees(way: Way) -> None:
    # Or the search above would prove nothing.
    judge, _ = way.bare()
    rows = [row(1, "ana", "add", value=False), row(2, "ben", "add", value=True), row(3, "cleo", None, value=True)]
    memory = way.learn(judge, rows).judge.memory
    assert {"case1", "case2"} <= words(" ".join(guideline.text for guideline in memory.guidelines))
    assert any(word.startswith("word") for g in memory.guidelines for word in words(g.text))
