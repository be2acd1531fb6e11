"""Value types: MLflow's and ours, and labels from one to the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.values import UNBOUNDED, Value, ValueType

__all__ = ["Scale", "annotation_of", "scale_of"]

_RANGE = re.compile(
    r"""\b(?:rat(?:e|ing)|scor(?:e|es|ing)|scale|grade|number|integer|value|points?|from|between)\b
    (?:(?!\b(?:rate|score|scale)\b)[^.\n\d{}])*?        # the nearest number after the word, in one sentence
    (?P<low>-?\d+(?:\.\d+)?)\s*(?:-|\u2013|\u2014|\.\.|to|and)\s*(?P<high>-?\d+(?:\.\d+)?)
    (?!\s*(?:%|\d|words?|sentences?|lines?|paragraphs?|characters?|tokens?
    |items?|steps?|turns?|minutes?|hours?|days?))""",
    re.IGNORECASE | re.VERBOSE,
)
"""A scale in an author's words: "Rate 1-5", "a score from 0 to 1", "between 1 and 10"."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Our value type for a judge of MLflow's, and the labels that MLflow knows by another value than ours."""

    value_type: ValueType
    theirs: Mapping[Value, Any] = field(default_factory=dict)

    def label(self, value: Value | None) -> Any:
        """Our label as MLflow's judge gives it."""
        return self.theirs.get(value, value) if value is not None else None


def scale_of(theirs: object, spec: object = None, *, instructions: str = "") -> Scale:
    """The scale of MLflow's `feedback_value_type`; `spec` is a value type of ours to take in its place.

    MLflow's numbers have no bounds: they are those of the one scale that the `instructions` name, else none.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for lists, dicts, optional values and all else that a label of ours
    cannot be.
    """
    with translated():
        if spec is not None:
            return Scale(value_type=ValueType.of(spec))
        if theirs in (int, float):
            kind: Literal["int", "float"] = "int" if theirs is int else "float"
            low, high = _bounds(instructions, whole=theirs is int)
            return Scale(value_type=ValueType(kind=kind, low=low, high=high))
        if get_origin(theirs) is Literal:
            return _of_choices(get_args(theirs))
        if get_origin(theirs) in (list, dict) or theirs in (list, dict):
            raise invalid(
                f"feedback_value_type {_named(theirs)} cannot be aligned: a label is one value (bool, str, int, "
                "float or a Literal); make one judge for each value"
            )
        if type(None) in get_args(theirs):
            raise invalid(
                f"feedback_value_type {_named(theirs)} cannot be aligned: nobody can tell a missing label from None; "
                "name the case, such as Literal['yes', 'no', 'not applicable']"
            )
        return Scale(value_type=ValueType.of(theirs))


def annotation_of(value_type: ValueType) -> Any:
    """The value type as MLflow's judges take it: numbers lose their bounds."""
    return {"int": int, "float": float}.get(value_type.kind) or value_type.annotation


def _of_choices(choices: tuple[Any, ...]) -> Scale:
    if set(choices) == {True, False} and all(isinstance(choice, bool) for choice in choices):
        return Scale(value_type=ValueType.of(bool))
    if all(isinstance(choice, str) for choice in choices):
        return Scale(value_type=ValueType.of(Literal[choices]))
    whole = sorted(choice for choice in choices if isinstance(choice, int) and not isinstance(choice, bool))
    if len(whole) == len(choices) > 1 and whole == list(range(whole[0], whole[0] + len(whole))):
        return Scale(value_type=ValueType(kind="int", low=float(whole[0]), high=float(whole[-1])))
    texts = tuple(str(choice) for choice in choices)
    return Scale(value_type=ValueType.of(Literal[texts]), theirs=dict(zip(texts, choices, strict=True)))


def _bounds(instructions: str, *, whole: bool) -> tuple[float, float]:
    ranges = {(float(match["low"]), float(match["high"])) for match in _RANGE.finditer(instructions)}
    if len(ranges) == 1:
        ((low, high),) = ranges
        if low < high and not (whole and (low % 1 or high % 1)):
            return low, high
    return -float(UNBOUNDED), float(UNBOUNDED)


def _named(theirs: object) -> str:
    return theirs.__name__ if isinstance(theirs, type) and not get_args(theirs) else str(theirs)
