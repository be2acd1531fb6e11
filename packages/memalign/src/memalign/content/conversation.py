"""The turns of a conversation, whatever of the usual formats it was written in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from memalign.content.inside import read_inside
from memalign.errors import InputError

__all__ = ["Turn", "turns_of"]

_ROLE = re.compile(r"[^\W\d_][\w .-]{0,39}")
_WHO = ("role", "from", "speaker")
_WHAT = ("content", "value", "text")
_HELD = ("messages", "turns")
_TEXT_PARTS = ("text", "input_text", "output_text")
_PLAIN_PART = frozenset({"type", "text", "cache_control"})  # a part with more to it is not its text alone
_USUAL_CALLS = ("function", "tool_call")
_VERDICTS = frozenset({"assessments", "feedback"})  # what people said of it would tell the judge
_NOTHING: tuple[object, ...] = (None, "", [], {})
_FORM = (
    'a turn is {"role": "user", "content": "…"}, as chat models take it, or a plain text; '
    "a transcript in one piece is given as text"
)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: who speaks (None where nobody is named), what they say (text or another JSON value), and what else it has.

    `calls` are the tools that it calls, each with `name` and `arguments`, its `id` where it has one, and what else stands
    there; or what was written in place of that.
    """

    role: str | None
    content: Any
    calls: tuple[Any, ...] = ()
    rest: dict[str, Any] = {}


def turns_of(conversation: object) -> tuple[Turn, ...] | None:
    """The turns of a conversation, in order; None where it is one text, which is judged as it stands.

    Taken are a list of messages as OpenAI's and most providers' chat models take them (tool calls and lists of text
    parts included), of texts, or of `{"from", "value"}`; or an object with such a list as its `messages`, of which the
    rest (`system`, `tools`, …) is a turn of nobody before the first. Raises InputError that names the turn, what is wrong
    with it and what a turn is.
    """
    if isinstance(conversation, str):
        return None
    around: dict[str, Any] = {}
    if isinstance(conversation, Mapping):
        name = next((name for name in _HELD if name in conversation), "")
        held = conversation.get(name)
        if not isinstance(held, list | tuple):
            raise InputError(f"conversation is an object without a list of messages; {_FORM}")
        around = _without(conversation, {name, *_VERDICTS})
        conversation = held
    if not isinstance(conversation, list | tuple):
        raise InputError(f"conversation is {_kind(conversation)}, not a list of turns; {_FORM}")
    if not conversation:
        raise InputError(f"conversation has no turn; {_FORM}")
    turns = tuple(_turn(number, each) for number, each in enumerate(conversation, 1))
    return (Turn(role=None, content=None, rest=around), *turns) if around else turns


def _turn(number: int, value: object) -> Turn:
    if isinstance(value, str):
        return Turn(role=None, content=value)
    if not isinstance(value, Mapping):
        raise InputError(f"conversation, turn {number}, is {_kind(value)}; {_FORM}")
    who = next((name for name in _WHO if value.get(name) is not None), None)
    if who is None:
        raise InputError(f"conversation, turn {number}, has no role (its keys: {_keys(value)}); {_FORM}")
    role = value[who]
    if not isinstance(role, str) or not _ROLE.fullmatch(role.strip()):
        raise InputError(
            f"conversation, turn {number}: its role must be a name of at most 40 letters, such as user or assistant"
        )
    what = next((name for name in _WHAT if value.get(name) is not None), None)
    calls = _calls(value)
    rest = _without(value, {who, what, "content", "tool_calls", "function_call"})
    if what is None and not calls and not rest:
        raise InputError(f"conversation, turn {number} ({role.strip()}), has no content; {_FORM}")
    return Turn(role=role.strip(), content=None if what is None else _content(value[what]), calls=calls, rest=rest)


def _content(value: object) -> object:
    """Text parts become one text; anything else stays what it is."""
    if isinstance(value, list | tuple) and value:
        texts = [_part_text(part) for part in value]
        if all(text is not None for text in texts):
            return "\n".join(text for text in texts if text is not None)
    return value


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or _without(part, _PLAIN_PART):
        return None
    if part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def _calls(turn: Mapping[str, Any]) -> tuple[Any, ...]:
    calls: list[object] = []
    for given in (turn.get("tool_calls"), turn.get("function_call")):
        calls += given if isinstance(given, list | tuple) else [given]
    return tuple(_call(call) for call in calls if call not in _NOTHING)


def _call(call: object) -> object:
    """A call without the wrapping, its arguments read: models write them as JSON inside a text."""
    if not isinstance(call, Mapping):
        return call
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    held = "arguments" if "arguments" in inner else "args"
    arguments = inner.get(held)
    if isinstance(arguments, str):
        arguments = read_inside(arguments)  # one that was cut off is shown as the model wrote it
    named = {"id": call.get("id", inner.get("id")), "name": inner.get("name"), "arguments": arguments}
    named = {name: each for name, each in named.items() if each is not None}
    rest = _without(inner, {"id", "name", held})
    if inner is not call:
        outer = _without(call, {"id", "function"})
        rest |= {name if name not in {*rest, *named} else f"call {name}": each for name, each in outer.items()}
    if rest.get("type") in _USUAL_CALLS:
        del rest["type"]
    return named | rest


def _without(value: Mapping[str, Any], names: Collection[str | None]) -> dict[str, Any]:
    """The rest of an object, as far as it says anything."""
    return {name: each for name, each in value.items() if name not in names and each not in _NOTHING}


def _keys(value: Mapping[str, Any]) -> str:
    return ", ".join(str(name) for name in list(value)[:8])[:120] or "none"


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), type(value).__name__)
