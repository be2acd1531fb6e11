"""What became of one piece of feedback: "what did it learn from me"."""

from __future__ import annotations

import msgspec
import pytest

from memalign import Registry
from memalign.align import edit_guideline
from memalign.align.forget import forget
from memalign.errors import JudgeNotFound, UnknownKey
from tests.support.keys import keys
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace
MEMORY = memory_of(case("t-1", "ana", "ben"), case("t-2", "ana"), size=1)  # G1: t-1@ana, G2: t-1@ben, G3: t-2@ana


def test_a_trail_tells_what_was_said_and_taught(registry: Registry) -> None:
    registry.create(judge())
    registry.save(judge(MEMORY), action="align")
    registry.update("helpfulness", lambda head: edit_guideline(head, "G3", by="cleo", text="Say when."))
    registry.update("helpfulness", lambda head: edit_guideline(head, "G1", by="cleo", pinned=True))
    (trail,) = registry.lineage("helpfulness", "t-2@ana")
    assert (trail.state, trail.rationale, trail.value) == ("learned", "comment t-2 ana", False)
    assert [(rule.id, rule.text) for rule in trail.guidelines] == [("G3", "Say when.")]
    assert [(step.version, step.action, step.state, step.guideline_ids) for step in trail.steps] == [
        (2, "align", "learned", ("G3",))
    ]
    (then,) = registry.lineage("helpfulness", "t-2@ana", version=2)
    assert [rule.text for rule in then.guidelines] == ["rule number 3"]
    assert trail.to_dict()["steps"][0]["version"] == 2


def test_a_case_has_every_annotations_trail(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    assert [str(each.key) for each in registry.lineage("helpfulness", "t-1")] == ["t-1@ana", "t-1@ben"]


def test_a_superseding_guideline_is_in_the_trail(registry: Registry) -> None:
    first, *others = MEMORY.guidelines
    others[-1] = replace(others[-1], status="superseded", superseded_by="G1")
    registry.create(judge(replace(MEMORY, guidelines=(first, *others))))
    (trail,) = registry.lineage("helpfulness", "t-2@ana")
    assert [rule.id for rule in trail.guidelines] == ["G1", "G3"]
    assert trail.steps[0].guideline_ids == ("G1",)


def test_withdrawn_feedback_keeps_the_way_it_went(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    registry.update("helpfulness", lambda head: head.replace(memory=forget(head.memory, keys("t-2@ana"))), "unalign")
    (trail,) = registry.lineage("helpfulness", "t-2@ana")
    assert (trail.state, trail.rationale, trail.guidelines) == ("withdrawn", None, ())
    assert [(step.version, step.state) for step in trail.steps] == [(1, "learned"), (2, "withdrawn")]
    registry.rollback("helpfulness", to=1)
    (back,) = registry.lineage("helpfulness", "t-2@ana")
    assert [step.state for step in back.steps] == ["learned", "withdrawn", "learned"]


def test_erased_feedback_has_a_day_and_nothing_else(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    registry.erase("helpfulness", ["t-2"], rederive=False)
    (trail,) = registry.lineage("helpfulness", "t-2@ana")
    assert trail.state == "erased"
    assert trail.reason.startswith("erased on ")
    assert (trail.value, trail.rationale, trail.guidelines, trail.steps) == (None, None, (), ())


def test_unknown_keys_and_versions_are_named(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    registry.save(judge())
    with pytest.raises(UnknownKey, match="t-9"):
        registry.lineage("helpfulness", "t-9")
    with pytest.raises(JudgeNotFound, match="no version 7"):
        registry.lineage("helpfulness", "t-1", version=7)
    (gone,) = registry.lineage("helpfulness", "t-2@ana")  # replaced by a save, not withdrawn
    assert gone.reason == "not in this version any more"
    assert [step.state for step in gone.steps] == ["learned", None]
