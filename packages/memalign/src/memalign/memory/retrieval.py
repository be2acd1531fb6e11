"""The past cases that an item is judged beside.

The search is exact, over unit vectors: a team's feedback is thousands of cases, not millions. Cases
are compared on inputs and outputs alike (and conversation and trace), because two answers to one
question are rarely wrong for the same reason. No index is stored, so nothing remains of forgotten
cases.
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
IN_PROCESS = "wordllama:"
"""How the names of in-process embedding models begin. The scale of others is unknown."""
RELEVANT = 0.6
"""The least cosine, of the in-process embedder, of cases that say something (decision 11)."""
CHOICE = 30
"""Cases from which on RELEVANT counts. Of fewer all may be shown: they teach a house's ways."""
NEAR_COPY = 0.98
"""The cosine, of the in-process embedder, above which two cases are copies; one is shown."""


def embedding_text(example: Example) -> str:
    """Return the text of a case that is embedded, the same for a stored case and for a new item.

    It holds values only, without field names or JSON punctuation, and the words of conversations
    and traces (`words_of`). The reference (`expectations`) is left out unless there is nothing
    else, because a new item often has none. Labels and comments never enter.
    """
    words: list[str] = []
    for name, value in example.content.items():
        if name != "expectations":
            words.extend(words_of(name, value))
    if not any(words):
        words = list(words_of("expectations", example.expectations))
    return "\n".join(words)


def was_misjudged(
    memory: Memory, case: Case, value_type: ValueType, judge: str
) -> bool:
    """Return whether the judge of the fingerprint `judge` got the case wrong before it learned.

    False without a label or a verdict, and for free text, where two right answers differ.
    """
    before = case.pre_alignment
    if before is None or before.judge != judge:
        return False
    label = memory.label(case)
    if label is None or not value_type.closed:
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
    """Return up to `k` cases that an item is judged beside, the most useful first.

    An identical case comes first and always, also with k = 0: experts may have said more of it than
    a label. Then come the misjudged ones among the nearest 2k, then the others by likeness. Cases
    without a label that counts are left out, and so is a second case of a group (`meta["group"]`,
    such as a conversation) or of the same words. From CHOICE cases on, none is less alike than
    RELEVANT. Ties are broken by id, so the result is deterministic.

    Args:
        memory: The memory.
        example: The item.
        vector: Its embedding, of shape (d,). If its width is not that of memory's, nothing is
            compared.
        value_type: The judge's.
        k: The most cases to return.
        judge: The judge's fingerprint. Only its verdicts rank the cases.
    """
    identical = list(memory.duplicates(example)[:1])
    if k == 0 or memory.matrix.shape[1] != vector.shape[0]:
        return tuple(identical)
    chosen = list(identical)
    for case in _nearest(memory, vector):
        if len(chosen) >= CANDIDATES_PER_SLOT * k:
            break
        if memory.label(case) is None:
            continue
        if not any(_alike(memory, case, other) for other in chosen):
            chosen.append(case)
    found = chosen[len(identical) :]
    found.sort(key=lambda case: not was_misjudged(memory, case, value_type, judge))
    return (*identical, *found)[:k]


def _alike(memory: Memory, case: Case, other: Case) -> bool:
    """Return whether two cases are of one group, or say the same, or nearly so."""
    group = case.example.meta.get("group")
    if group is not None and group == other.example.meta.get("group"):
        return True
    if _words(case) == _words(other):
        return True
    if not _in_process(memory):
        return False
    one = _vector(case)
    two = _vector(other)
    return len(one) == len(two) and bool(one @ two >= NEAR_COPY)


def _vector(case: Case) -> NDArray[np.float32]:
    import numpy as np

    return np.frombuffer(case.vector or b"", dtype=np.float32)


def _words(case: Case) -> str:
    """Return the words of a case to compare; the hash of its content if it has none."""
    example = case.example
    words = cached(example, "words", lambda: word_form(embedding_text(example)))
    return words or example.content_hash


def _in_process(memory: Memory) -> bool:
    model = memory.embedding_model
    return model is not None and model.startswith(IN_PROCESS)


def _nearest(memory: Memory, vector: NDArray[np.float32]) -> Iterator[Case]:
    """Yield the relevant cases, the nearest first; of equal likeness the lower id first."""
    import numpy as np  # a quarter of a second that `import memalign` should not cost

    # Not `@`: it shares the work out among threads, and on a busy machine waits for the last of
    # them, up to 30 ms.
    similarity = np.vecdot(memory.matrix, vector)
    floor = -np.inf
    if _in_process(memory) and len(memory.cases) >= CHOICE:
        floor = RELEVANT
    # Cases are ordered by id, so a stable sort breaks every tie by id.
    order = np.argsort(-similarity, kind="stable")
    for index in order:
        if similarity[index] < floor:
            return
        yield memory.cases[index]
