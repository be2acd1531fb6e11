"""Which past cases a new one should be judged beside.

Exact search over unit vectors: a team's feedback is thousands of cases, not millions. Cases are compared on inputs and
outputs alike (and conversation and trace), since two answers to one question are rarely wrong for the same reason.
The in-process embedder was made for English: an item in Portuguese or Spanish is compared by its words (decision 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from memalign.content import words_of
from memalign.memory.model import Case, Memory
from memalign.memory.words import overlap, signatures
from memalign.prompts.language import language_of
from memalign.records import Example
from memalign.values import ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Hit", "embedding_text", "misjudged_keys", "retrieve", "stumbled"]

EMBEDDED_FIELDS = ("inputs", "outputs", "conversation", "trace")
CANDIDATES_PER_SLOT = 2
FLOAT_TOLERANCE = 0.1  # of the scale: closer verdicts count as agreement
ENGLISH_CENTRED = "wordllama:"  # what the names of such embedding models begin with


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved case: its cosine similarity to the item in [-1, 1], and why it ranks where it does.

    Similarities of two items do not compare: one may be of embeddings, the other of words.
    """

    case: Case
    similarity: float
    identical: bool
    misjudged: bool


def embedding_text(example: Example) -> str:
    """The text of a case that is embedded, the same for a stored case and for a new item.

    Values only, without field names or JSON punctuation; of conversations and traces what they say (`words_of`). The
    reference (`expectations`) is left out: a new item often has none, and labels and comments never enter. Falls back to
    the reference when there is nothing else.
    """
    fields = [(name, value) for name in EMBEDDED_FIELDS if (value := getattr(example, name)) is not None]
    text = "\n".join(word for name, value in fields for word in words_of(name, value))
    return text or "\n".join(words_of("expectations", example.expectations))


def stumbled(memory: Memory, case: Case, value_type: ValueType) -> bool:
    """Whether the judge, before learning, gave another verdict on the case than its experts.

    False where there is no label or no probe to compare, and for free text, where two right answers differ.
    """
    label, probe = memory.label(case), case.probe
    if label is None or probe is None or not value_type.closed:
        return False
    if value_type.kind == "float":
        scale = (value_type.high or 0.0) - (value_type.low or 0.0)
        return abs(float(label) - float(probe.value)) > FLOAT_TOLERANCE * scale
    return probe.value != label


def misjudged_keys(memory: Memory, value_type: ValueType) -> frozenset[str]:
    """The keys of all feedback on cases that the judge got wrong before it learned."""
    # Asked for every judgment; a memory never changes, so the answer is kept with it.
    kept: dict[str, frozenset[str]] = memory.__dict__.setdefault("_misjudged_keys", {})
    if value_type.spec not in kept:
        stumbles = (case for case in memory.cases if stumbled(memory, case, value_type))
        kept[value_type.spec] = frozenset(voice.key for case in stumbles for voice in case.voices)
    return kept[value_type.spec]


def retrieve(
    memory: Memory, example: Example, vector: NDArray[np.float32], k: int, value_type: ValueType
) -> tuple[Hit, ...]:
    """Up to `k` cases for `example`, the most useful first. `vector` is its embedding, of shape (d,).

    An identical case comes first and always, also with k = 0; then, among the nearest 2k, the ones that the judge once
    misjudged; then by similarity. Cases of identical content share one slot. Ties are broken by id, so the result is
    deterministic. A vector of another width than memory's compares to nothing: only an identical case is found.
    Nearest is by embedding; by shared words for a Portuguese or Spanish item where the embedder is English-centred.
    """
    import numpy as np  # a quarter of a second that `import memalign` should not cost

    hits: list[Hit] = []
    seen: set[str] = set()

    def take(case: Case, similarity: float, *, identical: bool = False) -> None:
        seen.add(case.example.content_hash)
        misjudged = stumbled(memory, case, value_type)
        hits.append(Hit(case=case, similarity=similarity, identical=identical, misjudged=misjudged))

    for twin in memory.twins(example)[:1]:
        take(twin, 1.0, identical=True)
    if k > 0 and memory.cases and memory.matrix.shape[1] == vector.shape[0]:
        similarity = _similarity(memory, example, vector)
        # A stable sort over cases that are ordered by id: equal similarity, lower id first.
        for index in np.argsort(-similarity, kind="stable"):
            if len(hits) >= k * CANDIDATES_PER_SLOT:
                break
            case = memory.cases[int(index)]
            if case.example.content_hash not in seen:
                take(case, float(similarity[index]))
    hits.sort(key=lambda hit: (not hit.identical, not hit.misjudged, -hit.similarity, hit.case.id))
    return tuple(hits[: max(k, 1)])


def _similarity(memory: Memory, example: Example, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """How near every case of memory is to `example`, of shape (cases,)."""
    if (memory.embedding_model or "").startswith(ENGLISH_CENTRED):
        text = embedding_text(example)
        if language_of(text) in ("Portuguese", "Spanish"):
            return overlap(_case_signatures(memory), signatures([text])[0])
    return memory.matrix @ vector


def _case_signatures(memory: Memory) -> NDArray[np.uint64]:
    # Made at the first such item and kept with the memory, which never changes: English ones never pay for it.
    kept: NDArray[np.uint64] | None = memory.__dict__.get("_signatures")
    if kept is None:
        kept = signatures([embedding_text(case.example) for case in memory.cases])
        memory.__dict__["_signatures"] = kept
    return kept
