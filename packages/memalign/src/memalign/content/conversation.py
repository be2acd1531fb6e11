"""The turns of a conversation, as chat models take them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from memalign.content.encoding import json_inside
from memalign.errors import InputError

__all__ = ["Turn", "turns_of"]

_ROLE = re.compile(r"[^\W\d_][\w .-]{0,39}")
_TEXT_PARTS = ("text", "input_text", "output_text")
_PLAIN_PART = ("type", "text", "cache_control")  # a part with more to it is not its text alone
_EMPTY: tuple[object, ...] = (None, "", [], {})
_FORM = 'a turn is {"role": "user", "content": "…"} or a plain text; a transcript in one piece is one text'


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation: its speaker, None where nobody is named, and what they say, text or other JSON.

    `calls` are the tools that it calls, each with `name` and `arguments`, its `id` where it has one, and its other
    keys; `rest` are all other keys of the turn.
    """

    role: str | None
    content: Any
    calls: tuple[Any, ...] = ()
    rest: dict[str, Any] = {}


def turns_of(conversation: object) -> tuple[Turn, ...] | None:
    """The turns of a conversation, in order; None where it is one text, which is judged as it is.

    A turn is a text, or a message as chat models take it, tool calls and lists of text parts included. For anything
    else InputError names the turn, what is wrong with it and what a turn is.
    """
    if isinstance(conversation, str):
        return None
    if not isinstance(conversation, list | tuple):
        raise InputError(f"conversation is {type(conversation).__name__} instead of a list of turns; {_FORM}")
    if not conversation:
        raise InputError(f"conversation has no turns; {_FORM}")
    return tuple(_turn(number, message) for number, message in enumerate(conversation, 1))


def _turn(number: int, message: object) -> Turn:
    if isinstance(message, str):
        return Turn(role=None, content=message)
    if not isinstance(message, Mapping):
        raise InputError(f"conversation, turn {number}, is {type(message).__name__}; {_FORM}")
    role = message.get("role")
    if role is None:
        keys = ", ".join(map(str, list(message)[:8]))[:120] or "none"
        raise InputError(f"conversation, turn {number}, has no role (its keys are {keys}); {_FORM}")
    if not isinstance(role, str) or not _ROLE.fullmatch(role.strip()):
        form = "a name of at most 40 letters, for example user or assistant"
        raise InputError(f"conversation, turn {number}: its role must be {form}")
    calls, content = message.get("tool_calls"), message.get("content")
    calls = calls if isinstance(calls, list | tuple) else () if calls in _EMPTY else (calls,)
    rest = _without(message, ("role", "content", "tool_calls"))
    if content is None and not calls and not rest:
        raise InputError(f"conversation, turn {number} ({role.strip()}), has no content; {_FORM}")
    return Turn(role=role.strip(), content=_content(content), calls=tuple(map(_call, calls)), rest=rest)


def _content(value: object) -> object:
    """Text parts become one text; anything else stays what it is."""
    if not isinstance(value, list | tuple) or not value or not all(map(_is_text, value)):
        return value
    return "\n".join(part if isinstance(part, str) else part["text"] for part in value)


def _is_text(part: object) -> bool:
    if not isinstance(part, Mapping):
        return isinstance(part, str)
    plain = part.get("type") in _TEXT_PARTS and not _without(part, _PLAIN_PART)
    return plain and isinstance(part.get("text"), str)


def _call(call: object) -> object:
    """A call without its wrapping, its arguments read: models write them as JSON inside a text."""
    if not isinstance(call, Mapping):
        return call
    inner = call["function"] if isinstance(call.get("function"), Mapping) else call
    arguments = inner.get("arguments")
    if isinstance(arguments, str):
        arguments = json_inside(arguments)  # one that was cut off is shown as the model wrote it
    main = {"id": call.get("id", inner.get("id")), "name": inner.get("name"), "arguments": arguments}
    rest = _without({**call, **inner}, ("id", "name", "arguments", "function"))
    if rest.get("type") == "function":
        del rest["type"]
    return {name: value for name, value in main.items() if value is not None} | rest


def _without(value: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """The other keys of an object, as far as they say anything."""
    return {name: part for name, part in value.items() if name not in keys and part not in _EMPTY}
