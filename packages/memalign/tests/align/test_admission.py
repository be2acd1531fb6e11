"""What was learned is tried before it counts, and what experts locked stays right."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from memalign import Judge, MemAlign
from memalign.align import AlignResult, edit_guideline, lock, write_guideline
from memalign.align.admission import CHECKS
from memalign.align.locked_cases import CULPRITS
from memalign.errors import RateLimited
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.types import Usage
from tests.support.invariants import check_memory
from tests.support.learning import Imp, bare, learn, row
from tests.support.world import World, judge_in, labelled, rules_in, said

HARM = "Refuse whatever mentions a refund."
HELP = "Accept whatever names a date."
WITHOUT_TRIAL = frozenset({"pre_alignment", "distil", "consolidate", "budget"})


def states(judge: Judge) -> dict[str, str]:
    return {str(entry.key): entry.state for entry in judge.memory.ledger()}


def texts(judge: Judge) -> set[str]:
    return {guideline.text for guideline in judge.memory.semantic}


def settled_judge(world: World, *, cases: int = 20, value: bool = True, **changes: Any) -> tuple[Judge, Any]:
    """A judge that agrees with the experts on twenty cases, or (`value` False) on none."""
    judge, model = judge_in(world, **changes)
    return learn(judge, labelled(range(10, 10 + cases), value)).judge, model


class TestHarm:
    def test_a_harmful_rule_is_left_out_and_reported(self) -> None:
        judge, _ = settled_judge(World(lambda rules, _: HARM not in rules))
        result = learn(judge, [said("x1", HARM, value=None)], careful=True)
        assert result.impact
        assert result.impact.reverted == ("G1",)
        assert (result.impact.fixed, result.impact.broken) == (0, 8)
        assert {(change.effect, change.guideline_ids) for change in result.impact.changes} == {("broken", ("G1",))}
        assert "broke 8 of 8 checked, so 1 new guidelines were left out" in str(result)
        assert json.loads(json.dumps(result.to_dict()))["impact"]["reverted"] == ["G1"]
        assert states(result.judge)["t-x1@ana"] == "rejected"
        assert result.rows[0].state == "rejected"
        assert "made verdicts worse" in result.rows[0].reason
        assert not result.judge.memory.semantic
        check_memory(result.judge)
        again = learn(result.judge, [said("x1", HARM, value=None)], careful=True)
        assert again.judge == result.judge, "and that is the end of it"

    def test_a_harmful_rule_stays_out_after_an_unalign(self) -> None:
        judge, _ = settled_judge(World(lambda rules, _: HARM not in rules), shard_size=3)
        judge = learn(judge, [said("x0", "Be brief.", value=None), said("x1", HARM, value=None)], careful=True).judge
        assert states(judge)["t-x1@ana"] == "rejected"
        result = judge.unalign("t-x0", optimizer=MemAlign(careful=True))
        assert result.impact
        assert len(result.impact.reverted) == 1
        assert states(result.judge)["t-x1@ana"] == "rejected"
        assert HARM not in texts(result.judge)
        check_memory(result.judge)

    def test_a_model_without_usage_counts_is_tried_too(self) -> None:
        class Uncounted(World):
            def __call__(self, request: ChatRequest) -> Answer:
                answer = super().__call__(request)
                return ChatReply(data=answer, text="", usage=Usage()) if isinstance(answer, dict) else answer

        judge, _ = settled_judge(Uncounted(lambda rules, _: HARM not in rules))
        assert learn(judge, [said("x1", HARM, value=None)], careful=True).impact

    def test_a_persons_name_is_no_admission_check(self) -> None:
        judge = learn(judge_in(World())[0], [said("x1", "Mind the date.", value=None)], careful=True).judge
        for name in ("admissions-office", "admission", "admission for t-1"):
            retired = edit_guideline(judge, "G1", by=name, retired=True)
            assert "made verdicts worse" not in str(list(retired.memory.ledger()))
            again = learn(retired, [said("x2", "Mind the date.", by="ben", value=None)], careful=True).judge
            assert not again.memory.semantic

    def test_a_rule_that_a_person_restored_stays(self) -> None:
        world = World(lambda rules, _: HARM not in rules)
        judge, _ = settled_judge(world)
        left = learn(judge, [said("x1", HARM, value=None)], careful=True).judge
        for back in (
            edit_guideline(left, "G1", by="dora", retired=False),
            edit_guideline(left, "G1", by="dora", pinned=True),
        ):
            assert texts(back) == {HARM}
            assert states(back)["t-x1@ana"] == "learned"
            later = learn(back, [said("x2", "Name the month in full.", value=None)], careful=True).judge
            assert texts(later) == {HARM, "Name the month in full."}
            check_memory(later)

    def test_cases_learned_without_a_verdict_are_tried_too(self) -> None:
        judge, _ = judge_in(World(lambda rules, _: HARM not in rules))
        judge = learn(judge, [said(n, f"Mind matter {n}.", value=True) for n in range(10, 30)]).judge
        assert not any(case.pre_alignment for case in judge.memory.cases)
        result = learn(judge, [said("x1", HARM, value=None)], careful=True)
        assert result.impact
        assert result.impact.broken == result.impact.checked == 8
        assert HARM not in texts(result.judge)

    def test_a_second_expert_brings_no_harmful_rule_back(self) -> None:
        judge, _ = settled_judge(World(lambda rules, _: HARM not in rules))
        result = learn(judge, [said("x1", HARM, value=None), said("x2", HARM, by="ben", value=None)], careful=True)
        assert not result.judge.memory.semantic, "the double would have stepped in"
        assert result.impact
        assert result.impact.reverted == ("G1", "G2")
        assert [states(result.judge)[key] for key in ("t-x1@ana", "t-x2@ben")] == ["rejected", "rejected"]

    def test_a_harmful_revision_gives_its_place_back(self) -> None:
        judge, _ = settled_judge(World(lambda rules, _: HARM not in rules), shard_size=3)
        before = learn(judge, [said("x1", "Be brief.", value=None)], careful=True).judge
        result = learn(before, [said("x2", HARM, order="revise", value=None)], careful=True)
        assert result.impact
        assert result.impact.reverted
        assert texts(result.judge) == {"Be brief."}
        assert states(result.judge)["t-x1@ana"] == "learned"
        assert states(result.judge)["t-x2@ana"] == "rejected"
        check_memory(result.judge)

    def test_few_changed_verdicts_prove_nothing(self) -> None:
        judge, _ = settled_judge(World(lambda rules, item: HARM not in rules or item not in {"10", "11", "12", "13"}))
        result = learn(judge, [said("x1", HARM, value=None)], careful=True)
        assert result.impact
        assert result.impact.broken <= 4
        assert not result.impact.reverted
        assert texts(result.judge) == {HARM}

    def test_a_young_memory_leaves_no_rule_out(self) -> None:
        for count in range(5):
            judge, _ = settled_judge(World(lambda rules, _: HARM not in rules), cases=count)
            result = learn(judge, [said("x1", HARM, value=None)], careful=True)
            assert not (result.impact and result.impact.reverted)
            assert texts(result.judge) == {HARM}

    def test_what_mends_more_than_it_breaks_stays(self) -> None:
        # Experts say false; the judge says true of everything until it knows the rule.
        judge, _ = settled_judge(World(lambda rules, item: (HELP not in rules) != (item == "10")), value=False)
        judge = judge.replace(memory=judge.memory)
        result = learn(judge, [said("x1", HELP, value=None)], careful=True)
        assert result.impact
        assert result.impact.fixed > 4 * result.impact.broken
        assert not result.impact.reverted
        assert HELP in texts(result.judge)

    def test_verdicts_from_before_later_learning_are_not_used(self) -> None:
        # The cases were asked before learning when the memory was empty; a person's rule broke them since, and no new one did.
        judge, _ = settled_judge(World(lambda rules, _: HARM not in rules))
        judge = write_guideline(judge, HARM, by="dora")
        changed = [row | {"rationale": f"say: Mind matter {row['id']}."} for row in labelled(range(10, 30), True)]
        result = learn(judge, changed, careful=True)
        assert result.impact
        assert result.impact.checked
        assert not result.impact.reverted
        assert {"learned"} == set(states(result.judge).values())


def fond_of_cases(*, right_with: int, right_without: int, brief: bool) -> Judge:
    """A judge taught sixteen cases, whose model has so many of them right with similar cases in the prompt and without."""

    def answer(request: ChatRequest) -> Answer:
        if request.schema_name != "judgment":
            return {"when": "", "then": ""} if brief else {"changes": []}
        item = int(request.user.rpartition("answer ")[2].split('"')[0])
        shown = "have judged before" in request.user
        return {"rationale": "r", "value": item < (right_with if shown else right_without)}

    limits = Limits(brief=brief, shard_size=1 if brief else 10)
    model = ScriptedChatModel(answer, limits=limits)
    judge = Judge(
        name="tone",
        instructions="Good? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model=model,
        embedding_model=HashEmbedding(),
    )
    rows = [said(number, f"Mind matter {number}.", value=True) for number in range(16)]
    return learn(judge, rows, careful=True).judge


class TestSimilarCases:
    @pytest.mark.parametrize(
        ("right_with", "right_without", "brief", "shown"),
        [
            (8, 9, False, 0),
            (8, 8, False, None),
            (9, 8, False, None),
            (10, 8, True, 0),
            (8, 8, True, 0),
            (11, 8, True, None),
        ],
        ids=["worse", "equal", "better", "slow: not clearly", "slow: equal", "slow: clearly"],
    )
    def test_similar_cases_are_shown_where_they_help(
        self, right_with: int, right_without: int, brief: bool, shown: int | None
    ) -> None:
        judge = fond_of_cases(right_with=right_with, right_without=right_without, brief=brief)
        assert judge.memory.examples == shown


class TestCalls:
    def test_a_trial_takes_a_few_dozen_calls(self) -> None:
        judge, model = settled_judge(World(), cases=150)
        asked = len(model.requests)
        result = learn(judge, [said(f"x{n}", f"Mind matter number {n}.", value=None) for n in range(12)], careful=True)
        kinds = [request.schema_name for request in model.requests[asked:]]
        assert result.impact
        assert 0 < result.impact.checked <= CHECKS[False]
        # Each new case is asked before learning and distilled once; the rest is admission: before, after, without similar cases.
        assert kinds.count("changes") == 12
        assert kinds.count("judgment") - 12 <= 3 * CHECKS[False]
        assert result.usage.calls == len(kinds)

    def test_a_failed_trial_accuses_no_rule(self) -> None:
        world = World(lambda rules, _: HARM not in rules)
        judge, _ = settled_judge(world)
        world.down = {f"answer {n}" for n in range(10, 30)} | {"nothing else"}
        result = learn(judge, [said("x1", HARM, value=None)], careful=True)
        assert result.impact
        assert (result.impact.checked, result.impact.failed) == (0, 8)
        assert not result.impact.reverted
        assert states(result.judge)["t-x1@ana"] == "learned"

    def test_no_case_is_judged_beside_its_own_lesson(self) -> None:
        judge, model = judge_in(World())
        rows = [said(n, f"Mind matter number {n}.") for n in range(12)]
        asked = len(model.requests)
        learn(judge, rows, careful=True)
        for request in model.requests[asked:]:
            if request.schema_name == "judgment":
                item = request.user.rpartition("answer ")[2].split('"')[0]
                assert f"Mind matter number {item}." not in rules_in(request)

    def test_a_judge_without_comparable_cases_is_asked_nothing(self) -> None:
        world = World()
        world.verdict = lambda _rules, _item: "fine"  # type: ignore[assignment,return-value]
        judge, model = judge_in(world, feedback_value_type=str)
        learn(judge, [said(1, HELP, value=None)], careful=True)
        assert [request.schema_name for request in model.requests] == ["judgment", "changes"]


def locked_judge(world: World, *names: str, **changes: Any) -> tuple[Judge, Any]:
    """A judge that is right on the cases of these names, which are locked."""
    judge, model = judge_in(world, **changes)
    judge = learn(judge, labelled(names, True)).judge
    return lock(judge, *(f"t-{name}" for name in names)), model


def culprit(*rules: str, case: str = "held") -> World:
    """A judge that gets the case wrong as soon as one of these rules is in its prompt."""
    return World(lambda seen, item: not (item == case and seen & set(rules)))


def lessons(count: int, *harmful: str) -> list[dict[str, Any]]:
    """As many lessons, the harmful ones among them at places 3, 6, …"""
    rules = [f"Mind matter number {n}." for n in range(count)]
    for place, rule in enumerate(harmful, 1):
        rules[3 * place] = rule
    return [said(f"x{n:02}", rule, value=None) for n, rule in enumerate(rules)]


class TestLocks:
    def test_only_the_rule_that_breaks_a_lock_goes(self) -> None:
        judge, model = locked_judge(culprit(HARM), "held")
        asked = len(model.requests)
        result = learn(judge, lessons(12, HARM))
        assert HARM not in texts(result.judge)
        assert len(texts(result.judge)) == 11
        (check,) = result.locks
        assert (check.id, check.kept, check.guideline_ids) == ("t-held", True, ("G4",))
        assert "G4 broke it" in check.reason
        assert states(result.judge)["t-x03@ana"] == "rejected"
        assert [state for key, state in states(result.judge).items() if key != "t-x03@ana"] == ["learned"] * 12
        held = sum("answer held" in request.user for request in model.requests[asked:])
        assert held <= 3 + 4 + 1 + 3 * 1, "once, without all, log2(12) times halved, once more; and admission's own"
        assert result.judge(inputs="question held", outputs="answer held").value is True
        check_memory(result.judge)

    def test_two_rules_that_each_break_it_are_found(self) -> None:
        judge, _ = locked_judge(culprit(HARM, HELP), "held")
        result = learn(judge, lessons(12, HARM, HELP))
        assert len(texts(result.judge)) == 10
        assert set(result.locks[0].guideline_ids) == {"G4", "G7"}
        assert result.judge(inputs="question held", outputs="answer held").value is True
        check_memory(result.judge)

    def test_two_rules_that_break_it_together_lose_one(self) -> None:
        judge, _ = locked_judge(World(lambda seen, item: item != "held" or not {HARM, HELP} <= seen), "held")
        result = learn(judge, lessons(12, HARM, HELP))
        assert len(texts(result.judge)) == 11
        assert len({HARM, HELP} & texts(result.judge)) == 1

    def test_a_double_of_the_culprit_does_not_return(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        result = learn(judge, [*lessons(6, HARM), said("y1", HARM, by="ben", value=None)])
        assert HARM not in texts(result.judge)
        assert len(texts(result.judge)) == 5
        assert [states(result.judge)[key] for key in ("t-x03@ana", "t-y1@ben")] == ["rejected", "rejected"]
        assert result.locks[0].kept

    def test_a_rule_beyond_the_budget_keeps_the_lock(self) -> None:
        world = culprit(HARM)
        judge, _ = locked_judge(world, "held")
        tiny = ScriptedChatModel(world, limits=Limits(context_tokens=800, shard_size=1), name="tiny")
        full = " ".join(["Weigh first what the customer asked for, and then the tone of the reply."] * 4)
        judge = write_guideline(judge.replace(model=tiny), full, by="dora", pinned=True)
        result = learn(judge, [said("x1", "Mind the date.", value=None), said("x2", HARM, value=None)])
        assert [guideline.text for guideline in result.judge.memory.demoted] == ["Mind the date."]
        assert result.locks[0].guideline_ids == ("G3",)
        judgment = result.judge(inputs="question held", outputs="answer held")
        assert judgment.value is True
        assert judgment.guideline_ids == ("G1", "G2"), "the demoted one is called for"
        check_memory(result.judge)

    def test_many_culprits_are_found_a_few_at_once(self) -> None:
        harmful = [f"Refuse what names {word}." for word in "abcdefghijklmnopqrst"]
        judge, model = locked_judge(culprit(*harmful), "held")
        asked = len(model.requests)
        result = learn(judge, [said(f"x{n:02}", rule, value=None) for n, rule in enumerate(harmful)])
        held = sum("answer held" in request.user for request in model.requests[asked:])
        assert held <= 40
        found = states(result.judge)
        assert sorted(found.values()).count("rejected") == CULPRITS
        assert len(result.pending) == len(harmful) - CULPRITS
        assert all("broke a locked case" in reason for _, reason in result.pending)
        check_memory(result.judge)
        for _ in range(4):
            result = learn(result.judge)
        assert not result.pending
        assert result.judge(inputs="question held", outputs="answer held").value is True

    def test_an_already_wrong_case_accuses_no_rule(self) -> None:
        world = World()
        judge, _ = locked_judge(world, "held")
        world.verdict = lambda _rules, item: item != "held"
        result = learn(judge, lessons(3))
        (check,) = result.locks
        assert not check.kept
        assert "also without what is new" in check.reason
        assert "locked and not kept: t-held" in str(result)
        assert len(texts(result.judge)) == 3
        assert "rejected" not in states(result.judge).values()

    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_a_wavering_model_costs_no_alignment(self, count: int) -> None:
        rng = random.Random(count)
        wavering = [False]
        world = World(lambda _, item: item != "held" or not wavering[0] or rng.random() < 0.6)
        judge, _ = locked_judge(world, "held")
        wavering[0] = True
        for _ in range(30):
            result = learn(judge, lessons(count), stages=WITHOUT_TRIAL)
            check_memory(result.judge)
            assert len(result.locks) == 1

    def test_a_waiting_lesson_changes_nothing_while_unanswered(self) -> None:
        imp = Imp()
        judge = lock(learn(bare(imp, shard_size=1)[0], [row(1, "ana", None, value=False)]).judge, "t-1")
        imp.storm = {"judgment": RateLimited("busy: HTTP 429")}
        waits = learn(judge, [row(1, "ana", "add", value=False)])
        assert [str(key) for key, _ in waits.pending] == ["t-1@ana"]
        again = learn(waits.judge)
        assert not again.changed
        assert again.judge == waits.judge

    def test_a_number_near_the_locked_label_keeps_it(self) -> None:
        def answer(request: ChatRequest) -> Answer:
            if request.schema_name == "judgment":
                return {"rationale": "so", "value": 0.81}
            return {"changes": [{"action": "ADD", "feedback": ["F1"], "text": "Mind the date.", "guideline": ""}]}

        judge, _ = bare(answer, shard_size=1, feedback_value_type="float:0..1")
        stages = frozenset({"distil"})  # no pre-alignment verdict to compare with
        judge = learn(judge, [{"id": "held", "inputs": "q", "outputs": "a", "value": 0.8}], stages=stages).judge
        row = {"id": "t-2", "inputs": "q", "outputs": "b", "rationale": "say more"}
        result = learn(lock(judge, "held"), [row], stages=stages)
        assert [check.kept for check in result.locks] == [True]
        assert texts(result.judge) == {"Mind the date."}

    def test_lessons_wait_while_the_case_cannot_be_asked(self) -> None:
        world = culprit(HARM)
        judge, _ = locked_judge(world, "held")
        world.down = {"answer held"}
        result = learn(judge, lessons(4, HARM), stages=WITHOUT_TRIAL)
        assert not result.judge.memory.semantic
        assert len(result.pending) == 4
        assert all("a locked case could not be checked: ModelUnavailable" in why for _, why in result.pending)
        check_memory(result.judge)
        world.down = set()
        healed = learn(result.judge)
        assert not healed.pending
        assert len(texts(healed.judge)) == 3
        assert HARM not in texts(healed.judge)
        straight = learn(judge, lessons(4, HARM)).judge
        assert texts(straight) == texts(healed.judge)
        assert states(straight) == states(healed.judge)

    def test_keeping_one_locked_case_breaks_no_other(self) -> None:
        # With HARM `one` is wrong; `two` is wrong without HARM as soon as HELP is there.
        def verdict(seen: frozenset[str], item: str) -> bool:
            return (item != "one" or HARM not in seen) and (item != "two" or HELP not in seen or HARM in seen)

        judge, _ = locked_judge(World(verdict), "one", "two")
        result = learn(judge, lessons(8, HARM, HELP))
        for name in ("one", "two"):
            assert result.judge(inputs=f"question {name}", outputs=f"answer {name}").value is True
        assert all(check.kept for check in result.locks)
        assert len(texts(result.judge)) == 6

    def test_one_unanswered_case_says_nothing_of_another(self) -> None:
        world = culprit(HARM, case="two")
        judge, _ = locked_judge(world, "one", "two")
        world.down = {"answer one"}
        result = learn(judge, lessons(4, HARM), stages=WITHOUT_TRIAL)
        assert [check.kept for check in result.locks] == [True, True]
        assert len(result.pending) == 4

    def test_unlocking_brings_the_rule_back_with_its_annotations(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        left = learn(judge, lessons(6, HARM)).judge
        free = lock(left, "t-held", unlock=True)
        assert HARM in texts(free)
        assert states(free)["t-x03@ana"] == "learned"
        check_memory(free)
        assert learn(free).judge == free

    def test_an_unlocked_revision_takes_its_place_again(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held", shard_size=3)
        judge = learn(judge, [said("x1", "Be brief.", value=None)]).judge
        left = learn(judge, [said("x2", HARM, order="revise", value=None)])
        assert left.locks[0].guideline_ids == ("G2",)
        assert texts(left.judge) == {"Be brief."}
        free = lock(left.judge, "t-held", unlock=True)
        assert texts(free) == {HARM}
        check_memory(free)

    @pytest.mark.parametrize("how", ["the case", "its only label"])
    def test_unaligning_a_locked_case_frees_its_rules(self, how: str) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        if how == "its only label":
            judge = learn(judge, [said("held", "It is about tone.", by="ben", value=None)]).judge
        left = learn(judge, lessons(6, HARM)).judge
        assert HARM not in texts(left)
        free = left.unalign("t-held@ana").judge
        assert free.memory.locks == ()
        assert HARM in texts(free)
        assert states(free)["t-x03@ana"] == "learned"
        check_memory(free)

    def test_a_person_outweighs_a_lock(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        left = learn(judge, lessons(6, HARM)).judge
        back = edit_guideline(left, "G4", by="dora", retired=False)
        later = learn(back, [said("z1", "Mind the greeting.", value=None)])
        assert HARM in texts(later.judge)
        assert not later.locks[0].kept
        check_memory(later.judge)

    def test_rules_rewritten_after_forgetting_respect_locked_cases(self) -> None:
        # Three records in one call: with one withdrawn, the others' rules are written anew.
        rule = {"x1": "Be brief.", "x2": "Be kind.", "x3": "Be exact."}
        world = World()
        judge, model = locked_judge(world, "held", shard_size=3)
        rows = [said(name, text, value=None) for name, text in rule.items()]
        judge = learn(judge, rows).judge
        asked = len(model.requests)
        world.verdict = lambda seen, item: not (item == "held" and "Be kind." in seen and "Be brief." not in seen)
        result: AlignResult = judge.unalign("t-x1")
        assert any(request.schema_name == "changes" for request in model.requests[asked:])
        assert "Be kind." not in texts(result.judge)
        assert [(check.id, check.kept) for check in result.locks] == [("t-held", True)]
        assert result.judge(inputs="question held", outputs="answer held").value is True
