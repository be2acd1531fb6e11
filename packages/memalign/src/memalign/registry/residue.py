"""What was erased, to search for: in the words of rows, and in the bytes of the file.

What identifies a text is any run of eight of its words that no survivor shares, or the whole text when it is shorter.
Words that people use anyway ("too cold") prove nothing, so a short text counts as a whole field, or inside a reason or
note when it has two words or more. Where a language writes no spaces, every two neighbouring characters are a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from memalign.memory.guard import UNSPACED, normalised
from memalign.memory.text_search import Finder
from memalign.registry.judge_rows import Codec
from memalign.types import CodeTest, FeedbackKey
from memalign.values import Value

__all__ = ["RUN", "Residue", "reason_of", "row_names", "strings", "words_of"]

RUN = 8
"""Words in a row that identify a text."""
_BLOCK = 8 << 20
_OVERLAP = 1 << 16
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_QUOTE = re.compile(r'(?<!\\)"')
# To blanks: all that is in no word. For plain text ten times as quick as a regular expression, and the same.
_GAPS = {n: " " for n in range(128) if not (chr(n).isalnum() or chr(n) == "_")}


class Residue:
    """What to look for: runs of words, short texts as whole fields, and keys of feedback.

    `searched` finds the text that somebody wants to be gone: no survivor may hold it. `person` is the name of somebody
    of whom everything goes. `cases` are the ids of erased cases, `contents` the hashes of what they hold.
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
        self.keys, self.cases, self.contents = frozenset(keys), frozenset(cases), frozenset(contents)
        self.searched, self.person = searched, person
        self.names = frozenset(map(str, self.keys))
        self._runs = set[tuple[str, ...]]()
        self._short: dict[str, str] = {}  # with the same as a row of words
        self._judged: dict[str, bool] = {}  # memories repeat a few reasons over and over
        self.add(texts)

    def add(self, texts: Iterable[str], survivors: Iterable[str] = ()) -> None:
        """Look for these texts too, but not for what `survivors`, texts that stay, hold as well."""
        runs, short = set[tuple[str, ...]](), dict[str, str]()
        for text in texts:
            if len(words := _words(text)) >= RUN:
                runs.update(_windows(words))
            elif text.strip():
                short[text.strip()] = " ".join(words)
        for text in survivors if runs or short else ():
            short.pop(text.strip(), None)
            if runs:
                runs.difference_update(_windows(_words(text)))
        self._runs |= runs
        self._short |= short
        self._judged.clear()

    def copied(self, text: str) -> bool:
        """Whether a field repeats an erased text: eight words of it, or all of a shorter one."""
        return text.strip() in self._short or self.certain(text)

    def certain(self, text: str) -> bool:
        """Whether a text is no chance: it holds what was searched for, or eight words of an erased text."""
        if self.searched is not None and self.searched.holds(text):
            return True
        return bool(self._runs) and not self._runs.isdisjoint(_windows(_words(text)))

    def in_sentence(self, text: str) -> bool:
        """Whether a reason or note, which memalign or a person wrote, repeats an erased text or names an erased key."""
        if text not in self._judged:
            self._judged[text] = self.copied(text) or self.in_passing(text)
        return self._judged[text]

    def in_passing(self, text: str) -> bool:
        """The same where a single short word proves nothing, such as in a table of somebody else's."""
        words, name = _words(text), " ".join(_words(self.person or ""))
        phrases = (" ".join(words[i : i + n]) for n in range(2, RUN) for i in range(len(words) - n + 1))
        if self.certain(text) or not set(self._short.values()).isdisjoint(phrases):
            return True
        # A name without a letter, such as a picture, is in no row of words.
        if f" {name} " in f" {' '.join(words)} " if name else self.person and self.person in text:
            return True
        return any(
            # `17@ana` is not named by `t-17@ana`, nor by `17@ana-maria`.
            re.search(rf"(?<![\w@.:/-]){re.escape(name)}(?![\w@-])", text)
            for name in (self.names if "@" in text else ())
            if name in text
        )

    def in_files(self, files: Iterable[Path], live: Iterable[bytes]) -> tuple[int, list[str]]:
        """How many bytes of `files` were searched, and the traces found there that are in none of all `live` rows.

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
        return size, sorted({f"{name} ({what})" for name, remains in traces.items() for what, _ in remains})

    def _traces(self, text: str, fields: set[str]) -> Iterator[tuple[str, Any]]:
        """What of the erased a text holds in which there is JSON: runs of words, and `fields` as JSON spells them."""
        plain = _ESCAPE.sub(" ", text)
        for run in self._runs.intersection(_windows(_words(plain) if self._runs else [])):
            yield "a run of eight erased words", run
        for field in fields.intersection(_QUOTE.split(text) if fields else ()):
            yield "an erased field", field
        if self.searched is not None and self.searched.holds(plain):
            yield "the text that was to go", None


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
    except FileNotFoundError:
        return  # the journal of a writer who has just finished


def _words(text: str) -> list[str]:
    """The words of `normalised`, pairs of characters where it has no spaces."""
    if text.isascii():
        return text.lower().translate(_GAPS).split()
    pairs = UNSPACED.sub(lambda run: f" {' '.join(map(''.join, pairwise(run[0]))) or run[0]} ", normalised(text))
    return pairs.split()


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


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
    parts = _WORDS.get(kind)
    return strings(parts(codec.decode(kind, body))) if parts else iter(())


_WORDS: dict[str, Callable[[Any], list[Any]]] = {
    "case": lambda case: [case.id, *case.content.values(), case.meta],
    "annotation": lambda annotation: [annotation.id, annotation.rationale, _label(annotation.value), annotation.meta],
    "guideline": lambda guideline: [guideline.text, *chain.from_iterable(map(_words_of_test, guideline.tests))],
    "pre_alignment": lambda verdict: [verdict.rationale],
    "judge": lambda setting: [setting],
    "tombstone": lambda stone: [stone.key.id],
    "conflict": lambda conflict: [conflict.about],
}


def _words_of_test(test: CodeTest) -> list[Any]:
    return [test.text, _label(test.value)]


def _label(value: Value | None) -> Value | None:
    """A label of one word or two may be a choice of the judge's type; a longer one is free text."""
    return value if isinstance(value, str) and len(value.split()) > 2 else None


def reason_of(codec: Codec, kind: str, body: bytes) -> str:
    """What memalign says of a piece of feedback's state; empty for other rows."""
    value: Any = codec.decode(kind, body) if kind in ("annotation", "tombstone") else None
    return str(getattr(value.outcome if kind == "annotation" else value, "reason", ""))


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
            people = {*guideline.people, guideline.retired_by}
            keys = (*guideline.exposed_to, *guideline.supported_by)
        case "conflict":
            conflict = codec.decode(kind, body)
            people, keys = {conflict.dismissed_by}, (*conflict.feedback, *conflict.exposed_to)
        case "memory" if key == "authority":
            people = set(codec.decode(kind, body))
    return (residue.person is not None and residue.person in people) or not residue.keys.isdisjoint(keys)
