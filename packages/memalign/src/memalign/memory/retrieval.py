"""Which past cases a new one should be judged beside.

Exact search over unit vectors: a team's feedback is thousands of cases, not millions. Cases are compared on inputs and
outputs alike (and conversation and trace), since two answers to one question are rarely wrong for the same reason.
The in-process embedder was made for English: an item in Portuguese or Spanish is compared by its words (decision 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from memalign.cache import kept
from memalign.content import words_of
from memalign.memory.lexical import overlap, signatures
from memalign.memory.model import Case, Memory
from memalign.prompts.language import language_of
from memalign.types import Example
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Neighbourhood", "Retrieved", "embedding_text", "is_hard", "was_misjudged"]

EMBEDDED_FIELDS = ("inputs", "outputs", "conversation", "trace")
CANDIDATES_PER_SLOT = 2
ENGLISH_CENTRED = "wordllama:"  # what the names of such embedding models begin with
RELEVANT = 0.6
"""Cosine of the in-process embedder below which a case says nothing of an item's label (docs/decisions/0011-retrieval.md)."""
AT_ONCE = 24  # cases that one look sorts: enough for both uses of a judgment's neighbours
CHOICE = 30
"""Cases from which on there is a choice: of fewer the nearest are shown, however unlike they are and whatever their labels,
for they teach a house's ways."""


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved case: its cosine similarity to the item in [-1, 1], why it ranks where it does, and its effective label.

    Similarities of two items do not compare: one may be of embeddings, the other of words.
    """

    case: Case
    similarity: float
    identical: bool
    misjudged: bool
    label: Value | None


def embedding_text(example: Example) -> str:
    """The text of a case that is embedded, the same for a stored case and for a new item.

    Values only, without field names or JSON punctuation; of conversations and traces what they say (`words_of`). The
    reference (`expectations`) is left out: a new item often has none, and labels and comments never enter. Falls back to
    the reference when there is nothing else.
    """
    fields = [(name, value) for name in EMBEDDED_FIELDS if (value := getattr(example, name)) is not None]
    text = "\n".join(word for name, value in fields for word in words_of(name, value))
    return text or "\n".join(words_of("expectations", example.expectations))


def was_misjudged(memory: Memory, case: Case, value_type: ValueType, judge: str | None = None) -> bool:
    """Whether the judge of the fingerprint `judge` (None: any) gave another verdict before learning than its experts.

    False where there is no label or no pre-alignment verdict of this judge, and for free text, where two right answers
    differ.
    """
    label, pre_alignment = memory.label(case), case.pre_alignment
    if label is None or pre_alignment is None or not value_type.closed or judge not in (None, pre_alignment.judge):
        return False
    return not value_type.agree(label, pre_alignment.value)


def is_hard(memory: Memory, case: Case, value_type: ValueType, judge: str | None = None) -> bool:
    """Whether the judge of the fingerprint `judge` (None: any) got the case wrong.

    Its verdict before it learned says so; where it gave none, the one that it gave since then with the case hidden.
    """
    if case.pre_alignment is not None and judge in (None, case.pre_alignment.judge):
        return was_misjudged(memory, case, value_type, judge)
    label, answers = memory.label(case), case.answers
    if label is None or answers is None or answers.verdict is None or judge not in (None, answers.judge):
        return False
    return value_type.closed and not value_type.agree(label, answers.verdict)


class Neighbourhood:
    """The cases of a memory around one item. `vector` is the item's embedding, of shape (d,).

    Only verdicts of the judge of this fingerprint rank them (None: all do), see `is_hard`.

    Nearest is by embedding; by shared words for a Portuguese or Spanish item where the embedder is English-centred. A
    vector of another width than memory's compares to nothing: only an identical case is found.
    """

    def __init__(
        self,
        memory: Memory,
        example: Example,
        vector: NDArray[np.float32],
        value_type: ValueType,
        *,
        judge: str | None = None,
    ) -> None:
        self._memory = memory
        self._judge = judge
        self._example = example
        self._vector = vector
        self._value_type = value_type
        # The same cases are near to item after item.
        self._known: dict[str, tuple[bool, Value | None]] = kept(memory, ("hits", value_type, judge), dict)
        self._seen: list[int] = []  # places of cases, the nearest first
        self._hits: list[
            Retrieved
        ] = []  # those that were asked for so far, one of each content, and where more come from
        self._more = self._distinct()

    def hits(self, k: int) -> tuple[Retrieved, ...]:
        """Up to `k` cases, the most useful first.

        An identical case comes first and always, also with k = 0; then, among the nearest 2k, the ones that the judge
        once misjudged; then by similarity. Where these leave out a label that others of the 2k have, and there are CHOICE
        cases or more, the most useful case of it takes the place of the last one whose label is there twice: shown one label
        only, a model repeats it (Ambig-ICL, arXiv 2309.07900). Cases of identical content share one slot. Ties are broken by
        id, so the result is deterministic.
        """
        if k == 0:
            return tuple(
                self._hit(duplicate, 1.0, identical=True) for duplicate in self._memory.duplicates(self._example)[:1]
            )
        reach = k * CANDIDATES_PER_SLOT
        self._hits += islice(self._more, max(reach - len(self._hits), 0))
        hits = sorted(self._hits[:reach], key=_rank)
        # Of a few cases "near" means nothing: another label's would be there because of its label alone.
        if len(self._memory.cases) < CHOICE:
            return tuple(hits[:k])
        return self._with_each_label(hits[:k], hits[k:])

    def _distinct(self) -> Iterator[Retrieved]:
        """An identical case, then the nearest; of cases of identical content the first."""
        seen: set[str] = set()
        for duplicate in self._memory.duplicates(self._example)[:1]:
            seen.add(duplicate.example.content_hash)
            yield self._hit(duplicate, 1.0, identical=True)
        for case, similarity in self._nearest():
            content = case.example.content_hash
            if content not in seen:
                seen.add(content)
                yield self._hit(case, similarity)

    def _with_each_label(self, chosen: list[Retrieved], others: list[Retrieved]) -> tuple[Retrieved, ...]:
        labels = [hit.label for hit in chosen]
        for other in others:
            label = other.label
            if label is None or label in labels:
                continue
            spare = [n for n, hit in enumerate(chosen) if not hit.identical and labels.count(labels[n]) > 1]
            if not spare:
                break
            chosen[spare[-1]], labels[spare[-1]] = other, label
        return tuple(sorted(chosen, key=_rank))

    def _hit(self, case: Case, similarity: float, *, identical: bool = False) -> Retrieved:
        memory = self._memory
        known = self._known.get(case.id)
        if known is None:
            known = (is_hard(memory, case, self._value_type, self._judge), memory.label(case))
            self._known[case.id] = known
        misjudged, label = known
        return Retrieved(case=case, similarity=similarity, identical=identical, misjudged=misjudged, label=label)

    def _nearest(self) -> Iterator[tuple[Case, float]]:
        """Cases from the nearest on, of equal similarity the lower id first."""
        cases, given = self._memory.cases, 0
        while given < len(cases):
            self._extend(max(AT_ONCE, 2 * given) if given >= len(self._seen) else 0)
            if given >= len(self._seen):
                return
            for index in self._seen[given:]:
                yield cases[index], float(self._similarity[index])
            given = len(self._seen)

    def _extend(self, reach: int) -> None:
        """Sort the nearest `reach` cases into `_seen`, as far as they are relevant."""
        import numpy as np  # a quarter of a second that `import memalign` should not cost

        cases = self._memory.cases
        if not reach or self._memory.matrix.shape[1] != self._vector.shape[0]:
            return
        similarity, reach = self._similarity, min(reach, len(cases))
        floor = RELEVANT if self._by_embedding and len(cases) >= CHOICE else -np.inf
        # Sorting all of a hundred thousand takes longer than comparing them. Cases are ordered by id, and all that are as
        # near as the last one wanted are taken, so that a stable sort breaks every tie by id.
        least = max(float(np.partition(similarity, -reach)[-reach]), floor)
        near = np.flatnonzero(similarity >= least)
        self._seen = [int(index) for index in near[np.argsort(-similarity[near], kind="stable")]]

    @cached_property
    def _by_embedding(self) -> bool:
        """Whether the in-process embedder compares: it cannot read Portuguese and Spanish, and of others no scale is known."""
        if not (self._memory.embedding_model or "").startswith(ENGLISH_CENTRED):
            return False
        return language_of(embedding_text(self._example)) not in ("Portuguese", "Spanish")

    @cached_property
    def _similarity(self) -> NDArray[np.float32]:
        """How near every case of memory is to the item, of shape (cases,)."""
        import numpy as np

        memory = self._memory
        if (memory.embedding_model or "").startswith(ENGLISH_CENTRED) and not self._by_embedding:
            return overlap(_case_signatures(memory), signatures([embedding_text(self._example)])[0])
        # Not `@`: it shares the work out among threads, and on a busy machine waits for the last of them, up to 30 ms.
        products: NDArray[np.float32] = np.vecdot(memory.matrix, self._vector)
        return products


def _rank(hit: Retrieved) -> tuple[bool, bool, float, str]:
    return (not hit.identical, not hit.misjudged, -hit.similarity, hit.case.id)


def _case_signatures(memory: Memory) -> NDArray[np.uint64]:
    return kept(memory, "signatures", lambda: signatures([embedding_text(case.example) for case in memory.cases]))
