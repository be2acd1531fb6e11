"""Judges that do not come from the head: a guideline's number is never given twice."""

from __future__ import annotations

from pathlib import Path

import msgspec

from memalign import Judge, Registry
from memalign.align import edit_guideline, write_guideline
from memalign.types import Guideline
from tests.support.places import Place
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace
BASE = judge(memory_of(case("t-1", "ana"), case("t-2", "ana"), size=1))  # G1, G2


def ids(kept: Judge) -> list[tuple[str, str]]:
    return [(guideline.id, guideline.text) for guideline in kept.memory.guidelines]


def test_saving_an_older_judge_repeats_no_number(registry: Registry) -> None:
    registry.create(BASE)
    old = registry.load("helpfulness")
    registry.update("helpfulness", lambda head: write_guideline(head, "Be brief.", by="ana"))  # G3
    registry.save(edit_guideline(old, "G1", by="ana", text="Say sorry first."))
    grown = registry.update("helpfulness", lambda head: write_guideline(head, "Be kind.", by="ana")).judge
    assert ids(grown)[0] == ("G1", "Say sorry first."), "a reworded rule keeps its number"
    assert ids(grown)[-1] == ("G4", "Be kind.")
    assert registry.history("helpfulness")[2].note is None


def test_two_rules_of_one_number_are_told_apart(registry: Registry) -> None:
    registry.create(BASE)
    mine = write_guideline(registry.load("helpfulness"), "Be kind.", by="ben")  # G3 as well, outside the registry
    registry.update("helpfulness", lambda head: write_guideline(head, "Be brief.", by="ana"))
    behind = Guideline(id="G4", text="be kind", replaced_by="G3")
    grown = replace(mine.memory, guidelines=(*mine.memory.guidelines, behind), next_guideline=5)
    mine = mine.replace(memory=grown)
    registry.save(mine, note="by hand")
    kept = registry.load("helpfulness")
    assert [name for name, _ in ids(kept)] == ["G1", "G2", "G4", "G5"]
    assert kept.memory.successor(kept.memory.guideline("G4")) == "G5"
    assert kept.memory.guideline("G4").replaced_by == "G5"
    assert kept.memory.next_guideline == 6
    assert registry.history("helpfulness")[-1].note == "by hand; G3 is G5 here"
    registry.save(kept)
    assert len(registry.history("helpfulness")) == 3  # the same judge, and no version more


def test_an_import_gives_no_number_again_either(registry: Registry, place: Place, tmp_path: Path) -> None:
    registry.create(BASE)
    registry.export("helpfulness", tmp_path / "old.json")
    registry.update("helpfulness", lambda head: write_guideline(head, "Be brief.", by="ana"))
    other = place.another().registry()
    other.import_bundle(tmp_path / "old.json")
    other.update("helpfulness", lambda head: write_guideline(head, "Be kind.", by="ben"))  # its own G3
    other.export("helpfulness", tmp_path / "other.json")
    registry.import_bundle(tmp_path / "other.json")
    assert ids(registry.load("helpfulness"))[-1] == ("G4", "Be kind.")
    assert registry.history("helpfulness")[-1].note == "G3 is G4 here"
