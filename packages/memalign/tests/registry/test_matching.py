"""Feedback by what it says, in the latest version and in every other one."""

from __future__ import annotations

import pytest

from memalign import Registry
from memalign.align.forget import forget
from memalign.errors import InputError, UnknownKey
from memalign.memory import Annotation, Case, Memory
from memalign.types import Example, FeedbackKey
from tests.support.keys import keys
from tests.support.registry import judge

EVERYWHERE = ("José Müller 7@ana", "t-1@ana", "t-2@ben", "t-3@ana", "t-4@ana", "t-5@ana")


def spoken(name: str, inputs: object, *, source: str = "ana", rationale: str | None = None, **meta: str) -> Case:
    annotation = Annotation(id=name, source=source, value=True, rationale=rationale, meta=meta)
    return Case(example=Example(id=name, inputs=inputs, outputs="fine"), annotations=(annotation,))


CASES = (
    spoken("José Müller 7", "hello"),
    spoken("t-1", "Please call José Müller"),
    spoken("t-2", {"people": ["nobody", {"name": "JOSE\u0301 MU\u0308LLER"}]}, source="ben"),
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


@pytest.mark.parametrize("text", ["inputs", "put"])
def test_the_names_of_our_own_fields_are_no_text_of_a_case(registry: Registry, text: str) -> None:
    registry.create(judge(MEMORY))
    assert MEMORY.matching(text) == ()
    with pytest.raises(UnknownKey, match="holds feedback with this text"):
        registry.erase("helpfulness", matching=text, dry_run=True)


@pytest.mark.parametrize("text", ["", "  \n", "\u200b"])
def test_an_empty_text_matches_nothing_and_says_so(registry: Registry, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        registry.erase("helpfulness", matching=text, dry_run=True)


def test_a_text_is_erased_from_older_versions(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    registry.save(judge(forget(MEMORY, keys("t-1@ana", "t-3@ana"))))
    receipt = registry.erase("helpfulness", matching="josé müller", rederive=False)
    assert set(receipt.keys) == set(keys(*EVERYWHERE))
    assert "ller" not in str(registry.load("helpfulness", 1).memory)
    assert registry.history("helpfulness")[-1].summary == "6 comments erased from all versions"


def test_text_source_and_keys_must_all_match(registry: Registry) -> None:
    registry.create(judge(MEMORY))
    assert registry.erase("helpfulness", ["t-2"], source="ben", matching="müller", dry_run=True).keys == keys("t-2@ben")
    for named, source, text, message in (
        (["t-1"], "ben", "müller", "t-1"),
        (["t-6"], None, "müller", "'t-6' with this text"),
        ([], None, "Secret Name", r"^(?!.*Secret).*with this text"),
        ([], "ben", "Secret Name", r"^(?!.*Secret).*with this text"),
    ):
        with pytest.raises(UnknownKey, match=message):
            registry.erase("helpfulness", named, source=source, matching=text)
    assert len(registry.history("helpfulness")) == 1


@pytest.mark.parametrize("selector", ["12", FeedbackKey("12", "ana")])
def test_a_selector_alone_is_one_and_not_its_parts(registry: Registry, selector: str | FeedbackKey) -> None:
    registry.create(judge(Memory(cases=tuple(spoken(name, name) for name in ("1", "12", "2", "ana")))))
    assert registry.erase("helpfulness", selector, dry_run=True).keys == keys("12@ana")
