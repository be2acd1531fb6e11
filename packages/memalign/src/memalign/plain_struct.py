"""What all values of memalign that are plain data can do: become JSON values, and stand in a web application's models."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

__all__ = ["PlainStruct"]


class PlainStruct(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value with named fields, all of them plain data.

    Pydantic and FastAPI take such a class for a type of their own, as the type of a body, a response or a model's field:
    it is written as `to_dict` gives it, and read and checked as msgspec does.
    """

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; a feedback key is a list of id and source, as in files."""
        plain: dict[str, Any] = _lists(msgspec.to_builtins(self))
        return plain

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The value of `to_dict`'s fields; unknown ones are left out. Raises msgspec.ValidationError, a ValueError."""
        return msgspec.convert(fields, cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """How pydantic reads and writes the value; called by pydantic alone, so it is there to be imported."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, cls) else cls.from_dict(given),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @property
    def __pydantic_serializer__(self) -> Any:
        """How pydantic writes the value inside something of no declared type, such as a dict that FastAPI returns."""
        return _serializer()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """The JSON schema of the value, whole: a page of OpenAPI has no place for our own definitions."""
        (found,), named = msgspec.json.schema_components((cls,), ref_template="{name}")
        inlined: dict[str, Any] = _inlined(found, named)
        return inlined


@cache
def _serializer() -> Any:
    from pydantic_core import SchemaSerializer, core_schema

    written = core_schema.plain_serializer_function_ser_schema(PlainStruct.to_dict)
    return SchemaSerializer(core_schema.any_schema(serialization=written))


def _lists(value: Any) -> Any:
    """With lists for tuples, as JSON has them."""
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, named) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(named[schema["$ref"]], named)
    places = schema.get("prefixItems")
    if places and all(each == places[0] for each in places):
        # Said by `items` and the two lengths, which every reader of OpenAPI knows.
        schema = {name: each for name, each in schema.items() if name != "prefixItems"} | {"items": places[0]}
    return {name: _inlined(each, named) for name, each in schema.items()}
