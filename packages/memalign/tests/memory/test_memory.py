"""Memory: what it says of itself, which cases it calls to mind, and whose label counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Feedback
from memalign.content.encoding import estimate_tokens
from memalign.memory import (
    Annotation,
    Case,
    Memory,
    Outcome,
    PreAlignmentVerdict,
    Tombstone,
)
from memalign.memory.label_policy import policy_label
from memalign.memory.retrieval import (
    CHOICE,
    embedding_text,
    similar_cases,
    was_misjudged,
)
from memalign.prompts.fitting import fit_guidelines
from memalign.types import UNKNOWN_SOURCE, FeedbackKey, Guideline
from memalign.values import Value, ValueType
from tests.support.keys import keys
from tests.support.learning import without
from tests.support.registry import memories
from tests.support.scripted import case as case_of
from tests.support.scripted import scripted

BOOL = ValueType.of(bool)


def case(
    name: str,
    vector: Sequence[float] = (),
    *,
    content: str | None = None,
    label: Value | None = True,
    pre_alignment: Value = True,
) -> Case:
    verdict = PreAlignmentVerdict(value=pre_alignment, judge="x")
    return case_of(
        name,
        label,
        vector=vector,
        inputs=content or f"content {name}",
        pre_alignment=verdict,
    )


def memory(*cases: Case, **fields: Any) -> Memory:
    return Memory(cases=tuple(sorted(cases, key=lambda each: each.id)), **fields)


def ids(found: Memory, item: Example, vector: list[float], k: int) -> list[str]:
    return [
        hit.id
        for hit in similar_cases(
            found, item, np.array(vector, dtype=np.float32), BOOL, k, judge="x"
        )
    ]


class TestRetrieval:
    near = [1.0, 0.0]
    far = [0.0, 1.0]
    item = Example(id="new", inputs="something new")

    def test_a_misjudged_case_goes_before_nearer_ones(self) -> None:
        found = memory(case("a", self.near), case("b", [0.8, 0.6], pre_alignment=False))
        assert ids(found, self.item, self.near, 2) == ["b", "a"]
        far = memory(
            *(case(f"a{n}", self.near) for n in range(4)),
            case("z", self.far, pre_alignment=False),
        )
        assert "z" not in ids(far, self.item, self.near, 2), "but not from too far away"
        assert (
            ids(Memory(), self.item, self.near, 5)
            == ids(found, self.item, self.near, 0)
            == []
        )

    def test_an_identical_case_comes_first_even_without_vectors(self) -> None:
        item = Example(id="new", inputs="content z")
        others = [case(f"a{n}", self.near, pre_alignment=False) for n in range(9)]
        assert ids(memory(*others, case("z", self.far)), item, self.near, 2)[0] == "z"
        assert ids(memory(*others, case("z", self.far)), item, self.near, 1) == ["z"]
        assert ids(memory(*others, case("z", self.far)), item, [], 5) == ["z"]

    def test_a_case_without_a_label_that_counts_is_not_shown(self) -> None:
        tie = case("c", self.near)
        other = Annotation(id="c", source="ben", value=False)
        tie = msgspec.structs.replace(tie, annotations=(*tie.annotations, other))
        found = memory(case("a", self.near, label=None), case("b", self.far), tie)
        assert ids(found, self.item, self.near, 3) == ["b"]
        assert ids(found, Example(id="new", inputs="content a"), self.near, 3) == [
            "a",
            "b",
        ], "of the very item it is"

    def test_no_two_of_one_group_are_shown(self) -> None:
        def of(name: str, group: str | None, vector: list[float]) -> Case:
            one = case(name, vector)
            meta = {"group": group} if group else {}
            return msgspec.structs.replace(
                one, example=msgspec.structs.replace(one.example, meta=meta)
            )

        found = memory(
            of("a", "c-1", self.near),
            of("b", "c-1", self.near),
            of("c", "c-2", self.far),
            of("d", None, self.far),
        )
        assert ids(found, self.item, self.near, 4) == ["a", "c", "d"]

    def test_nor_two_that_say_the_same(self) -> None:
        same = [
            case(name, self.near, content=text)
            for name, text in (("a", "Send it back."), ("b", "send it back"))
        ]
        assert ids(memory(*same, case("c", self.far)), self.item, self.near, 3) == [
            "a",
            "c",
        ]

        close = [case("a", self.near), case("b", [0.99, 0.141]), case("c", self.far)]
        assert ids(
            memory(*close, embedding_model="wordllama:x"), self.item, self.near, 3
        ) == [
            "a",
            "c",
        ]
        assert ids(
            memory(*close, embedding_model="openai:x"), self.item, self.near, 3
        ) == [
            "a",
            "b",
            "c",
        ]

    def test_unrelated_cases_are_left_out_among_enough_others(self) -> None:
        def axis(number: int) -> list[float]:
            return [float(n == number) for n in range(CHOICE + 1)]

        def found(count: int, name: str) -> list[str]:
            filler = (case(f"z{n:02}", axis(n + 1)) for n in range(count - 1))
            item = [0.8, 0.5, 0.3, *[0.0] * (CHOICE - 2)]
            return ids(
                memory(case("a", axis(0)), *filler, embedding_model=name),
                self.item,
                item,
                3,
            )

        assert found(CHOICE, "wordllama:x") == ["a"]
        assert found(CHOICE - 1, "wordllama:x") == ["a", "z00", "z01"]
        assert found(CHOICE, "openai:x") == ["a", "z00", "z01"], (
            "its scale is not known"
        )

    def test_the_reference_is_compared_only_when_alone(self) -> None:
        assert (
            embedding_text(
                Example(id="a", inputs={"q": ["x", 1, True, None]}, expectations="ref")
            )
            == "x\n1"
        )
        assert embedding_text(Example(id="a", expectations=["ref"])) == "ref"


@pytest.mark.parametrize(
    ("spec", "label", "before", "judge", "wrong"),
    [
        ("bool", True, False, "x", True),
        ("bool", True, True, "x", False),
        ("A|B", "A", "B", "x", True),
        ("int:1..5", 4, 5, "x", True),
        ("float:0..10", 4.0, 4.9, "x", False),
        ("float:0..10", 4.0, 5.1, "x", True),
        ("str", "a", "b", "x", False),
        (
            "float:0..1",
            "good",
            "bad",
            "x",
            True,
        ),  # labels of an old type are compared unchanged
        ("float:0..1", "good", "good", "x", False),
        ("bool", True, False, "y", False),  # of another judge nothing is known
        ("bool", True, None, "x", False),
    ],
)
def test_a_case_is_hard_that_this_judge_had_wrong(
    spec: str, label: Value, before: Any, judge: str, wrong: bool
) -> None:
    verdict = None if before is None else PreAlignmentVerdict(value=before, judge="x")
    one = msgspec.structs.replace(case("a", label=label), pre_alignment=verdict)
    assert was_misjudged(memory(one), one, ValueType.of(spec), judge) is wrong


class TestKeys:
    found = memory(
        case("t-1"), case("t-2"), tombstones=(Tombstone(key=FeedbackKey("t-0", "ana")),)
    )

    def test_ids_name_all_their_annotations_and_keys_one(self) -> None:
        both = msgspec.structs.replace(
            self.found.cases[0],
            annotations=(
                *self.found.cases[0].annotations,
                Annotation(id="t-1", source="ben", value=True),
            ),
        )
        found = memory(both, self.found.cases[1])
        assert found.keys("t-1") == keys("t-1@ana", "t-1@ben")
        assert found.keys("t-1@ben", "t-2") == keys("t-1@ben", "t-2@ana")
        assert found.keys(source="ben") == keys("t-1@ben")
        assert found.keys("t-1", source="ana") == keys("t-1@ana")

    def test_the_ledger_has_the_living_and_the_withdrawn(self) -> None:
        assert [(str(entry.key), entry.state) for entry in self.found.ledger()] == [
            ("t-0@ana", "withdrawn"),
            ("t-1@ana", "pending"),
            ("t-2@ana", "pending"),
        ]


class TestHash:
    def test_only_what_can_change_verdicts_changes_the_hash(self) -> None:
        found = memory(case("a"), case("b"))
        replace = msgspec.structs.replace
        annotation = found.cases[0].annotations[0]

        def with_annotation(**changes: Any) -> Memory:
            return replace(
                found,
                cases=(
                    replace(
                        found.cases[0], annotations=(replace(annotation, **changes),)
                    ),
                    found.cases[1],
                ),
            )

        same = [
            replace(found, tombstones=(Tombstone(key=FeedbackKey("x", "y")),)),
            with_annotation(outcome=Outcome(kind="waiting", reason="explained")),
            replace(found),
        ]
        other = [
            with_annotation(value=False),
            with_annotation(rationale="x"),
            with_annotation(outcome=Outcome(kind="example")),
            replace(found, authority=("ana",)),
            replace(found, cases=found.cases[:1]),
            replace(found, guidelines=(Guideline(id="G1", text="x"),)),
        ]
        assert {each.hash for each in same} == {found.hash}
        assert len({each.hash for each in other} | {found.hash}) == len(other) + 1


class TestGuidelines:
    def test_the_budget_keeps_pinned_before_supported_before_old(self) -> None:
        rules = [
            Guideline(
                id=f"G{n}",
                text="word " * 20,
                pinned_by="dora" if n == 5 else None,
                supported_by=keys("a@ana") * (n == 4),
            )
            for n in range(1, 6)
        ]
        cost = estimate_tokens(rules[0].text) + 2
        kept, left = fit_guidelines(rules, cost * 3)
        assert [g.id for g in kept] == ["G1", "G4", "G5"]
        assert left == ("G2", "G3")
        assert [g.id for g in fit_guidelines(rules, 0)[0]] == ["G5"]
        human = Guideline(id="G6", text="word " * 20, origin="ana")
        assert [g.id for g in fit_guidelines([*rules, human], cost * 2)[0]] == [
            "G5",
            "G6",
        ], "a person's come first"


@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_the_nearest_equal_those_of_a_full_sort(seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (count, 2)).astype(np.float32)  # many ties
    cases = [
        case(f"c{n:02}", list(vector), content=f"content {n // 2}")
        for n, vector in enumerate(vectors)
    ]
    item = rng.normal(size=2).astype(np.float32)
    similarity = {each.id: float(vectors[n] @ item) for n, each in enumerate(cases)}
    expected: dict[str, str] = {}
    for each in sorted(cases, key=lambda one: (-similarity[one.id], one.id)):
        expected.setdefault(each.example.content_hash, each.id)
    hits = similar_cases(
        memory(*cases), Example(id="new", inputs="new"), item, BOOL, k, judge="x"
    )
    assert [hit.id for hit in hits] == list(expected.values())[:k]


@given(memories(), st.data())
def test_equal_memories_have_equal_hashes_whatever_was_hidden(
    kept: Memory, data: st.DataObject
) -> None:
    hidden = (
        data.draw(st.sets(st.sampled_from([each.id for each in kept.cases])))
        if kept.cases
        else set()
    )
    left = without(kept, *hidden) if hidden else kept
    afresh = msgspec.convert(msgspec.to_builtins(left), Memory)
    assert left == afresh
    assert left.hash == afresh.hash
    assert left.matrix.tobytes() == afresh.matrix.tobytes()
    assert all(
        left.annotations_on(each) == afresh.annotations_on(each)
        for each in afresh.cases
    )


def test_the_guidelines_in_force_print_as_people_read_them() -> None:
    rules = (
        Guideline(id="G1", text="Say sorry first.", supported_by=keys("t-1@ana")),
        Guideline(id="G2", text="Name a date.", origin="dora"),
        Guideline(id="G3", text="Be brief.", retired_by="dora"),
    )
    semantic = Memory(guidelines=rules).semantic
    assert (
        repr(semantic)
        == str(semantic)
        == "G1: Say sorry first. (t-1@ana)\nG2: Name a date. (dora)"
    )
    assert repr(Memory().semantic) == "no guidelines"


# -- whose label counts: rules decide, and where they do not, nobody's does ------------


def said(source: str, value: bool | None, at: str | None = None) -> Annotation:
    return Annotation.of(
        Feedback(id="t-1", source=source, value=value, rationale="So.", created_at=at)
    )


NOON = "2026-01-01T12:00:00Z"
ONE = "2026-01-01T13:00:00Z"


@pytest.mark.parametrize(
    ("annotations", "authority", "label"),
    [
        ([said("ana", True), said("zoe", False)], (), None),
        ([said("ana", True, NOON), said("zoe", False, NOON)], (), None),
        ([said("ana", True, ONE), said("zoe", False, NOON)], (), True),
        ([said("ana", True), said("zoe", False), said("ben", False)], (), False),
        ([said("ana", True), said("zoe", False), said("ben", False)], ("ana",), True),
        ([said("ana", True, NOON), said(UNKNOWN_SOURCE, False, ONE)], (), True),
        ([said("ana", True), said("unknown:a-1", False, ONE)], (), True),
        ([said("ana", True), said(UNKNOWN_SOURCE, False)], (UNKNOWN_SOURCE,), False),
        ([said("ana", True), said("ben", None)], (), True),
        ([], (), None),
    ],
)
def test_authority_then_majority_then_recency_decide(
    annotations: list[Annotation], authority: Any, label: Any
) -> None:
    assert policy_label(annotations, authority) is label


NAMES = st.sampled_from(["ana", "ben", "zoe", "王", "a@b.c"])
ANNOTATIONS = st.lists(
    st.builds(
        said,
        NAMES,
        st.sampled_from([True, False, None]),
        st.sampled_from([None, NOON, ONE]),
    ),
    max_size=5,
    unique_by=lambda each: each.source,
)


@given(annotations=ANNOTATIONS)
def test_neither_order_nor_the_names_of_people_decide(
    annotations: list[Annotation],
) -> None:
    labels = {policy_label(order) for order in permutations(annotations)}
    renamed = []
    for n, each in enumerate(annotations):
        assert isinstance(each.value, bool | None)
        renamed.append(said(f"p{9 - n}", each.value, each.created_at))
    assert labels == {policy_label(renamed)}


def test_a_tie_teaches_nothing_and_tells_everybody() -> None:
    judge, model = scripted({"changes": []})
    rows = [
        {
            "id": "t-1",
            "outputs": "Hm.",
            "source": source,
            "value": value,
            "rationale": "So.",
        }
        for source, value in (("ana", True), ("zoe", False))
    ]
    result = judge.align(rows)
    assert [(row.state, "a tie" in row.reason) for row in result.rows] == [
        ("disputed", True)
    ] * 2
    assert [(each.label, each.reason.split(",")[0]) for each in result.conflicts] == [
        (None, "a tie")
    ]
    assert not model.requests
    settled = result.judge.align([rows[0] | {"source": "ben"}])
    assert [each.label for each in settled.conflicts] == [True]
