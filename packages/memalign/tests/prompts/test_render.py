"""Prompts: the same bytes for the same things, the stable half first, and nothing that
could be taken for a mark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.content.encoding import encode
from memalign.content.normal import word_form
from memalign.memory.guard import guideline_fault, tidy
from memalign.prompts.rendering import (
    DistilRecord,
    render_distil,
    render_judge_system,
)
from memalign.types import Guideline
from memalign.values import ValueType

marks = st.sampled_from(
    [
        "<<<",
        ">>>",
        "<|im_end|>",
        "[INST]",
        "</s>",
        "<\uff5cUser\uff5c>",
        "\u2028",
        "\n",
        "\ud800",
        "\\",
        '"',
        "<",
    ]
)
text = st.lists(
    marks | st.text(st.characters(exclude_categories=()), max_size=4), max_size=6
).map("".join)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    ),
    max_leaves=8,
)


def whole(value: Any) -> Any:
    """A value with its surrogate halves joined where they stand side by side, as every
    JSON reader does."""
    return json.loads(json.dumps(value))


class TestEncoding:
    @given(json_values)
    def test_any_value_is_one_line_that_reads_back(self, value: object) -> None:
        line = encode(value)
        assert len(line.splitlines()) == 1
        assert whole(json.loads(line)) == whole(value)
        line.encode("utf-8")
        for mark in (
            "<<<",
            ">>>",
            "<|",
            "|>",
            "<\uff5c",
            "\uff5c>",
            "[INST]",
            "[/INST]",
            "</s>",
            "<start_of_turn",
        ):
            assert mark not in line


class TestJudgePrompts:
    def test_the_rationale_is_asked_for_before_the_value(self) -> None:
        for writes in (True, False):
            kind = ValueType.of(bool)
            system = render_judge_system(
                instructions="Good?",
                fields=("outputs",),
                value_type=kind,
                guidelines=[],
                writes=writes,
            )
            assert system.index('"rationale"') < system.index('"value"')


TASK: dict[str, Any] = {
    "instructions": "Good?\n{{ outputs }}",
    "value_type": ValueType.of(bool),
}


@pytest.mark.parametrize("missing", ["judge", "judge_rationale", "value", "rationale"])
def test_a_distillation_shows_records_without_what_is_missing_after_its_stable_half(
    missing: str,
) -> None:
    words = {
        "judge": "true",
        "judge_rationale": '"It answers."',
        "value": "false",
        "rationale": '"Too cold."',
    }
    first, second = (
        DistilRecord(
            label=label,
            fields=(("outputs", f'"Answer {label}."'),),
            **{**words, missing: None},
        )
        for label in ("F1", "F2")
    )
    kind = Guideline(id="G1", text="Be kind.")
    system, user = render_distil(
        **TASK, fields=["outputs"], guidelines=[kind], records=[second]
    )
    assert (
        system
        == render_distil(
            **TASK, fields=["outputs"], guidelines=[kind], records=[first]
        )[0]
    )
    assert (
        user.index("G1: Be kind.") < user.index("New feedback:") < user.index("F2 <<<")
    )
    assert "None" not in user


def test_one_comment_more_is_told_nothing_that_only_several_need() -> None:
    record = DistilRecord(
        label="F1",
        fields=(("outputs", '"a"'),),
        judge=None,
        judge_rationale=None,
        value="true",
        rationale='"b"',
    )
    guidelines = [Guideline(id="G1", text="Be kind.")]
    (one, _), (two, _) = (
        render_distil(
            **TASK, fields=["outputs"], guidelines=guidelines, records=[record] * count
        )
        for count in (1, 2)
    )
    assert len(one) < 0.6 * len(two)
    assert ("conflicts" in one, "conflicts" in two) == (False, True)
    for word in (
        "ADD",
        "SUPPORT",
        "REVISE",
        "NOOP",
        "45 words",
        '"tests"',
        "never instructions",
    ):
        assert word in one


class TestGuard:
    def test_eight_words_of_judged_output_are_a_copy(self) -> None:
        output = "One two three four five six seven eight nine."
        assert guideline_fault(
            "Avoid: ONE, two three four five six seven eight!", [("outputs", output)]
        )
        assert (
            guideline_fault(
                "Avoid one two three four five six seven, nine.", [("outputs", output)]
            )
            is None
        )

    def test_words_that_the_expert_quoted_are_the_experts(self) -> None:
        output = (
            "This is no advice. Past results do not tell future results of any fund."
        )
        rule = "Every reply ends with: Past results do not tell future results of any fund."
        comment = (
            "It must end with 'past results do not tell future results of any fund'."
        )
        assert guideline_fault(rule, [("outputs", output)])
        assert guideline_fault(rule, [("outputs", output)], [comment]) is None
        assert guideline_fault(rule, [("outputs", output)], ["Past results matter."]), (
            "a few of the words are not enough"
        )
        longer = f"{rule} This is no advice. Past results do not tell future results"
        assert guideline_fault(longer, [("outputs", output)], [comment]), (
            "and what stands beside the quotation is a copy"
        )

    def test_tidying_removes_list_marks_and_line_breaks(self) -> None:
        for raw in (
            "- Be kind.",
            "* Be\nkind.",
            "1. Be\u2028kind.",
            "  Be \t kind.  ",
            "• Be kind.",
        ):
            assert tidy(raw) == "Be kind."
        assert word_form("Be KIND, always!") == "be kind always"
