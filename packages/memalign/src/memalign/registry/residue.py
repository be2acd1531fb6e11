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

from memalign.memory import Annotation, Answers
from memalign.memory.guard import UNSPACED, normalised
from memalign.memory.text_search import Finder
from memalign.registry.judge_rows import Codec
from memalign.types import Example, FeedbackKey
from memalign.values import Value

__all__ = ["RUN", "Residue", "reason_of", "row_names", "state_words", "strings", "words_of"]

RUN = 8
"""Words in a row that identify a text."""
_BLOCK = 8 << 20
_OVERLAP = 1 << 16
_SHORTEST = 5  # bytes: fewer stand anywhere by chance
# To blanks: all that is in no word. For plain text ten times as quick as a regular expression, and the same.
_GAPS = {n: " " for n in range(128) if not (chr(n).isalnum() or chr(n) == "_")}
_BYTE_GAPS = bytes(32 if n in _GAPS else n for n in range(256))
# Characters of three or four bytes in UTF-8: all that languages without spaces are written in, and more.
_WIDE_BYTES = re.compile(rb"(?:[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})+")
# What may not stand beside a key in a sentence: `17@ana` is not named by `t-17@ana`, nor by `17@ana-maria`.
_NOT_BEFORE, _NOT_AFTER = re.compile(r"[\w@.:/-]$"), re.compile(r"^[\w@-]")


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
        self._name = None if person is None else f" {' '.join(_words(person))} "
        self.names = frozenset(map(str, self.keys))
        self.runs: set[tuple[str, ...]] = set()
        self.short: set[str] = set()
        self._long: list[str] = []
        self._anchors: set[tuple[str, ...]] = set()
        for text in texts:
            words = _words(text)
            if len(words) >= RUN:
                self.runs.update(_windows(words))
                self._anchors.update(_anchors(words))
                self._long.append(text)
            elif text.strip():
                self.short.add(text.strip())
        self._phrases = {" ".join(_words(text)) for text in self.short}
        self._judged: dict[str, bool] = {}  # memories repeat a few reasons over and over
        self._finder = _Finder(_written(key) for key in self.keys)

    def add(self, other: Residue) -> None:
        """Look for the texts of `other` too."""
        self.runs |= other.runs
        self.short |= other.short
        self._phrases |= other._phrases
        self._anchors |= other._anchors
        self._long += other._long
        self._judged.clear()

    def share(self, texts: Iterable[str]) -> None:
        """Stop looking for what `texts`, which survive, hold too."""
        for text in texts:
            if self.runs and _anchored(self._anchors, words := _words(text)):
                self.runs.difference_update(_windows(words))
            if text.strip() in self.short:
                self.short.discard(text.strip())
                self._phrases.discard(" ".join(_words(text)))
        self._judged.clear()

    def copied(self, text: str) -> bool:
        """Whether a field repeats an erased text: eight words of it, or all of a shorter one."""
        return text.strip() in self.short or self.certain(text)

    def certain(self, text: str) -> bool:
        """Whether a text is no chance: it holds what was searched for, or eight words of an erased text."""
        if self.searched is not None and self.searched.holds(text):
            return True
        return bool(self.runs) and _anchored(self._anchors, w := _words(text)) and not self.runs.isdisjoint(_windows(w))

    def in_sentence(self, text: str) -> bool:
        """Whether a reason or note, which memalign or a person wrote, repeats an erased text or names an erased key."""
        if text not in self._judged:
            words = _words(text)
            phrases = (" ".join(words[i : i + n]) for n in range(2, RUN) for i in range(len(words) - n + 1))
            self._judged[text] = (
                self.copied(text)
                or any(
                    not _NOT_BEFORE.search(text[:at]) and not _NOT_AFTER.search(text[at + len(key) :])
                    for key, at in self._finder.occurrences(text)
                )
                or not self._phrases.isdisjoint(phrases)
                or (self._name is not None and self._name in f" {' '.join(words)} ")
            )
        return self._judged[text]

    def in_foreign(self, text: str) -> bool:
        """The same in a table of somebody else's, where a single short word proves nothing."""
        if text.strip() in self.short and len(_words(text)) < 2:  # a word alone
            return self.certain(text)
        return self.in_sentence(text)

    def in_files(self, files: Iterable[Path], live: Iterable[bytes]) -> tuple[int, list[str]]:
        """How many bytes of `files` were searched, and the traces found there that `live` rows do not account for.

        A row's bytes are where they should be; `live` must be all of them. What both hold proves nothing, and was
        searched for in the decoded rows already.
        """
        plain = [finder for finder in (self.searched.text if self.searched else None, self.person) if finder]
        wanted = _Bytes(self._long, self.runs, self.short, self.keys, plain)
        for data in live:
            wanted.discard(data)
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
                    traces += [f"{path.name} ({what})" for what in wanted.traces_in(tail + block)]
                    tail = (tail + block)[-_OVERLAP:]
        return size, list(dict.fromkeys(traces))


class _Bytes:
    """The same in bytes, as bodies spell it: runs of byte words, quoted short texts, keys."""

    def __init__(
        self,
        texts: Iterable[str],
        runs: set[tuple[str, ...]],
        short: Iterable[str],
        keys: Iterable[FeedbackKey],
        plain: Iterable[str] = (),
    ) -> None:
        cased = {spelled for text in plain for spelled in (text, text.lower(), text.upper(), text.title())}
        self.plain = {spelling.lower() for text in cased for spelling in _spellings(text) if len(spelling) >= _SHORTEST}
        self.runs: set[tuple[bytes, ...]] = set()
        self._anchors: set[tuple[bytes, ...]] = set()
        texts = tuple(texts)
        self._unspaced = any(map(UNSPACED.search, texts))
        for text in texts:
            # Only texts of which something was not shared with a survivor.
            if not runs.isdisjoint(_windows(_words(text))):
                for spelled in _spellings(text):
                    words = self._words(spelled)
                    self.runs.update(_windows(words))
                    self._anchors.update(_anchors(words))
        # A quote inside is spelled \" and would split the field; its longest piece stands for it.
        self.fields = {
            max(spelled.split(b'"'), key=len) for text in short for spelled in _spellings(text) if len(spelled) > 1
        }
        # Latin-1 gives every byte a character, so that one finder serves texts and bytes.
        halves = {(one.decode("latin-1"), other.decode("latin-1")) for key in keys for one, other in _in_bytes(key)}
        self.keys = {one + other for one, other in halves}
        self._finder = _Finder(halves)

    def discard(self, data: bytes) -> None:
        if self.runs and _anchored(self._anchors, words := self._words(data)):
            self.runs.difference_update(_windows(words))
        if self.fields:
            self.fields.difference_update(data.split(b'"'))
        if self.plain:
            lowered = data.lower()
            self.plain = {text for text in self.plain if text not in lowered}
        if self.keys:
            self.keys.difference_update(key for key, _ in self._finder.occurrences(data.decode("latin-1")))

    def traces_in(self, data: bytes) -> Iterator[str]:
        words = self._words(data) if self.runs else []
        if _anchored(self._anchors, words) and not self.runs.isdisjoint(_windows(words)):
            yield "a run of eight erased words"
        if self.fields and not self.fields.isdisjoint(data.split(b'"')):
            yield "an erased field"
        if self.keys and any(key in self.keys for key, _ in self._finder.occurrences(data.decode("latin-1"))):
            yield "an erased key"
        lowered = data.lower() if self.plain else b""
        if any(text in lowered for text in self.plain):
            yield "the text or the name that was to go"

    def _words(self, data: bytes) -> list[bytes]:
        if self._unspaced:  # slower, and for nothing in other languages
            data = _WIDE_BYTES.sub(
                lambda run: b" %b " % b" ".join(c.encode() for c in _pairs(run[0].decode("utf-8", "replace"))), data
            )
        return data.translate(_BYTE_GAPS).split()


class _Finder:
    """Finds any of many keys in one pass for each source, so that all feedback of one busy person stays quick.

    A key comes as two halves of text, the first with its id and the other with its source.
    """

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        self._names: dict[str, set[str]] = {}
        for name, source in keys:
            self._names.setdefault(source, set()).add(name)

    def occurrences(self, text: str) -> Iterator[tuple[str, int]]:
        """Every key in `text`, and where it starts; neighbouring characters do not matter."""
        for source, names in self._names.items():
            at = text.find(source)
            lengths = {len(name) for name in names} if at >= 0 else ()
            while at >= 0:
                for length in lengths:
                    if length <= at and (name := text[at - length : at]) in names:
                        yield name + source, at - length
                at = text.find(source, at + 1)


def _written(key: FeedbackKey) -> tuple[str, str]:
    written = str(key)
    end = len(written) - len(key.source) - 1
    return written[:end], written[end:]


def _in_bytes(key: FeedbackKey) -> Iterator[tuple[bytes, bytes]]:
    """The halves of a key as a row's key has it, as a text in a body names it, and as a body lists it."""
    plain = _written(key)
    for escaped in (False, True):
        one, other = (json.dumps(half, ensure_ascii=escaped)[1:-1] for half in plain)
        first, last = (json.dumps(half, ensure_ascii=escaped) for half in key)
        try:
            yield from [(a.encode(), b.encode()) for a, b in (plain, (one, other), (f"[{first},", f"{last}]"))]
        except UnicodeEncodeError:
            continue


def _words(text: str) -> list[str]:
    """The words of `normalised`, pairs of characters where it has no spaces."""
    if text.isascii():
        return text.lower().translate(_GAPS).split()
    return UNSPACED.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", normalised(text)).split()


def _pairs(run: str) -> Iterator[str]:
    return map("".join, pairwise(run)) if len(run) > 1 else iter((run,))


def _anchors(words: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Every sixth three words in a row: every run of eight holds one of them."""
    return zip(words[:: RUN - 2], words[1 :: RUN - 2], words[2 :: RUN - 2], strict=False)


def _anchored(anchors: set[tuple[Any, ...]], words: list[Any]) -> bool:
    """Whether `words` may hold a run of those that `anchors` stand for: a quick no for nearly all that do not."""
    return not anchors.isdisjoint(zip(words, words[1:], words[2:], strict=False))


def _windows(words: list[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _spellings(text: str) -> Iterator[bytes]:
    """`text` as bodies may spell it."""
    for plain in (False, True):
        try:
            yield json.dumps(text, ensure_ascii=plain)[1:-1].encode()
        except UnicodeEncodeError:
            continue


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
    if kind == "vector":
        return
    value = codec.decode(kind, body)
    if isinstance(value, Example):
        yield value.id
        yield from strings([*value.content.values(), value.meta])
    elif isinstance(value, Annotation):
        yield value.id
        yield from strings([value.rationale, *_label(value.value), value.meta])
    elif kind == "guideline":
        yield value.text
        for check in value.checks:
            yield check.question
            yield from strings(check.test and [check.test.text, check.test.then])
            yield from _label(check.value)
    elif isinstance(value, Answers):
        yield from value.margins
        yield from _label(value.verdict)
    elif kind == "pre_alignment":
        yield from strings([value.rationale])
    elif kind == "judge":
        yield from strings(value)
    elif kind == "tombstone":
        yield value.key.id
    elif kind == "conflict":
        yield value.about


def state_words(codec: Codec, kind: str, key: str, body: bytes) -> Iterator[str]:
    """What else a row says that may hold a searched text: its key, and the names and ids of a memory's state."""
    yield key
    if kind == "memory":
        yield from strings(codec.decode(kind, body))


def _label(value: Value | None) -> Iterator[str]:
    """A label of one word or two may be a choice of the judge's type; a longer one is free text."""
    if isinstance(value, str) and len(value.split()) > 2:
        yield value


def reason_of(codec: Codec, kind: str, body: bytes) -> str:
    """What memalign says of a piece of feedback's state; empty for other rows."""
    if kind == "annotation":
        outcome = codec.decode(kind, body).outcome
        return "" if outcome is None else str(outcome.reason)
    return str(codec.decode(kind, body).reason) if kind == "tombstone" else ""


def row_names(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Whether a row is one of the erased keys, names one, or came from one; its reason must not repeat their words."""
    match kind:
        case "annotation" | "tombstone":
            of_person = residue.person is not None and FeedbackKey.parse(key).source == residue.person
            return of_person or key in residue.names or residue.in_sentence(reason_of(codec, kind, body))
        case "guideline":
            guideline = codec.decode(kind, body)
            named = residue.person is not None and residue.person in (
                *guideline.people,
                guideline.retired_by,
                guideline.checked_by,
            )
            return named or not residue.keys.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
        case "conflict":
            conflict = codec.decode(kind, body)
            named = residue.person is not None and conflict.dismissed_by == residue.person
            return named or not residue.keys.isdisjoint((*conflict.feedback, *conflict.exposed_to))
        case "memory":
            return key == "authority" and residue.person in codec.decode(kind, body)
    return False
