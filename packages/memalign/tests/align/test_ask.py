"""Asking a decision model about labelled cases: who is asked what, what is kept of it, and what forgetting leaves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Example, Judge, Judgment, MemAlign, aio
from memalign.align import AlignResult, lock
from memalign.errors import ModelUnavailable
from memalign.io import read_judgments
from memalign.judge.decision import calibrator_of
from memalign.judge.observations import FEWEST, labelled_cases
from memalign.judge.spec import base_fingerprint_of
from memalign.testing import ScriptedChatModel
from tests.support.keys import keys
from tests.support.learning import Checker, answered, checking, row, words_in

replace = msgspec.structs.replace


def learn(judge: Judge, chat: ScriptedChatModel, rows: Iterable[Any] = ()) -> AlignResult:
    return judge.align(list(rows), optimizer=MemAlign(reflection_model=chat))


def labelled(count: int, *, start: int = 1) -> list[dict[str, Any]]:
    return [row(n, "ana", "add", value=n % 2 == 0) for n in range(start, start + count)]


def own_word(number: int) -> str:
    """The unique word of the comment on case `number`."""
    return words_in(row(number, "ana", "add")["rationale"])[0]


class TestWhoIsAsked:
    @pytest.mark.parametrize(
        ("kind", "changes", "rows"),
        [
            ("check", {"check_model": None}, labelled(12)),
            *((kind, {}, labelled(FEWEST - 1)) for kind in ("check", "alone", "embedded")),
            ("check", {"feedback_value_type": str}, [each | {"value": f"l-{each['id']}"} for each in labelled(12)]),
        ],
        ids=["a provider's chat model", "few cases", "few, alone", "few, embedded", "free text"],
    )
    def test_nothing_is_asked_where_nothing_can_be_weighed(self, kind: str, changes: Any, rows: Any) -> None:
        judge, chat, decisions = checking(kind, shard_size=1, **changes)
        assert not answered(learn(judge, chat, rows).judge.memory)
        assert not [question for _, question in decisions.asked if question.key != "value"]
        assert "judgment" not in {request.schema_name for request in chat.requests}

    @pytest.mark.parametrize(("kind", "size"), [("check", 1), ("check", 50), ("alone", 50), ("embedded", 1)])
    def test_every_labelled_case_is_asked_about_once(self, kind: str, size: int) -> None:
        judge, chat, decisions = checking(kind, shard_size=size)
        learned = learn(judge, chat, labelled(12)).judge
        memory = learned.memory
        if size == 1 and kind == "check":
            assert len(chat.requests) == 12, "where a call holds one record nothing is written again"
            counted = [len(case.observation.expected) for case in labelled_cases(learned)]
            assert counted == [11] * 12, "no check counts on the case that supports its guideline"
        assert answered(memory).keys() == {f"t-{n}" for n in range(1, 13)}
        shared = [
            state for state, question in decisions.asked if question.key != "value" and not words_in(question.text)
        ]
        assert len(shared) == len(set(shared)) == (0 if kind == "embedded" else 12), "the embedded model writes none"
        verdicts = [case.answers.verdict is not None for case in memory.cases if case.answers]
        assert verdicts == [kind != "check"] * 12, "a provider's chat model is asked for no verdict"
        for state, question in decisions.asked:
            number = int(words_in(state)[0].removeprefix("case"))
            assert own_word(number) not in question.text, "it is asked by a judge that never saw it"

    def test_each_folds_guidelines_are_written_without_it_and_no_word_of_them_is_kept(self) -> None:
        judge, chat, _ = checking(shard_size=50)
        learned = learn(judge, chat, labelled(12)).judge
        calls = [request for request in chat.requests if request.schema_name == "changes"]
        assert len(calls) == 1 + 2, "one about all, and one a fold"
        shown = [set(words_in(request.user)) for request in calls]
        assert all(sum(own_word(n) in words for words in shown) == 2 for n in range(1, 13)), "in all but its own fold's"
        assert calibrator_of(learned) is not None
        for case in learned.memory.cases:
            assert case.answers is not None
            assert case.answers.expected
            assert not words_in(msgspec.json.encode(replace(case.answers, exposed_to=())).decode())
            assert {name for each in case.answers.expected for name, _ in each.checks} == case.answers.margins.keys()
            assert case.annotations[0].key not in case.answers.exposed_to

    def test_one_labelled_case_of_each_content_answers(self) -> None:
        rows = labelled(11)
        copy = rows[0] | {"id": "t-0", "source": "ben", "rationale": "word9000 do:add"}
        judge, chat, _ = checking(shard_size=1)
        memory = learn(judge, chat, [*rows, copy, row(99, "ana", "add")]).judge.memory
        assert answered(memory).keys() == {"t-0", *(f"t-{n}" for n in range(2, 12))}


class TestCalls:
    @pytest.mark.parametrize(("kind", "size"), [("check", 1), ("check", 50), ("alone", 50), ("embedded", 1)])
    def test_rows_that_are_known_cost_nothing(self, kind: str, size: int) -> None:
        judge, chat, decisions = checking(kind, shard_size=size)
        rows = labelled(12)
        once = learn(judge, chat, rows).judge
        requests, asked = len(chat.requests), len(decisions.asked)
        assert learn(once, chat, rows).judge == once
        assert learn(once, chat).judge == once
        assert (len(chat.requests), len(decisions.asked)) == (requests, asked)

    def test_later_feedback_is_asked_about_alone(self) -> None:
        judge, chat, decisions = checking(shard_size=50)
        once = learn(judge, chat, labelled(15)).judge
        before = len([request for request in chat.requests if request.schema_name == "changes"])
        decisions.asked.clear()
        more = learn(once, chat, labelled(3, start=16)).judge
        assert answered(more.memory).keys() == {f"t-{n}" for n in range(1, 19)}
        assert {words_in(state)[0] for state, _ in decisions.asked} == {"case16", "case17", "case18"}
        calls = len([request for request in chat.requests if request.schema_name == "changes"]) - before
        assert calls <= 2, "to learn them, and once without them where others lost by it"

    def test_the_next_align_replaces_another_models_answers(self) -> None:
        judge, chat, _ = checking(shard_size=1)
        old = learn(judge, chat, labelled(12)).judge
        other = old.replace(instructions="Is it?\n{{ inputs }} {{ outputs }}")
        news = learn(other, chat, labelled(1, start=20)).judge
        assert {case.answers.judge for case in news.memory.cases if case.answers} == {base_fingerprint_of(other)}

    def test_the_steps_come_in_the_order_that_the_design_lays_down(self) -> None:
        judge, chat, decisions = checking(shard_size=1)
        locked = lock(learn(judge, chat, labelled(12)).judge, "t-1")
        decisions.asked.clear()
        steps: list[tuple[str, int, int]] = []
        optimizer = MemAlign(reflection_model=chat, impact=1)
        rows = labelled(2, start=20)
        result = aio.run(optimizer.align(locked, rows, progress=lambda *step: steps.append(step)))
        assert list(dict.fromkeys(phase for phase, _, _ in steps)) == ["embed", "distil", "ask", "locks", "impact"]
        assert ("distil", 2, 2) in steps
        assert all(done <= total for _, done, total in steps)
        assert "ask" in result.usage.seconds
        assert "case1" in {words_in(state)[0] for state, _ in decisions.asked}, "what is delivered must hold"


class TestFailure:
    @pytest.mark.parametrize(("kind", "question"), [("check", "decision"), ("embedded", "judgment")])
    def test_cases_whose_questions_fail_wait_with_a_note(self, kind: str, question: str) -> None:
        imp = Checker()
        judge, chat, _ = checking(kind, shard_size=1, imp=imp)
        imp.storm = {question: ModelUnavailable("down: HTTP 503")}
        failed = learn(judge, chat, labelled(10))
        assert not answered(failed.judge.memory)
        (note,) = (note for note in failed.notes if "wait for the next align" in note)
        assert note.startswith("10 of 10 cases")
        assert "down: HTTP 503" in note
        imp.storm = {}
        assert len(answered(learn(failed.judge, chat).judge.memory)) == 10

    def test_a_fold_whose_guidelines_cannot_be_written_waits(self) -> None:
        imp = Checker()
        judge, chat, decisions = checking(shard_size=50, imp=imp)
        aligned = learn(judge, chat, labelled(12)).judge
        bare = tuple(replace(case, answers=None) for case in aligned.memory.cases)
        imp.storm = {"changes": ModelUnavailable("down")}
        decisions.asked.clear()
        failed = learn(aligned.replace(memory=replace(aligned.memory, cases=bare)), chat)
        assert not answered(failed.judge.memory)
        assert not decisions.asked, "a judge without its guidelines is another judge"
        assert any("12 of 12 cases" in note for note in failed.notes)


class TestOwnVerdicts:
    @staticmethod
    def before(judge: Judge, chat: ScriptedChatModel, why: str = "So.", **changes: Any) -> dict[str, Judgment]:
        """A judgment that the judge gave on the first case."""
        judgment = Judgment(id="t-1", value=True, rationale=why, memory_hash=judge.memory.hash, model=chat.name)
        return {"t-1": replace(judgment, **changes)}

    @pytest.mark.parametrize(
        ("changes", "kept"),
        [
            ({}, (True, "So.")),
            (
                {"value": False, "own_value": True, "decided_by": "calibrator"},
                (True, None),
            ),  # the reason is not its own
            *(({name: "another"}, None) for name in ("memory_hash", "model")),
            *(({"decided_by": "expert"}, None), ({"value": None, "error": "down"}, None)),
        ],
    )
    def test_a_verdict_counts_that_this_judge_gave_with_this_memory(self, changes: dict[str, Any], kept: Any) -> None:
        judge, chat, _ = checking(check_model=None)
        (case,) = judge.align(labelled(1), own_verdicts=self.before(judge, chat, **changes)).judge.memory.cases
        assert (case.pre_alignment and (case.pre_alignment.value, case.pre_alignment.rationale)) == kept

    @pytest.mark.parametrize("first", [True, False])
    def test_it_counts_if_it_was_given_before_all_feedback_on_the_case(self, first: bool) -> None:
        judge, chat, _ = checking(check_model=None)
        early = self.before(judge, chat, "the first") if first else None
        aligned = judge.align(labelled(1), own_verdicts=early).judge
        late = self.before(aligned, chat, "the second")
        (case,) = aligned.align([row(1, "ben", "add", value=False)], own_verdicts=late).judge.memory.cases
        assert (case.pre_alignment and case.pre_alignment.rationale) == ("the first" if first else None)

    def test_a_distillation_shows_what_the_judge_got_wrong_and_why(self) -> None:
        judge, chat, _ = checking(check_model=None)
        rows = labelled(6)
        before = {each["id"]: judge(inputs=each["inputs"], outputs=each["outputs"]) for each in rows}
        asked = len(chat.requests)
        judge.align(rows, own_verdicts=before)
        shown = "\n".join(request.user for request in chat.requests[asked:])
        assert "judgment" not in {request.schema_name for request in chat.requests[asked:]}, "nothing is asked for it"
        wrong = [before[each["id"]] for each in rows if before[each["id"]].value != each["value"]]
        assert 0 < len(wrong) < len(rows)
        for judgment in before.values():
            said = f"judge: {'true' if judgment.value else 'false'}"
            assert said in shown
            assert (f'{said} because "{judgment.rationale}"' in shown) is (judgment in wrong)

    def test_a_rule_goes_with_what_the_shown_verdict_had_in_view(self) -> None:
        judge, _, _ = checking(check_model=None)
        judge = judge.align([row(1, "ana", "noop", value=True)]).judge
        wrong = row(2, "ana", "add")
        verdict = judge(inputs=wrong["inputs"], outputs=wrong["outputs"])
        assert verdict.example_ids == ("t-1",), "and no guideline is in force"
        wrong["value"] = not verdict.value
        memory = judge.align([wrong], own_verdicts={"t-2": verdict}).judge.memory
        assert own_word(1) in memory.semantic[0].text, "by way of the verdict's reason alone"
        assert memory.semantic[0].exposed_to == keys("t-1@ana", "t-2@ana")

    def test_a_file_counts_where_this_judge_wrote_it_on_the_same_content(self, tmp_path: Path) -> None:
        judge, _, _ = checking(check_model=None)
        rows = labelled(3)
        examples = [Example(id=each["id"], inputs=each["inputs"], outputs=each["outputs"]) for each in rows]
        judge.judge_many(examples, out=tmp_path / "judged.jsonl")
        file = read_judgments(tmp_path / "judged.jsonl")
        rows[0]["outputs"] = "another answer"
        memory = judge.align(rows, own_verdicts=file).judge.memory
        assert [case.pre_alignment is not None for case in memory.cases] == [False, True, True]
        short = judge.replace(instructions="Is the reply short? {{ inputs }} {{ outputs }}")
        other = short.align(rows, own_verdicts=file)
        assert all(case.pre_alignment is None for case in other.judge.memory.cases)
        assert any("written by another judge" in note for note in other.notes)

    @pytest.mark.usefixtures("few_are_enough")
    def test_a_verdict_that_is_recorded_keeps_what_it_was_given_beside(self) -> None:
        judge, chat, _ = checking("embedded", shard_size=1)
        rows = [row(1, "ana", None, value=False), row(2, "ana", None, value=False)]
        rows.append(row(1, "ben", "add") | {"id": "t-3"})  # all guidelines saw the first case: it is asked nothing
        once = learn(judge, chat, rows).judge
        assert once.memory.cases[0].answers is not None
        assert once.memory.cases[0].answers.exposed_to == keys("t-2@ana")
        assert learn(once, chat).judge == once
