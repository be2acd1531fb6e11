"""Rules that may not enter a prompt, several rules in one comment, and verdicts of another judge."""

from __future__ import annotations

import pytest

from memalign.errors import ModelUnavailable
from memalign.models.base import ChatRequest
from memalign.testing import Answer
from tests.support.invariants import check_memory
from tests.support.learning import bare, learn, reason, row, states
from tests.support.scripted import Teacher, change

RULE = "Be kind to whoever has waited."
COPY = "The answer to case1 is a long text of more than eight words."


class TestRefusal:
    def test_a_refusal_makes_the_model_write_another_rule(self) -> None:
        judge, model = bare(Teacher([change("ADD", "F1", text=COPY)], [change("ADD", "F1", text=RULE)]))
        result = learn(judge, [row(1, "ana", "add")])
        assert [g.text for g in result.judge.memory.semantic] == [RULE]
        assert "F1: it copies eight words of what was judged (outputs)" in model.requests[-1].user
        assert states(result.judge) == {"t-1@ana": "learned"}
        assert result.usage.calls == 2

    def test_a_second_refusal_rejects_the_lesson(self) -> None:
        judge, model = bare(Teacher([change("ADD", "F1", text=COPY)]))
        result = learn(judge, [row(1, "ana", "add", value=False)])
        assert states(result.judge) == {"t-1@ana": "rejected"}
        assert "write it yourself" in reason(result.judge, "t-1@ana")
        assert not result.pending
        check_memory(result.judge)
        asked = len(model.requests)
        assert not learn(result.judge).changed
        assert len(model.requests) == asked, "and nobody is asked again"
        judgment = result.judge(inputs="question about case1", outputs="another answer")
        assert judgment.example_ids == ("t-1",), "its example is of use all the same"

    @pytest.mark.parametrize("brief", [False, True])
    def test_a_sentence_that_the_expert_demands_is_learned(self, brief: bool) -> None:
        demanded = "Past results do not tell future results of any fund."
        rule = f"A reply ends with the sentence: {demanded}"

        def teacher(request: ChatRequest) -> Answer:
            if request.schema_name == "judgment":
                return {"rationale": "fine", "value": True}
            check = {"question": f"Does the reply say: {demanded[:-1]}?", "answer": "yes"}
            if brief:
                return {"when": "", "because": rule, "checks": [check]}
            return {"changes": [change("ADD", "F1", text=rule) | {"checks": [check]}]}

        judge, _ = bare(teacher, brief=brief, shard_size=1 if brief else 10)
        said = {"value": True, "rationale": f"Right, it ends with what law demands: {demanded}"}
        learned = learn(judge, [row(1, "ana", "add") | {"outputs": f"Buy it now. {demanded}"} | said])
        assert states(learned.judge) == {"t-1@ana": "learned"}
        (guideline,) = learned.judge.memory.semantic
        assert demanded[:-1].casefold() in guideline.text.casefold()

    def test_a_weak_model_is_told_too(self) -> None:
        def copier(request: ChatRequest) -> Answer:
            if request.schema_name == "judgment":
                return {"rationale": "fine", "value": True}
            refused = "Your rule was refused: it copies eight words" in request.user
            return {"when": "", "because": "it is cold" if refused else COPY}

        judge, _ = bare(copier, brief=True, shard_size=1)
        assert [g.text for g in learn(judge, [row(1, "ana", "add")]).judge.memory.semantic] == ["It is cold."]

    def test_a_failed_second_call_leaves_the_lesson_pending(self) -> None:
        teacher = Teacher([change("ADD", "F1", text=COPY)], ModelUnavailable("down: HTTP 503"))
        judge, _ = bare(teacher)
        ill = learn(judge, [row(1, "ana", "add")]).judge
        assert states(ill) == {"t-1@ana": "pending"}
        assert "HTTP 503" in reason(ill, "t-1@ana")
        teacher.answers = [[change("ADD", "F1", text=RULE)]]
        assert states(learn(ill).judge) == {"t-1@ana": "learned"}

    def test_the_second_question_holds_the_refused_record_alone(self) -> None:
        first, rows = (
            [change("ADD", "F1", text=COPY), change("ADD", "F2", text=RULE)],
            [row(1, "ana", "add"), row(2, "ben", "add")],
        )
        other = [change("ADD", "F1", text="Answer the question."), change("ADD", "F2", text="Something else.")]
        judge = learn(bare(Teacher(first, other))[0], rows).judge
        assert {g.text for g in judge.memory.semantic} == {RULE, "Answer the question."}
        judge, model = bare(Teacher(first, [change("ADD", "F1", text=COPY)]))
        judge = learn(judge, rows).judge
        assert states(judge) == {"t-1@ana": "rejected", "t-2@ben": "learned"}
        assert "case2" not in model.requests[-1].user
        left = judge.unalign("t-2").judge
        assert states(left) == {"t-1@ana": "rejected", "t-2@ben": "withdrawn"}, "ben's words were not in view"
        check_memory(left)


class TestSeveralRules:
    def test_two_rules_of_one_comment_are_both_kept(self) -> None:
        judge, _ = bare(Teacher([change("ADD", "F1", text=RULE), change("ADD", "F1", text="Name the day.")]))
        result = learn(judge, [row(1, "ana", "add")])
        assert [(g.text, [str(key) for key in g.supported_by]) for g in result.judge.memory.semantic] == [
            (RULE, ["t-1@ana"]),
            ("Name the day.", ["t-1@ana"]),
        ]
        assert states(result.judge) == {"t-1@ana": "learned"}
        left = result.judge.unalign("t-1").judge
        assert not left.memory.guidelines

    def test_a_refused_second_rule_is_named_too(self) -> None:
        judge, model = bare(Teacher([change("ADD", "F1", text=RULE), change("ADD", "F1", text=COPY)]))
        result = learn(judge, [row(1, "ana", "add")])
        assert [g.text for g in result.judge.memory.semantic] == [RULE]
        assert reason(result.judge, "t-1@ana") == (
            "learned without one more rule from it: it copies eight words of what was judged (outputs)"
        )
        assert [asked.schema_name for asked in model.requests].count("changes") == 1
        check_memory(result.judge)

    @pytest.mark.parametrize("order", [[0, 1], [1, 0]])
    def test_a_rule_counts_more_than_none(self, order: list[int]) -> None:
        changes = [change("ADD", "F1", text=RULE), change("NOOP", "F1")]
        judge, _ = bare(Teacher([changes[n] for n in order]))
        result = learn(judge, [row(1, "ana", "add")])
        assert [g.text for g in result.judge.memory.semantic] == [RULE]
        assert reason(result.judge, "t-1@ana") == ""

    def test_a_comment_that_supports_and_adds_goes_whole(self) -> None:
        support = change("SUPPORT", "F1", guideline="G1")
        judge, _ = bare(
            Teacher(
                [change("ADD", "F1", text=RULE)],
                [support, change("ADD", "F1", text="Name the day.")],
                [change("ADD", "F1", text="Both.")],
            )
        )
        judge = learn(judge, [row(1, "ana", "add")]).judge
        judge = learn(judge, [row(2, "ben", "add")]).judge
        assert [g.text for g in judge.memory.semantic] == [RULE, "Name the day."]
        check_memory(judge)
        left = judge.unalign("t-1").judge
        assert [g.text for g in left.memory.semantic] == ["Both."], "all that ben said is asked for again"
