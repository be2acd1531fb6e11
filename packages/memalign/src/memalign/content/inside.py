"""JSON that stands inside a text, as tracers and models write what a step was given."""

from __future__ import annotations

import msgspec

from memalign.types import MAX_DEPTH, too_deep

__all__ = ["read_inside"]


def read_inside(text: str, *, deepest: int = MAX_DEPTH) -> object:
    """What `text` says where it is JSON, else the text itself: also where it is nested more than `deepest` levels.

    A text is not checked when the case is; a thousand brackets in it would end the reader's stack, and a whole run.
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if too_deep(found, deepest) else found
