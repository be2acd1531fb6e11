"""Parameters that a server refuses by name: renamed, left out or lowered, so that its model can be used at all.

The name that a user gives to a deployment says nothing of what it takes: a gateway's alias may hide a model that thinks
first and takes another name for the longest answer, no temperature, or fewer tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["LONGEST_ANSWER", "Changes", "adapted", "change_for"]

Changes = dict[str, Any]
"""By the parameter that was refused: None to leave it out, another name, or a value; `most` is the longest answer."""

LONGEST_ANSWER = ("max_tokens", "max_completion_tokens")
"""The two names of the same parameter."""

_SETTINGS = {"reasoning_effort": ("openai_reasoning_effort", "thinking")}
"""pydantic-ai's names of what goes out under another one."""

_UNKNOWN = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|extra|not (permitted|allowed)|invalid|deprecated|instead",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    r"max_(new_|completion_|output_)?tokens|(completion|output|new) tokens", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.\-])\d{2,7}(?![\w\-]|\.\d)")
_LIMIT = re.compile(
    r"most|maxim|less|exceed|large|range|between|<|≤|greater|limit|up to|\[", re.IGNORECASE
)
_ROOM = re.compile(r"\(\d+ > (\d+) - (\d+)\)")
_USEFUL = 128  # tokens of an answer below which none would be whole
_SWITCH = re.compile(
    r"\b(\w*think\w*)\W{1,3}(?:must|has to|needs to|should) be (?:set to )?\W?(true|false)",
    re.IGNORECASE,
)


def change_for(
    message: str, parameter: object, settings: Mapping[str, Any], changes: Changes
) -> Changes | None:
    """Return what to change after a refusal; None where it names no parameter that was sent.

    Args:
        message: The server's sentence.
        parameter: The field of its error that names one.
        settings: The settings that were sent.
        changes: What was changed already.
    """
    if (switch := _SWITCH.search(message)) is not None and switch[1] not in changes:
        return {switch[1]: switch[2].lower() == "true"}
    sent = _sent(settings)
    named = [name for name in sent if name == parameter]
    named = named or [
        name for name in sent if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message)
    ]
    tokens = next((sent[name] for name in LONGEST_ANSWER if name in sent), None)
    if tokens is not None and (_TOKENS.search(message) or parameter in LONGEST_ANSWER):
        return _shorter_answer(message, tokens, changes)
    return next(({name: None} for name in named if name not in changes), None)


def _shorter_answer(message: str, tokens: int, changes: Changes) -> Changes | None:
    """Return the change of the longest answer: as many tokens as the server takes, another name, or none."""
    if (room := _ROOM.search(message)) is not None:  # what the prompt leaves of the context
        left = int(room[1]) - int(room[2])
        return {"most": left} if left >= _USEFUL else None
    fewer = [number for number in map(int, _NUMBER.findall(message)) if 16 <= number < tokens]
    if fewer and _LIMIT.search(message):
        return {"most": max(fewer)}
    if not _UNKNOWN.search(message):
        return None
    first, second = LONGEST_ANSWER
    if "tokens" not in changes:
        asked = re.findall(rf"{first}|{second}", message)
        return {"tokens": first if asked and asked[0] == second else second}
    return {"tokens": None} if changes["tokens"] is not None else None


def _sent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that go out with some settings, by the names that servers know."""
    sent = {
        name: value
        for name, value in settings.items()
        if name not in ("extra_body", "extra_headers")
    }
    for name, aliases in _SETTINGS.items():
        given = [sent.pop(alias) for alias in aliases if alias in sent]
        if given:
            sent[name] = given[0]
    body: dict[str, Any] = settings.get("extra_body", {})
    return {**sent, **body}


def adapted(settings: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Return settings with the changes that a server asked for."""
    body = dict(settings.get("extra_body", {}))
    settings = {name: value for name, value in settings.items() if name != "extra_body"}
    for name, value in changes.items():
        if name == "most":
            _lower(settings, body, value)
        elif name == "tokens":
            _rename(settings, body, value)
        else:
            for alias in (name, *_SETTINGS.get(name, ())):
                settings.pop(alias, None)
            body.pop(name, None)
            body |= {} if value is None else {name: value}
    return settings | ({"extra_body": body} if body else {})


def _lower(settings: dict[str, Any], body: dict[str, Any], most: int) -> None:
    for place in (settings, body):
        for name in LONGEST_ANSWER:
            if name in place:
                place[name] = min(place[name], most)


def _rename(settings: dict[str, Any], body: dict[str, Any], new: str | None) -> None:
    found = [
        place.pop(name) for place in (settings, body) for name in LONGEST_ANSWER if name in place
    ]
    if found and new is not None:
        body[new] = found[-1]
