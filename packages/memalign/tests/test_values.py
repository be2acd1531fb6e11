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
    "both bounds": [Annotated[int, Ge(1)], Annotated[int, Gt(1), Le(5)]],
    "only int and float": [Annotated[str, Ge(1)]],
    "its numbers have gaps": [IntEnum("Stars", {"ONE": 1, "FIVE": 5})],
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
    def test_every_type_has_python_and_file_spellings(
        self, annotation: object, spec: str
    ) -> None:
        assert (
            ValueType.of(annotation)
            == ValueType.of(spec)
            == ValueType.of(ValueType.of(spec))
        )
        assert ValueType.of(annotation).spec == spec
        assert ValueType.of(ValueType.of(spec).annotation) == ValueType.of(spec)

    @pytest.mark.parametrize(
        "spelling",
        [Annotated[int, annotated_types.Interval(ge=1, le=5)], Annotated[int, pydantic.Field(ge=1, le=5)], " int:1..5 "],
    )  # fmt: skip
    def test_bounds_may_be_written_in_other_ways(self, spelling: object) -> None:
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
        self, members: type[Enum], spec: str
    ) -> None:
        kind = ValueType.of(members)
        assert kind == ValueType.of(spec)
        assert [kind.parse(member) for member in members] == list(kind.labels)
        assert {type(kind.parse(member)) for member in members} <= {str, int}, (
            "plain values, whatever was given"
        )

    @pytest.mark.parametrize(
        ("why", "bad"), [(why, bad) for why, types in REFUSED.items() for bad in types]
    )
    def test_anything_else_is_refused_with_its_reason(
        self, bad: object, why: str
    ) -> None:
        with pytest.raises(InvalidValueType, match=why):
            ValueType.of(bad)

    @given(st.floats(-1e9, 1e9) | st.integers(-(10**6), 10**6), st.integers(1, 10**6))
    def test_bounds_of_any_size_survive_their_spelling(
        self, low: float, width: int
    ) -> None:
        kind = ValueType.of(Annotated[type(low), Ge(low), Le(low + width)])
        assert ValueType.of(kind.spec) == kind

    @given(st.sets(st.text(min_size=1, max_size=6), min_size=2, max_size=4))
    def test_choices_survive_their_spelling_or_are_refused(
        self, choices: set[str]
    ) -> None:
        try:
            kind = ValueType.of(Literal[tuple(sorted(choices))])
        except InvalidValueType:
            assert any("|" in choice or choice != choice.strip() for choice in choices)
        else:
            assert ValueType.of(kind.spec) == kind
            assert [kind.parse(label) for label in kind.labels] == list(kind.labels)


READ: dict[str, list[tuple[object, object]]] = {
    "bool": [
        *((raw, True) for raw in (True, "Yes", "pass", 1.0, "1.0", "ДА", "是", "✔️")),
        *(
            (raw, False)
            for raw in (" FALSE ", 0, 0.0, " 0.0", "нет", "いいえ", "HAYIR")
        ),
        *((raw, True) for raw in ("true\u200b", "\u00a0yes", "\uff34RUE")),
    ],
    "A|B|tie": [("A", "A"), (" TIE ", "tie")],
    "partly right|wrong": [
        ("Partly_Right", "partly right"),
        ("partly-right", "partly right"),
    ],
    "1|2": [(1, "1"), (2.0, "2")],
    "int:1..5": [
        ("4", 4),
        (4.0, 4),
        ("4/5", 4),
        ("4 / 5", 4),
        ("Four", 4),
        ("\uff14", 4),
    ],
    "float:0..1": [("17/20", 0.85), ("½", 0.5)],
    "float:-1..1": [(1, 1.0), ("-0.5", -0.5)],
    "str": [(" as it is ", " as it is ")],
}
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
    @pytest.mark.parametrize(
        ("spec", "raw", "value"),
        [(s, *pair) for s, pairs in READ.items() for pair in pairs],
    )
    def test_the_usual_spellings_are_understood(
        self, spec: str, raw: object, value: object
    ) -> None:
        parsed = ValueType.of(spec).parse(raw)
        assert parsed == value
        assert type(parsed) is type(value)

    @pytest.mark.parametrize(
        ("spec", "raw"),
        [(spec, raw) for spec, values in OUTSIDE.items() for raw in values],
    )
    def test_a_value_outside_names_what_is_allowed(
        self, spec: str, raw: object
    ) -> None:
        kind = ValueType.of(spec)
        with pytest.raises(InvalidValue) as caught:
            kind.parse(raw)
        assert kind.allowed in str(caught.value)

    def test_choices_differing_by_case_need_exact_words(self) -> None:
        kind = ValueType.of("a|A")
        assert kind.parse("A") == "A"
        assert ValueType.of("ok|OK|no").parse("NO") == "no"
        with pytest.raises(InvalidValue):
            ValueType.of("ok|OK|no").parse("Ok")


class TestSchemas:
    @pytest.mark.parametrize(("annotation", "spec"), TYPES)
    def test_the_schema_takes_every_label_and_nothing_beside(
        self, annotation: object, spec: str
    ) -> None:
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

    def test_a_long_scale_has_bounds_without_a_list(self) -> None:
        schema = ValueType.of("int:0..1000").json_schema()
        assert schema == {"type": "integer", "minimum": 0, "maximum": 1000}
        assert ValueType.of("int:0..100").json_schema()["enum"][-1] == 100
