"""Judges as pages need them: loaded once a version, not once a request."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

from sqlalchemy import select

from memalign.errors import JudgeNotFound
from memalign.judge import Judge
from memalign.registry import Registry, tables
from memalign_server.store.store import Store

_KEPT = 8
_IN_PLACE = "\0"  # of a field
_FIELD = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_WORDS = r"([^\W\d][^\n,;.()]*?)(?=\s+(?:and|to)\s+\d|[\n,;.()]|$)"
_MEANING = rf"(?<![\w.]){{}}(?:\s*(?:=|:|-|\u2013|is|means)\s*{_WORDS}|\s*\({_WORDS}\))"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The newest version of a judge."""

    judge: Judge
    version: int


class Judges:
    """The newest versions of judges, each read from the registry once. Usable from several threads."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, int, str], Loaded] = {}

    def latest(self, name: str) -> Loaded:
        """The newest version of a judge. Raises JudgeNotFound."""
        judges, versions = tables.judges, tables.versions
        query = (
            select(versions.c.number, versions.c.created_at)
            .join(judges, (judges.c.id == versions.c.judge) & (judges.c.latest == versions.c.number))
            .where(judges.c.name == name)
        )
        with self._store.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise JudgeNotFound(f"no judge {name!r} in the registry")
        key = (name, row.number, row.created_at)
        if (loaded := self._loaded.get(key)) is not None:
            return loaded
        with self._lock:  # one request loads a new version, and the others wait for it
            if (loaded := self._loaded.get(key)) is not None:
                return loaded
            loaded = Loaded(judge=self._registry.load(name, row.number), version=row.number)
            # Of one judge one version is kept: an older one may hold what was erased since.
            others = {other: judge for other, judge in self._loaded.items() if other[0] != name}
            while len(others) >= _KEPT:
                del others[next(iter(others))]
            self._loaded = {**others, key: loaded}
        return loaded


def question_of(judge: Judge) -> str:
    """What experts decide, from the instructions: the first question, or else the first line without a field."""
    text = _FIELD.sub(_IN_PLACE, judge.instructions)
    sentences = (sentence.strip() for line in text.splitlines() for sentence in _SENTENCE.findall(line))
    question = next((one for one in sentences if one.endswith("?") and _IN_PLACE not in one), None)
    lines = (line.strip() for line in text.splitlines())
    return question or next((line for line in lines if line and _IN_PLACE not in line), judge.name)


def scale_ends(judge: Judge) -> tuple[str, str] | None:
    """What the lowest and the highest score mean in the instructions: `1 = cold, 5 = warm`; None if they do not say."""
    labels = judge.value_type.labels if judge.value_type.kind == "int" else ()
    if len(labels) < 2:
        return None
    ends = [re.search(_MEANING.format(label), judge.instructions, re.IGNORECASE) for label in (labels[0], labels[-1])]
    low, high = ((end[1] or end[2]).strip() if end else "" for end in ends)
    return (low, high) if low and high else None
