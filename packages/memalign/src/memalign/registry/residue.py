"""What was erased, to search for: in the words of rows, and in the bytes of the file.

What identifies a text is any run of eight of its words that no survivor shares, or the whole text
when it is shorter. Words that people use anyway ("too cold") prove nothing, so a short text counts
as a whole field, from four words on also inside another text, and inside a reason or note when it
has two words or more. Where a language writes no spaces, every two neighbouring characters are a
word. JSON's escapes are undone before anything is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from memalign.content.normal import folded, unescaped, words_and_pairs
from memalign.keys import FeedbackKey, same_person
from memalign.memory.text_search import Finder, NameFinder
from memalign.registry.kinds import TextKind
from memalign.types import UNKNOWN_SOURCE

__all__ = ["RUN", "Residue", "Said"]

RUN = 8
"""Words in a row that identify a text."""
_PHRASE = 4
"""Words of a short text that are no chance inside a longer one."""
_BLOCK = 8 << 20
_OVERLAP = 1 << 16
_QUOTE = re.compile(r'(?<!\\)"')
_LONG_NAME = 6  # bytes: shorter ones are in numbers by chance

_TEXT = re.compile("[^\udc80-\udcff]{8,}")
"""Text between bytes that are none. Eight words of a language without spaces are nine characters,
and control characters may stand between words, as they do where a page of the file ends."""
_HALF = re.compile("\udced[\udca0-\udcbf][\udc80-\udcbf]")
"""Half of a surrogate pair, as broken sources have it: it is part of a text."""

Said = tuple[FeedbackKey, str]
"""Whose words on which case, with the hash of the content that they are about."""
_Run = tuple[str, ...]
_BytesTrace = tuple[str, Any]
"""What it is, and the words of it, if any."""


class Residue:
    """What to look for: runs of words, short texts as whole fields, keys, and people's names.

    Attributes:
        keys: The feedback that is erased.
        spared: What stays of these keys, with the hash of the content that it was said of.
        cases: The ids of erased cases.
        contents: The hashes of what these cases hold.
        finders: Find the texts that somebody wants to be gone: no survivor may hold one, and nobody
            of such a name.
        people: The names of those of whom everything goes.
    """

    def __init__(
        self,
        texts: Iterable[str] = (),
        *,
        survivors: Iterable[str] = (),
        keys: Iterable[FeedbackKey] = (),
        spared: Iterable[Said] = (),
        cases: Iterable[str] = (),
        contents: Iterable[str] = (),
        finders: Iterable[Finder] = (),
        people: Iterable[str] = (),
    ) -> None:
        self.keys = frozenset(keys)
        self.spared = frozenset(spared)
        self.cases = frozenset(cases)
        self.contents = frozenset(contents)
        self.finders = tuple(finders)
        self.people = tuple(people)
        known = filter(_is_known, self.people)
        self._names = {name: NameFinder(name) for name in known}
        self._written = {folded(str(key)) for key in self.keys}
        self._runs: set[_Run] = set()
        self._short: dict[str, str] = {}  # with the same as a row of words
        # Memories repeat a few reasons over and over.
        self._judged: dict[str, bool] = {}
        for text in texts:
            words = words_and_pairs(text)
            field = text.strip()
            if len(words) >= RUN:
                self._runs.update(_windows(words))
            elif field:
                self._short[field] = " ".join(words)
        self._vocabulary = set(chain.from_iterable(self._runs))
        # Short texts that are no chance inside a longer one.
        phrases = self._short.values()
        self._phrases = {one for one in phrases if one.count(" ") >= _PHRASE - 1}
        self.spare(survivors)

    @cached_property
    def touched(self) -> frozenset[str]:
        """The ids of the cases that go or lose a word."""
        return self.cases.union(key.id for key in self.keys)

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Return what is looked for, in words that name nothing of it."""
        parts = [
            "what was erased, by runs of eight words and shorter texts whole, also inside JSON"
        ]
        if self.keys:
            parts.append("the keys of what was erased")
        if self._names:
            parts.append("the person's name in every spelling")
        if self.finders:
            parts.append("the text in every spelling")
        return tuple(parts)

    def spare(self, survivors: Iterable[str]) -> None:
        """Look no longer for what these texts hold, which stay."""
        if not self._runs and not self._short:
            return
        for text in survivors:
            self._short.pop(text.strip(), None)
            if not self._runs and not self._phrases:
                continue
            words = words_and_pairs(text)
            self._runs.difference_update(_runs_of(words, self._vocabulary))
            held = {phrase for phrase in self._phrases if _within(phrase, words)}
            self._phrases -= held
        self._vocabulary = set(chain.from_iterable(self._runs))
        self._judged.clear()

    def takes(self, said: Said) -> bool:
        """Return whether what was said goes.

        Args:
            said: Whose words on which case they are, and the hash of the content that they are
                about; "" if that is not known.
        """
        return said[0] in self.keys and said not in self.spared

    def concerns(self, keys: Iterable[FeedbackKey]) -> bool:
        """Return whether erased feedback is among these keys."""
        # Ids first: keys are compared by folded names, which takes longer.
        near = [key for key in keys if key.id in self.touched]
        return not self.keys.isdisjoint(near)

    def is_trace(self, text: str, kind: TextKind) -> bool:
        """Return whether a text holds something erased; its kind says how much that must be."""
        if kind == "name":
            return self.is_name(text)
        if self.certain(text) or self.names_person(text):
            return True
        if kind == "sentence":
            return self.in_sentence(text)
        if kind == "id":
            return text in self.cases
        return kind == "field" and self.copied(text)

    def is_name(self, name: str | None) -> bool:
        """Return whether this is the name of a person who is to be nowhere, in any spelling."""
        if not name:
            return False
        if self._is_sought_in(name):
            return True
        return any(same_person(name, person) for person in self.people)

    def names_person(self, text: str) -> bool:
        """Return whether a text names a person of whom everything goes, as whole words."""
        return any(finder.holds(text) for finder in self._names.values())

    def copied(self, text: str) -> bool:
        """Return whether a field repeats eight words of an erased text, or all of a shorter one."""
        if text.strip() in self._short or self.certain(text):
            return True
        if not self._phrases:
            return False
        words = words_and_pairs(text)
        return any(_within(phrase, words) for phrase in self._phrases)

    def certain(self, text: str) -> bool:
        """Return whether a text holds what was searched for, or eight words of an erased text."""
        if self._is_sought_in(text):
            return True
        return bool(self._runs_in(text))

    def in_sentence(self, text: str) -> bool:
        """Return whether a reason or note repeats an erased text or names an erased key."""
        if not text:
            return False
        if text not in self._judged:
            self._judged[text] = self.copied(text) or self.in_passing(text)
        return self._judged[text]

    def in_passing(self, text: str) -> bool:
        """Return the same where a short word proves nothing, as in a table of somebody else's."""
        if self.certain(text) or self.names_person(text) or self._names_key(text):
            return True
        short = set(self._short.values())
        if not short:
            return False
        words = words_and_pairs(text)
        for length in range(2, RUN):
            for start in range(len(words) - length + 1):
                end = start + length
                if " ".join(words[start:end]) in short:
                    return True
        return False

    def _is_sought_in(self, text: str) -> bool:
        if not self.finders:  # mostly, and this is asked of every text
            return False
        return any(finder.holds(text) for finder in self.finders)

    def _names_key(self, text: str) -> bool:
        if "@" not in text:
            return False
        plain = folded(unescaped(text))
        for key in self._written:
            if key not in plain:
                continue
            # `17@ana` is not named by `t-17@ana`, nor by `17@ana-maria`.
            if re.search(rf"(?<![\w@.:/-]){re.escape(key)}(?![\w@-])", plain):
                return True
        return False

    def _runs_in(self, text: str) -> set[_Run]:
        if not self._runs:
            return set()
        words = words_and_pairs(text)
        return self._runs.intersection(_runs_of(words, self._vocabulary))

    def in_files(
        self, files: Iterable[Path], live: Iterable[bytes]
    ) -> tuple[int, list[str]]:
        """Search bytes, such as those of a database.

        Args:
            files: The files; one that is missing holds nothing.
            live: What the rows of the database hold, which proves nothing: it was searched decoded.

        Returns:
            How many bytes were searched, and the traces there that are in none of all live rows.
        """
        size = 0
        traces: set[tuple[str, _BytesTrace]] = set()
        for path in files:
            tail = b""
            for block in _blocks(path):
                size += len(block)
                data = tail + block
                traces.update((path.name, trace) for trace in self._traces(data))
                tail = data[-_OVERLAP:]
        for data in live if traces else ():
            known = set(self._traces(data))
            traces = {found for found in traces if found[1] not in known}
        places = {f"{name} ({what})" for name, (what, _) in traces}
        return size, sorted(places)

    def _traces(self, data: bytes) -> Iterator[_BytesTrace]:
        """Yield the traces in bytes that hold JSON: runs of words, and whole fields."""
        # Bytes that are no text come out as lone surrogates. Between them most texts are plain
        # ASCII, whose words are found in a tenth of the time.
        text = _HALF.sub(" ", data.decode("utf-8", "surrogateescape"))
        for piece in _TEXT.findall(text) if self._runs else ():
            for run in self._runs_in(piece):
                yield "a run of eight erased words", run
        if self._short:
            pieces = set(_QUOTE.split(text))
            for short in self._short:
                field = json.dumps(short, ensure_ascii=False)[1:-1]
                if field in pieces:
                    yield "an erased field", field
        if self._is_sought_in(text):
            yield "the text that was to go", None
        for name, finder in self._names.items():
            if len(name.encode()) >= _LONG_NAME and finder.holds(text):
                yield "the name of the person", None


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
    except FileNotFoundError:
        return  # the journal of a writer who has just finished


def _windows(words: list[str]) -> Iterator[_Run]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _is_known(person: str) -> bool:
    """Return whether a name is a person's, and not that of an unknown source."""
    base, _, _ = folded(person).partition(":")
    return base != UNKNOWN_SOURCE


def _within(phrase: str, words: list[str]) -> bool:
    return f" {phrase} " in f" {' '.join(words)} "


def _runs_of(words: list[str], vocabulary: set[str]) -> Iterator[_Run]:
    """Yield the windows of words that are all in the vocabulary.

    No other can be looked for, and few texts have one.
    """
    start = 0
    for end, word in enumerate([*words, None]):
        if word not in vocabulary:
            if end - start >= RUN:
                yield from _windows(words[start:end])
            start = end + 1
