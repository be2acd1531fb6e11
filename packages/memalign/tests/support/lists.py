"""Lists of what tests look at: the ids, texts or values of many things, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memalign import Judge
from memalign.memory import Memory
from memalign.testing import ScriptedChatModel
from memalign.types import FeedbackKey


def ids(things: Iterable[Any]) -> list[str]:
    """Return the id of each case, row, judgment or guideline."""
    return [thing.id for thing in things]


def texts(guidelines: Iterable[Any]) -> list[str]:
    """Return the text of each guideline."""
    return [guideline.text for guideline in guidelines]


def rules(judge: Judge) -> list[str]:
    """Return the text of each guideline in force, in the order of prompts."""
    return texts(judge.memory.semantic)


def values(things: Iterable[Any]) -> list[Any]:
    """Return the value of each judgment or row of feedback."""
    return [thing.value for thing in things]


def table(things: Iterable[Any], *names: str) -> list[tuple[Any, ...]]:
    """Return a tuple for each thing, of the attributes with these names."""
    return [tuple(getattr(thing, name) for name in names) for thing in things]


def kinds(model: ScriptedChatModel, start: int = 0) -> list[str]:
    """Return the kind of each question that the model was asked, from one on."""
    return [request.schema_name for request in model.requests[start:]]


def keys_of(memory: Memory) -> list[FeedbackKey]:
    """Return the key of each piece of feedback in a memory."""
    return [annotation.key for annotation in memory.annotations()]
