"""Feedback and cases of any version, and of other packages' tables, by what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memalign.errors import UnknownKey
from memalign.keys import readings, select_keys
from memalign.memory.text_search import Finder
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec
from memalign.registry.other_tables import Passage
from memalign.registry.versions import Timeline, timeline
from memalign.types import Example, FeedbackKey

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Selection", "annotations_with", "known", "matching", "selected", "with_text"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Keys of feedback, and ids of cases."""

    keys: frozenset[FeedbackKey]
    cases: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.keys or self.cases)


def matching(connection: Connection, judge: int, latest: int, text: str) -> dict[FeedbackKey, tuple[str, ...]]:
    """Key → the fields that hold `text`, for every piece of feedback of any version. Raises InputError."""
    return annotations_with(timeline(connection, judge, latest, ("case", "annotation")), Finder(text), Codec())


def annotations_with(there: Timeline, finder: Finder, codec: Codec) -> dict[FeedbackKey, tuple[str, ...]]:
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


def known(there: Timeline, passages: Iterable[Passage]) -> Selection:
    """Everything that can be erased: of any version, and of other packages' tables."""
    keys = {FeedbackKey.parse(key) for kind, key in there if kind in ("annotation", "tombstone")}
    cases = {key for kind, key in there if kind == "case"}
    for passage in passages:
        if passage.source is None:
            cases.add(passage.id)
        else:
            keys.add(FeedbackKey(passage.id, passage.source))
    return Selection(keys=frozenset(keys), cases=frozenset(cases))


def with_text(there: Timeline, passages: Sequence[Passage], finder: Finder, codec: Codec) -> Selection:
    """What of it holds a text. What people said of a case goes with the case."""
    keys = set(annotations_with(there, finder, codec))
    keys |= {FeedbackKey.parse(key) for kind, key in there if kind == "tombstone" and finder.holds(key)}
    cases = {
        key
        for (kind, key), spans in there.items()
        if kind == "case"
        for _, _, body in spans
        if finder.holds(key) or _case_with(codec.decode("case", body), finder)
    }
    cases |= {
        each.id for each in passages if each.source is None and finder.within([each.id, each.content, each.labels])
    }
    for passage in passages:
        if passage.source is not None and (
            passage.id in cases or finder.within([passage.id, passage.source, passage.content, passage.labels])
        ):
            keys.add(FeedbackKey(passage.id, passage.source))
    return Selection(keys=frozenset(keys), cases=frozenset(cases))


def _case_with(example: Example, finder: Finder) -> bool:
    return finder.within([example.meta, *example.content.items()])


def selected(
    name: str,
    there: Selection,
    selectors: Sequence[str | FeedbackKey],
    *,
    source: str | None,
    holding: Selection | None,
    erased: ErasedHashes,
) -> Selection:
    """What of `there` the `selectors` (ids or keys) and `source` name, among what is `holding` a text.

    Raises UnknownKey, without the text: it is to be kept nowhere.
    """
    keys = {key for key in there.keys if source is None or key.source == source}
    cases = there.cases if source is None else frozenset[str]()
    if holding is not None:
        keys, cases = keys & holding.keys, cases & holding.cases
    if not selectors:
        if source is None and holding is None:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        return Selection(keys=frozenset(keys), cases=cases)
    of = f" of source {source!r}" if source is not None else ""
    named = select_keys(sorted(keys), selectors)
    ids = {selector: _ids(selector) & cases for selector in selectors}
    for selector in named:
        if not named[selector] and not ids[selector]:
            day = erased.erased_on(selector)
            gone = f"; it was erased on {day}" if day else "; `memalign show NAME --ledger` lists every key"
            what = f"{of} with this text" if holding is not None else of
            raise UnknownKey(f"no version and no queue of {name!r} holds {str(selector)!r}{what}{gone}")
    return Selection(
        keys=frozenset(key for found in named.values() for key in found),
        cases=frozenset[str]().union(*ids.values()),
    )


def _ids(selector: str | FeedbackKey) -> set[str]:
    """The ids of cases that a selector may mean; none for one person's feedback."""
    if isinstance(selector, FeedbackKey):
        return set()
    return {case for case, source in readings(selector) if source is None}
