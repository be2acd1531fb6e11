"""What was erased, to search for: in the words of rows, and in the bytes of the file.

What identifies a text is any run of eight of its words that no survivor shares, or the whole text when it is shorter.
Words that people use anyway ("too cold") prove nothing, so a short text counts as a whole field, or inside a reason or
note when it has two words or more. Where a language writes no spaces, every two neighbouring characters are a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from memalign.memory.guard import UNSPACED, normalised
from memalign.memory.text_search import Finder
from memalign.registry.judge_rows import Codec, is_unicode
from memalign.types import FeedbackKey
from memalign.values import Value

__all__ = ["RUN", "Residue", "reason_of", "row_names", "strings", "words_of"]

RUN = 8
"""Words in a row that identify a text."""
_BLOCK = 8 << 20
_OVERLAP = 1 << 16
_SHORTEST = 5  # characters: fewer stand anywhere by chance
# To blanks: all that is in no word. For plain text ten times as quick as a regular expression, and the same.
_GAPS = {n: " " for n in range(128) if not (chr(n).isalnum() or chr(n) == "_")}


class _Runs:
    """Runs of eight words of some texts, less those that others hold too."""

    def __init__(self) -> None:
        self.runs: set[tuple[str, ...]] = set()
        self._anchors: set[tuple[str, ...]] = set()

    def add(self, words: list[str]) -> None:
        self.runs.update(_windows(words))
        # Every sixth three words in a row: every run of eight holds one of them.
        self._anchors.update(zip(words[:: RUN - 2], words[1 :: RUN - 2], words[2 :: RUN - 2], strict=False))

    def join(self, other: _Runs) -> None:
        self.runs |= other.runs
        self._anchors |= other._anchors

    def discard(self, words: list[str]) -> None:
        if self._may_hold(words):
            self.runs.difference_update(_windows(words))

    def within(self, words: list[str]) -> bool:
        return self._may_hold(words) and not self.runs.isdisjoint(_windows(words))

    def _may_hold(self, words: list[str]) -> bool:
        """A quick no for nearly all texts that hold none."""
        return bool(self.runs) and not self._anchors.isdisjoint(zip(words, words[1:], words[2:], strict=False))


class Residue:
    """What to look for: runs of words, short texts as whole fields, and keys of feedback.

    `searched` finds the text that somebody wants to be gone: no survivor may hold it. `person` is the name of somebody
    of whom everything goes. `cases` are the ids of erased cases.
    """

    def __init__(
        self,
        texts: Iterable[str] = (),
        keys: Iterable[FeedbackKey] = (),
        *,
        cases: Iterable[str] = (),
        searched: Finder | None = None,
        person: str | None = None,
    ) -> None:
        self.keys, self.cases = frozenset(keys), frozenset(cases)
        self.searched, self.person = searched, person
        self.names = frozenset(map(str, self.keys))
        self._runs, self._short, self._phrases = _Runs(), set[str](), set[str]()
        self._long: list[str] = []
        self._judged: dict[str, bool] = {}  # memories repeat a few reasons over and over
        for text in texts:
            if len(words := _words(text)) >= RUN:
                self._runs.add(words)
                self._long.append(text)
            elif text.strip():
                self._short.add(text.strip())
                self._phrases.add(" ".join(words))

    def join(self, other: Residue) -> None:
        """Look for the texts of `other` too."""
        self._runs.join(other._runs)
        self._short |= other._short
        self._phrases |= other._phrases
        self._long += other._long
        self._judged.clear()

    def share(self, texts: Iterable[str]) -> None:
        """Stop looking for what `texts`, which survive, hold too."""
        for text in texts:
            if self._runs.runs:
                self._runs.discard(_words(text))
            if text.strip() in self._short:
                self._short.discard(text.strip())
                self._phrases.discard(" ".join(_words(text)))
        self._judged.clear()

    def copied(self, text: str) -> bool:
        """Whether a field repeats an erased text: eight words of it, or all of a shorter one."""
        return text.strip() in self._short or self.certain(text)

    def certain(self, text: str) -> bool:
        """Whether a text is no chance: it holds what was searched for, or eight words of an erased text."""
        if self.searched is not None and self.searched.holds(text):
            return True
        return bool(self._runs.runs) and self._runs.within(_words(text))

    def in_sentence(self, text: str) -> bool:
        """Whether a reason or note, which memalign or a person wrote, repeats an erased text or names an erased key."""
        if text not in self._judged:
            self._judged[text] = self.copied(text) or self._in_passing(text)
        return self._judged[text]

    def _in_passing(self, text: str) -> bool:
        words = _words(text)
        phrases = (" ".join(words[i : i + n]) for n in range(2, RUN) for i in range(len(words) - n + 1))
        if not self._phrases.isdisjoint(phrases):
            return True
        if self.person is not None and f" {' '.join(_words(self.person))} " in f" {' '.join(words)} ":
            return True
        return any(
            # `17@ana` is not named by `t-17@ana`, nor by `17@ana-maria`.
            re.search(rf"(?<![\w@.:/-]){re.escape(name)}(?![\w@-])", text)
            for name in (self.names if "@" in text else ())
            if name in text
        )

    def in_foreign(self, text: str) -> bool:
        """The same in a table of somebody else's, where a single short word proves nothing."""
        if text.strip() in self._short and len(_words(text)) < 2:
            return self.certain(text)
        return self.in_sentence(text)

    def in_files(self, files: Iterable[Path], live: Iterable[bytes]) -> tuple[int, list[str]]:
        """How many bytes of `files` were searched, and the traces found there that `live` rows do not account for.

        A row's bytes are where they should be; `live` must be all of them. What both hold proves nothing, and was
        searched for in the decoded rows already.
        """
        plain = [text for text in (self.searched.text if self.searched else None, self.person) if text]
        # Only texts of which something was not shared with a survivor.
        long = [text for text in self._long if self._runs.within(_words(text))]
        wanted = _Spelled(long, self._short, self.keys, plain)
        for data in live:
            wanted.discard(data.decode("utf-8", "replace"))
        size, traces = 0, []
        for path in files:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue  # the journal of a writer who has just finished
            with file:
                tail = b""
                while block := file.read(_BLOCK):
                    size += len(block)
                    text = (tail + block).decode("utf-8", "replace")
                    traces += [f"{path.name} ({what})" for what in wanted.traces_in(text)]
                    tail = (tail + block)[-_OVERLAP:]
        return size, list(dict.fromkeys(traces))


class _Spelled:
    """The same as bodies spell it: runs of words, quoted short texts, keys; `plain` texts in any case."""

    def __init__(
        self, long: Iterable[str], short: Iterable[str], keys: Iterable[FeedbackKey], plain: Iterable[str]
    ) -> None:
        self._runs = _Runs()
        for text in long:
            for spelled in _spellings(text):
                self._runs.add(_spelled_words(spelled))
        # A quote inside is spelled \" and would split the field; its longest piece stands for it.
        self._fields = {max(s.split('"'), key=len) for text in short for s in _spellings(text) if len(s) > 1}
        cased = {spelled for text in plain for spelled in (text, text.lower(), text.upper(), text.title())}
        self._plain = {s.lower() for text in cased for s in _spellings(text) if len(s) >= _SHORTEST}
        # By the second half, so that all feedback of one busy person is found in one pass.
        self._keys: dict[str, set[str]] = {}
        for first, second in (halves for key in keys for halves in _spelled_key(key)):
            self._keys.setdefault(second, set()).add(first)

    def discard(self, text: str) -> None:
        if self._runs.runs:
            self._runs.discard(_spelled_words(text))
        if self._fields:
            self._fields.difference_update(text.split('"'))
        if self._plain:
            lowered = text.lower()
            self._plain = {plain for plain in self._plain if plain not in lowered}
        for first, second in list(self._keys_in(text)):
            self._keys[second].discard(first)

    def traces_in(self, text: str) -> Iterator[str]:
        if self._runs.runs and self._runs.within(_spelled_words(text)):
            yield "a run of eight erased words"
        if self._fields and not self._fields.isdisjoint(text.split('"')):
            yield "an erased field"
        if any(self._keys_in(text)):
            yield "an erased key"
        lowered = text.lower() if self._plain else ""
        if any(plain in lowered for plain in self._plain):
            yield "the text or the name that was to go"

    def _keys_in(self, text: str) -> Iterator[tuple[str, str]]:
        """Every key in a text, in halves; neighbouring characters do not matter."""
        for second, firsts in self._keys.items():
            lengths, at = {len(first) for first in firsts}, text.find(second)
            while at >= 0:
                for length in lengths:
                    if length <= at and (first := text[at - length : at]) in firsts:
                        yield first, second
                at = text.find(second, at + 1)


def _words(text: str) -> list[str]:
    """The words of `normalised`, pairs of characters where it has no spaces."""
    if text.isascii():
        return text.lower().translate(_GAPS).split()
    return UNSPACED.sub(_paired, normalised(text)).split()


def _spelled_words(text: str) -> list[str]:
    """The words of a text as it is spelled, pairs of characters where it has no spaces."""
    return UNSPACED.sub(_paired, text).translate(_GAPS).split()


def _paired(run: re.Match[str]) -> str:
    return f" {' '.join(map(''.join, pairwise(run[0])) if len(run[0]) > 1 else run[0])} "


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _spellings(text: str) -> Iterator[str]:
    """`text` as bodies may spell it."""
    for escaped in (False, True):
        spelled = json.dumps(text, ensure_ascii=escaped)[1:-1]
        if is_unicode(spelled):
            yield spelled


def _spelled_key(key: FeedbackKey) -> Iterator[tuple[str, str]]:
    """A key in two halves: as a row's key has it, as a text in a body names it, and as a body lists it."""
    written = str(key)
    end = len(written) - len(key.source) - 1
    yield written[:end], written[end:]
    for escaped in (False, True):
        parts = (written[:end], written[end:], *key)
        first, second, name, source = (json.dumps(part, ensure_ascii=escaped)[1:-1] for part in parts)
        yield from [(first, second), (f'["{name}",', f'"{source}"]')]


# -- the words of rows ------------------------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value; names of fields count too, for content may carry words there."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield str(name)
            yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)


def words_of(codec: Codec, kind: str, body: bytes) -> Iterator[str]:
    """The texts that a person or a judged system wrote, in one row; labels of a closed type are no one's words."""
    if kind in ("vector", "memory"):
        return iter(())
    value = codec.decode(kind, body)
    texts: list[Any] = []
    match kind:
        case "case":
            texts = [value.id, *value.content.values(), value.meta]
        case "annotation":
            texts = [value.id, value.rationale, _label(value.value), value.meta]
        case "guideline":
            texts = [value.text]
            for check in value.checks:
                texts += [check.question, _label(check.value)]
                texts += [check.test.text, check.test.then] if check.test else []
        case "answers":
            texts = [*value.margins, _label(value.verdict)]
        case "pre_alignment":
            texts = [value.rationale]
        case "judge":
            texts = [value]
        case "tombstone":
            texts = [value.key.id]
        case "conflict":
            texts = [value.about]
    return strings(texts)


def _label(value: Value | None) -> Value | None:
    """A label of one word or two may be a choice of the judge's type; a longer one is free text."""
    return value if isinstance(value, str) and len(value.split()) > 2 else None


def reason_of(codec: Codec, kind: str, body: bytes) -> str:
    """What memalign says of a piece of feedback's state; empty for other rows."""
    if kind == "annotation":
        outcome = codec.decode(kind, body).outcome
        return "" if outcome is None else str(outcome.reason)
    return str(codec.decode(kind, body).reason) if kind == "tombstone" else ""


def row_names(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Whether a row is one of the erased keys, names one, or came from one; its reason must not repeat their words."""
    people: set[str | None] = set()
    keys: tuple[FeedbackKey, ...] = ()
    match kind:
        case "annotation" | "tombstone":
            if key in residue.names or residue.in_sentence(reason_of(codec, kind, body)):
                return True
            people = {FeedbackKey.parse(key).source}
        case "guideline":
            guideline = codec.decode(kind, body)
            people = {*guideline.people, guideline.retired_by, guideline.checked_by}
            keys = (*guideline.exposed_to, *guideline.supported_by)
        case "conflict":
            conflict = codec.decode(kind, body)
            people, keys = {conflict.dismissed_by}, (*conflict.feedback, *conflict.exposed_to)
        case "memory" if key == "authority":
            people = set(codec.decode(kind, body))
    return (residue.person is not None and residue.person in people) or not residue.keys.isdisjoint(keys)
