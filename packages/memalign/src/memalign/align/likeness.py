"""What of a memory is most alike: which records a call holds side by side, and which guidelines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from memalign.content.normal import words_and_pairs
from memalign.memory import Memory
from memalign.memory.retrieval import embedding_text
from memalign.types import FeedbackKey

__all__ = ["by_likeness", "word_likeness"]

CONTRAST = 0.1
"""How much less alike a neighbour of another label may be: near opposites teach (LEAP, arXiv
2402.05403)."""
COMPARED = 1_000
"""The records, from the first that waits, among which the one that follows a record is found."""


def word_likeness(memory: Memory, keys: Sequence[FeedbackKey]) -> dict[str, float]:
    """Return how alike each guideline in force is to some of the feedback, by the guideline's id.

    It is the weight of the words that a guideline shares with the comment that is most like it. A
    word counts for more the fewer guidelines have it. Feedback without a comment is compared by the
    words of its case.

    Args:
        memory: The memory.
        keys: The feedback.
    """
    rules = {rule.id: frozenset(words_and_pairs(rule.text)) for rule in memory.semantic}
    counts = Counter(chain.from_iterable(rules.values()))
    weights = {word: math.log(1 + len(rules) / count) for word, count in counts.items()}
    alike = dict.fromkeys(rules, 0.0)
    for key in keys:
        annotation, case = memory.record(key)
        said = set(
            words_and_pairs(annotation.rationale or embedding_text(case.example))
        )
        for name, words in rules.items():
            shared = math.fsum(weights[word] for word in words & said)
            alike[name] = max(alike[name], shared)
    return alike


def by_likeness(memory: Memory, keys: Sequence[FeedbackKey]) -> list[FeedbackKey]:
    """Order keys so that similar cases are adjacent, and prefer a neighbour with another label.

    Args:
        memory: The memory, with a vector for every case.
        keys: The feedback, in any order.
    """
    import numpy as np  # see Memory.matrix

    ordered = sorted(set(keys))
    if len(ordered) < 3 or not memory.matrix.shape[1]:
        return ordered
    rows = {case.id: row for row, case in enumerate(memory.cases)}
    places = [rows[key.id] for key in ordered]
    labels = np.array([str(memory.label(memory.cases[place])) for place in places])
    vectors = memory.matrix[places]
    taken = np.zeros(len(ordered), dtype=bool)
    last = 0
    first = 1
    order = []
    while True:
        order.append(last)
        taken[last] = True
        while first < len(ordered) and taken[first]:
            first += 1
        if first == len(ordered):
            return [ordered[place] for place in order]
        near = slice(first, first + COMPARED)
        # Not `@`, whose threads wait for each other on a busy machine: 5 seconds for 1,000 records.
        alike = np.round(np.vecdot(vectors[near], vectors[last]), 6)
        alike += CONTRAST * (labels[near] != labels[last])
        alike[taken[near]] = -np.inf
        last = first + int(np.argmax(alike))
