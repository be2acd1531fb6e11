"""Guidelines of the same words, revisions, and those that no longer fit: which stands,
and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Judge
from memalign.align import edit_guideline
from memalign.content.encoding import estimate_tokens
from memalign.models.base import Limits
from memalign.testing import ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import learn, reason, states
from tests.support.world import World, judge_in, rules_in, said

SHORT = "Answer in one short sentence."
LOUD = "Answer in ONE short sentence!"
"""The same words."""
LONG = "Never answer in one short sentence."


def texts(judge: Judge) -> list[str]:
    return [guideline.text for guideline in judge.memory.semantic]


def taught(*rules: tuple[str, str], **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    """A judge to which each (source, rule) was said at once, of a case of its own, and
    which distils each alone."""
    judge, model = judge_in(World(), **changes)
    judge = learn(
        judge,
        [
            said(number, rule, by=who, value=None)
            for number, (who, rule) in enumerate(rules, 1)
        ],
    ).judge
    check_memory(judge)
    return judge, model


class TestTheSame:
    def test_one_rule_is_shown_and_both_are_kept(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", LOUD))
        assert texts(judge) == [SHORT]
        assert judge.memory.sources_of(judge.memory.semantic[0]) == keys(
            "t-1@ana", "t-2@ben"
        )
        assert states(judge) == {"t-1@ana": "learned", "t-2@ben": "merged"}
        assert reason(judge, "t-2@ben") == "G1 already says it"

    def test_forgetting_the_shown_rule_promotes_its_double(self) -> None:
        judge, model = taught(("ana", SHORT), ("ben", LOUD))
        asked = len(model.requests)
        left = judge.unalign("t-1").judge
        assert texts(left) == [LOUD]
        assert states(left) == {"t-1@ana": "withdrawn", "t-2@ben": "learned"}
        assert len(model.requests) == asked
        check_memory(left)

    def test_retired_words_stay_away_until_a_person_restores_them(self) -> None:
        judge, _ = taught(("ana", SHORT))
        retired = edit_guideline(judge, "G1", by="dora", retired=True)
        later = learn(retired, [said(2, LOUD, by="ben")]).judge
        assert texts(later) == []
        assert later.memory.successor(later.memory.guideline("G2")) == "G1"
        back = edit_guideline(later, "G1", by="dora", retired=False)
        assert texts(back) == [SHORT]
        left = later.unalign("t-1").judge
        assert texts(left) == [LOUD], (
            "the person's word was on a rule that is forgotten; what another says is theirs"
        )
        for each in (back, left):
            check_memory(each)

    def test_a_persons_words_replace_both_doubles(self) -> None:
        judge, _ = taught(("ana", SHORT), ("ben", LOUD))
        edited = edit_guideline(judge, "G1", text="Answer in two sentences.", by="dora")
        assert texts(edited) == ["Answer in two sentences."], (
            "the old words do not come back through a double"
        )
        later = learn(edited).judge
        assert texts(later) == ["Answer in two sentences."]
        check_memory(later)
        forgot = later.unalign("t-1").judge
        assert texts(forgot) == ["Answer in two sentences."], "dora's words are hers"
        assert texts(later.unalign("t-1", people_agree=True).judge) == [LOUD]
        pinned = edit_guideline(later, "G2", pinned=True, by="eve")
        assert texts(pinned) == ["Answer in two sentences.", LOUD]
        for one in (forgot, pinned):
            check_memory(one)

    @pytest.mark.parametrize("doubles", [1, 2])
    def test_a_revision_replaces_the_doubles_of_what_it_revises(
        self, doubles: int
    ) -> None:
        judge, _ = judge_in(World(), shard_size=3)
        rules = [SHORT, LOUD, SHORT.lower()][: doubles + 1]
        judge = learn(
            judge, [said(n, rule, value=None) for n, rule in enumerate(rules, 1)]
        ).judge
        assert texts(judge) == [SHORT]
        judge = learn(
            judge, [said(9, "Answer kindly.", value=None, order="revise")]
        ).judge
        assert texts(judge) == ["Answer kindly."], "the old words are not back"
        (revised,) = judge.memory.semantic
        assert len(judge.memory.sources_of(revised)) == len(rules) + 1
        check_memory(judge)
        assert texts(judge.unalign("t-9").judge) == [SHORT]

    def test_a_person_may_bring_back_what_was_revised(self) -> None:
        judge, _ = judge_in(World(), shard_size=3)
        judge = learn(judge, [said(1, SHORT, value=None)]).judge
        judge = learn(
            judge, [said(2, "Answer kindly.", value=None, order="revise")]
        ).judge
        assert texts(judge) == ["Answer kindly."]
        assert judge.memory.successor(judge.memory.guideline("G1")) == "G2"
        check_memory(judge)
        for how in ({"pinned": True}, {"retired": False}):
            back = edit_guideline(judge, "G1", by="dora", **how)  # type: ignore[arg-type]
            assert texts(back) == [SHORT, "Answer kindly."]
            assert texts(learn(back).judge) == [SHORT, "Answer kindly."]
            check_memory(back)


def test_a_prompt_leaves_out_the_least_useful_unpinned_rules() -> None:
    model = ScriptedChatModel(
        World(), limits=Limits(context_tokens=4_000, shard_size=1), name="small"
    )
    rule = "Where matter {:04} comes up, the reply names the date on which it will be settled."
    rows = [said(n, rule.format(n), value=None) for n in range(40)]
    judge = learn(judge_in(World())[0].replace(model=model), rows).judge
    judgment = judge(inputs="question 1", outputs="answer other")
    shown = rules_in(model.requests[-1])
    assert {
        judge.memory.guideline(name).text for name in judgment.guideline_ids
    } == shown
    assert sum(estimate_tokens(text) + 2 for text in shown) <= 500
    assert shown == {g.text for g in judge.memory.semantic[: len(shown)]}, (
        "among equals the oldest"
    )
    last = judge.memory.semantic[-1]
    assert (
        f"guideline {last.id} was left out because the prompt would be too long"
        in judgment.notes
    )
    pinned = edit_guideline(judge, last.id, by="dora", pinned=True)
    pinned(inputs="question 1", outputs="answer other")
    assert last.text in rules_in(model.requests[-1])
    assert len(rules_in(model.requests[-1])) == len(shown)
    check_memory(pinned)
