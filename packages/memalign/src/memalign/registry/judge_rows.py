"""A judge as rows, and back: `(kind, key) -> body`, the form in which versions are compared and kept.

Bodies are JSON in the order in which the values were written (prompts show them in that order); a vector is raw bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from memalign.errors import InputError, MemalignError, RegistryError
from memalign.judge import Judge
from memalign.judge.spec import name_of
from memalign.memory import (
    Annotation,
    Case,
    FeedbackConflict,
    Memory,
    PreAlignmentVerdict,
    Tombstone,
)
from memalign.types import Example, Guideline, canonical_json
from memalign.values import ValueType

RowKey = tuple[str, str]
Contents = dict[RowKey, bytes]
"""Everything one version holds, by kind and key."""

_TYPES: dict[str, Any] = {
    "case": Example,
    "annotation": Annotation,
    "pre_alignment": PreAlignmentVerdict,
    "guideline": Guideline,
    "tombstone": Tombstone,
    "conflict": FeedbackConflict,
}
_MODELS = ("model", "embedding_model")
_STATE = ("next_guideline", "authority", "locks", "embedding_model")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@contextmanager
def named_damage(what: str) -> Iterator[None]:
    """Raise RegistryError, which says `what` is damaged, for whatever reading it runs into."""
    try:
        yield
    except MemalignError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__}: {error}"
        raise RegistryError(
            f"{what} is damaged ({why}); restore the registry from a copy"
        ) from None


def encoded(value: Any) -> bytes:
    """The body of a value, without a struct's fields that are None. Raises InputError for what JSON cannot hold."""
    try:
        if isinstance(value, msgspec.Struct):
            value = {
                name: part for name, part in msgspec.to_builtins(value).items() if part is not None
            }
        # Half of a surrogate pair, as broken sources have it, is kept as it is.
        return _JSON.encode(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be kept, it is not a JSON value: {error}") from None


def decoded(kind: str, body: bytes) -> Any:
    """The value of a body: of the kind's own type where it has one, else plain JSON values. Raises RegistryError."""
    try:
        value = json.loads(body)
        return msgspec.convert(value, _TYPES[kind]) if kind in _TYPES else value
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RegistryError(
            f"a row of kind {kind} is damaged: {error}; restore the registry from a copy"
        ) from None


class Codec:
    """Values to bodies and back, each at most once: a row that many versions share is decoded for the first only."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], Any] = {}
        self._bodies: dict[
            int, bytes
        ] = {}  # by the value's id: values are kept, so that no id is used again

    def decode(self, kind: str, body: bytes) -> Any:
        """The value of a body. Raises RegistryError when it is damaged."""
        if (kind, body) not in self._values:
            value = self._values[kind, body] = decoded(kind, body)
            self._bodies[id(value)] = body
        return self._values[kind, body]

    def encode(self, value: Any) -> bytes:
        """The body of a value. Raises InputError for what JSON cannot hold."""
        return self._bodies.get(id(value)) or encoded(value)


def contents_of(judge: Judge) -> Contents:
    """The rows of a judge."""
    settings = {("judge", name): encoded(value) for name, value in settings_of(judge).items()}
    return settings | memory_contents(judge.memory)


def memory_contents(memory: Memory, encode: Callable[[Any], bytes] = encoded) -> Contents:
    """The rows of a memory alone; `encode` may be a codec's."""
    contents: Contents = {("memory", name): encoded(getattr(memory, name)) for name in _STATE}
    for case in memory.cases:
        contents["case", _key(case.id)] = encode(case.example)
        for annotation in case.annotations:
            contents["annotation", _key(str(annotation.key))] = encode(annotation)
        if case.pre_alignment is not None:
            contents["pre_alignment", case.id] = encode(case.pre_alignment)
        if case.vector is not None:
            contents["vector", case.id] = case.vector
    for guideline in memory.guidelines:
        contents["guideline", guideline.id] = encode(guideline)
    for stone in memory.tombstones:
        contents["tombstone", _key(str(stone.key))] = encode(stone)
    for conflict in memory.conflicts:
        contents["conflict", _key(canonical_json(conflict.feedback))] = encode(conflict)
    return contents


def judge_of(name: str, contents: Contents, *, models: Mapping[str, Any]) -> Judge:
    """The judge that `contents` hold; `models` gives objects for the names of models that only the caller has."""
    settings = {
        field: decoded(kind, body) for (kind, field), body in contents.items() if kind == "judge"
    }
    with named_damage(f"the judge {name!r}"):
        return judge_from(name, settings, memory_of(contents), models=models)


def judge_from(
    name: str, settings: Mapping[str, Any], memory: Memory, *, models: Mapping[str, Any]
) -> Judge:
    """The judge of these settings (see `settings_of`); raises KeyError where one is missing."""
    values = dict(settings)
    for field in ("name", *_MODELS):
        text = name if field == "name" else values[field]
        if not isinstance(text, str) and not (text is None and field != "name"):
            raise TypeError(f"{field} is no text")
    value_type = msgspec.convert(values.pop("value_type"), ValueType)
    own = {field: models[values[field]] for field in _MODELS if values[field] in models}
    return Judge(name=name, feedback_value_type=value_type, memory=memory, **values | own)


def memory_of(contents: Contents, decode: Callable[[str, bytes], Any] = decoded) -> Memory:
    """The memory that `contents` hold; `decode` may be a codec's. Raises RegistryError where a row is damaged."""
    with named_damage("a judge's memory"):
        return _memory_of(contents, decode)


def _memory_of(contents: Contents, decode: Callable[[str, bytes], Any]) -> Memory:
    values: dict[str, dict[str, Any]] = {kind: {} for kind in (*_TYPES, "vector", "memory")}
    for (kind, key), body in contents.items():
        if kind != "judge":
            values[kind][key] = body if kind == "vector" else decode(kind, body)
    annotations: dict[str, list[Annotation]] = {}
    for annotation in values["annotation"].values():
        annotations.setdefault(annotation.id, []).append(annotation)
    cases = (
        Case(
            example=example,
            annotations=tuple(
                sorted(annotations.get(name, ()), key=lambda annotation: annotation.source)
            ),
            pre_alignment=values["pre_alignment"].get(name),
            vector=values["vector"].get(name),
        )
        for name, example in sorted(values["case"].items())
    )
    state: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in values["memory"].items()
    }
    return Memory(
        cases=tuple(cases),
        guidelines=tuple(
            sorted(values["guideline"].values(), key=lambda guideline: guideline.number)
        ),
        conflicts=tuple(
            sorted(values["conflict"].values(), key=lambda conflict: conflict.feedback)
        ),
        tombstones=tuple(sorted(values["tombstone"].values(), key=lambda stone: stone.key)),
        **state,
    )


def settings_of(judge: Judge) -> dict[str, Any]:
    """All of a judge but its name and memory, as JSON values; models by name."""
    return {
        "instructions": judge.instructions,
        "value_type": {
            k: v for k, v in msgspec.to_builtins(judge.value_type).items() if v is not None
        },
        "model": judge.model_name,
        "embedding_model": name_of(judge.embedding_model),
        "retrieval_k": judge.retrieval_k,
        "parameters": dict(judge.parameters),
        "columns": dict(judge.columns),
    }


def is_unicode(text: str) -> bool:
    """Whether a column can hold it: not half of a surrogate pair, as a word of another encoding may have."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _key(key: str) -> str:
    if not is_unicode(key):
        raise InputError(f"id or source {key!r} is not valid Unicode; give it another name")
    return key
