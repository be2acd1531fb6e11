"""The turns of a conversation, as chat models and the usual frameworks write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from memalign.content.json_values import opened
from memalign.content.walk import first_of
from memalign.errors import InputError

__all__ = ["Turn", "turns_of"]

_ROLE = re.compile(r"[^\W_][\w .,'\u2019()@+&/#-]{0,79}")
"""A name as people have it; it opens a line of a prompt, so no colon, bracket or quotation mark."""

_EMPTY: tuple[object, ...] = (None, "", [], {})
_FORM = (
    'give a list of turns such as {"role": "user", "content": "…"}, '
    "or a transcript as one text"
)
_LISTS = (
    "messages",
    "contents",
    "conversation",
    "conversations",
    "turns",
    "dialogue",
    "dialog",
    "items",
    "chat_messages",
    "chat_history",
    "history",
    "transcript",
)
"""Keys under which files and APIs keep the list of turns."""
_HISTORIES = ("chat_history", "history")

_EXCHANGES = (
    "user assistant, human assistant, human ai, user bot, question answer, query response, "
    "prompt response, request response, input output, inputs outputs"
)
"""Keys under which one object has what was asked and what was answered."""

_SPEAKERS = ("role", "from", "speaker", "author", "sender", "source", "user", "name")
_USER = re.compile(r"user|assistant|bot|[UWB][A-Z0-9]{6,}")
"""A role, or the id of somebody in Slack."""
_SAID = ("content", "value", "text", "message", "parts", "body", "utterance")
_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "ai": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "systemmessage": "system",
    "toolmessage": "tool",
    "functionmessage": "function",
    "observation": "tool",
    "user": "user",
    "prompter": "user",
    "assistant": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
}
"""The usual name of a role by the names that frameworks have for it."""

_OF_LANGCHAIN = {
    "human",
    "ai",
    "system",
    "tool",
    "function",
    "chat",
    "developer",
    *_ROLES,
}
_BOOKKEEPING = (
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
    "example",
    "invalid_tool_calls",
)
"""What LangChain keeps beside a message: its calls once more, and counts of tokens."""

_TEXT_PARTS = ("text", "input_text", "output_text", "summary_text", "refusal", None)
_PLAIN_PART = ("type", "text", "cache_control", "annotations", "logprobs")
"""Keys of a text part; one with more keys is not its text alone."""


Message = Mapping[str, Any]
"""A turn as somebody's program wrote it."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation.

    Attributes:
        role: The speaker; None where nobody is named.
        content: What they say, text or other JSON.
        calls: The tools that they call, each with `name` and `arguments`, its `id` if it has one,
            and its other keys.
        rest: All other keys of the turn.
    """

    role: str | None
    content: Any
    calls: tuple[Any, ...] = ()
    rest: dict[str, Any] = {}


def turns_of(conversation: object) -> tuple[Turn, ...] | None:
    """Return the turns of a conversation, in order; None for one text, which is judged as it is.

    A turn is a text, or a message as chat models take it, tool calls and lists of text parts
    included. Messages of LangChain, turns of ShareGPT, items of OpenAI's Responses, contents of
    Gemini and an object with the list of turns are read as such. A turn of any other form is shown
    as it is, without a speaker.

    Args:
        conversation: The field.

    Raises:
        InputError: It is a number or empty; the message says what a conversation is.
    """
    if isinstance(conversation, str):
        return None
    turns: list[Turn] = []
    messages: Any = conversation
    if isinstance(conversation, Mapping):
        name = _name_of_turns(conversation)
        messages = [conversation] if conversation else []
        if name is not None:
            messages = conversation[name]
            beside = _without(conversation, (name,))
            if beside:
                turns.append(Turn(role=None, content=None, rest=beside))
    if not _is_list(messages):
        kind = type(messages).__name__
        raise InputError(f"conversation is {kind}; {_FORM}")
    if not messages:
        raise InputError(f"conversation has no turns; {_FORM}")
    for message in messages:
        turns.extend(map(_turn, _sides(message)))
    return tuple(turns)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _sides(given: object) -> Sequence[object]:
    """Return a question and its answer in one object as two messages; any other turn as it is."""
    if not isinstance(given, Mapping) or "role" in given:
        return (given,)
    for exchange in _EXCHANGES.split(", "):
        asked, answered = exchange.split()
        if asked in given and answered in given:
            rest = _without(given, (asked, answered))
            answer = {"role": "assistant", "content": given[answered], **rest}
            return {"role": "user", "content": given[asked]}, answer
    return (given,)


def _turn(given: object) -> Turn:
    if not isinstance(given, Mapping):
        return Turn(role=None, content=given)
    message = _usual(given)
    role = message.get("role")
    if not isinstance(role, str) or not _ROLE.fullmatch(role.strip()):
        return Turn(role=None, content=dict(given))
    calls = tuple(map(_call, _listed(message.get("tool_calls"))))
    rest = _without(message, ("role", "content", "tool_calls"))
    content = _content(message.get("content"))
    return Turn(role=role.strip(), content=content, calls=calls, rest=rest)


def _listed(value: Any) -> Sequence[Any]:
    """Return a list, which some write as its only entry."""
    if isinstance(value, list | tuple):
        return value
    if value in _EMPTY:
        return ()
    return (value,)


# -- how others write a turn -----------------------------------------------------------------------


def _usual(message: Message) -> Message:
    """Return a turn of another form as a message with `role` and `content`; any other as it is."""
    kind = message.get("type")
    if message.get("lc") is not None and isinstance(message.get("kwargs"), Mapping):
        kind = ""
        for name in _listed(message.get("id")):  # of a class, whose own comes last
            kind = str(name)
        return _of_langchain(message["kwargs"], kind)
    if kind == "message" and "role" in message:
        return _without(message, ("type", "id", "status"))
    if isinstance(kind, str) and "role" not in message:
        return _of_type(message, kind)
    return _of_speaker(message)


def _of_type(message: Message, kind: str) -> Message:
    """Return a turn whose type says who speaks, of LangChain or of OpenAI's Responses."""
    if isinstance(message.get("data"), Mapping):
        return _of_langchain(message["data"], kind)
    if kind.lower() in _OF_LANGCHAIN and "content" in message:
        return _of_langchain(message, kind)
    if kind.endswith(("_call", "_call_output", "_response")) or kind == "reasoning":
        return _of_responses(message, kind)
    return _of_speaker(message)


def _of_speaker(message: Message) -> Message:
    """Return a message whose speaker and words have other names, such as Gemini's `parts`."""
    speaker = _present(message, _SPEAKERS)
    said = _present(message, _SAID)
    if speaker is None or said is None or (speaker, said) == ("role", "content"):
        return message
    role = message[speaker]
    if speaker == "user" and not (isinstance(role, str) and _USER.fullmatch(role)):
        return message  # it may be what the user said
    if isinstance(role, Mapping):
        role = role.get("role") or role.get("name")
    content = message[said]
    usual = {"role": _role(role), "content": content}
    if said == "parts" and _is_list(content):
        usual |= _of_parts(content)
    rest = _without(message, (speaker, said))
    return usual | rest


def _name_of_turns(conversation: Message) -> str | None:
    """Return the key of the list of turns, or None without one.

    What stands beside a history may come after it, so a history is the turns only by itself.
    """
    lists = [name for name in _LISTS if _is_list(conversation.get(name))]
    full = [name for name in lists if conversation[name]]
    for name in full or lists:
        if name in _HISTORIES and len(conversation) > 1:
            return None
        return name
    return None


def _present(message: Message, names: Sequence[str]) -> str | None:
    """Return the first of these names under which a message has something."""
    for name in names:
        if message.get(name) is not None:
            return name
    return None


def _of_parts(parts: Sequence[Any]) -> dict[str, Any]:
    """Return the content and calls in the parts of a turn of Gemini, or what a tool returned."""
    calls: list[Any] = []
    results: list[Any] = []
    said: list[Any] = []
    for part in parts:
        call = first_of(part, ("functionCall", "function_call"))
        result = first_of(part, ("functionResponse", "function_response"))
        if call is not None:
            calls.append(call)
        elif result is not None:
            results.append(result)
        else:
            said.append(part)
    if not results:
        return {"content": said or None, "tool_calls": calls}
    content: Any = [*said, *results]
    if len(content) == 1:
        content = content[0]
    return {"role": "tool", "content": content}


def _role(name: object) -> object:
    """Return the usual name of a role that a framework has."""
    if not isinstance(name, str):
        return name
    return _ROLES.get(name.lower(), name)


def _of_langchain(fields: Message, kind: str) -> dict[str, Any]:
    """Return a message of LangChain; one of type `chat` names its own role."""
    role = fields.get("role") or kind
    rest = _without(fields, ("type", "role", "content", *_BOOKKEEPING))
    return {"role": _role(role), "content": fields.get("content"), **rest}


def _of_responses(item: Message, kind: str) -> dict[str, Any]:
    """Return an item of OpenAI's Responses that is no message: a call, its output, or reasoning."""
    if kind == "reasoning":
        said = item.get("summary") or item.get("content") or kind
        return {"role": "assistant", "reasoning": _content(said)}
    if kind.endswith("_call"):
        return {"role": "assistant", "tool_calls": [_without(item, ("status",))]}
    rest = _without(item, ("type", "output", "status"))
    return {"role": "tool", "content": item.get("output"), **rest}


# -- content and calls -----------------------------------------------------------------------------


def _content(value: object) -> object:
    """Return text parts as one text; anything else as it is."""
    if isinstance(value, Mapping) and _is_list(value.get("parts")):
        value = value["parts"]
    if not isinstance(value, list | tuple) or not value:
        return value
    texts: list[str] = []
    for part in value:
        if not _is_text(part):
            return value
        texts.append(part if isinstance(part, str) else part["text"])
    return "\n".join(texts)


def _is_text(part: object) -> bool:
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
        return False
    return part.get("type") in _TEXT_PARTS and not _without(part, _PLAIN_PART)


def _call(call: object) -> object:
    """Return a call without its wrapping, its arguments read, which models write as JSON."""
    if not isinstance(call, Mapping):
        return call
    inner = call.get("function")
    if not isinstance(inner, Mapping):
        inner = call
    arguments = inner.get("arguments", inner.get("args"))
    main = {
        "id": call.get("id", inner.get("id")),
        "name": inner.get("name"),
        # Those that were cut off are shown as they were written.
        "arguments": opened(arguments),
    }
    rest = _without({**call, **inner}, ("id", "name", "arguments", "args", "function"))
    if rest.get("type") in ("function", "tool_call", "function_call"):
        del rest["type"]
    present = {name: value for name, value in main.items() if value is not None}
    return present | rest


def _without(value: Message, keys: Collection[str]) -> dict[str, Any]:
    """Return the other keys of an object, as far as they say anything."""
    return {
        name: part
        for name, part in value.items()
        if name not in keys and part not in _EMPTY
    }
