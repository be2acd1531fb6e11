"""The tools of a conversation: each call with its result, and both as one line."""

from __future__ import annotations

import re
from collections import defaultdict, deque
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
_NO_CALL: Final = ""
"""In the place of a call's name, which is JSON and never empty."""


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


def tool_uses(turns: Sequence[Turn]) -> Mapping[int, Sequence[ToolUse]]:
    """Return each turn's uses of tools, by its place: those that it calls, or a result of no call.

    A result belongs to the call that it names. One that names none belongs to the first call that
    waits for a result.
    """
    waiting = _results(turns)
    uses = defaultdict[int, list[ToolUse]](list)
    for place, turn in enumerate(turns):
        for call in _calls(turn):
            name = json_text(call.get("id"))
            results = waiting[name] or waiting[_NO_CALL]
            result = turns[results.popleft()] if results else None
            uses[place].append(_use(call, result))
    for results in waiting.values():
        for place in results:
            result = turns[place]
            uses[place].append(_use({"name": result.rest.get("name")}, result))
    return uses


def _results(turns: Sequence[Turn]) -> defaultdict[str, deque[int]]:
    """Return the places of results by the call that they name, or by `_NO_CALL`."""
    waiting = defaultdict[str, deque[int]](deque)
    for place, turn in enumerate(turns):
        if not is_result(turn):
            continue
        name = _NO_CALL
        if "tool_call_id" in turn.rest:
            name = json_text(turn.rest["tool_call_id"])
        waiting[name].append(place)
    return waiting


def _calls(turn: Turn) -> Iterator[Mapping[str, Any]]:
    """Yield a turn's calls, however its provider writes them."""
    if is_result(turn):
        return
    for call in turn.calls:
        yield call if isinstance(call, dict) else {"name": str(call)}


def _use(call: Mapping[str, Any], result: Turn | None) -> ToolUse:
    given: Any = None
    says_error = False
    if result is not None:
        given = result.content
        says_error = result.rest.get("is_error") is True
    if isinstance(given, str):
        given = json_inside(given) or given
    line = " ".join(_words_of(given).split())
    is_cut = len(line) > _LINE
    details = {"arguments": call.get("arguments")}
    if is_cut or isinstance(given, dict):
        details["result"] = given
    name = str(call.get("name") or "")
    return ToolUse(
        name=name.replace("_", " "),
        line=f"{line[:_LINE]}…" if is_cut else line,
        details={key: part for key, part in details.items() if part not in _EMPTY},
        failed=says_error or _has_failed(given),
    )


def _words_of(given: Any) -> str:
    """Return what came of a call, in words: why it failed, what it says, or all that it gave."""
    if given is None:
        return ""
    if isinstance(given, str):
        failure = _FAILED.match(given)
        reason = given[failure.end() :] if failure else ""
        return reason or given
    if isinstance(given, dict):
        said = next(filter(None, map(given.get, _WORDS)), None)
        if isinstance(said, str):
            return said
    return json_text(given)


def _has_failed(given: Any) -> bool:
    if isinstance(given, str):
        return _FAILED.match(given) is not None
    if not isinstance(given, dict):
        return False
    if given.get("error"):
        return True
    if False in (given.get("success"), given.get("ok")):
        return True
    status = str(given.get("status", "")).lower()
    return status in ("error", "failed")
