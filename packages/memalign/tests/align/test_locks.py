"""What experts locked is judged again before a new version is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign import Judge, Registry
from memalign.align import edit_guideline, lock
from memalign.errors import LockBroken
from memalign.testing import HashEmbedding, ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.learning import in_state, learn, states
from tests.support.lists import ids, kinds, rules
from tests.support.rows import RawRow
from tests.support.world import World, judge_in, labelled, said

HARM = "Refuse whatever mentions a refund."
NAME = "replies"


def harmful() -> World:
    """A judge that gets the case `held` wrong as soon as HARM is in its prompt."""
    return World(lambda seen, item: not (item == "held" and HARM in seen))


def locked_judge(
    world: World | None = None, *more: str, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """A judge that is right on the case `held` and on more, which are locked."""
    names = ["held", *more]
    judge, model = judge_in(world or harmful(), **changes)
    judge = learn(judge, labelled(names, True)).judge
    return lock(judge, *(f"t-{name}" for name in names)), model


def lessons(*texts: str) -> list[RawRow]:
    rows = [said("x00", "Be brief.", value=None)]
    for number, rule in enumerate(texts, 1):
        rows.append(said(f"x{number:02}", rule, value=None))
    return rows


class TestAlign:
    def test_a_locked_case_that_comes_out_wrong_is_named_with_its_guidelines(self):
        judge, model = locked_judge(None, "fine")
        asked = len(model.requests)
        result = learn(judge, lessons(HARM))
        (broken,) = result.broken
        assert broken.id == "t-held"
        assert broken.label is True
        assert broken.value is False
        assert set(broken.guideline_ids) == {"G1", "G2"}
        assert "locked and not kept: t-held" in str(result)
        learned = rules(result.judge)
        assert learned == ["Be brief.", HARM], "nothing is left out behind their backs"
        assert kinds(model, asked).count("judgment") == 2, "one for each locked case"
        for request in model.requests[asked:]:
            hidden = "Expert: true" not in request.user
            assert hidden or request.schema_name != "judgment", "from itself"
        check_memory(result.judge)

    def test_a_judge_that_keeps_its_locks_breaks_nothing_and_asks_once(self):
        judge, model = locked_judge()
        result = learn(judge, lessons("Be kind."))
        assert result.broken == ()
        assert result.held is None
        asked = len(model.requests)
        assert learn(result.judge, lessons("Be kind.")).broken == ()
        assert len(model.requests) == asked

    def test_what_cannot_be_judged_is_named_too(self):
        world = harmful()
        judge, _ = locked_judge(world)
        world.down = {"answer held"}
        (broken,) = learn(judge, lessons()).broken
        assert broken.value is None
        assert "could not be judged: ModelUnavailable" in str(broken)


class TestRegistry:
    @pytest.fixture
    def registry(self, tmp_path: Path):
        """One that keeps a judge with a locked case."""
        judge, self.model = locked_judge()
        registry = Registry(
            f"sqlite:///{tmp_path}/memalign.db",
            models=[self.model, HashEmbedding(dim=16)],
        )
        registry.create(judge)
        return registry

    def test_nothing_is_committed_and_the_feedback_stays_pending(self, registry):
        result = registry.align(NAME, lessons(HARM))
        assert ids(result.broken) == ["t-held"]
        assert result.version == 1
        assert result.parent == 1
        assert result.changed is False
        assert len(registry.history(NAME)) == 1
        for report in result.rows:
            assert report.state == "pending"
            assert "a locked case would be judged wrong" in report.reason
        assert len(result.pending) == 2
        assert rules(result.judge) == []

    def test_told_to_it_commits_without_paying_again(self, registry):
        registry.align(NAME, lessons(HARM))
        asked = len(self.model.requests)
        result = registry.align(NAME, lessons(HARM), force=True)
        assert len(self.model.requests) == asked, "every answer was kept"
        assert result.version == 2
        assert ids(result.broken) == ["t-held"]
        assert rules(registry.load(NAME)) == ["Be brief.", HARM]

    def test_an_edit_that_breaks_one_is_refused_unless_told_to(self, registry):
        registry.align(NAME, lessons())

        def write(text: str, **how: Any) -> Any:
            def edit(judge: Judge) -> Judge:
                return edit_guideline(judge, "G1", text=text, by="dora")

            return registry.update(NAME, edit, **how)

        message = r"locked case t-held: judged false, experts say true \(G1\)"
        with pytest.raises(LockBroken, match=message):
            write(HARM)
        assert len(registry.history(NAME)) == 2
        assert write(HARM, force=True).version == 3
        assert write("Be kind.").version == 4


class TestForgetting:
    @pytest.mark.parametrize("how", ["unlocked", "the case is withdrawn"])
    def test_a_lock_goes_with_its_case(self, how):
        judge = learn(locked_judge()[0], lessons(HARM)).judge
        if how == "unlocked":
            free = lock(judge, "t-held", unlock=True)
        else:
            free = judge.unalign("t-held@ana").judge
        assert free.memory.locks == ()
        assert HARM in rules(free)
        check_memory(free)

    def test_rules_rewritten_after_forgetting_wait_where_they_break_a_lock(self):
        # Three records in one call: with one withdrawn, the others' rules are written again.
        world = World()
        judge, _ = locked_judge(world, shard_size=3)
        judge = learn(judge, lessons("Be kind.", "Be exact.")).judge

        def kindly(seen: frozenset[str], item: str) -> bool:
            unkind = "Be kind." not in seen or "Be brief." in seen
            return unkind or item != "held"

        world.verdict = kindly
        result = judge.unalign("t-x00")
        assert ids(result.broken) == ["t-held"]
        assert rules(result.judge) == [], "forgotten is forgotten"
        assert states(result.judge)["t-x00@ana"] == "withdrawn"
        assert in_state(result.judge, "pending") == {"t-x01@ana", "t-x02@ana"}
        check_memory(result.judge)
