"""What of a memory is most alike: which records a call holds side by side, and which guidelines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

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
    rules = {}
    counts: Counter[str] = Counter()
    for rule in memory.semantic:
        words = frozenset(words_and_pairs(rule.text))
        rules[rule.id] = words
        counts.update(words)
    weights = {}
    for word, count in counts.items():
        weights[word] = math.log(1 + len(rules) / count)
    alike = dict.fromkeys(rules, 0.0)
    for key in keys:
        annotation, case = memory.record(key)
        text = annotation.rationale or embedding_text(case.example)
        said = set(words_and_pairs(text))
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

    waiting = sorted(set(keys))
    matrix = memory.matrix
    if len(waiting) < 3 or not matrix.shape[1]:
        return waiting
    rows = {case.id: row for row, case in enumerate(memory.cases)}
    places = np.array([rows[key.id] for key in waiting])
    names = [str(memory.label(memory.cases[row])) for row in places]
    labels = np.unique(names, return_inverse=True)[1]  # by number: names may be long
    ordered = []
    following = 0
    while True:
        ordered.append(waiting.pop(following))
        if not waiting:
            return ordered
        last = matrix[places[following]]
        label = labels[following]
        places = np.delete(places, following)
        labels = np.delete(labels, following)
        near = matrix[places[:COMPARED]]
        # Not `@`, whose threads wait for each other on a busy machine: 5 seconds for 1,000 records.
        alike = np.round(np.vecdot(near, last), 6)
        alike += CONTRAST * (labels[:COMPARED] != label)
        following = int(np.argmax(alike))
