"""Feedback by what it says, in the latest version and in every other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Registry
from memalign.errors import InputError, UnknownKey
from memalign.memory import Annotation, Case, Memory
from memalign.memory.forget import forget
from memalign.registry import Selection
from memalign.types import Example, FeedbackKey
from tests.registry.test_erase import nowhere, secret_case
from tests.support.keys import keys
from tests.support.places import Place
from tests.support.registry import case, erase, judge, memory_of, models, optimizer, row

replace = msgspec.structs.replace

EVERYWHERE = (
    "José Müller 7@ana",
    "t-1@ana",
    "t-2@ben",
    "t-3@ana",
    "t-4@ana",
    "t-5@ana",
)


def spoken(
    name: str,
    inputs: object,
    *,
    source: str = "ana",
    rationale: str | None = None,
    **meta: str,
) -> Case:
    annotation = Annotation(
        id=name, source=source, value=True, rationale=rationale, meta=meta
    )
    return Case(
        example=Example(id=name, inputs=inputs, outputs="fine"),
        annotations=(annotation,),
    )


CASES = (
    spoken("José Müller 7", "hello"),
    spoken("t-1", "Please call José Müller"),
    spoken(
        "t-2", {"people": ["nobody", {"name": "JOSE\u0301 MU\u0308LLER"}]}, source="ben"
    ),
    spoken("t-3", "hello", rationale="He wrote to jos\u00e9\u00ad  müller again."),
    spoken("t-4", '{"who": "Jos\\u00e9 M\\u00fcller", "age": 4}'),
    spoken("t-5", "hello", reviewed_with="José Müller"),
    spoken("t-6", {"ticket": 471100}),
)
MEMORY = Memory(cases=CASES)


@pytest.mark.parametrize(
    ("text", "source", "found"),
    [
        ("josé müller", None, EVERYWHERE),
        ("JOSÉ\nMÜLLER", "ben", ("t-2@ben",)),
        ("4711", None, ("t-6@ana",)),
    ],
)
def test_a_text_is_found_in_any_spelling(
    registry: Registry, text: str, source: str | None, found: tuple[str, ...]
) -> None:
    registry.create(judge(MEMORY))
    receipt = registry.erase("helpfulness", source=source, matching=text, dry_run=True)
    assert set(receipt.keys) == set(keys(*found))


@pytest.mark.parametrize("text", ["inputs", "put", "", "  \n", "\u200b"])
def test_neither_the_names_of_our_own_fields_nor_nothing_match(
    registry: Registry, text: str
) -> None:
    registry.create(judge(MEMORY))
    said = "holds feedback with this text|empty"
    with pytest.raises((UnknownKey, InputError), match=said):
        registry.erase("helpfulness", matching=text, dry_run=True)


def test_a_text_is_erased_from_older_versions(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    registry.save(judge(forget(MEMORY, keys("t-1@ana", "t-3@ana"))))
    receipt = erase(registry, matching="josé müller")
    assert set(receipt.keys) == set(keys(*EVERYWHERE))
    assert "ller" not in str(registry.load("helpfulness", 1).memory)
    latest = registry.history("helpfulness")[-1]
    assert latest.summary == "6 comments erased from all versions"


def test_text_source_and_keys_must_all_match(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    selection: dict[str, Any] = {"source": "ben", "matching": "müller"}
    preview = registry.erase("helpfulness", ["t-2"], **selection, dry_run=True)
    assert preview.keys == keys("t-2@ben")
    for named, source, text, message in (
        (["t-1"], "ben", "müller", "t-1"),
        (["t-6"], None, "müller", "'t-6' with this text"),
        ([], None, "Secret Name", r"^(?!.*Secret).*with this text"),
        ([], "ben", "Secret Name", r"^(?!.*Secret).*with this text"),
    ):
        with pytest.raises(UnknownKey, match=message):
            registry.erase("helpfulness", named, source=source, matching=text)
    assert len(registry.history("helpfulness")) == 1


@pytest.mark.parametrize(
    "selections",
    [
        (Selection(source="ben"), Selection(matching="josé müller")),
        (Selection(keys=("t-2@ben",)), Selection(keys=("t-5", "t-1"))),
        (Selection(matching="4711"), Selection(source="ana", matching="müller")),
    ],
)
def test_several_at_once_take_what_they_take_one_after_the_other(
    tmp_path: Path, selections: tuple[Selection, ...]
) -> None:
    apart = Registry(tmp_path / "apart.db")
    at_once = Registry(tmp_path / "at_once.db")
    for place in (apart, at_once):
        place.create(judge(MEMORY))
        place.save(judge(forget(MEMORY, keys("t-1@ana", "t-3@ana"))))
    gone: set[FeedbackKey] = set()
    for selection in selections:
        gone |= set(erase(apart, also=[selection]).keys)
    receipt = erase(at_once, also=[*selections, Selection(keys=("t-99",))])
    assert (set(receipt.keys), receipt.complete) == (gone, True)
    for number in (1, 2):
        expected = apart.load("helpfulness", number).memory
        assert at_once.load("helpfulness", number).memory == expected
    with pytest.raises(UnknownKey, match="t-99"):
        erase(at_once, also=[Selection(), Selection(keys=("t-99",))])


def test_a_key_that_names_nothing_is_refused_and_beside_it_passed_over(
    registry: Registry,
) -> None:
    registry.create(judge(MEMORY))
    with pytest.raises(UnknownKey, match="t-99"):
        erase(registry, "t-2", "t-99", also=[Selection(source="ana")])
    assert len(registry.history("helpfulness")) == 1
    receipt = erase(registry, also=[Selection(keys=("t-2", "t-99"))])
    assert receipt.keys == keys("t-2@ben")
    day = receipt.at[:10]
    with pytest.raises(UnknownKey, match=f"t-2.*erased on {day}"):
        erase(registry, also=[Selection(keys=("t-2",)), Selection(source="zoe")])


@pytest.mark.parametrize(
    "named",
    [{"selectors": [17]}, {"selectors": [None]}, {"source": 17}, {"matching": b"t"}],
)
def test_what_is_no_text_is_refused_and_the_judge_is_not_called_damaged(
    registry: Registry, named: Any
) -> None:
    registry.create(judge(MEMORY))
    with pytest.raises(InputError, match="by text or key"):
        erase(registry, **named)
    with pytest.raises(AttributeError):
        erase(registry, also=["t-2"])


NAMES = ("1", "12", "2", "ana")


@pytest.mark.parametrize("none", [[], set(), {}.keys(), ""])
def test_a_selection_of_no_keys_is_none_whatever_holds_them(
    registry: Registry, none: Any
) -> None:
    registry.create(judge(Memory(cases=tuple(spoken(name, name) for name in NAMES))))
    with pytest.raises(UnknownKey):
        erase(registry, also=[Selection(keys=none)])
    receipt = erase(registry, also=[Selection(keys=none), Selection(keys=("2",))])
    assert receipt.keys == keys("2@ana")


@pytest.mark.parametrize(
    "selected", ["12", FeedbackKey("12", "ana"), ["12"], {"12@ana"}]
)
def test_a_selection_takes_one_key_or_any_collection_of_them(
    registry: Registry, selected: Any
) -> None:
    registry.create(judge(Memory(cases=tuple(spoken(name, name) for name in NAMES))))
    receipt = erase(registry, also=[Selection(keys=selected), Selection(source="ben")])
    assert receipt.keys == keys("12@ana")


@pytest.mark.parametrize("selector", ["12", FeedbackKey("12", "ana")])
def test_a_selector_alone_is_one_and_not_its_parts(
    registry: Registry, selector: str | FeedbackKey
) -> None:
    registry.create(judge(Memory(cases=tuple(spoken(name, name) for name in NAMES))))
    assert registry.erase("helpfulness", selector, dry_run=True).keys == keys("12@ana")


# -- names and short cases: what an erasure takes for its own, and what it leaves ------


def test_what_stays_under_another_id_may_be_spoken_of(registry: Registry):
    one = case("t-1", "ana")
    other = case("t-2", "bob")
    copy = replace(other, example=Example(id="t-2", **one.example.content))
    registry.create(judge(memory_of(one, copy)))
    erase(registry, "t-1")
    fresh = row("t-2", "cy", "it is short", **one.example.content)
    rows = [fresh, fresh | {"id": "t-1", "source": "ana"}]
    result = registry.align("helpfulness", rows, optimizer=optimizer(*models()))
    assert result.version == 3
    assert "this feedback was erased on" in result.rows[1].reason


def test_a_name_without_letters_is_nobody_elses(registry: Registry, place: Place):
    registry.create(
        judge(memory_of(case("t-8", "ana"), case("t-9", "🙂")), name="other")
    )
    taught = memory_of(case("t-1", "ana"), case("t-2", "!"), size=1)
    retired, other = taught.guidelines
    taught = replace(taught, guidelines=(replace(retired, retired_by="🙂"), other))
    registry.create(judge(taught, name="tone"), note="as 🙂 said")
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
    name = "for Maria Oliveira"
    memory = memory_of(secret_case("ana"))
    registry.create(judge(memory, name=name, instructions=told))
    receipt = registry.erase(name, matching="maria oliveira", rederive=False)
    assert receipt.left == (
        "memalign_judges.name (1 row)",
        "memalign_rows.body, the instructions (1 row)",
    )


def test_a_receipt_names_a_judge_that_has_the_same_short_case(registry: Registry):
    registry.create(judge(memory_of(case("t-1", "ana")), name="short"))
    registry.create(judge(memory_of(case("t-1", "bob")), name="copy"))
    assert registry.erase("short", ["t-1"], rederive=False).elsewhere == ("copy",)
