"""What an erasure took away, and the texts in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from memalign.memory import Voice
from memalign.registry.residue import strings
from memalign.registry.store import Codec, RowKey
from memalign.types import Example

__all__ = ["Change", "Lost", "words_of"]

Change = dict[RowKey, tuple[bytes | None, bytes | None]]
"""What becomes of one version's rows: those that differ, each before and after."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Everything that no longer stands where it stood: voices with the content hash of their case, cases, guidelines."""

    voices: list[tuple[str | None, Voice]]
    examples: list[Example]
    guidelines: dict[bytes, str]
    guideline_ids: set[str]
    texts: list[str]

    @classmethod
    def of(
        cls,
        codec: Codec,
        changes: Mapping[int, Change],
        keys: Collection[str],
        body_of: Callable[[str, str, int], bytes | None],
    ) -> Lost:
        """What `changes` of versions take away; `body_of` gives a row's body by kind, key and version, as it was."""
        wanted = frozenset(keys)
        voices: dict[bytes, tuple[str | None, Voice]] = {}
        examples: dict[bytes, Example] = {}
        guidelines: dict[bytes, str] = {}
        ids: set[str] = set()
        texts: dict[str, None] = {}
        for number, change in changes.items():
            for (kind, key), (body, after) in change.items():
                if body is None:
                    continue
                if kind == "voice" and key in wanted:
                    voice = codec.decode(kind, body)
                    case = body_of("case", voice.id, number)
                    content = None if case is None else codec.decode("case", case).content_hash
                    voices[body] = (content, voice)
                    texts.update(dict.fromkeys(words_of(codec, kind, key, body)))
                elif after is not None:
                    continue
                elif kind == "case":
                    examples[body] = codec.decode(kind, body)
                    texts.update(dict.fromkeys(words_of(codec, kind, key, body)))
                elif kind == "probe":
                    texts.update(dict.fromkeys(words_of(codec, kind, key, body)))
                elif kind == "guideline":
                    guidelines[body] = codec.decode(kind, body).text
                    ids.add(key)
        return cls(
            voices=list(voices.values()),
            examples=list(examples.values()),
            guidelines=guidelines,
            guideline_ids=ids,
            texts=list(texts),
        )


def words_of(codec: Codec, kind: str, key: str, body: bytes) -> Iterator[str]:
    """The texts that a person or a judged system wrote, in one row; labels of a closed type are no one's words."""
    if kind == "vector":
        return
    value = codec.decode(kind, body)
    if isinstance(value, Example):
        yield value.id
        yield from strings([*value.content.values(), value.meta])
    elif isinstance(value, Voice):
        yield value.id
        # A label of one word or two may be a choice of the judge's type; a longer one is free text.
        label = value.value if isinstance(value.value, str) and len(value.value.split()) > 2 else None
        yield from strings([value.rationale, label, value.meta])
    elif kind == "guideline":
        yield value.text
    elif kind == "probe":
        yield from strings([value.rationale])
    elif kind == "judge":
        yield from strings(value)
    elif kind == "tombstone":
        yield key.rpartition("@")[0]
