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
from tests.support.lists import ids, table
from tests.support.registry import memories
from tests.support.scripted import case as case_of
from tests.support.scripted import scripted

replace = msgspec.structs.replace
BOOL = ValueType.of(bool)


def case(
    name: str,
    vector: Sequence[float] = (),
    *,
    content: str | None = None,
    label: Value | None = True,
    pre_alignment: Value = True,
    **more: Any,
) -> Case:
    verdict = PreAlignmentVerdict(value=pre_alignment, judge="x")
    return case_of(
        name,
        label,
        vector=vector,
        inputs=content or f"content {name}",
        pre_alignment=verdict,
        **more,
    )


def memory(*cases: Case, **fields: Any) -> Memory:
    return Memory(cases=tuple(sorted(cases, key=lambda each: each.id)), **fields)


NEAR = [1.0, 0.0]
FAR = [0.0, 1.0]


def similar(
    found: Memory, k: int, *, content: str = "something new", vector: Any = NEAR
) -> list[str]:
    """The ids of the cases that are shown for an item of this content and vector."""
    item = Example(id="new", inputs=content)
    near = np.array(vector, dtype=np.float32)
    return ids(similar_cases(found, item, near, BOOL, k, judge="x"))


class TestRetrieval:
    def test_a_misjudged_case_goes_before_nearer_ones(self):
        found = memory(case("a", NEAR), case("b", [0.8, 0.6], pre_alignment=False))
        assert similar(found, 2) == ["b", "a"]
        assert similar(found, 0) == []
        assert similar(Memory(), 5) == []

    def test_but_not_from_too_far_away(self):
        others = [case(f"a{n}", NEAR) for n in range(4)]
        found = memory(*others, case("z", FAR, pre_alignment=False))
        assert "z" not in similar(found, 2)

    def test_an_identical_case_comes_first_even_without_vectors(self):
        others = [case(f"a{n}", NEAR, pre_alignment=False) for n in range(9)]
        found = memory(*others, case("z", FAR))
        assert similar(found, 2, content="content z")[0] == "z"
        assert similar(found, 1, content="content z") == ["z"]
        assert similar(found, 5, content="content z", vector=[]) == ["z"]

    def test_a_case_without_a_label_that_counts_is_not_shown(self):
        tie = case("c", NEAR)
        other = Annotation(id="c", source="ben", value=False)
        tie = replace(tie, annotations=(*tie.annotations, other))
        found = memory(case("a", NEAR, label=None), case("b", FAR), tie)
        assert similar(found, 3) == ["b"]
        very_item = similar(found, 3, content="content a")
        assert very_item == ["a", "b"], "of the very item it is"

    def test_no_two_of_one_group_are_shown(self):
        found = memory(
            case("a", NEAR, meta={"group": "c-1"}),
            case("b", NEAR, meta={"group": "c-1"}),
            case("c", FAR, meta={"group": "c-2"}),
            case("d", FAR),
        )
        assert similar(found, 4) == ["a", "c", "d"]

    def test_nor_two_that_say_the_same(self):
        found = memory(
            case("a", NEAR, content="Send it back."),
            case("b", NEAR, content="send it back"),
            case("c", FAR),
        )
        assert similar(found, 3) == ["a", "c"]

    @pytest.mark.parametrize(
        ("embedding", "shown"),
        [("wordllama:x", ["a", "c"]), ("openai:x", ["a", "b", "c"])],
    )
    def test_nor_two_that_are_close_on_a_scale_that_is_known(self, embedding, shown):
        close = [case("a", NEAR), case("b", [0.99, 0.141]), case("c", FAR)]
        assert similar(memory(*close, embedding_model=embedding), 3) == shown

    @pytest.mark.parametrize(
        ("count", "embedding", "shown"),
        [
            (CHOICE, "wordllama:x", ["a"]),
            (CHOICE - 1, "wordllama:x", ["a", "z00", "z01"]),
            (CHOICE, "openai:x", ["a", "z00", "z01"]),  # its scale is not known
        ],
    )
    def test_unrelated_cases_are_left_out_among_enough_others(
        self, count, embedding, shown
    ):
        axes = np.eye(CHOICE + 1).tolist()
        cases = [case("a", axes[0])]
        for n in range(count - 1):
            cases.append(case(f"z{n:02}", axes[n + 1]))
        found = memory(*cases, embedding_model=embedding)
        item = [0.8, 0.5, 0.3, *[0.0] * (CHOICE - 2)]
        assert similar(found, 3, vector=item) == shown

    def test_the_reference_is_compared_only_when_alone(self):
        content = {"q": ["x", 1, True, None]}
        example = Example(id="a", inputs=content, expectations="ref")
        assert embedding_text(example) == "x\n1"
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
        # Labels of an old type are compared unchanged.
        ("float:0..1", "good", "bad", "x", True),
        ("float:0..1", "good", "good", "x", False),
        ("bool", True, False, "y", False),  # of another judge nothing is known
        ("bool", True, None, "x", False),
    ],
)
def test_a_case_is_hard_that_this_judge_had_wrong(spec, label, before, judge, wrong):
    verdict = None if before is None else PreAlignmentVerdict(value=before, judge="x")
    one = replace(case("a", label=label), pre_alignment=verdict)
    assert was_misjudged(memory(one), one, ValueType.of(spec), judge) is wrong


def test_ids_name_all_their_annotations_and_keys_one():
    one = case("t-1")
    bens = Annotation(id="t-1", source="ben", value=True)
    both = replace(one, annotations=(*one.annotations, bens))
    found = memory(both, case("t-2"))
    assert found.keys("t-1") == keys("t-1@ana", "t-1@ben")
    assert found.keys("t-1@ben", "t-2") == keys("t-1@ben", "t-2@ana")
    assert found.keys(source="ben") == keys("t-1@ben")
    assert found.keys("t-1", source="ana") == keys("t-1@ana")


WITHDRAWN = (Tombstone(key=FeedbackKey("t-0", "ana")),)


def test_the_ledger_has_the_living_and_the_withdrawn():
    found = memory(case("t-1"), tombstones=WITHDRAWN)
    assert table(found.ledger(), "key", "state") == [
        (FeedbackKey("t-0", "ana"), "withdrawn"),
        (FeedbackKey("t-1", "ana"), "pending"),
    ]


class TestHash:
    found = memory(case("a"), case("b"))

    @pytest.mark.parametrize(
        ("changes", "same"),
        [
            ({"outcome": Outcome(kind="pending", reason="explained")}, True),
            ({"outcome": Outcome(kind="learned")}, False),
            ({"value": False}, False),
            ({"rationale": "x"}, False),
        ],
    )
    def test_of_an_annotation_what_can_change_verdicts(self, changes, same):
        first, second = self.found.cases
        changed = replace(first.annotations[0], **changes)
        other = memory(replace(first, annotations=(changed,)), second)
        assert (other.hash == self.found.hash) == same

    @pytest.mark.parametrize(
        ("changes", "same"),
        [
            ({}, True),
            ({"tombstones": WITHDRAWN}, True),
            ({"authority": ("ana",)}, False),
            ({"cases": found.cases[:1]}, False),
            ({"guidelines": (Guideline(id="G1", text="x"),)}, False),
        ],
    )
    def test_of_a_memory_what_can_change_verdicts(self, changes, same):
        assert (replace(self.found, **changes).hash == self.found.hash) == same


class TestGuidelines:
    text = "word " * 20
    rules = (
        Guideline(id="G1", text=text),
        Guideline(id="G2", text=text),
        Guideline(id="G3", text=text),
        Guideline(id="G4", text=text, supported_by=keys("a@ana")),
        Guideline(id="G5", text=text, pinned_by="dora"),
    )
    cost = estimate_tokens(text) + 2

    def test_the_budget_keeps_pinned_before_supported_before_old(self):
        kept, left = fit_guidelines(self.rules, self.cost * 3)
        assert ids(kept) == ["G1", "G4", "G5"]
        assert left == ("G2", "G3")
        assert ids(fit_guidelines(self.rules, 0)[0]) == ["G5"]

    def test_a_persons_come_first(self):
        human = Guideline(id="G6", text=self.text, origin="ana")
        kept, _ = fit_guidelines([*self.rules, human], self.cost * 2)
        assert ids(kept) == ["G5", "G6"]


@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_the_nearest_equal_those_of_a_full_sort(seed, count, k):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (count, 2)).astype(np.float32)  # many ties
    item = rng.normal(size=2).astype(np.float32)
    cases = []
    order = []
    for n, vector in enumerate(vectors):
        content = f"content {n // 2}"
        cases.append(case(f"c{n:02}", list(vector), content=content))
        order.append((-float(vector @ item), n))
    expected: dict[int, str] = {}
    for _, n in sorted(order):
        expected.setdefault(n // 2, cases[n].id)
    nearest = list(expected.values())[:k]
    assert similar(memory(*cases), k, vector=item) == nearest


@given(memories(), st.data())
def test_equal_memories_have_equal_hashes_whatever_was_hidden(kept, data):
    names = st.sampled_from(ids(kept.cases)) if kept.cases else st.nothing()
    hidden = data.draw(st.sets(names))
    left = without(kept, *hidden) if hidden else kept
    afresh = msgspec.convert(msgspec.to_builtins(left), Memory)
    assert left == afresh
    assert left.hash == afresh.hash
    assert left.matrix.tobytes() == afresh.matrix.tobytes()
    for each in afresh.cases:
        assert left.annotations_on(each) == afresh.annotations_on(each)


def test_the_guidelines_in_force_print_as_people_read_them():
    rules = (
        Guideline(id="G1", text="Say sorry first.", supported_by=keys("t-1@ana")),
        Guideline(id="G2", text="Name a date.", origin="dora"),
        Guideline(id="G3", text="Be brief.", retired_by="dora"),
    )
    semantic = Memory(guidelines=rules).semantic
    text = "G1: Say sorry first. (t-1@ana)\nG2: Name a date. (dora)"
    assert repr(semantic) == str(semantic) == text
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
def test_authority_then_majority_then_recency_decide(annotations, authority, label):
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
def test_neither_order_nor_the_names_of_people_decide(annotations):
    label = policy_label(annotations)
    for order in permutations(annotations):
        assert policy_label(order) == label
    renamed = []
    for n, each in enumerate(annotations):
        renamed.append(said(f"p{9 - n}", each.value, each.created_at))
    assert policy_label(renamed) == label


def test_a_tie_teaches_nothing_and_tells_everybody():
    judge, model = scripted({"changes": []})
    row = {"id": "t-1", "outputs": "Hm.", "value": True, "rationale": "So."}
    zoes = row | {"source": "zoe", "value": False}
    result = judge.align([row | {"source": "ana"}, zoes])
    for report in result.rows:
        assert report.state == "disputed"
        assert "a tie" in report.reason
    (conflict,) = result.conflicts
    assert conflict.label is None
    assert conflict.reason.startswith("a tie,")
    assert not model.requests
    settled = result.judge.align([row | {"source": "ben"}])
    assert table(settled.conflicts, "label") == [(True,)]


def test_what_already_says_it_is_the_rule_that_is_shown_in_the_end() -> None:
    said = case("t-1")
    key = said.annotations[0].key
    rules = (
        Guideline(id="G1", text="Be kind.", supported_by=(key,), replaced_by="G2"),
        Guideline(id="G2", text="Be warm.", replaced_by="G3"),
        Guideline(id="G3", text="Be warm and brief."),
    )
    (entry,) = Memory(cases=(said,), guidelines=rules).ledger()
    assert (entry.state, entry.reason) == ("merged", "G3 already says it")
