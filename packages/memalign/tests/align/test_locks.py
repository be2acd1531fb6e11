"""What experts locked stays right, whatever is learned."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Judge
from memalign.align import AlignResult, edit_guideline, lock
from tests.support.invariants import check_memory
from tests.support.learning import learn, states
from tests.support.world import World, judge_in, labelled, said

HARM = "Refuse whatever mentions a refund."
HELP = "Accept whatever names a date."


def texts(judge: Judge) -> set[str]:
    return {guideline.text for guideline in judge.memory.semantic}


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
        assert (check.id, check.holds, check.guideline_ids) == ("t-held", True, ("G4",))
        assert "G4 broke it" in check.reason
        assert states(result.judge)["t-x03@ana"] == "rejected"
        assert [state for key, state in states(result.judge).items() if key != "t-x03@ana"] == ["learned"] * 12
        held = sum("answer held" in request.user for request in model.requests[asked:])
        assert held <= 3 + 4 + 1, "once, without all, log2(12) times halved, once more"
        assert result.judge(inputs="question held", outputs="answer held").value is True
        check_memory(result.judge)

    def test_the_impact_is_that_of_the_judge_that_is_delivered(self) -> None:
        result = learn(locked_judge(culprit(HARM), "held")[0], lessons(4, HARM), impact=9)
        assert HARM not in texts(result.judge)
        assert result.impact is not None
        assert (result.impact.checked, result.impact.broken) == (1, 0)

    def test_two_rules_that_break_it_together_lose_one(self) -> None:
        judge, _ = locked_judge(World(lambda seen, item: item != "held" or not {HARM, HELP} <= seen), "held")
        result = learn(judge, lessons(12, HARM, HELP))
        assert len(texts(result.judge)) == 11
        assert len({HARM, HELP} & texts(result.judge)) == 1

    def test_a_double_of_the_culprit_does_not_return(self) -> None:
        rows = [*lessons(6, HARM), said("y1", HARM, by="ben", value=None)]
        result = learn(locked_judge(culprit(HARM), "held")[0], rows)
        assert HARM not in texts(result.judge)
        assert len(texts(result.judge)) == 5
        assert [states(result.judge)[key] for key in ("t-x03@ana", "t-y1@ben")] == ["rejected", "rejected"]
        assert result.locks[0].holds

    def test_an_already_wrong_case_accuses_no_rule(self) -> None:
        world = World()
        judge, _ = locked_judge(world, "held")
        world.verdict = lambda _rules, item: item != "held"
        result = learn(judge, lessons(3))
        (check,) = result.locks
        assert not check.holds
        assert "also without what is new" in check.reason
        assert "locked and not kept: t-held" in str(result)
        assert len(texts(result.judge)) == 3
        assert "rejected" not in states(result.judge).values()

    def test_lessons_wait_while_the_case_cannot_be_asked(self) -> None:
        world = culprit(HARM)
        judge, _ = locked_judge(world, "held")
        world.down = {"answer held"}
        result = learn(judge, lessons(4, HARM))
        assert not result.judge.memory.semantic
        assert len(result.pending) == 4
        reasons = {why for _, why in result.pending}
        assert reasons == {"a locked case could not be checked: ModelUnavailable"}, "and nothing that was sent back"
        check_memory(result.judge)
        assert not learn(result.judge).changed, "what waits waits for the same reason"
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
        assert all(check.holds for check in result.locks)
        assert len(texts(result.judge)) == 6

    def test_an_unlocked_revision_takes_its_place_again(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held", shard_size=3)
        judge = learn(judge, [said("x1", "Be brief.", value=None)]).judge
        left = learn(judge, [said("x2", HARM, order="revise", value=None)])
        assert left.locks[0].guideline_ids == ("G2",)
        assert texts(left.judge) == {"Be brief."}
        free = lock(left.judge, "t-held", unlock=True)
        assert texts(free) == {HARM}
        check_memory(free)

    @pytest.mark.parametrize("how", ["unlocked", "the case is withdrawn", "its only label is withdrawn"])
    def test_without_the_lock_the_rule_comes_back_with_its_annotations(self, how: str) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        if how == "its only label is withdrawn":
            judge = learn(judge, [said("held", "It is about tone.", by="ben", value=None)]).judge
        left = learn(judge, lessons(6, HARM)).judge
        assert HARM not in texts(left)
        free = lock(left, "t-held", unlock=True) if how == "unlocked" else left.unalign("t-held@ana").judge
        assert free.memory.locks == ()
        assert HARM in texts(free)
        assert states(free)["t-x03@ana"] == "learned"
        check_memory(free)
        assert how != "unlocked" or learn(free).judge == free

    def test_a_person_outweighs_a_lock(self) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        left = learn(judge, lessons(6, HARM)).judge
        back = edit_guideline(left, "G4", by="dora", retired=False)
        later = learn(back, [said("z1", "Mind the greeting.", value=None)])
        assert HARM in texts(later.judge)
        assert not later.locks[0].holds
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
        assert [(check.id, check.holds) for check in result.locks] == [("t-held", True)]
        assert result.judge(inputs="question held", outputs="answer held").value is True
