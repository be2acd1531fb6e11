"""What was erased, to search for: in the words of rows, and in the bytes of the file.

What identifies a text is any run of eight of its words that no survivor shares, or the whole text when it is shorter.
Words that people use anyway ("too cold") prove nothing, so a short text counts as a whole field, from four words on
also inside another text, and inside a reason or note when it has two words or more. Where a language writes no spaces,
every two neighbouring characters are a word. JSON's escapes are undone before anything is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from memalign.content.normal import folded, unescaped, words_and_pairs
from memalign.keys import FeedbackKey, same_person
from memalign.memory.text_search import Finder, NameFinder
from memalign.registry.judge_rows import Codec
from memalign.registry.kinds import keys_in, names_in, reason_of
from memalign.types import UNKNOWN_SOURCE

__all__ = ["RUN", "Residue", "row_names"]

RUN = 8
"""Words in a row that identify a text."""
_PHRASE = 4
"""Words of a short text that are no chance inside a longer one."""
_BLOCK = 8 << 20
_OVERLAP = 1 << 16
_QUOTE = re.compile(r'(?<!\\)"')
_LONG_NAME = 6  # bytes: shorter ones are in numbers by chance


class Residue:
    """What to look for: runs of words, short texts as whole fields, keys of feedback, and the name of a person.

    `searched` finds the text that somebody wants to be gone: no survivor may hold it, and nobody of such a name.
    `person` is the name of somebody of whom everything goes. `cases` are the ids of erased cases, `contents` the hashes
    of what they hold.
    """

    def __init__(
        self,
        texts: Iterable[str] = (),
        *,
        keys: Iterable[FeedbackKey] = (),
        cases: Iterable[str] = (),
        contents: Iterable[str] = (),
        searched: Finder | None = None,
        person: str | None = None,
    ) -> None:
        self.keys, self.cases, self.contents = (
            frozenset(keys),
            frozenset(cases),
            frozenset(contents),
        )
        self.searched, self.person = searched, person
        nobody = person is None or folded(person).partition(":")[0] == UNKNOWN_SOURCE
        self._name = None if nobody else NameFinder(str(person))
        self._written = frozenset(folded(str(key)) for key in self.keys)
        self._runs = set[tuple[str, ...]]()
        self._vocabulary = set[str]()  # all words of the runs
        self._short: dict[str, str] = {}  # with the same as a row of words
        self._phrases = set[str]()  # short texts that are no chance inside another one
        self._judged: dict[str, bool] = {}  # memories repeat a few reasons over and over
        self._people: dict[str, bool] = {}
        self.add(texts)

    @property
    def looked_for(self) -> tuple[str, ...]:
        """What this looks for, in words that name nothing of it."""
        name = "the person's name in every spelling" if self._name is not None else ""
        text = "the text in every spelling" if self.searched is not None else ""
        erased = "what was erased, by runs of eight words and shorter texts whole, also inside JSON"
        return tuple(
            filter(None, (erased, "the keys of what was erased" if self.keys else "", name, text))
        )

    def add(self, texts: Iterable[str], survivors: Iterable[str] = ()) -> None:
        """Look for these texts too, but not for what `survivors`, texts that stay, hold as well."""
        runs, short = set[tuple[str, ...]](), dict[str, str]()
        for text in texts:
            if len(words := words_and_pairs(text)) >= RUN:
                runs.update(_windows(words))
            elif text.strip():
                short[text.strip()] = " ".join(words)
        vocabulary = _vocabulary(runs)
        phrases = _phrases(short)
        for text in survivors if runs or short else ():
            short.pop(text.strip(), None)
            if runs or phrases:
                words = words_and_pairs(text)
                runs.difference_update(_runs_of(words, vocabulary))
                phrases = {phrase for phrase in phrases if not _within(phrase, words)}
        self._runs |= runs
        self._vocabulary = _vocabulary(self._runs)
        self._short |= short
        self._phrases |= phrases.intersection(_phrases(short))
        self._judged.clear()

    def spare(self, survivors: Iterable[str]) -> None:
        """Look no longer for what these texts hold, which stay."""
        for text in survivors:
            words = words_and_pairs(text)
            self._short.pop(text.strip(), None)
            self._runs.difference_update(_runs_of(words, self._vocabulary))
            self._phrases = {phrase for phrase in self._phrases if not _within(phrase, words)}
        self._vocabulary = _vocabulary(self._runs)
        self._judged.clear()

    def is_name(self, name: str | None) -> bool:
        """Return whether this is the name of a person who is to be nowhere, in any spelling."""
        if not name:
            return False
        if name not in self._people:
            searched = self.searched is not None and self.searched.holds(name)
            self._people[name] = searched or same_person(name, self.person)
        return self._people[name]

    def names_person(self, text: str) -> bool:
        """Return whether a text names the person of whom everything goes, as whole words."""
        return self._name is not None and self._name.holds(text)

    def copied(self, text: str) -> bool:
        """Return whether a field repeats an erased text: eight words of it, or all of a shorter one."""
        if text.strip() in self._short or self.certain(text):
            return True
        words = words_and_pairs(text) if self._phrases else []
        return any(_within(phrase, words) for phrase in self._phrases)

    def certain(self, text: str) -> bool:
        """Return whether a text is no chance: it holds what was searched for, or eight words of an erased text."""
        if self.searched is not None and self.searched.holds(text):
            return True
        return bool(self._runs) and not self._runs.isdisjoint(
            _runs_of(words_and_pairs(text), self._vocabulary)
        )

    def in_sentence(self, text: str) -> bool:
        """Return whether a reason or note, by memalign or a person, repeats an erased text or names an erased key."""
        if text not in self._judged:
            self._judged[text] = bool(text) and (self.copied(text) or self.in_passing(text))
        return self._judged[text]

    def in_passing(self, text: str) -> bool:
        """Return the same where a single short word proves nothing, such as in a table of somebody else's."""
        words = words_and_pairs(text) if self._short else []
        phrases = (
            " ".join(words[i : i + n]) for n in range(2, RUN) for i in range(len(words) - n + 1)
        )
        if self.certain(text) or not set(self._short.values()).isdisjoint(phrases):
            return True
        return self.names_person(text) or self._names_key(text)

    def _names_key(self, text: str) -> bool:
        plain = folded(unescaped(text)) if "@" in text else ""
        return any(
            # `17@ana` is not named by `t-17@ana`, nor by `17@ana-maria`.
            re.search(rf"(?<![\w@.:/-]){re.escape(name)}(?![\w@-])", plain)
            for name in (self._written if plain else ())
            if name in plain
        )

    def in_files(self, files: Iterable[Path], live: Iterable[bytes]) -> tuple[int, list[str]]:
        """Return how many bytes of `files` were searched, and the traces there that are in none of all `live` rows.

        What both hold proves nothing, and was searched for in the decoded rows already.
        """
        fields = {json.dumps(text, ensure_ascii=False)[1:-1] for text in self._short}
        size, traces = 0, dict[str, set[tuple[str, Any]]]()
        for path in files:
            tail = b""
            for block in _blocks(path):
                size += len(block)
                text = (tail + block).decode("utf-8", "replace")
                traces.setdefault(path.name, set()).update(self._traces(text, fields))
                tail = (tail + block)[-_OVERLAP:]
        for data in live if any(traces.values()) else ():
            elsewhere = set(self._traces(data.decode("utf-8", "replace"), fields))
            traces = {name: remains - elsewhere for name, remains in traces.items()}
        return size, sorted(
            {f"{name} ({what})" for name, remains in traces.items() for what, _ in remains}
        )

    def _traces(self, text: str, fields: set[str]) -> Iterator[tuple[str, Any]]:
        """Yield the traces of erased text in bytes that hold JSON: runs of words, and `fields` as JSON spells them."""
        for run in self._runs.intersection(
            _runs_of(words_and_pairs(text) if self._runs else [], self._vocabulary)
        ):
            yield "a run of eight erased words", run
        for field in fields.intersection(_QUOTE.split(text) if fields else ()):
            yield "an erased field", field
        if self.searched is not None and self.searched.holds(text):
            yield "the text that was to go", None
        if (
            self.person is not None
            and len(self.person.encode()) >= _LONG_NAME
            and self.names_person(text)
        ):
            yield "the name of the person", None


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
    except FileNotFoundError:
        return  # the journal of a writer who has just finished


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _vocabulary(runs: Iterable[tuple[str, ...]]) -> set[str]:
    return set[str]().union(*runs)


def _phrases(short: dict[str, str]) -> set[str]:
    return {words for words in short.values() if words.count(" ") >= _PHRASE - 1}


def _within(phrase: str, words: list[str]) -> bool:
    return f" {phrase} " in f" {' '.join(words)} "


def _runs_of(words: list[str], vocabulary: set[str]) -> Iterator[tuple[str, ...]]:
    """Yield the windows of words that are all in the vocabulary: no other can be looked for, and few texts have one."""
    start = 0
    for end, word in enumerate([*words, None]):
        if word not in vocabulary:
            if end - start >= RUN:
                yield from _windows(words[start:end])
            start = end + 1


def row_names(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Return whether a row is one of the erased keys, names one or the person, or came from one."""
    if any(map(residue.is_name, names_in(codec, kind, key, body))):
        return True
    if not residue.keys.isdisjoint(keys_in(codec, kind, key, body)):
        return True
    return residue.in_sentence(reason_of(codec, kind, body))
