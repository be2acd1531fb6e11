"""Which past cases a new one should be judged beside.

Exact search over unit vectors: a team's feedback is thousands of cases, not millions. Cases are compared on inputs and
outputs alike (and conversation and trace), since two answers to one question are rarely wrong for the same reason.
No index is stored: everything is derived from the cases, so what was forgotten is nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memalign.cache import cached
from memalign.content import words_of
from memalign.content.normal import word_form
from memalign.memory.model import Case, Memory
from memalign.types import Example
from memalign.values import ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["embedding_text", "similar_cases", "was_misjudged"]

CANDIDATES_PER_SLOT = 2
IN_PROCESS = "wordllama:"  # what the names of such embedding models begin with; of others the scale is unknown
RELEVANT = 0.6
"""Cosine of the in-process embedder below which a case says nothing of an item's label (decision 11)."""
CHOICE = 30
"""Cases from which on there is a choice: of fewer the nearest are shown, however unlike: they teach a house's ways."""
NEAR_COPY = 0.98
"""Cosine of the in-process embedder from which on two cases say the same: the second one's place is another's."""


def embedding_text(example: Example) -> str:
    """The text of a case that is embedded, the same for a stored case and for a new item.

    Values only, without field names or JSON punctuation; of conversations and traces what they say (`words_of`). The
    reference (`expectations`) is left out: a new item often has none, and labels and comments never enter. Falls back
    to the reference when there is nothing else.
    """
    fields = (field for field in example.content.items() if field[0] != "expectations")
    text = "\n".join(word for field in fields for word in words_of(*field))
    return text or "\n".join(words_of("expectations", example.expectations))


def was_misjudged(memory: Memory, case: Case, value_type: ValueType, judge: str) -> bool:
    """Return whether the judge of the fingerprint `judge` got the case wrong before it learned.

    False without a label or a verdict, and for free text, where two right answers differ.
    """
    before, label = case.pre_alignment, memory.label(case)
    if before is None or before.judge != judge or label is None or not value_type.closed:
        return False
    return not value_type.agree(label, before.value)


def similar_cases(
    memory: Memory,
    example: Example,
    vector: NDArray[np.float32],
    value_type: ValueType,
    k: int,
    *,
    judge: str,
) -> tuple[Case, ...]:
    """Up to `k` cases that an item is judged beside, the most useful first.

    An identical case comes first and always, also with k = 0: experts may have said of it what is no label. Then, among
    the nearest 2k, the ones that the judge misjudged; then by likeness. None is there without a label that counts, nor
    a second one of a group (`meta["group"]`, such as a conversation) or of the same words. From CHOICE cases on none
    is less alike than RELEVANT. Ties are broken by id, so the result is deterministic.

    Args:
        memory: Whose cases.
        example: The item.
        vector: Its embedding, of shape (d,). One of another width than memory's compares to nothing.
        value_type: The judge's.
        k: How many.
        judge: Only verdicts of the judge of this fingerprint rank the cases.
    """
    chosen = list(memory.duplicates(example)[:1])
    if k == 0 or memory.matrix.shape[1] != vector.shape[0]:
        return tuple(chosen)
    for case in _nearest(memory, vector):
        if len(chosen) >= CANDIDATES_PER_SLOT * k:
            break
        if memory.label(case) is not None and not any(
            _alike(memory, case, other) for other in chosen
        ):
            chosen.append(case)

    def rank(
        case: Case,
    ) -> tuple[bool, bool]:  # of equal rank they stay in the order of their likeness
        other = case.example.content_hash != example.content_hash
        return other, not was_misjudged(memory, case, value_type, judge)

    return tuple(sorted(chosen, key=rank)[:k])


def _alike(memory: Memory, case: Case, other: Case) -> bool:
    """Whether two cases are of one group, or say the same: in the same words, or nearly so."""
    group = case.example.meta.get("group")
    if (group is not None and group == other.example.meta.get("group")) or _words(case) == _words(
        other
    ):
        return True
    if (
        not (memory.embedding_model or "").startswith(IN_PROCESS)
        or not case.vector
        or not other.vector
    ):
        return False
    import numpy as np

    one, two = (np.frombuffer(vector, dtype=np.float32) for vector in (case.vector, other.vector))
    return one.shape == two.shape and bool(one @ two >= NEAR_COPY)


def _words(case: Case) -> str:
    return (
        cached(case.example, "words", lambda: word_form(embedding_text(case.example)))
        or case.example.content_hash
    )


def _nearest(memory: Memory, vector: NDArray[np.float32]) -> Iterator[Case]:
    """Cases from the nearest on, as far as they are relevant; of equal likeness the lower id first."""
    import numpy as np  # a quarter of a second that `import memalign` should not cost

    # Not `@`: it shares the work out among threads, and on a busy machine waits for the last of them, up to 30 ms.
    similarity = np.vecdot(memory.matrix, vector)
    choice = (memory.embedding_model or "").startswith(IN_PROCESS) and len(memory.cases) >= CHOICE
    for index in np.argsort(
        -similarity, kind="stable"
    ):  # cases are ordered by id, which breaks every tie
        if choice and similarity[index] < RELEVANT:
            return
        yield memory.cases[index]
