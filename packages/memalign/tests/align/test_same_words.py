"""Guidelines of the same words, revisions, and those that no longer fit: which stands,
and who is told."""

from __future__ import annotations

import pytest

from memalign import Judge
from memalign.align import edit_guideline
from memalign.content.encoding import estimate_tokens
from memalign.models.base import Limits
from memalign.testing import ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import learn, reason, states
from tests.support.lists import rules
from tests.support.world import World, judge_in, rules_in, said

SHORT = "Answer in one short sentence."
LOUD = "Answer in ONE short sentence!"
"""The same words."""
TWO = "Answer in two sentences."
KIND = "Answer kindly."


def texts(judge: Judge) -> list[str]:
    """What the judge is told; its memory is whole."""
    check_memory(judge)
    return rules(judge)


def taught(*said_rules: str) -> tuple[Judge, ScriptedChatModel]:
    """A judge to which Ana, Ben and Cleo said a rule each, of a case of its own."""
    judge, model = judge_in(World())
    rows = []
    for number, rule in enumerate(said_rules):
        who = ("ana", "ben", "cleo")[number]
        rows.append(said(number + 1, rule, by=who, value=None))
    return learn(judge, rows).judge, model


def revised(judge: Judge, rule: str) -> Judge:
    return learn(judge, [said(9, rule, value=None, order="revise")]).judge


class TestTheSame:
    def test_one_rule_is_shown_and_both_are_kept(self):
        judge, _ = taught(SHORT, LOUD)
        assert texts(judge) == [SHORT]
        sources = judge.memory.sources_of(judge.memory.semantic[0])
        assert sources == keys("t-1@ana", "t-2@ben")
        assert states(judge) == {"t-1@ana": "learned", "t-2@ben": "merged"}
        assert reason(judge, "t-2@ben") == "G1 already says it"

    def test_forgetting_the_shown_rule_promotes_its_double(self):
        judge, model = taught(SHORT, LOUD)
        asked = len(model.requests)
        left = judge.unalign("t-1").judge
        assert texts(left) == [LOUD]
        assert states(left) == {"t-1@ana": "withdrawn", "t-2@ben": "learned"}
        assert len(model.requests) == asked

    def test_retired_words_stay_away_until_a_person_restores_them(self):
        judge, _ = taught(SHORT)
        retired = edit_guideline(judge, "G1", by="dora", retired=True)
        later = learn(retired, [said(2, LOUD, by="ben")]).judge
        assert texts(later) == []
        assert later.memory.successor(later.memory.guideline("G2")) == "G1"
        back = edit_guideline(later, "G1", by="dora", retired=False)
        assert texts(back) == [SHORT]
        # The person's word was on a rule that is forgotten; what another says is theirs.
        assert texts(later.unalign("t-1").judge) == [LOUD]

    def test_a_persons_words_replace_both_doubles(self):
        judge, _ = taught(SHORT, LOUD)
        edited = edit_guideline(judge, "G1", text=TWO, by="dora")
        assert texts(edited) == [TWO], "the old words do not come back by a double"
        later = learn(edited).judge
        assert texts(later) == [TWO]
        assert texts(later.unalign("t-1").judge) == [TWO], "dora's words are hers"
        assert texts(later.unalign("t-1", people_agree=True).judge) == [LOUD]
        pinned = edit_guideline(later, "G2", pinned=True, by="eve")
        assert texts(pinned) == [TWO, LOUD]

    @pytest.mark.parametrize("same", [(SHORT, LOUD), (SHORT, LOUD, SHORT.lower())])
    def test_a_revision_replaces_the_doubles_of_what_it_revises(self, same):
        judge, _ = taught(*same)
        assert texts(judge) == [SHORT]
        judge = revised(judge, KIND)
        assert texts(judge) == [KIND], "the old words are not back"
        sources = judge.memory.sources_of(judge.memory.semantic[0])
        assert len(sources) == len(same) + 1
        assert texts(judge.unalign("t-9").judge) == [SHORT]

    @pytest.mark.parametrize("how", [{"pinned": True}, {"retired": False}])
    def test_a_person_may_bring_back_what_was_revised(self, how):
        judge = revised(taught(SHORT)[0], KIND)
        assert texts(judge) == [KIND]
        assert judge.memory.successor(judge.memory.guideline("G1")) == "G2"
        back = edit_guideline(judge, "G1", by="dora", **how)
        assert texts(back) == [SHORT, KIND]
        assert texts(learn(back).judge) == [SHORT, KIND]


def test_a_prompt_leaves_out_the_least_useful_unpinned_rules():
    limits = Limits(context_tokens=4_000, shard_size=1)
    model = ScriptedChatModel(World(), limits=limits, name="small")
    rows = []
    for n in range(40):
        rule = (
            f"Where matter {n:04} comes up, the reply names the date of its settlement."
        )
        rows.append(said(n, rule, value=None))
    judge = learn(judge_in(World())[0].replace(model=model), rows).judge
    judgment = judge(inputs="question 1", outputs="answer other")
    shown = rules_in(model.requests[-1])
    assert len(judgment.guideline_ids) == len(shown)
    assert shown == {*texts(judge)[: len(shown)]}, "among equals the oldest"
    assert sum(estimate_tokens(text) + 2 for text in shown) <= 500
    last = judge.memory.semantic[-1]
    left_out = f"guideline {last.id} was left out because the prompt would be too long"
    assert left_out in judgment.notes
    pinned = edit_guideline(judge, last.id, by="dora", pinned=True)
    pinned(inputs="question 1", outputs="answer other")
    assert last.text in rules_in(model.requests[-1])
    assert len(rules_in(model.requests[-1])) == len(shown)
