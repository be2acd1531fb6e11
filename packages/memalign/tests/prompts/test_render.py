"""Prompts: the same bytes for the same things, the stable half first, and nothing that
could be taken for a mark."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.content.encoding import encode
from memalign.memory.guard import guideline_fault, tidy
from memalign.prompts.rendering import (
    DistilRecord,
    render_distil,
    render_task,
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


MARKS = re.compile(
    r"<<<|>>>|<\||\|>|<\uff5c|\uff5c>|\[INST\]|\[/INST\]|</s>|<start_of_turn"
)


@given(json_values)
def test_any_value_is_one_line_that_reads_back(value):
    line = encode(value)
    assert len(line.splitlines()) == 1
    assert whole(json.loads(line)) == whole(value)
    line.encode("utf-8")
    assert not MARKS.search(line)


@pytest.mark.parametrize("writes", [True, False])
def test_the_rationale_is_asked_for_before_the_value(writes):
    system = render_task(
        "judge_system",
        instructions="Good?",
        fields=("outputs",),
        value_type=ValueType.of(bool),
        guidelines=[],
        writes=writes,
    )
    assert system.index('"rationale"') < system.index('"value"')


def record(label: str, **words: Any) -> DistilRecord:
    usual: dict[str, Any] = {
        "fields": (("outputs", f'"Answer {label}."'),),
        "judge": "true",
        "judge_rationale": '"It answers."',
        "value": "false",
        "rationale": '"Too cold."',
    }
    return DistilRecord(label=label, **usual | words)


def distillation(*records: DistilRecord) -> tuple[str, str]:
    return render_distil(
        instructions="Good?\n{{ outputs }}",
        value_type=ValueType.of(bool),
        fields=["outputs"],
        guidelines=[Guideline(id="G1", text="Be kind.")],
        records=records,
    )


@pytest.mark.parametrize("missing", ["judge", "judge_rationale", "value", "rationale"])
def test_a_distillation_shows_records_without_what_is_missing_after_its_stable_half(
    missing,
):
    one, _ = distillation(record("F1", **{missing: None}))
    system, user = distillation(record("F2", **{missing: None}))
    assert system == one
    assert re.search("G1: Be kind.*New feedback:.*F2 <<<", user, re.DOTALL)
    assert "None" not in user


def test_one_comment_more_is_told_nothing_that_only_several_need():
    one, _ = distillation(record("F1"))
    two, _ = distillation(record("F1"), record("F2"))
    assert len(one) < 0.6 * len(two)
    assert "conflicts" not in one
    assert "conflicts" in two
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


PAST = "Past results do not tell future results of any fund"


class TestGuard:
    def test_eight_words_of_judged_output_are_a_copy(self):
        judged = [("outputs", "One two three four five six seven eight nine.")]
        copy = "Avoid: ONE, two three four five six seven eight!"
        assert guideline_fault(copy, judged)
        seven = "Avoid one two three four five six seven, nine."
        assert guideline_fault(seven, judged) is None

    @pytest.mark.parametrize(
        ("more", "comment", "copied"),
        [
            ("", "No.", True),
            ("", f"It must end with '{PAST.lower()}'.", False),
            # A few of the words are not enough.
            ("", "Past results matter.", True),
            # And what stands beside the quotation is a copy.
            (f" This is no advice. {PAST[:40]}", f"It must end with '{PAST}'", True),
        ],
    )
    def test_words_that_the_expert_quoted_are_the_experts(self, more, comment, copied):
        judged = [("outputs", f"This is no advice. {PAST}.")]
        rule = f"Every reply ends with: {PAST}.{more}"
        assert bool(guideline_fault(rule, judged, [comment])) == copied

    @pytest.mark.parametrize(
        "raw",
        [
            "- Be kind.",
            "* Be\nkind.",
            "1. Be\u2028kind.",
            "  Be \t kind.  ",
            "• Be kind.",
        ],
    )
    def test_tidying_removes_list_marks_and_line_breaks(self, raw):
        assert tidy(raw) == "Be kind."
