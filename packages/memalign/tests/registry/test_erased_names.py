"""Names and short cases: what an erasure takes for its own, and what it leaves to others."""

from __future__ import annotations

import msgspec
import pytest

from memalign import Registry
from memalign.errors import InvalidRows, UnknownKey
from memalign.types import Example
from tests.registry.test_erase import nowhere, secret_case
from tests.support.places import Place
from tests.support.registry import case, judge, memory_of, models, optimizer, row

replace = msgspec.structs.replace


def test_what_stays_under_another_id_may_be_spoken_of(registry: Registry):
    one, other = case("t-1", "ana"), case("t-2", "bob")
    copy = replace(other, example=Example(id="t-2", **one.example.content))
    registry.create(judge(memory_of(one, copy)))
    registry.erase("helpfulness", ["t-1"], rederive=False)
    fresh = row("t-2", "cy", "it is short", **one.example.content)
    assert registry.align("helpfulness", [fresh], optimizer=optimizer(*models())).version == 3
    with pytest.raises(InvalidRows, match="this feedback was erased on"):
        registry.align("helpfulness", [fresh | {"id": "t-1", "source": "ana"}], optimizer=optimizer(*models()))


def test_a_name_without_letters_is_nobody_elses(registry: Registry, place: Place):
    registry.create(judge(memory_of(case("t-8", "ana"), case("t-9", "🙂")), name="other"))
    registry.create(judge(memory_of(case("t-1", "ana"), case("t-2", "!")), name="tone"), note="as 🙂 said")
    with pytest.raises(UnknownKey):
        registry.erase("other", source="?", rederive=False)
    receipt = registry.erase("tone", source="!", rederive=False)
    assert receipt.complete, receipt.answer
    assert registry.erase("tone", source="🙂", rederive=False).elsewhere == ("other",)
    assert registry.history("tone")[0].note == "(erased)"
    assert registry.erase("other", source="🙂", rederive=False).complete
    assert nowhere(place, "🙂")


def test_the_instructions_and_the_name_of_a_judge_are_searched(registry: Registry):
    told = "Is it right, as Maria Oliveira said? {{ inputs }}"
    registry.create(judge(memory_of(secret_case("ana")), name="for Maria Oliveira", instructions=told))
    receipt = registry.erase("for Maria Oliveira", matching="maria oliveira", rederive=False)
    assert receipt.left == ("memalign_judges.name (1 row)", "memalign_rows.body, the instructions (1 row)")


def test_a_receipt_names_a_judge_that_has_the_same_short_case(registry: Registry):
    registry.create(judge(memory_of(case("t-1", "ana")), name="short"))
    registry.create(judge(memory_of(case("t-1", "bob")), name="copy"))
    assert registry.erase("short", ["t-1"], rederive=False).elsewhere == ("copy",)
