"""Feedback of any version by what it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memalign.errors import UnknownKey
from memalign.memory.text_search import Finder
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec
from memalign.registry.versions import Timeline, timeline
from memalign.types import FeedbackKey, select_keys

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["found_in", "matching", "selected"]


def matching(connection: Connection, judge: int, latest: int, text: str) -> dict[FeedbackKey, tuple[str, ...]]:
    """Key → the fields that hold `text`, for every piece of feedback of any version. Raises InputError."""
    return found_in(timeline(connection, judge, latest, ("case", "annotation")), Finder(text), Codec())


def found_in(there: Timeline, finder: Finder, codec: Codec) -> dict[FeedbackKey, tuple[str, ...]]:
    """The same in a judge's rows; an annotation is found by a case that it once stood beside, also by an older one."""
    found: dict[FeedbackKey, dict[str, None]] = {}
    for (kind, key), spans in sorted(there.items()):
        if kind != "annotation":
            continue
        for since, until, body in spans:
            annotation = codec.decode("annotation", body)
            beside = [
                codec.decode("case", case)
                for start, end, case in there.get(("case", annotation.id), ())
                if start < until and since < end
            ]
            for example in beside or [None]:
                if places := finder.places(example, annotation):
                    found.setdefault(FeedbackKey.parse(key), {}).update(dict.fromkeys(places))
    return {key: tuple(places) for key, places in found.items()}


def selected(
    name: str,
    there: Iterable[FeedbackKey],
    selectors: Sequence[str | FeedbackKey],
    *,
    source: str | None,
    searched: bool,
    erased: ErasedHashes,
) -> tuple[FeedbackKey, ...]:
    """Those of the keys `there` that `selectors` (ids or keys) and `source` name; all, after a text was `searched` for.

    Raises UnknownKey, without the text: it is to be kept nowhere.
    """
    known = [key for key in sorted(set(there)) if source is None or key.source == source]
    of = f" of source {source!r}" if source is not None else ""
    if not known and (searched or (source is not None and not selectors)):
        raise UnknownKey(f"no version of {name!r} holds feedback{of}{' with this text' if searched else ''}")
    if not selectors:
        if source is None and not searched:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        return tuple(known)
    chosen = select_keys(known, selectors)
    for selector, found in chosen.items():
        if not found:
            day = erased.erased_on(selector)
            gone = f"; it was erased on {day}" if day else "; `memalign show NAME --ledger` lists every key"
            what = f"{of} with this text" if searched else of
            raise UnknownKey(f"no version of {name!r} holds feedback {str(selector)!r}{what}{gone}")
    return tuple(dict.fromkeys(key for found in chosen.values() for key in found))
