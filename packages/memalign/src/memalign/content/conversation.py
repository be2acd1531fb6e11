"""The turns of a conversation, whatever of the usual formats it was written in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from memalign.content.encoding import json_inside
from memalign.content.trace_names import ASSESSMENTS
from memalign.errors import InputError

__all__ = ["Turn", "turns_of"]

_ROLE = re.compile(r"[^\W\d_][\w .-]{0,39}")
_ROLES = ("role", "from", "speaker")
_CONTENTS = ("content", "value", "text")
_TURNS = ("messages", "turns")
_TEXT_PARTS = ("text", "input_text", "output_text")
_PLAIN_PART = ("type", "text", "cache_control")  # a part with more to it is not its text alone
_EMPTY: tuple[object, ...] = (None, "", [], {})
_FORM = 'a turn is {"role": "user", "content": "…"} or a plain text; a transcript in one piece is one text'


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation.

    Attributes:
        role: The speaker, None where nobody is named.
        content: What they say, text or another JSON value.
        calls: The tools that it calls, each with `name` and `arguments`, its `id` where it has one, and its other keys.
        rest: All other keys of the turn.
    """

    role: str | None
    content: Any
    calls: tuple[Any, ...] = ()
    rest: dict[str, Any] = {}


def turns_of(conversation: object) -> tuple[Turn, ...] | None:
    """The turns of a conversation, in order; None where it is one text, which is judged as it is.

    Args:
        conversation: A list of messages as OpenAI's and most providers' chat models take them (tool calls and lists of
            text parts included), of texts, or of `{"from", "value"}`; or an object with such a list as its `messages`,
            of which the rest (`system`, `tools`, …) becomes a turn without a speaker before the first.

    Raises:
        InputError: It names the turn, what is wrong with it and what a turn is.
    """
    if isinstance(conversation, str):
        return None
    around: dict[str, Any] = {}
    if isinstance(conversation, Mapping):
        key = next((name for name in _TURNS if name in conversation), "")
        if not isinstance(conversation.get(key), list | tuple):
            raise InputError(f"conversation is an object without a list of messages; {_FORM}")
        around = _without(conversation, (key, *ASSESSMENTS))  # people's feedback would tell the judge the verdict
        conversation = conversation[key]
    if not isinstance(conversation, list | tuple):
        raise InputError(f"conversation is {_kind(conversation)} instead of a list of turns; {_FORM}")
    if not conversation:
        raise InputError(f"conversation has no turns; {_FORM}")
    turns = tuple(_turn(number, message) for number, message in enumerate(conversation, 1))
    return (Turn(role=None, content=None, rest=around), *turns) if around else turns


def _turn(number: int, message: object) -> Turn:
    if isinstance(message, str):
        return Turn(role=None, content=message)
    if not isinstance(message, Mapping):
        raise InputError(f"conversation, turn {number}, is {_kind(message)}; {_FORM}")
    role_key = next((name for name in _ROLES if message.get(name) is not None), None)
    if role_key is None:
        keys = ", ".join(map(str, list(message)[:8]))[:120] or "none"
        raise InputError(f"conversation, turn {number}, has no role (its keys are {keys}); {_FORM}")
    role = message[role_key]
    if not isinstance(role, str) or not _ROLE.fullmatch(role.strip()):
        form = "a name of at most 40 letters, for example user or assistant"
        raise InputError(f"conversation, turn {number}: its role must be {form}")
    content_key = next((name for name in _CONTENTS if message.get(name) is not None), None)
    calls = [part for name in ("tool_calls", "function_call") for part in _as_list(message.get(name))]
    rest = _without(message, (role_key, content_key, "content", "tool_calls", "function_call"))
    if content_key is None and not calls and not rest:
        raise InputError(f"conversation, turn {number} ({role.strip()}), has no content; {_FORM}")
    content = None if content_key is None else _content(message[content_key])
    return Turn(role=role.strip(), content=content, calls=tuple(map(_call, calls)), rest=rest)


def _content(value: object) -> object:
    """Text parts become one text; anything else stays what it is."""
    parts = value if isinstance(value, list | tuple) else ()
    texts = [text for part in parts if (text := _part_text(part)) is not None]
    return "\n".join(texts) if parts and len(texts) == len(parts) else value


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_PARTS or _without(part, _PLAIN_PART):
        return None
    return part["text"] if isinstance(part.get("text"), str) else None


def _call(call: object) -> object:
    """A call without its wrapping, its arguments read: models write them as JSON inside a text."""
    if not isinstance(call, Mapping):
        return call
    inner = call["function"] if isinstance(call.get("function"), Mapping) else call
    key = "arguments" if "arguments" in inner else "args"
    arguments = inner.get(key)
    if isinstance(arguments, str):
        arguments = json_inside(arguments)  # one that was cut off is shown as the model wrote it
    main = {"id": call.get("id", inner.get("id")), "name": inner.get("name"), "arguments": arguments}
    rest = _without({**call, **inner}, ("id", "name", key, "function"))
    if rest.get("type") in ("function", "tool_call"):
        del rest["type"]
    return {name: value for name, value in main.items() if value is not None} | rest


def _as_list(value: object) -> list[Any]:
    parts = value if isinstance(value, list | tuple) else (value,)
    return [part for part in parts if part not in _EMPTY]


def _without(value: Mapping[str, Any], keys: Collection[str | None]) -> dict[str, Any]:
    """The other keys of an object, as far as they say anything."""
    return {name: part for name, part in value.items() if name not in keys and part not in _EMPTY}


def _kind(value: object) -> str:
    kinds = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), type(value).__name__)
