"""Value types: every one of the design's, however it is written, and nothing else."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal

import annotated_types
import jsonschema
import pydantic
import pytest
from annotated_types import Ge, Gt, Le
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import InvalidValue, InvalidValueType
from memalign.values import ValueType

TYPES = [
    (bool, "bool"),
    (str, "str"),
    (Literal["A", "B", "tie"], "A|B|tie"),
    (Annotated[int, Ge(1), Le(5)], "int:1..5"),
    (Annotated[float, Ge(-1), Le(1)], "float:-1..1"),
    (Annotated[float, Ge(0), Le(0.5)], "float:0..0.5"),
]
REFUSED: dict[str, list[object]] = {
    "int needs bounds": [int],
    "float needs bounds": [float],
    "there is no value type": [list, None, 7, "stars", "", "int", bool | None],
    "for several values make one judge for each": [
        list[str],
        dict[str, float],
        tuple[str, int],
    ],
    "bounds look like int:1..5": ["int:", "int:a..b", "int:1-5"],
    "two finite whole numbers, the lower one first": [
        "int:5..1",
        "int:1..1",
        "int:1.5..3",
    ],
    "two finite numbers": ["float:0..inf", "float:nan..1"],
    "its numbers have gaps": [IntEnum("Stars", {"ONE": 1, "FIVE": 5})],
    "both bounds": [Annotated[int, Ge(1)], Annotated[int, Gt(1), Le(5)]],
    "only int and float": [Annotated[str, Ge(1)]],
    "contains": [Literal["A|B", "C"]],
    "white space": [Literal[" A", "B"]],
    "two or more different texts": [
        Enum("One", {"A": "a"}),
        "A|A",
        Literal["A"],
        "A|",
        Literal[1, 2],
    ],
}


class TestReading:
    @pytest.mark.parametrize(("annotation", "spec"), TYPES)
    def test_every_type_has_python_and_file_spellings(self, annotation, spec):
        kind = ValueType.of(spec)
        assert kind.spec == spec
        for spelling in (annotation, kind):
            assert ValueType.of(spelling) == kind

    @pytest.mark.parametrize(
        "spelling",
        [
            Annotated[int, annotated_types.Interval(ge=1, le=5)],
            Annotated[int, pydantic.Field(ge=1, le=5)],
            " int:1..5 ",
        ],
    )
    def test_bounds_may_be_written_in_other_ways(self, spelling):
        assert ValueType.of(spelling).spec == "int:1..5"

    @pytest.mark.parametrize(
        ("members", "spec"),
        [
            (StrEnum("Grade", {"GOOD": "good", "BAD": "bad"}), "good|bad"),
            (Enum("Grade", {"GOOD": "good", "BAD": "bad"}), "good|bad"),
            (Enum("Grade", ["GOOD", "BAD"]), "GOOD|BAD"),  # whose numbers nobody chose
            (IntEnum("Stars", {"ONE": 1, "TWO": 2, "THREE": 3}), "int:1..3"),
        ],
    )
    def test_an_enum_is_its_texts_or_numbers_and_its_members_are_labels(
        self, members, spec
    ):
        kind = ValueType.of(members)
        assert kind == ValueType.of(spec)
        labels = list(map(kind.parse, members))
        assert labels == list(kind.labels)
        assert {*map(type, labels)} <= {str, int}, "plain values, whatever was given"

    @pytest.mark.parametrize("why", REFUSED)
    def test_anything_else_is_refused_with_its_reason(self, why):
        for bad in REFUSED[why]:
            with pytest.raises(InvalidValueType, match=why):
                ValueType.of(bad)

    @given(st.floats(-1e9, 1e9) | st.integers(-(10**6), 10**6), st.integers(1, 10**6))
    def test_bounds_of_any_size_survive_their_spelling(self, low, width):
        number = type(low)
        kind = ValueType.of(Annotated[number, Ge(low), Le(low + width)])
        assert ValueType.of(kind.spec) == kind

    @given(st.sets(st.text(min_size=1, max_size=6), min_size=2, max_size=4))
    def test_choices_survive_their_spelling_or_are_refused(self, choices):
        try:
            kind = ValueType.of(Literal[tuple(sorted(choices))])
        except InvalidValueType:
            assert any("|" in choice or choice != choice.strip() for choice in choices)
        else:
            assert ValueType.of(kind.spec) == kind
            assert list(map(kind.parse, kind.labels)) == list(kind.labels)


READ: list[tuple[str, object, list[object]]] = [
    ("bool", True, [True, "Yes", "pass", 1.0, "1.0", "ДА", "是", "✔️"]),
    ("bool", True, ["true\u200b", "\u00a0yes", "\uff34RUE"]),
    ("bool", False, [" FALSE ", 0, 0.0, " 0.0", "нет", "いいえ", "HAYIR"]),
    ("A|B|tie", "A", ["A"]),
    ("A|B|tie", "tie", [" TIE "]),
    ("partly right|wrong", "partly right", ["Partly_Right", "partly-right"]),
    ("1|2", "1", [1]),
    ("1|2", "2", [2.0]),
    ("int:1..5", 4, ["4", 4.0, "4/5", "4 / 5", "Four", "\uff14"]),
    ("float:0..1", 0.85, ["17/20"]),
    ("float:0..1", 0.5, ["½"]),
    ("float:-1..1", 1.0, [1]),
    ("float:-1..1", -0.5, ["-0.5"]),
    ("str", " as it is ", [" as it is "]),
]
OUTSIDE: dict[str, list[object]] = {
    "bool": ["maybe", 2, 0.5, float("nan"), "nan", None],
    "1|2": [1.5, float("inf")],
    "A|B": ["C", True, "A-"],
    "1|0": ["-1"],
    "a|A": ["á"],
    "int:1..5": [6, 4.5, True, "4.5", "nan", float("inf"), [3], "8/10", "4/5/2024"],
    "float:0..1": ["1/0"],
    "float:-1..1": ["1e999", False],
    "str": ["", "  ", [5], None],
}


class TestParsing:
    @pytest.mark.parametrize(("spec", "value", "spellings"), READ)
    def test_the_usual_spellings_are_understood(self, spec, value, spellings):
        for raw in spellings:
            parsed = ValueType.of(spec).parse(raw)
            assert parsed == value
            assert type(parsed) is type(value)

    @pytest.mark.parametrize("spec", OUTSIDE)
    def test_a_value_outside_names_what_is_allowed(self, spec):
        kind = ValueType.of(spec)
        for raw in OUTSIDE[spec]:
            with pytest.raises(InvalidValue) as caught:
                kind.parse(raw)
            assert kind.allowed in str(caught.value)

    def test_choices_differing_by_case_need_exact_words(self):
        kind = ValueType.of("a|A")
        assert kind.parse("A") == "A"
        assert ValueType.of("ok|OK|no").parse("NO") == "no"
        with pytest.raises(InvalidValue):
            ValueType.of("ok|OK|no").parse("Ok")


class TestSchemas:
    @pytest.mark.parametrize(("annotation", "spec"), TYPES)
    def test_the_schema_takes_every_label_and_nothing_beside(self, annotation, spec):
        kind = ValueType.of(annotation)
        schema = jsonschema.Draft202012Validator(kind.json_schema())
        for label in kind.labels:
            assert schema.is_valid(label)
            assert kind.parse(label) == label
        wrong: dict[str, Any] = {
            "bool": "yes",
            "choice": "C",
            "int": 6,
            "float": 7.5,
            "str": 5,
        }
        assert not schema.is_valid(wrong[kind.kind])

    def test_a_long_scale_has_bounds_without_a_list(self):
        schema = ValueType.of("int:0..1000").json_schema()
        assert schema == {"type": "integer", "minimum": 0, "maximum": 1000}
        assert ValueType.of("int:0..100").json_schema()["enum"][-1] == 100
