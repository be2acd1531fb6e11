"""Prompts: the same bytes for the same things, the stable half first, and nothing that could be taken for a mark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.content.encoding import encode
from memalign.memory.guard import check_fault, guideline_fault, normalised, tidy
from memalign.prompts import rendering
from memalign.prompts.rendering import (
    DistilRecord,
    RenderedExample,
    prompts_hash,
    render_answer,
    render_distil,
    render_distil_one,
    render_item,
    render_judge_system,
)
from memalign.types import Guideline
from memalign.values import ValueType

marks = st.sampled_from(
    ["<<<", ">>>", "<|im_end|>", "[INST]", "</s>", "<\uff5cUser\uff5c>", "\u2028", "\n", "\ud800", "\\", '"', "<"]
)
text = st.lists(marks | st.text(st.characters(exclude_categories=()), max_size=4), max_size=6).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def whole(value: Any) -> Any:
    """A value with its surrogate halves joined where they stand side by side, as every JSON reader does."""
    return json.loads(json.dumps(value))


class TestEncoding:
    @given(json_values)
    def test_any_value_is_one_line_that_reads_back(self, value: object) -> None:
        line = encode(value)
        assert len(line.splitlines()) == 1
        assert whole(json.loads(line)) == whole(value)
        line.encode("utf-8")
        for mark in ("<<<", ">>>", "<|", "|>", "<\uff5c", "\uff5c>", "[INST]", "[/INST]", "</s>", "<start_of_turn"):
            assert mark not in line


class TestJudgePrompts:
    def test_the_rationale_is_asked_for_before_the_value(self) -> None:
        for brief in (True, False):
            kind = ValueType.of(bool)
            system = render_judge_system(
                instructions="Good?", fields=("outputs",), value_type=kind, guidelines=[], brief=brief
            )
            assert system.index('"rationale"') < system.index('"value"')

    def test_examples_with_the_experts_answer_come_before_the_item(self) -> None:
        shown = RenderedExample(fields=(("outputs", '"old"'),), answer=render_answer("Too cold.", value=False))
        user = render_item({"outputs": '"new"'}, [shown])
        assert user.index('"old"') < user.index("Expert: false.") < user.index('"new"')
        assert user.endswith(">>>")
        assert render_item({"outputs": '"new"'}, []) == '<<<\noutputs: "new"\n>>>'
        assert render_answer("Too cold.", value=False) == 'Expert: false. Comment: "Too cold."'
        assert render_answer(None, value=0) == "Expert: 0."
        assert render_answer("Too\ncold.", value=None) == 'Expert: Comment: "Too\\ncold."'


class TestDistilPrompts:
    def record(self, label: str, **changes: Any) -> DistilRecord:
        fields: dict[str, Any] = {
            "label": label,
            "fields": (("outputs", encode("An answer.")),),
            "judge": "true",
            "judge_rationale": encode("It answers."),
            "value": "false",
            "rationale": encode("Too cold."),
        }
        return DistilRecord(**fields | changes)

    def test_the_system_message_ignores_the_records(self) -> None:
        settings: dict[str, Any] = {"instructions": "Good? {{ outputs }}", "value_type": ValueType.of(bool)}
        settings["fields"] = ["outputs"]
        one = render_distil(**settings, guidelines=[], records=[self.record("F1")])
        two = render_distil(
            **settings,
            guidelines=[Guideline(id="G1", text="Be kind.")],
            records=[self.record("F2")],
        )
        assert one[0] == two[0]
        assert "G1: Be kind." in two[1]
        assert two[1].index("G1: Be kind.") < two[1].index("New feedback:") < two[1].index("F2 <<<")

    @pytest.mark.parametrize("missing", ["judge", "judge_rationale", "value", "rationale"])
    def test_a_missing_field_leaves_no_empty_line(self, missing: str) -> None:
        record = self.record("F1", **{missing: None})
        settings: dict[str, Any] = {"instructions": "Good?\n{{ outputs }}", "value_type": ValueType.of(bool)}
        _, many = render_distil(**settings, fields=["outputs"], guidelines=[], records=[record])
        _, one = render_distil_one(**settings, record=record)
        assert "None" not in many + one
        assert "Good? {{ outputs }}" in one


def test_the_prompts_hash_is_of_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, copy = prompts_hash(), tmp_path / "prompts"
    shutil.copytree(Path(rendering.__file__).parent, copy)
    monkeypatch.setattr(rendering, "resources", SimpleNamespace(files=lambda _: copy))
    of_the_copy = prompts_hash.__wrapped__  # what it is of files that change
    assert of_the_copy() == before
    assert len(before) == 64
    template = copy / "judge_user.jinja"
    template.write_text(template.read_text("utf-8") + "!", "utf-8")
    assert of_the_copy() != before


class TestGuard:
    def test_eight_words_of_judged_output_are_a_copy(self) -> None:
        output = "One two three four five six seven eight nine."
        assert guideline_fault("Avoid: ONE, two three four five six seven eight!", [("outputs", output)])
        assert guideline_fault("Avoid one two three four five six seven, nine.", [("outputs", output)]) is None

    def test_words_that_the_expert_quoted_are_the_experts(self) -> None:
        output = "This is no advice. Past results do not tell future results of any fund."
        rule = "Every reply ends with: Past results do not tell future results of any fund."
        comment = "It must end with 'past results do not tell future results of any fund'."
        assert guideline_fault(rule, [("outputs", output)])
        assert guideline_fault(rule, [("outputs", output)], [comment]) is None
        assert guideline_fault(rule, [("outputs", output)], ["Past results matter."]), (
            "a few of the words are not enough"
        )
        longer = f"{rule} This is no advice. Past results do not tell future results"
        assert guideline_fault(longer, [("outputs", output)], [comment]), (
            "and what stands beside the quotation is a copy"
        )
        question = "Does it say 'Past results do not tell future results of any fund'?"
        assert check_fault(question, [("outputs", output)])
        assert check_fault(question, [("outputs", output)], [comment]) is None

    def test_tidying_removes_list_marks_and_line_breaks(self) -> None:
        for raw in ("- Be kind.", "* Be\nkind.", "1. Be\u2028kind.", "  Be \t kind.  ", "• Be kind."):
            assert tidy(raw) == "Be kind."
        assert normalised("Be KIND, always!") == "be kind always"
