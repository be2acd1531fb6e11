"""A judge as rows, `(kind, key) -> body`, in which versions are compared and kept.

Bodies are JSON in the order in which the values were written, because prompts show them in that
order. A vector is raw bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import msgspec

from memalign.errors import InputError, MemalignError, RegistryError
from memalign.judge import Judge
from memalign.judge.spec import name_of
from memalign.memory import Annotation, Case, Memory
from memalign.registry.kinds import KINDS, values_of
from memalign.values import ValueType

RowKey = tuple[str, str]
Contents = dict[RowKey, bytes]
"""Everything that one version holds, by kind and key."""

_MODELS = ("model", "embedding_model")
_STATE = ("next_guideline", "authority", "locks", "embedding_model")
_source = attrgetter("source")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading damaged values raises."""


@contextmanager
def named_damage(what: str) -> Iterator[None]:
    """Raise RegistryError, which says `what` is damaged, for whatever reading it runs into."""
    try:
        yield
    except MemalignError:
        raise
    except DAMAGE as error:
        why = f"{type(error).__name__}: {error}"
        raise RegistryError(
            f"{what} is damaged ({why}); restore the registry from a copy"
        ) from None


def encoded(value: Any) -> bytes:
    """Return the body of a value, without a struct's fields that are None.

    Raises:
        InputError: JSON cannot hold it.
    """
    if isinstance(value, bytes):
        return value
    try:
        if isinstance(value, msgspec.Struct):
            value = _without_none(value)
        # Half of a surrogate pair, as broken sources have it, is kept as it is.
        return _JSON.encode(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be kept, it is not a JSON value: {error}") from None


def _without_none(value: msgspec.Struct) -> dict[str, Any]:
    fields = {}
    for name, part in msgspec.to_builtins(value).items():
        if part is not None:
            fields[name] = part
    return fields


def decoded(kind: str, body: bytes) -> Any:
    """Return the value of a body: of the kind's own type, plain JSON values, or a vector's bytes.

    Raises:
        RegistryError: The body is damaged.
    """
    if kind == "vector":
        return body
    try:
        value = json.loads(body)
        if kind in KINDS and KINDS[kind].type is not None:
            value = msgspec.convert(value, KINDS[kind].type)
        return value
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RegistryError(
            f"a row of kind {kind} is damaged: {error}; restore the registry from a copy"
        ) from None


class Codec:
    """Values to bodies and back, each at most once.

    A row that many versions share is decoded for the first only.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], Any] = {}
        # By the value's id. Values are kept, so that no id is used again.
        self._bodies: dict[int, bytes] = {}

    def decode(self, kind: str, body: bytes) -> Any:
        """Return the value of a body. Raises RegistryError if it is damaged."""
        row = (kind, body)
        if row not in self._values:
            value = decoded(kind, body)
            self._values[row] = value
            self._bodies[id(value)] = body
        return self._values[row]

    def encode(self, value: Any) -> bytes:
        """Return the body of a value. Raises InputError for what JSON cannot hold."""
        return self._bodies.get(id(value)) or encoded(value)


def contents_of(judge: Judge) -> Contents:
    """Return the rows of a judge."""
    contents = memory_contents(judge.memory)
    for name, value in settings_of(judge).items():
        contents["judge", name] = encoded(value)
    return contents


def memory_contents(
    memory: Memory, encode: Callable[[Any], bytes] = encoded
) -> Contents:
    """Return the rows of a memory alone; `encode` may be a codec's."""
    contents = {}
    for name in _STATE:
        contents["memory", name] = encoded(getattr(memory, name))
    for held in values_of(memory):
        contents[held.name, _key(held.key)] = encode(held.value)
    return contents


def judge_of(name: str, contents: Contents, *, models: Mapping[str, Any]) -> Judge:
    """Return the judge of these rows.

    `models` gives objects for the names of models that only the caller has.
    """
    settings = {}
    for (kind, field), body in contents.items():
        if kind == "judge":
            settings[field] = decoded(kind, body)
    with named_damage(f"the judge {name!r}"):
        return judge_from(name, settings, memory_of(contents), models=models)


def judge_from(
    name: str, settings: Mapping[str, Any], memory: Memory, *, models: Mapping[str, Any]
) -> Judge:
    """Return the judge of these settings (see `settings_of`). Raises KeyError if one is missing."""
    if not isinstance(name, str):
        raise TypeError("name is no text")
    values = dict(settings)
    for field in _MODELS:
        model = values[field]
        if model is not None and not isinstance(model, str):
            raise TypeError(f"{field} is no text")
        values[field] = models.get(model or "", model)
    value_type = msgspec.convert(values.pop("value_type"), ValueType)
    return Judge(name=name, feedback_value_type=value_type, memory=memory, **values)


@named_damage("a judge's memory")
def memory_of(
    contents: Contents, decode: Callable[[str, bytes], Any] = decoded
) -> Memory:
    """Return the memory of these rows; `decode` may be a codec's.

    Raises RegistryError if a row is damaged.
    """
    values: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for (kind, key), body in contents.items():
        if kind != "judge":
            values[kind][key] = decode(kind, body)
    annotations = defaultdict[str, list[Annotation]](list)
    for annotation in sorted(values["annotation"].values(), key=_source):
        annotations[annotation.id].append(annotation)
    cases = []
    for name, example in sorted(values["case"].items()):
        case = Case(
            example=example,
            annotations=tuple(annotations[name]),
            pre_alignment=values["pre_alignment"].get(name),
            vector=values["vector"].get(name),
        )
        cases.append(case)
    fields = values["memory"]
    for name, state in fields.items():
        if isinstance(state, list):
            fields[name] = tuple(state)
    for name, described in KINDS.items():
        if described.collection is None:
            continue
        entries = sorted(values[name].values(), key=described.order)
        fields[described.collection] = tuple(entries)
    return Memory(cases=tuple(cases), **fields)


def settings_of(judge: Judge) -> dict[str, Any]:
    """Return all of a judge but its name and memory, as JSON values; models by name."""
    return {
        "instructions": judge.instructions,
        "value_type": _without_none(judge.value_type),
        "model": judge.model_name,
        "embedding_model": name_of(judge.embedding_model),
        "retrieval_k": judge.retrieval_k,
        "parameters": dict(judge.parameters),
        "columns": dict(judge.columns),
    }


def is_unicode(text: str) -> bool:
    """Return whether a column can hold a text, which half of a surrogate pair prevents."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _key(key: str) -> str:
    if not is_unicode(key):
        raise InputError(
            f"id or source {key!r} is not valid Unicode; give it another name"
        )
    return key
