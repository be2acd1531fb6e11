"""Lists by pieces: a cursor says where the next one begins, and stays right while rows are added before it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from memalign_server.problems import Problem

__all__ = ["Cursor", "Limit", "Page", "after", "cut"]

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=200, description="How many to give at most.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the piece before; none for the first.")]


class Page(BaseModel, Generic[T]):
    """One piece of a list."""

    items: list[T]
    next: str | None = Field(None, description="The cursor of the next piece; null where this is the last one.")


def after(cursor: str | None) -> str | None:
    """What a cursor stands for: the last thing that was given. Raises Problem 400 for one that is none."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==")
        (found,) = json.loads(text)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, str):
        raise Problem(400, f"{cursor[:100]!r} is no cursor of this list: send `next` as it came")
    return found


def cut(items: Sequence[T], limit: int, name: Callable[[T], str]) -> Page[T]:
    """A piece of at most `limit` of items, of which there is one more where the list goes on."""
    shown = list(items[:limit])
    following = None
    if len(items) > limit:
        text = json.dumps([name(shown[-1])]).encode()
        following = base64.urlsafe_b64encode(text).decode().rstrip("=")
    return Page(items=shown, next=following)
