"""Guidelines that say the same, that contradict each other, and that no longer fit: which stands, and who is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from memalign import Judge
from memalign.align import AlignResult, edit_guideline, set_policy, write_guideline
from memalign.align.consolidate import consolidate
from memalign.models.base import Limits
from memalign.prompts.encoding import estimate_tokens
from memalign.testing import ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import bare, learn
from tests.support.world import World, judge_in, rules_in, said

SHORT = "Answer in one short sentence."
BRIEF = "Give the answer in one short sentence only."
LONG = "Never answer in one short sentence."
TERSE = "Give the answer in a single, very short sentence only."
SAME = {frozenset((SHORT, BRIEF)): "same"}
AGAINST = {frozenset((SHORT, LONG)): "contradicts", frozenset((BRIEF, LONG)): "contradicts"}


def states(judge: Judge) -> dict[str, str]:
    return {str(entry.key): entry.state for entry in judge.memory.ledger()}


def reason(judge: Judge, key: str) -> str:
    return next(entry.reason for entry in judge.memory.ledger() if str(entry.key) == key)


def texts(judge: Judge) -> list[str]:
    return [guideline.text for guideline in judge.memory.semantic]


def taught(*rules: tuple[str, str], relations: dict[frozenset[str], str], **changes: Any) -> tuple[Judge, World]:
    """A judge to which each (source, rule) was said in turn, of a case of its own."""
    world = World(relations=relations)
    judge, _ = judge_in(world, **changes)
    for number, (source, rule) in enumerate(rules, 1):
        judge = learn(judge, [said(number, rule, by=source, value=None)]).judge
        check_memory(judge)
    return judge, world


class TestTheSame:
    def test_one_rule_is_shown_and_both_are_kept(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), relations=SAME)
        assert texts(judge) == [SHORT]
        assert judge.memory.sources_of(judge.memory.semantic[0]) == keys("t-1@ana", "t-2@ben")
        assert states(judge) == {"t-1@ana": "learned", "t-2@ben": "merged"}
        assert reason(judge, "t-2@ben") == "G1 already says it"

    def test_forgetting_the_shown_rule_promotes_its_double(self) -> None:
        world = World(relations=SAME)
        judge, model = judge_in(world)
        judge = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")]).judge
        asked = len(model.requests)
        left = judge.unalign("t-1").judge
        assert texts(left) == [BRIEF]
        assert states(left) == {"t-1@ana": "withdrawn", "t-2@ben": "learned"}
        assert not left.memory.relations
        assert len(model.requests) == asked
        check_memory(left)

    def test_a_pair_is_asked_about_once(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), relations=SAME)
        other, _ = taught(("ben", BRIEF), ("ana", SHORT), relations=SAME)
        for one in (judge, other):
            prompts = [r.user for r in one.model.requests if r.schema_name == "relations"]  # type: ignore[union-attr]
            assert len(prompts) == 1
        assert [judge.model.requests[-1].user] == [other.model.requests[-1].user]  # type: ignore[union-attr]
        asked = len(judge.model.requests)  # type: ignore[union-attr]
        assert learn(judge).judge == judge
        assert len(judge.model.requests) == asked  # type: ignore[union-attr]

    def test_a_retired_rule_stays_away_in_other_words(self) -> None:
        judge, _ = taught(("ana", SHORT), relations=SAME)
        retired = edit_guideline(judge, "G1", by="dora", retired=True)
        later = learn(retired, [said(2, BRIEF, by="ben")]).judge
        assert texts(later) == []
        assert later.memory.guideline("G2").superseded_by == "G1"
        back = edit_guideline(later, "G1", by="dora", retired=False)
        assert texts(back) == [SHORT]
        check_memory(back)

    def test_it_goes_with_what_it_said(self) -> None:
        # The person's word was on a rule that is forgotten; what another expert says is theirs.
        judge, _ = taught(("ana", SHORT), relations=SAME)
        retired = edit_guideline(judge, "G1", by="dora", retired=True)
        left = learn(retired, [said(2, BRIEF, by="ben")]).judge.unalign("t-1").judge
        assert texts(left) == [BRIEF]
        check_memory(left)

    def test_restoring_one_retired_double_restores_the_rule(self) -> None:
        world = World(relations=SAME)
        world.unsure = {frozenset((SHORT, BRIEF))}
        judge, _ = judge_in(world)
        judge = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")]).judge
        assert texts(judge) == [SHORT, BRIEF]
        for name in ("G1", "G2"):
            judge = edit_guideline(judge, name, by="dora", retired=True)
        world.unsure = set()
        judge = learn(judge).judge
        for name in ("G1", "G2"):
            back = edit_guideline(judge, name, by="eve", retired=False)
            assert texts(back) == [SHORT]
            check_memory(back)

    def test_a_retired_rules_double_is_not_built_on(self) -> None:
        judge, _ = taught(("ana", SHORT), relations=SAME, shard_size=1)
        retired = edit_guideline(judge, "G1", by="dora", retired=True)
        later = learn(retired, [said(2, BRIEF, by="ben")]).judge
        wide, model = bare(World(relations=SAME), shard_size=3, retrieval_k=0)
        near = said(3, LONG, by="cleo", order="revise") | {"inputs": "question 2 answer 2"}
        result = learn(wide.replace(memory=later.memory), [near])
        prompt = next(r.user for r in model.requests if r.schema_name == "changes")
        assert keys("t-2@ben", "t-3@cleo") in {shard.keys for shard in result.judge.memory.shards}
        assert "Existing guidelines" not in prompt
        assert states(result.judge)["t-3@cleo"] == "pending"

    def test_two_rules_part_when_the_linking_one_goes(self) -> None:
        # SHORT says the same as BRIEF, BRIEF the same as TERSE; SHORT and TERSE do not.
        third = frozenset((BRIEF, TERSE))
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), ("cleo", TERSE), relations=SAME | {third: "same"})
        assert texts(judge) == [SHORT]
        left = judge.unalign(source="ben").judge
        assert texts(left) == [SHORT, TERSE]
        assert set(states(left).values()) == {"learned", "withdrawn"}
        check_memory(left)

    def test_a_persons_words_replace_both_doubles(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), relations=SAME)
        edited = edit_guideline(judge, "G1", text="Answer in two sentences.", by="dora")
        assert texts(edited) == ["Answer in two sentences."], "the old words do not come back through a double"
        later = learn(edited).judge
        assert texts(later) == ["Answer in two sentences."]
        check_memory(later)
        forgot = later.unalign("t-1").judge
        assert texts(forgot) == [BRIEF], "with ana's feedback goes what dora made of it"
        pinned = edit_guideline(later, "G2", pinned=True, by="eve")
        assert texts(pinned) == ["Answer in two sentences.", BRIEF]
        for one in (forgot, pinned):
            check_memory(one)

    def test_a_person_may_bring_back_what_was_revised(self) -> None:
        world = World()
        judge, _ = judge_in(world, shard_size=3)
        judge = learn(judge, [said(1, SHORT, value=None)]).judge
        judge = learn(judge, [said(2, "Answer kindly.", value=None, order="revise")]).judge
        assert texts(judge) == ["Answer kindly."]
        for how in ({"pinned": True}, {"retired": False}):
            back = edit_guideline(judge, "G1", by="dora", **how)  # type: ignore[arg-type]
            assert texts(back) == [SHORT, "Answer kindly."]
            assert texts(learn(back).judge) == [SHORT, "Answer kindly."]
            check_memory(back)


class TestContradictions:
    def test_the_stronger_side_stands_and_disputes_the_other(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), ("cleo", LONG), relations=SAME | AGAINST)
        assert texts(judge) == [SHORT], "two annotations against one"
        assert judge.memory.guideline("G3").overridden_by == "G1"
        assert states(judge)["t-3@cleo"] == "disputed"
        assert reason(judge, "t-3@cleo") == "its rule G3 contradicts G1, which counts by the policy"

    def test_conflicts_are_named_until_a_person_settles_them(self) -> None:
        world = World(relations=AGAINST)
        judge, _ = judge_in(world)
        result: AlignResult = learn(judge, [said(1, SHORT, value=None), said(2, LONG, by="ben", value=None)])
        (conflict,) = result.rule_conflicts
        assert (conflict.guideline_ids, conflict.kept) == (("G1", "G2"), ("G1",))
        assert "1 conflict" in str(result)
        pinned = edit_guideline(result.judge, "G2", by="dora", pinned=True)
        assert texts(pinned) == [LONG]
        assert states(pinned) == {"t-1@ana": "disputed", "t-2@ben": "learned"}
        retired = edit_guideline(result.judge, "G1", by="dora", retired=True)
        assert texts(retired) == [LONG]
        assert not learn(retired).rule_conflicts
        both = edit_guideline(pinned, "G1", by="dora", pinned=True)
        assert texts(both) == [SHORT, LONG], "two that people pinned both stand"
        for one in (pinned, retired, both):
            check_memory(one)

    def test_a_persons_rule_outweighs_all_distilled_ones(self) -> None:
        world = World(relations=SAME | AGAINST)
        judge = write_guideline(judge_in(world)[0], LONG, by="dora")
        judge = learn(judge, [said(n, rule, by="ana") for n, rule in enumerate((SHORT, BRIEF), 1)]).judge
        assert texts(judge) == [LONG]
        assert set(states(judge).values()) == {"disputed"}
        check_memory(judge)

    def test_a_changed_policy_changes_who_is_disputed(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), ("cleo", LONG), relations=SAME | AGAINST)
        turned = set_policy(judge, authority=["cleo"])
        assert texts(turned) == [LONG]
        assert states(turned) == {"t-1@ana": "disputed", "t-2@ben": "disputed", "t-3@cleo": "learned"}
        assert set_policy(turned, authority=[]) == judge
        check_memory(turned)

    def test_forgetting_the_stronger_side_restores_the_other(self) -> None:
        judge, _ = taught(("cleo", LONG), ("ana", SHORT), ("ben", BRIEF), relations=SAME | AGAINST)
        assert texts(judge) == [SHORT]
        alone, _ = taught(("cleo", LONG), relations={})
        left = judge.unalign(source="ana").judge.unalign(source="ben").judge
        assert left.memory.guidelines == alone.memory.guidelines
        assert states(left)["t-1@cleo"] == states(alone)["t-1@cleo"] == "learned"
        half = judge.unalign(source="ana").judge
        assert texts(half) == [LONG], "one against one: the older"
        assert states(half)["t-3@ben"] == "disputed"

    def test_a_rule_is_in_no_conflict_with_itself(self) -> None:
        # SHORT and BRIEF contradict each other, and both say the same as TERSE: one of them is shown, for all three.
        ends = frozenset((SHORT, BRIEF))
        relations = {frozenset((SHORT, TERSE)): "same", frozenset((BRIEF, TERSE)): "same", ends: "contradicts"}
        judge, _ = judge_in(World(relations=relations))
        rows = [said(n, rule, value=None) for n, rule in enumerate((SHORT, BRIEF, TERSE), 1)]
        result = learn(judge, rows)
        assert texts(result.judge) == [SHORT], "or the test is about nothing"
        assert {relation.verdict for relation in result.judge.memory.relations} == {"same", "contradicts"}
        assert not result.rule_conflicts
        assert "conflict" not in str(result)

    def test_a_loser_of_a_loser_stands(self) -> None:
        chain = {frozenset((SHORT, BRIEF)): "contradicts", frozenset((BRIEF, LONG)): "contradicts"}
        judge, _ = taught(("ana", SHORT), ("ben", BRIEF), ("cleo", LONG), relations=chain)
        assert texts(judge) == [SHORT, LONG]
        assert states(judge)["t-2@ben"] == "disputed"

    def test_a_losing_revision_disputes_what_it_revised(self) -> None:
        world = World(relations={frozenset((BRIEF, LONG)): "same", frozenset((SHORT, LONG)): "contradicts"})
        one, _ = judge_in(world, shard_size=1)
        judge = learn(one, [said(1, LONG, by="cleo", value=None)]).judge
        judge = learn(judge, [said(2, "Be kind.", by="ana", value=None)]).judge
        two, _ = judge_in(world, shard_size=2)
        near = said(3, BRIEF, by="ben", value=None, order="revise") | {"inputs": "question 2 answer 2"}
        judge = learn(two.replace(memory=judge.memory), [near]).judge
        assert judge.memory.guideline("G2").superseded_by == "G3", "or the test is about nothing"
        assert judge.memory.guideline("G3").superseded_by == "G1"
        lost = write_guideline(judge, SHORT, by="dora")
        lost = learn(lost).judge
        assert texts(lost) == [SHORT]
        assert set(states(lost).values()) == {"disputed"}, "that of the revised rule too: nothing that it said stands"
        check_memory(lost)

    def test_hiding_one_of_a_pair_shows_the_other(self) -> None:
        judge, model = judge_in(World(relations=SAME | AGAINST))
        judge = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben"), said(3, LONG, by="cleo")]).judge
        assert [g.text for g in judge.memory.hiding(["t-1"]).semantic] == [BRIEF]
        assert [g.text for g in judge.memory.hiding(["t-1", "t-2"]).semantic] == [LONG]
        assert all(not {BRIEF, SHORT, LONG} <= rules_in(request) for request in model.requests)


class TestWhatAModelDoesNotSay:
    def test_an_omitted_pair_is_unrelated_and_asked_again(self) -> None:
        world = World(relations=SAME)
        world.unsure = {frozenset((SHORT, BRIEF))}
        judge, model = judge_in(world)
        result = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")])
        assert texts(result.judge) == [SHORT, BRIEF]
        assert "1 pairs of guidelines are not compared yet (the answer left them out)" in result.notes[0]
        asked = len(model.requests)
        assert learn(result.judge).judge == result.judge
        assert [r.schema_name for r in model.requests[asked:]] == ["relations"]
        world.unsure = set()
        assert texts(learn(result.judge).judge) == [SHORT]

    def test_a_failed_relation_call_keeps_the_lessons_learned(self) -> None:
        world = World(relations=SAME)
        world.down = {"relations"}
        judge, _ = judge_in(world)
        result = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")])
        assert set(states(result.judge).values()) == {"learned"}
        assert "ModelUnavailable" in result.notes[0]
        world.down = set()
        healed = learn(result.judge).judge
        straight = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")]).judge
        assert healed == straight

    @pytest.mark.parametrize(
        "answer", [{}, {"P1": "maybe"}, {"P1": ["same"]}, {"P1": None, "P2": "same"}, {"p1": "same"}]
    )
    def test_an_answer_that_is_no_verdict_is_none(self, answer: dict[str, object]) -> None:
        world = World(relations=SAME)

        def odd(request: object) -> object:
            return answer if request.schema_name == "relations" else world(request)  # type: ignore[attr-defined,arg-type]

        judge, _ = bare(odd, shard_size=1)  # type: ignore[arg-type]
        result = learn(judge, [said(1, SHORT), said(2, BRIEF, by="ben")])
        assert not result.judge.memory.relations
        assert result.notes
        check_memory(result.judge)


def small(world: World, context: int) -> ScriptedChatModel:
    return ScriptedChatModel(world, limits=Limits(context_tokens=context, shard_size=1), name="small")


def rule(number: int) -> str:
    return f"Where matter {number:04} comes up, the reply names the date on which it will be settled."


def filled(count: int, *, context: int = 4000) -> tuple[Judge, ScriptedChatModel]:
    """A judge whose memory has so many rules of people, no two alike."""
    world = World()
    judge = judge_in(world)[0].replace(model=small(world, context))
    judge = learn(judge, [said(n, rule(n), value=None) for n in range(count)], stages=TRIED_NOTHING).judge
    model = judge.model
    assert isinstance(model, ScriptedChatModel)
    return judge, model


TRIED_NOTHING = frozenset({"pre_alignment", "distil", "budget"})


class TestBudget:
    def test_the_budget_demotes_the_least_useful_unpinned_rules(self) -> None:
        judge, model = filled(40)
        memory = judge.memory
        assert memory.guideline_tokens == 500
        assert memory.demoted
        assert sum(estimate_tokens(g.text) + 2 for g in memory.semantic) <= 500
        last = memory.demoted[-1].id
        pinned = edit_guideline(judge, last, by="dora", pinned=True)
        assert last in {g.id for g in pinned.memory.semantic}
        assert len(pinned.memory.semantic) == len(memory.semantic)
        check_memory(pinned)
        judge(inputs="question 1", outputs="answer other")
        assert not rules_in(model.requests[-1]) - {g.text for g in memory.guidelines}

    def test_forgetting_makes_room_for_what_was_demoted(self) -> None:
        judge, _ = filled(40)
        shown, waiting = judge.memory.semantic, judge.memory.demoted
        left = judge.unalign(*(g.supported_by[0] for g in shown)).judge
        assert len(left.memory.semantic) == len(shown)
        assert {g.text for g in left.memory.semantic} <= {g.text for g in waiting}
        check_memory(left)

    def test_a_case_calls_for_what_was_demoted(self) -> None:
        judge, model = filled(40)
        lost = judge.memory.demoted[-1]
        number = lost.supported_by[0].id.removeprefix("t-")
        judgment = judge(inputs=f"question {number}", outputs=f"answer {number}")
        assert lost.text in rules_in(model.requests[-1])
        assert lost.text not in model.requests[-1].system, "the prefix is every item's"
        assert lost.id in judgment.guideline_ids
        hidden = judge.replace(memory=judge.memory.hiding([f"t-{number}"]))
        hidden(inputs=f"question {number}", outputs=f"answer {number}")
        assert lost.text not in rules_in(model.requests[-1])

    def test_smaller_models_are_shown_less_and_larger_more(self) -> None:
        judge, _ = filled(40)
        world = World()
        smaller = learn(judge.replace(model=small(world, 2000))).judge
        assert len(smaller.memory.demoted) > len(judge.memory.demoted)
        check_memory(smaller)
        larger = learn(smaller.replace(model=small(world, 60_000))).judge
        assert not larger.memory.demoted
        again = learn(larger.replace(model=judge.model)).judge
        assert again.memory.guidelines == judge.memory.guidelines

    def test_the_stage_switched_off_demotes_nothing(self) -> None:
        judge, _ = filled(40)
        off = learn(judge, stages=frozenset({"pre_alignment", "distil"})).judge
        assert not off.memory.demoted
        assert off.memory.guideline_tokens is None

    def test_a_thousand_guidelines_make_no_longer_a_prompt(self) -> None:
        # All of equal length, so that rounding does not tell them apart.
        hundred, model = filled(100)
        memory = hundred.memory
        more = tuple(
            msgspec.structs.replace(g, id=f"G{g.number + 100 * n}", text=rule(g.number + 100 * n - 1))
            for n in range(1, 10)
            for g in memory.guidelines
        )
        grown = msgspec.structs.replace(memory, guidelines=(*memory.guidelines, *more), next_guideline=1001)
        thousand = hundred.replace(memory=consolidate(grown))
        assert len(thousand.memory.demoted) > 900
        lengths = []
        for judge in (hundred, thousand):
            judgment = judge(inputs="question 7", outputs="answer other")
            lengths.append(len(model.requests[-1].system) + len(model.requests[-1].user))
            assert {g.id for g in judge.memory.demoted} & set(judgment.guideline_ids), "some are called for"
        assert lengths[1] <= lengths[0]
