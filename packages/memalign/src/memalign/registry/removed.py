"""What an erasure took away, and the texts in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from memalign.memory import Annotation
from memalign.registry.residue import strings
from memalign.registry.store import Codec, RowKey
from memalign.types import Example, FeedbackKey

__all__ = ["Change", "Removed", "words_of"]

Change = dict[RowKey, tuple[bytes | None, bytes | None]]
"""What becomes of one version's rows: those that differ, each before and after."""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """Everything that no longer stands where it stood: annotations with the content hash of their case, cases, guidelines."""

    annotations: list[tuple[str | None, Annotation]]
    examples: list[Example]
    guidelines: dict[bytes, str]
    guideline_ids: set[str]
    texts: list[str]

    @classmethod
    def of(
        cls,
        codec: Codec,
        changes: Mapping[int, Change],
        keys: Collection[FeedbackKey],
        body_of: Callable[[str, str, int], bytes | None],
    ) -> Removed:
        """What `changes` of versions take away; `body_of` gives a row's body by kind, key and version, as it was."""
        wanted = frozenset(map(str, keys))
        annotations: dict[bytes, tuple[str | None, Annotation]] = {}
        examples: dict[bytes, Example] = {}
        guidelines: dict[bytes, str] = {}
        ids: set[str] = set()
        texts: dict[str, None] = {}
        for number, change in changes.items():
            for (kind, key), (body, after) in change.items():
                if body is None:
                    continue
                if kind == "annotation" and key in wanted:
                    annotation = codec.decode(kind, body)
                    case = body_of("case", annotation.id, number)
                    content = None if case is None else codec.decode("case", case).content_hash
                    annotations[body] = (content, annotation)
                    texts.update(dict.fromkeys(words_of(codec, kind, body)))
                elif after is not None:
                    continue
                elif kind == "case":
                    examples[body] = codec.decode(kind, body)
                    texts.update(dict.fromkeys(words_of(codec, kind, body)))
                elif kind == "pre_alignment":
                    texts.update(dict.fromkeys(words_of(codec, kind, body)))
                elif kind == "guideline":
                    guidelines[body] = codec.decode(kind, body).text
                    ids.add(key)
        return cls(
            annotations=list(annotations.values()),
            examples=list(examples.values()),
            guidelines=guidelines,
            guideline_ids=ids,
            texts=list(texts),
        )


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
        # A label of one word or two may be a choice of the judge's type; a longer one is free text.
        label = value.value if isinstance(value.value, str) and len(value.value.split()) > 2 else None
        yield from strings([value.rationale, label, value.meta])
    elif kind == "guideline":
        yield value.text
    elif kind == "pre_alignment":
        yield from strings([value.rationale])
    elif kind == "judge":
        yield from strings(value)
    elif kind == "tombstone":
        yield value.key.id
