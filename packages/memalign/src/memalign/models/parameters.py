"""Parameters that a server refuses by name: renamed, left out or lowered, so that it can be used.

The name that a user gives to a deployment says nothing of what it takes: a gateway's alias may hide
a model that thinks first and takes another name for the longest answer, no temperature, or fewer
tokens.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["LONGEST_ANSWER", "Changes", "Settings", "adapted", "change_for"]

Settings = dict[str, Any]
"""pydantic-ai's settings of a request, with keys of several providers."""

Changes = dict[str, Any]
"""By the parameter that was refused: None to leave it out, or its value. `tokens` has another name
of the longest answer, `most` its size."""

LONGEST_ANSWER = ("max_tokens", "max_completion_tokens")
"""The two names of the same parameter."""

_SETTINGS = {"reasoning_effort": ("openai_reasoning_effort", "thinking")}
"""pydantic-ai's names of what goes out under another one."""

_UNKNOWN = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|extra|not (permitted|allowed)|invalid"
    r"|deprecated|instead",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    r"max_(new_|completion_|output_)?tokens|(completion|output|new) tokens",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.\-])\d{2,7}(?![\w\-]|\.\d)")
_LIMIT = re.compile(
    r"most|maxim|less|exceed|large|range|between|<|≤|greater|limit|up to|\[",
    re.IGNORECASE,
)
_ROOM = re.compile(r"\(\d+ > (\d+) - (\d+)\)")
_USEFUL = 128
"""Tokens of an answer below which none would be whole."""

_SWITCH = re.compile(
    r"\b(\w*think\w*)\W{1,3}(?:must|has to|needs to|should) be (?:set to )?\W?(true|false)",
    re.IGNORECASE,
)


def change_for(
    message: str, parameter: object, settings: Settings, changes: Changes
) -> Changes | None:
    """Return what to change after a refusal, or None if it names no parameter that was sent.

    Args:
        message: The server's sentence.
        parameter: The field of its error that names one.
        settings: The settings that were sent.
        changes: What was changed already.
    """
    switch = _SWITCH.search(message)
    if switch is not None and switch[1] not in changes:
        return {switch[1]: switch[2].lower() == "true"}
    sent = _sent(settings)
    tokens = next((sent[name] for name in LONGEST_ANSWER if name in sent), None)
    if tokens is not None and (_TOKENS.search(message) or parameter in LONGEST_ANSWER):
        return _shorter_answer(message, tokens, changes)
    named = [name for name in sent if name == parameter]
    if not named:
        words = re.findall(r"\w+", message)
        named = [name for name in sent if name in words]
    return next(({name: None} for name in named if name not in changes), None)


def _shorter_answer(message: str, tokens: int, changes: Changes) -> Changes | None:
    """Return as many tokens as the server takes, another name for their number, or none."""
    room = _ROOM.search(message)
    if room is not None:  # what the prompt leaves of the context
        left = int(room[1]) - int(room[2])
        return {"most": left} if left >= _USEFUL else None
    fewer = [
        number for number in map(int, _NUMBER.findall(message)) if 16 <= number < tokens
    ]
    if fewer and _LIMIT.search(message):
        return {"most": max(fewer)}
    if not _UNKNOWN.search(message):
        return None
    if "tokens" not in changes:
        first, second = LONGEST_ANSWER
        refused = re.search(f"{first}|{second}", message)
        return {"tokens": first if refused and refused[0] == second else second}
    return {"tokens": None} if changes["tokens"] is not None else None


def _sent(settings: Settings) -> Settings:
    """Return the parameters that go out with some settings, by the names that servers know."""
    sent = dict(settings)
    sent.pop("extra_headers", None)
    sent |= sent.pop("extra_body", {})
    for name, aliases in _SETTINGS.items():
        for alias in aliases:
            if alias in sent:
                sent[name] = sent.pop(alias)
    return sent


def adapted(settings: Settings, changes: Changes) -> Settings:
    """Return settings with the changes that a server asked for."""
    settings = dict(settings)
    body = dict(settings.pop("extra_body", {}))
    for name, value in changes.items():
        if name == "most":
            _lower(settings, body, value)
        elif name == "tokens":
            _rename(settings, body, value)
        else:
            for alias in (name, *_SETTINGS.get(name, ())):
                settings.pop(alias, None)
            body.pop(name, None)
            if value is not None:
                body[name] = value
    if body:
        settings["extra_body"] = body
    return settings


def _lower(settings: Settings, body: Settings, most: int) -> None:
    for place in (settings, body):
        for name in place.keys() & set(LONGEST_ANSWER):
            place[name] = min(place[name], most)


def _rename(settings: Settings, body: Settings, new: str | None) -> None:
    tokens = None
    for place in (settings, body):
        for name in LONGEST_ANSWER:
            tokens = place.pop(name, tokens)
    if tokens is not None and new is not None:
        body[new] = tokens
