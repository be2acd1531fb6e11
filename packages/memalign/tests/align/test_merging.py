"""Two guidelines made one by a person: it states both, and goes with either's feedback, exactly."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge, Registry
from memalign.align import edit_guideline, merge_guidelines
from memalign.errors import InputError, UnknownKey
from memalign.memory import Memory
from memalign.testing import ScriptedChatModel
from memalign.types import Check
from tests.align.test_relations import BRIEF, SAME, SHORT, states, taught, texts
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import learn
from tests.support.world import said

KIND = "Answer kindly."
LATE = "Name the day of delivery."
BOTH = "Answer kindly, and name the day."


def judged(*rules: tuple[str, str]) -> Judge:
    return taught(*(rules or (("ana", KIND), ("ben", LATE))), relations={})[0]


def unnumbered(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, next_guideline=0)


def test_one_guideline_stands_for_both() -> None:
    merged = merge_guidelines(judged(), "G1", "G2", by="dora", text=BOTH)
    assert texts(merged) == [BOTH]
    new = merged.memory.guideline("G3")
    assert new.supported_by == new.exposed_to == keys("t-1@ana", "t-2@ben")
    assert new.origin == "dora"
    assert set(states(merged).values()) == {"learned"}
    assert texts(learn(merged).judge) == [BOTH], "an align leaves it so"
    check_memory(merged)


def test_it_has_the_checks_of_both() -> None:
    judge = edit_guideline(
        judged(), "G1", by="eve", checks=[Check(question="Is it kind?"), Check(question="Is it short?")]
    )
    judge = edit_guideline(judge, "G2", by="eve", pinned=True, checks=["Is a day named?", "Is it kind?"])
    new = merge_guidelines(judge, "G2", "G1", by="dora", text=BOTH).memory.guideline("G3")
    assert {each.question for each in new.checks} == {"Is it kind?", "Is it short?", "Is a day named?"}
    assert (new.pinned, new.status_by) == (True, "dora")
    other = merge_guidelines(judge, "G1", "G2", by="dora", text=BOTH, checks=["Is it warm?"]).memory.guideline("G3")
    assert [each.question for each in other.checks] == ["Is it warm?"]


def test_no_other_shard_sees_the_merged_words() -> None:
    judge, _ = taught(("ana", KIND), ("ben", LATE), ("cleo", SHORT), relations={}, shard_size=2)
    assert [len(shard.keys) for shard in judge.memory.shards] == [2, 1]
    merged = merge_guidelines(judge, "G1", "G3", by="dora", text=BOTH)
    model = merged.model
    assert isinstance(model, ScriptedChatModel)
    asked = len(model.requests)
    later = learn(merged, [said(4, "Say sorry first.", by="dan", value=None)]).judge
    (written,) = (each for each in model.requests[asked:] if each.schema_name == "changes")
    assert SHORT in written.user, "the shard's own rule"
    assert BOTH not in written.user
    assert texts(later) == [LATE, BOTH, "Say sorry first."]
    check_memory(later)


@pytest.mark.parametrize("gone", ["t-1", "t-2"])
def test_withdrawing_either_leaves_the_other_alone(gone: str) -> None:
    judge = judged()
    calls = len(judge.model.requests)  # type: ignore[union-attr]  # a scripted one
    merged = merge_guidelines(judge, "G1", "G2", by="dora", text=BOTH)
    left = merged.unalign(gone).judge
    assert texts(left) == [LATE if gone == "t-1" else KIND]
    assert unnumbered(left.memory) == unnumbered(judge.unalign(gone).judge.memory)
    assert len(judge.model.requests) == calls, "no model is asked"  # type: ignore[union-attr]
    check_memory(left)


RULES = (KIND, LATE, SHORT, "Say sorry first.")


@settings(max_examples=25, deadline=None)
@given(data=st.data(), again=st.booleans())
def test_forgetting_undoes_every_merge_exactly(data: st.DataObject, again: bool) -> None:
    judge = merged = judged(*((f"p{number}", rule) for number, rule in enumerate(RULES)))
    order = data.draw(st.permutations(["G1", "G2", "G3", "G4"]))
    merged = merge_guidelines(merged, order[0], order[1], by="dora", text=BOTH)
    if again:
        merged = merge_guidelines(merged, "G5", order[2], by="dora", text="All three at once.")
    touched = {key for each in merged.memory.guidelines if each.number > 4 for key in each.exposed_to}
    gone = data.draw(st.sets(st.sampled_from(sorted(touched)), min_size=1))
    left, never = merged.unalign(*gone).judge, judge.unalign(*gone).judge
    for key in gone:
        assert all(key not in each.exposed_to for each in left.memory.guidelines)
    check_memory(left)
    rest = set(texts(left))
    if again and not {*merged.memory.guideline("G5").exposed_to} & gone:
        assert rest == (set(texts(never)) - {judge.memory.guideline(name).text for name in order[:2]}) | {BOTH}
    else:
        assert unnumbered(left.memory) == unnumbered(never.memory)


def test_its_double_does_not_come_back() -> None:
    judge, _ = taught(("ana", SHORT), ("ben", BRIEF), ("cleo", KIND), relations=SAME)
    merged = merge_guidelines(judge, "G1", "G3", by="dora", text="Answer kindly, in one sentence.")
    assert texts(merged) == ["Answer kindly, in one sentence."]
    reworded = edit_guideline(merged, "G4", by="eve", text=BOTH)
    assert texts(reworded) == [BOTH]
    retired = edit_guideline(reworded, "G4", by="eve", retired=True)
    assert texts(retired) == []
    for each in (merged, reworded, retired):
        check_memory(each)


def test_peoples_own_words_stay_merged_when_reworded() -> None:
    judge = edit_guideline(judged(), "G1", by="eve", text="Be kind.")
    merged = merge_guidelines(judge, "G1", "G2", by="dora", text=BOTH)
    assert texts(edit_guideline(merged, "G3", by="eve", text="Be kind and exact.")) == ["Be kind and exact."]


def test_what_cannot_be_merged_says_why() -> None:
    judge = judged(("ana", KIND), ("ben", LATE), ("cleo", SHORT))
    with pytest.raises(InputError, match="name another one"):
        merge_guidelines(judge, "G1", "G1", by="dora", text=BOTH)
    with pytest.raises(UnknownKey):
        merge_guidelines(judge, "G1", "G9", by="dora", text=BOTH)
    with pytest.raises(InputError, match="G2 is retired"):
        merge_guidelines(edit_guideline(judge, "G2", by="eve", retired=True), "G1", "G2", by="dora", text=BOTH)
    merged = merge_guidelines(judge, "G1", "G2", by="dora", text=BOTH)
    for other in ("G3", "G4"):
        with pytest.raises(InputError, match="G4 stands for G2 already"):
            merge_guidelines(merged, "G2", other, by="dora", text="Something else.")
    with pytest.raises(InputError, match="G1 has these words already"):
        merge_guidelines(judge, "G1", "G2", by="dora", text=KIND.upper())
    with pytest.raises(InputError, match="cannot be a guideline"):
        merge_guidelines(judge, "G1", "G2", by="dora", text="<|system|>")


def test_an_erasure_takes_the_merged_words(tmp_path: Path) -> None:
    judge = judged()
    registry = Registry(f"sqlite:///{tmp_path / 'r.db'}", models=[judge.model, judge.embedding_model])  # type: ignore[list-item]
    registry.create(judge)
    registry.update(judge.name, lambda old: merge_guidelines(old, "G1", "G2", by="dora", text=BOTH))
    registry.erase(judge.name, ["t-2"])
    for version in registry.history(judge.name):
        assert BOTH not in {each.text for each in registry.load(judge.name, version.number).memory.guidelines}
    assert texts(registry.load(judge.name)) == [KIND]
    assert BOTH.encode() not in (tmp_path / "r.db").read_bytes()
