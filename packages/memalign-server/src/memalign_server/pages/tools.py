"""The tools of a conversation: each call with its result, and both as one line."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memalign.content import Turn
from memalign_server.pages.nodes import json_inside, json_text

__all__ = ["ToolUse", "is_result", "tool_uses"]

_ROLES: Final = ("tool", "function")
_WORDS: Final = ("error", "message", "detail", "reason", "result")
"""Under which keys a result says in words what came of the call; the first that is there counts."""
_LINE: Final = 140
"""Characters of a tool's line."""
_FAILED: Final = re.compile(
    r"\s*(error|failed|failure|exception|traceback)\b[\s:]*", re.IGNORECASE
)
_EMPTY: Final[tuple[object, ...]] = (None, "", {}, [])


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A tool's call and what came of it.

    Attributes:
        name: The tool's name in words.
        line: What came of it, in one line.
        details: What the tool was given and what it gave, where the line does not say it all.
        failed: Whether it failed.
    """

    name: str
    line: str
    details: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False


def is_result(turn: Turn) -> bool:
    """Return whether a turn is what a tool gave."""
    return (turn.role or "").lower() in _ROLES


def tool_uses(turns: Sequence[Turn]) -> dict[int, list[ToolUse]]:
    """Return each turn's uses of tools, by its place: those that it calls, or a result of no call.

    A result belongs to the call that it names. One that names none belongs to the first call that
    waits for a result.
    """
    named: dict[str, deque[int]] = {}
    unnamed: deque[int] = deque()
    for place, turn in enumerate(turns):
        if is_result(turn) and "tool_call_id" in turn.rest:
            named.setdefault(json_text(turn.rest["tool_call_id"]), deque()).append(
                place
            )
        elif is_result(turn):
            unnamed.append(place)
    uses: dict[int, list[ToolUse]] = {}
    shown: set[int] = set()
    for place, turn in enumerate(turns):
        for call in _calls(turn):
            waiting = named.get(json_text(call.get("id"))) or unnamed
            result = None
            if waiting:
                answered = waiting.popleft()
                shown.add(answered)
                result = turns[answered]
            uses.setdefault(place, []).append(_use(call, result))
    for place, turn in enumerate(turns):
        if is_result(turn) and place not in shown:
            uses[place] = [_use({"name": turn.rest.get("name")}, turn)]
    return uses


def _calls(turn: Turn) -> Iterator[Mapping[str, Any]]:
    """Yield a turn's calls, however its provider writes them."""
    for call in () if is_result(turn) else turn.calls:
        yield call if isinstance(call, dict) else {"name": str(call)}


def _use(call: Mapping[str, Any], result: Turn | None) -> ToolUse:
    given = None if result is None else result.content
    if isinstance(given, str):
        given = json_inside(given) or given
    line = " ".join(_words_of(given).split())
    details = {"arguments": call.get("arguments")}
    if len(line) > _LINE or isinstance(given, dict):
        details["result"] = given
    says_error = result is not None and result.rest.get("is_error") is True
    return ToolUse(
        name=str(call.get("name") or "").replace("_", " "),
        line=line if len(line) <= _LINE else f"{line[:_LINE]}…",
        details={key: part for key, part in details.items() if part not in _EMPTY},
        failed=says_error or _has_failed(given),
    )


def _words_of(given: Any) -> str:
    """Return what came of a call, in words: why it failed, what it says, or all that it gave."""
    if given is None:
        return ""
    if isinstance(given, str):
        failure = _FAILED.match(given)
        return (given[failure.end() :] if failure else "") or given
    if isinstance(given, dict):
        said = next((given[key] for key in _WORDS if given.get(key)), None)
        if isinstance(said, str):
            return said
    return json_text(given)


def _has_failed(given: Any) -> bool:
    if isinstance(given, str):
        return _FAILED.match(given) is not None
    if not isinstance(given, dict):
        return False
    status = str(given.get("status", "")).lower()
    refused = False in (given.get("success"), given.get("ok"))
    return bool(given.get("error")) or refused or status in ("error", "failed")
