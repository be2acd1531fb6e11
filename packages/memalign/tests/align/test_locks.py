"""What experts locked is judged again before a new version is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign import Judge, Registry
from memalign.align import edit_guideline, lock
from memalign.errors import LockBroken
from memalign.testing import HashEmbedding
from tests.support.invariants import check_memory
from tests.support.learning import learn, states
from tests.support.world import World, judge_in, labelled, said

HARM = "Refuse whatever mentions a refund."
NAME = "replies"


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


def lessons(*rules: str) -> list[dict[str, Any]]:
    return [
        said(f"x{n:02}", rule, value=None)
        for n, rule in enumerate(("Be brief.", *rules))
    ]


def kept(judge: Judge, model: Any, folder: Path) -> Registry:
    """The judge in a registry of its own."""
    registry = Registry(
        f"sqlite:///{folder}/memalign.db", models=[model, HashEmbedding(dim=16)]
    )
    registry.create(judge)
    return registry


class TestAlign:
    def test_a_locked_case_that_comes_out_wrong_is_named_with_its_guidelines(
        self,
    ) -> None:
        judge, model = locked_judge(culprit(HARM), "held", "fine")
        asked = len(model.requests)
        result = learn(judge, lessons(HARM))
        (broken,) = result.broken
        assert (broken.id, broken.label, broken.value) == ("t-held", True, False)
        assert set(broken.guideline_ids) == {"G1", "G2"}
        assert "locked and not kept: t-held" in str(result)
        assert texts(result.judge) == {"Be brief.", HARM}, (
            "nothing is left out behind anybody's back"
        )
        about = [
            request
            for request in model.requests[asked:]
            if request.schema_name == "judgment"
        ]
        assert len(about) == 2, "one judgment for each locked case, whatever is learned"
        assert not any("Expert: true" in request.user for request in about), (
            "each is hidden from itself"
        )
        check_memory(result.judge)

    def test_a_judge_that_keeps_its_locks_breaks_nothing(self) -> None:
        result = learn(locked_judge(culprit(HARM), "held")[0], lessons("Be kind."))
        assert (result.broken, result.held) == ((), None)

    def test_what_cannot_be_judged_is_named_too(self) -> None:
        world = culprit(HARM)
        judge, _ = locked_judge(world, "held")
        world.down = {"answer held"}
        (broken,) = learn(judge, lessons()).broken
        assert broken.value is None
        assert "could not be judged: ModelUnavailable" in str(broken)

    def test_nothing_is_asked_where_nothing_changed(self) -> None:
        judge, model = locked_judge(culprit(HARM), "held")
        judge = learn(judge, lessons("Be kind.")).judge
        asked = len(model.requests)
        assert learn(judge, lessons("Be kind.")).broken == ()
        assert len(model.requests) == asked


class TestRegistry:
    def test_nothing_is_committed_and_the_feedback_stays_pending(
        self, tmp_path: Path
    ) -> None:
        judge, model = locked_judge(culprit(HARM), "held")
        registry = kept(judge, model, tmp_path)
        result = registry.align(NAME, lessons(HARM))
        assert [broken.id for broken in result.broken] == ["t-held"]
        assert (result.version, result.parent, result.changed) == (1, 1, False)
        assert len(registry.history(NAME)) == 1
        assert {row.state for row in result.rows} == {"pending"}
        assert all(
            "a locked case would be judged wrong" in row.reason for row in result.rows
        )
        assert len(result.pending) == 2
        assert texts(result.judge) == set()

    def test_told_to_it_commits_without_paying_again(self, tmp_path: Path) -> None:
        judge, model = locked_judge(culprit(HARM), "held")
        registry = kept(judge, model, tmp_path)
        registry.align(NAME, lessons(HARM))
        asked = len(model.requests)
        result = registry.align(NAME, lessons(HARM), force=True)
        assert len(model.requests) == asked, "every answer was kept"
        assert result.version == 2
        assert [broken.id for broken in result.broken] == ["t-held"]
        assert texts(registry.load(NAME)) == {"Be brief.", HARM}

    def test_an_edit_that_breaks_one_is_refused_unless_told_to(
        self, tmp_path: Path
    ) -> None:
        judge, model = locked_judge(culprit(HARM), "held")
        registry = kept(learn(judge, lessons()).judge, model, tmp_path)

        def harm(judge: Judge) -> Judge:
            return edit_guideline(judge, "G1", text=HARM, by="dora")

        with pytest.raises(
            LockBroken,
            match=r"locked case t-held: judged false, experts say true \(G1\)",
        ):
            registry.update(NAME, harm)
        assert len(registry.history(NAME)) == 1
        assert registry.update(NAME, harm, force=True).version == 2
        assert (
            registry.update(
                NAME, lambda one: edit_guideline(one, "G1", text="Be kind.", by="dora")
            ).version
            == 3
        )


class TestForgetting:
    @pytest.mark.parametrize("how", ["unlocked", "the case is withdrawn"])
    def test_a_lock_goes_with_its_case(self, how: str) -> None:
        judge, _ = locked_judge(culprit(HARM), "held")
        left = learn(judge, lessons(HARM)).judge
        free = (
            lock(left, "t-held", unlock=True)
            if how == "unlocked"
            else left.unalign("t-held@ana").judge
        )
        assert free.memory.locks == ()
        assert HARM in texts(free)
        check_memory(free)

    def test_rules_rewritten_after_forgetting_wait_where_they_break_a_lock(
        self,
    ) -> None:
        # Three records in one call: with one withdrawn, the others' rules are written again.
        world = World()
        judge, _ = locked_judge(world, "held", shard_size=3)
        judge = learn(judge, lessons("Be kind.", "Be exact.")).judge
        world.verdict = lambda seen, item: (
            not (item == "held" and "Be kind." in seen and "Be brief." not in seen)
        )
        result = judge.unalign("t-x00")
        assert [broken.id for broken in result.broken] == ["t-held"]
        assert texts(result.judge) == set(), "forgotten is forgotten"
        assert states(result.judge)["t-x00@ana"] == "withdrawn"
        assert {states(result.judge)[key] for key in ("t-x01@ana", "t-x02@ana")} == {
            "pending"
        }
        check_memory(result.judge)
