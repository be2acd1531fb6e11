"""The pass over labelled cases: who is asked what, what is kept of it, and what forgetting leaves."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import MemAlign, aio
from memalign.align import edit_guideline
from memalign.align.ask import FOLDS, MOST, ask
from memalign.errors import ModelUnavailable
from memalign.judge.checks import which_checks
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Answers
from memalign.memory.check_answers import questions_of
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedChatModel, ScriptedYesNoModel
from tests.align.test_invariants import choices, divide, rows_of
from tests.support.asking import (
    SHARED,
    Checker,
    answered,
    checking,
    checks_of,
    margin_of,
    questions_in,
)
from tests.support.invariants import no_answer_outlives_its_source
from tests.support.learning import TAKEN, bare, batches, key_of, learn, own_words, row, text_of, words_in

replace = msgspec.structs.replace
ways = st.tuples(st.sampled_from([1, 3]), st.booleans())
"""Shard size, and whether the model answers checks apart."""
some = settings(max_examples=20)
pytestmark = pytest.mark.usefixtures("few_are_enough")


def labelled(count: int, *, start: int = 1) -> list[dict[str, Any]]:
    return [row(n, "ana", "add", value=n % 2 == 0) for n in range(start, start + count)]


def verdicts_asked(model: ScriptedChatModel, start: int = 0) -> list[ChatRequest]:
    return [request for request in model.requests[start:] if request.schema_name == "judgment"]


class TestWhoIsAsked:
    @pytest.mark.parametrize("apart", [False, True])
    def test_every_case_answers_checks_of_other_folds(self, apart: bool) -> None:
        judge, _ = checking(apart=apart, shard_size=1)
        learned = learn(judge, labelled(7)).judge  # no more checks than a judgment asks
        memory = learned.memory
        asked = {check.question for check in aio.run(which_checks(learned))[0]}
        order = sorted(memory.cases, key=lambda case: case.example.content_hash)
        for number, case in enumerate(order):
            fold = {other.id for other in order[number % FOLDS :: FOLDS]}
            in_view = memory.hiding(fold)
            assert case.answers is not None
            there = questions_of(in_view.semantic).keys()
            assert [*case.answers.margins] == sorted(there & asked if apart else there)
            assert case.answers.verdict is not None
            assert {*case.answers.guideline_ids} <= {guideline.id for guideline in in_view.guidelines}
            assert fold.isdisjoint(case.answers.example_ids)

    def test_the_answering_judge_never_sees_the_cases_guideline(self) -> None:
        judge, model = checking(shard_size=1)
        learn(judge, labelled(8))
        for request in verdicts_asked(model, -8):
            (own,) = words_in(request.user.rpartition("Now judge this item:")[2])
            number = own.removeprefix("case")
            assert f"word{number}" not in " ".join(word[:-2] for word in words_in(request.system))

    def test_margins_come_from_a_question_about_one_item(self) -> None:
        judge, _ = checking(apart=True, shard_size=1)
        memory = learn(judge, labelled(6)).judge.memory
        for case in memory.cases:
            assert case.answers is not None
            words = f"{case.example.inputs} {case.example.outputs}"
            assert case.answers.margins == {q: margin_of(q, words) for q in case.answers.margins}

    @pytest.mark.parametrize(("brief", "most"), [(False, 24), (True, 50)])
    def test_the_sample_is_bounded(self, brief: bool, most: int) -> None:
        assert MOST[brief] == most
        judge, _ = checking(apart=True)
        memory = learn(judge, labelled(4)).judge.memory
        many = learn(judge.replace(memory=memory), labelled(40, start=10)).judge.memory
        assert sum(case.answers is not None for case in many.cases) >= 24
        fresh = {case.id for case in many.cases if case.answers is not None} - answered(memory).keys()
        assert len(fresh) <= 24

    def test_one_case_of_each_content_answers(self) -> None:
        rows = labelled(4)
        copy = rows[0] | {"id": "t-0", "source": "ben", "rationale": "word9000 do:add"}
        judge, _ = checking(shard_size=1)
        memory = learn(judge, [*rows, copy]).judge.memory
        assert answered(memory).keys() == {"t-0", "t-2", "t-3", "t-4"}
        # One that comes later takes the answers over, without a question.
        late = learn(judge, rows).judge
        kept = next(case.answers for case in late.memory.cases if case.id == "t-1")
        moved = learn(late, [copy | {"rationale": "word9000 do:noop"}]).judge.memory
        assert answered(moved).keys() == {"t-0", "t-2", "t-3", "t-4"}
        assert next(case.answers for case in moved.cases if case.id == "t-0") == kept

    def test_free_text_and_unlabelled_cases_are_not_asked(self) -> None:
        judge, _ = checking(shard_size=1)
        rows = [*labelled(3), row(9, "ana", "add")]
        assert answered(learn(judge, rows).judge.memory).keys() == {"t-1", "t-2", "t-3"}
        free, model = checking(shard_size=1, feedback_value_type=str)
        told = [each | {"value": f"label{n}"} for n, each in enumerate(labelled(3))]
        assert not answered(learn(free, told).judge.memory)
        assert not verdicts_asked(model)

    def test_scores_on_a_continuous_scale_are_asked_too(self) -> None:
        class Scores(Checker):
            def _verdict(self, request: ChatRequest, item: str) -> Any:
                return super()._verdict(request, item) | {"value": 0.25}  # type: ignore[operator]  # a dict

        judge, _ = checking(imp=Scores(), shard_size=1, feedback_value_type="float:0..1")
        memory = learn(judge, [each | {"value": 0.5} for each in labelled(3)]).judge.memory
        assert [case.answers and case.answers.verdict for case in memory.cases] == [0.25] * 3


class Plain(Checker):
    """Writes no checks."""

    def _changes(self, request: ChatRequest) -> list[Any]:
        return [change | {"checks": []} for change in super()._changes(request)]


class TestCalls:
    def test_guidelines_without_checks_ask_nothing(self) -> None:
        judge, model = bare(Plain(), shard_size=1)
        memory = learn(judge, labelled(3)).judge.memory
        asked = len(model.requests)
        again, usage, notes = aio.run(ask(judge, memory))
        assert again is memory
        assert (usage.calls, notes, len(model.requests)) == (0, (), asked)
        assert not answered(memory)

    def test_the_first_lesson_asks_nothing_of_its_case(self) -> None:
        judge, model = checking(shard_size=1)
        memory = learn(judge, labelled(1)).judge.memory
        assert not answered(memory)
        assert [request.schema_name for request in model.requests] == ["changes"]

    def test_rows_that_are_known_cost_nothing(self) -> None:
        judge, model = checking(shard_size=1)
        rows = labelled(5)
        stale = learn(judge, rows).judge.replace(instructions="Is it good at all?\n{{ inputs }} {{ outputs }}")
        asked = len(model.requests)
        assert answered(learn(stale, rows).judge.memory) == answered(stale.memory)
        assert len(model.requests) == asked

    def test_an_apart_model_is_asked_only_new_questions(self) -> None:
        judge, model = checking(apart=True, shard_size=1)
        assert isinstance(model, ScriptedYesNoModel)
        once = learn(judge, labelled(6)).judge
        name = once.memory.guidelines[0].id
        more = checks_of(["Is it new?"]) + once.memory.guidelines[0].checks
        guidelines = tuple(replace(g, checks=more) if g.id == name else g for g in once.memory.guidelines)
        asked, model.asked = len(model.requests), []
        twice, _, _ = aio.run(ask(once, replace(once.memory, guidelines=guidelines)))
        assert len(model.requests) == asked, "its verdicts are there"
        assert {question for _, question in model.asked} == {"Is it new?"}
        assert len(model.asked) == sum("Is it new?" in margins for margins in answered(twice).values()) > 0

    def test_the_next_align_replaces_another_models_answers(self) -> None:
        judge, _ = checking(shard_size=1)
        old = learn(judge, labelled(5)).judge
        other, model = checking(shard_size=1, instructions="Is it?\n{{ inputs }} {{ outputs }}")
        news = learn(other.replace(memory=old.memory), labelled(1, start=7)).judge
        fingerprints = {case.answers.judge for case in news.memory.cases if case.answers}
        assert fingerprints == {base_fingerprint_of(other)} != {base_fingerprint_of(judge)}
        assert len(verdicts_asked(model)) >= 6

    def test_progress_is_told(self) -> None:
        judge, _ = checking(shard_size=1)
        seen: list[tuple[str, int, int]] = []
        result = aio.run(MemAlign().align(judge, labelled(4), progress=lambda *told: seen.append(told)))
        assert [told for told in seen if told[0] == "ask"][-1] == ("ask", 4, 4)
        assert "ask" in result.usage.seconds


class TestFailure:
    @pytest.mark.parametrize("apart", [False, True])
    def test_a_case_whose_call_fails_waits_with_note(self, apart: bool) -> None:
        imp = Checker()
        judge, _ = checking(apart=apart, shard_size=1, imp=imp)
        imp.storm = dict.fromkeys(("judgment", "margins"), ModelUnavailable("down: HTTP 503"))
        failed = learn(judge, labelled(4))
        assert not answered(failed.judge.memory)
        count = 8 if apart else 4
        assert failed.notes == (
            f"{count} of {count} questions about past cases wait for the next align: {failed.notes[0].rpartition('align: ')[2]}",
        )
        assert "down: HTTP 503" in failed.notes[0]
        imp.storm = {}
        assert len(answered(learn(failed.judge).judge.memory)) == 4

    def test_an_omitted_answer_counts_as_does_not_apply(self) -> None:
        class Silent(Checker):
            def _verdict(self, request: ChatRequest, item: str) -> Any:
                return {"rationale": "no", "value": True}

        judge, model = checking(imp=Silent(), shard_size=1)
        once = learn(judge, labelled(4)).judge
        assert {margin for margins in answered(once.memory).values() for margin in margins.values()} == {0.0}
        asked = len(model.requests)
        assert learn(once).judge == once
        assert len(model.requests) == asked

    def test_forgetting_needs_no_model(self) -> None:
        judge, _ = checking(shard_size=1)
        memory = learn(judge, labelled(6)).judge.memory
        gone = questions_in(memory)
        nobody = judge.replace(model=None, memory=memory)
        left = nobody.unalign("t-1")
        assert "t-1" not in {case.id for case in left.judge.memory.cases}
        still = questions_in(left.judge.memory)
        assert still < gone
        assert all(margins.keys() <= still for margins in answered(left.judge.memory).values())


class TestExactness:
    @some
    @given(batches(orders=TAKEN), ways)
    def test_aligning_twice_is_aligning_once(self, rows, way) -> None:
        judge, model = checking(shard_size=way[0], apart=way[1])
        once = learn(judge, rows).judge
        asked = len(model.requests)
        assert learn(once, rows).judge == once
        again = learn(once)
        assert again.judge == once
        assert text_of(again.judge.memory) == text_of(once.memory)
        assert not again.changed
        assert len(verdicts_asked(model, asked)) == 0

    @some
    @given(batches(faults=True), ways, st.randoms(use_true_random=False))
    def test_row_order_does_not_matter(self, rows, way, shuffler: random.Random) -> None:
        mixed = list(rows)
        shuffler.shuffle(mixed)
        one, other = (learn(checking(shard_size=way[0], apart=way[1])[0], each).judge.memory for each in (rows, mixed))
        assert one == other
        assert text_of(one) == text_of(other)

    @settings(max_examples=10)
    @given(batches(orders=TAKEN), ways, st.permutations([0.0, 0.002, 0.004, 0.006]))
    def test_it_does_not_matter_which_call_finishes_first(self, rows, way, delays) -> None:
        slow = Checker(delays=dict(enumerate(delays)))
        one = learn(checking(shard_size=way[0], apart=way[1])[0], rows).judge.memory
        other = learn(checking(shard_size=way[0], apart=way[1], imp=slow)[0], rows).judge.memory
        assert text_of(one) == text_of(other)

    @some
    @given(batches(), choices, ways)
    def test_a_rebuild_from_survivors_gives_the_same_memory(self, rows, chosen, way) -> None:
        gone, kept = divide(rows, chosen)
        if not gone or not kept:
            return
        judge, _ = checking(shard_size=way[0], apart=way[1])
        forgot = learn(judge, rows).judge.unalign(*(key_of(row) for row in gone)).judge
        rebuilt = learn(judge, rows_of(forgot.memory)).judge.memory
        alone = learn(judge, kept).judge.memory
        assert rebuilt == alone
        assert answered(rebuilt) == answered(alone)

    @settings(max_examples=40)
    @given(batches(faults=True), choices, ways, st.booleans())
    def test_no_answer_outlives_what_it_stood_on(self, rows, chosen, way, down: bool) -> None:
        gone, kept = divide(rows, chosen)
        if not gone:
            return
        imp = Checker()
        judge, model = checking(shard_size=way[0], apart=way[1], imp=imp)
        aligned = learn(judge, rows).judge
        if down:
            imp.storm = dict.fromkeys(("judgment", "changes", "rule"), ModelUnavailable("down"))
        asked = len(model.requests)
        memory = aligned.unalign(*(key_of(row) for row in gone)).judge.memory
        no_answer_outlives_its_source(memory)
        lost = own_words(gone, kept)
        assert not lost & set(words_in(text_of(memory, tombstones=False)))
        assert not lost & set(words_in(" ".join(r.system + r.user for r in model.requests[asked:])))
        touched = {row["id"] for row in gone}
        by_id = {case.id: case.answers for case in aligned.memory.cases}
        for case in memory.cases:
            before = by_id[case.id]
            if down and case.answers is not None and case.answers.verdict is not None:
                assert before is not None
                assert touched.isdisjoint(before.example_ids), "its prompt held what was withdrawn"

    @some
    @given(batches(orders=TAKEN), choices, ways)
    def test_survivors_keep_their_answers_after_an_unalign(self, rows, chosen, way) -> None:
        gone, kept = divide(rows, chosen)
        if not gone or not kept:
            return
        judge, _ = checking(shard_size=way[0], apart=way[1])
        left = learn(judge, rows).judge.unalign(*(key_of(row) for row in gone)).judge
        again, usage, notes = aio.run(ask(left, left.memory))
        assert again == left.memory
        assert (usage.calls, notes) == (0, ())

    @some
    @given(batches(orders=TAKEN), ways)
    def test_changed_feedback_drops_answers_beside_its_old_words(self, rows, way) -> None:
        worded = [row for row in rows if "rationale" in row]
        if not worded:
            return
        old = worded[0]
        judge, model = checking(shard_size=way[0], apart=way[1])
        aligned = learn(judge, rows).judge
        asked = len(model.requests)
        memory = learn(aligned, [old | {"rationale": "word99999 do:add"}]).judge.memory
        no_answer_outlives_its_source(memory)
        lost = own_words([old], [row for row in rows if row is not old] + [old | {"rationale": ""}])
        assert not lost & set(words_in(text_of(memory)))
        assert not lost & set(words_in(" ".join(r.system + r.user for r in model.requests[asked:])))


class TestValues:
    def test_a_shared_question_outlives_one_of_its_guidelines(self) -> None:
        judge, _ = checking(shard_size=1)
        memory = learn(judge, labelled(5)).judge.memory
        left = judge.replace(memory=memory).unalign("t-1").judge.memory
        assert all(SHARED in margins for margins in answered(left).values())

    def test_a_guideline_that_met_the_case_says_nothing(self) -> None:
        judge, _ = checking(apart=True, shard_size=1)
        once = learn(judge, labelled(5)).judge
        guideline, case = once.memory.guidelines[0], once.memory.cases[3]
        own = guideline.checks[0].question
        assert case.answers is not None
        if own not in case.answers.margins:  # in one fold with it: any other will do
            case = next(each for each in once.memory.cases if each.answers and own in each.answers.margins)
        met = replace(guideline, exposed_to=(*guideline.exposed_to, case.annotations[0].key))
        memory = replace(once.memory, guidelines=(met, *once.memory.guidelines[1:])).with_live_answers()
        assert own not in answered(memory)[case.id]
        again, _, _ = aio.run(ask(once, memory))
        assert own not in answered(again)[case.id]

    def test_an_edited_guideline_keeps_answers_to_kept_checks(self) -> None:
        judge, _ = checking(shard_size=1)
        once = learn(judge, labelled(4)).judge
        pinned = edit_guideline(once, "G1", by="ana", pinned=True)
        assert answered(pinned.memory) == answered(once.memory)

    def test_a_hidden_guidelines_question_has_no_answer(self) -> None:
        judge, _ = checking(shard_size=1)
        memory = learn(judge, labelled(6)).judge.memory
        hidden = memory.hiding(["t-2"])
        no_answer_outlives_its_source(hidden)
        assert questions_in(memory) - questions_in(hidden)
        assert hidden.hash == replace(hidden, locks=()).hash

    def test_answers_that_stand_are_the_same_object(self) -> None:
        judge, _ = checking(shard_size=1)
        memory = learn(judge, labelled(4)).judge.memory
        assert memory.with_live_answers() is memory

    def test_an_empty_answer_is_none(self) -> None:
        judge, _ = checking(shard_size=1)
        memory = learn(judge, labelled(2)).judge.memory
        blank = replace(memory.cases[0], answers=Answers(judge="0123", margins={"Gone?": 1.0}))
        settled = replace(memory, cases=(blank, memory.cases[1])).with_live_answers()
        assert settled.cases[0].answers is None
