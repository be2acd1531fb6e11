"""Feedback of any version by what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, select

from memalign.errors import UnknownKey
from memalign.memory.text_search import Finder
from memalign.registry.ledger import Erasures
from memalign.registry.schema import rows
from memalign.registry.store import Codec, RowKey
from memalign.types import FeedbackKey, select_keys

__all__ = ["found_in", "matching", "selected"]

Timeline = Mapping[RowKey, Sequence[tuple[int, int, bytes]]]
"""What every row was from one version up to another (exclusive)."""


def matching(connection: Connection, judge: int, latest: int, text: str) -> dict[FeedbackKey, tuple[str, ...]]:
    """Key → the fields that hold `text`, for every piece of feedback of any version. Raises InputError."""
    query = select(rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body).where(
        rows.c.judge == judge, rows.c.kind.in_(("case", "annotation"))
    )
    timeline: dict[RowKey, list[tuple[int, int, bytes]]] = {}
    for kind, key, since, until, body in connection.execute(query):
        timeline.setdefault((kind, key), []).append((since, until or latest + 1, body))
    return found_in(timeline, Finder(text), Codec())


def found_in(timeline: Timeline, finder: Finder, codec: Codec) -> dict[FeedbackKey, tuple[str, ...]]:
    """The same in a judge's rows; an annotation is found by a case that it once stood beside, also by an older one."""
    found: dict[FeedbackKey, dict[str, None]] = {}
    for (kind, key), spans in sorted(timeline.items()):
        if kind != "annotation":
            continue
        for since, until, body in spans:
            annotation = codec.decode("annotation", body)
            beside = [
                codec.decode("case", case)
                for start, end, case in timeline.get(("case", annotation.id), ())
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
    erased: Erasures,
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
            gone = f"; it was erased on {day}" if day else "; `memalign ledger` lists every key"
            what = f"{of} with this text" if searched else of
            raise UnknownKey(f"no version of {name!r} holds feedback {str(selector)!r}{what}{gone}")
    return tuple(dict.fromkeys(key for found in chosen.values() for key in found))
