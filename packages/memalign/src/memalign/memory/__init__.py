"""Memory: episodic (cases) and semantic (guidelines), retrieval, and the working memory of one judgment."""

from memalign.memory.label_policy import policy_label
from memalign.memory.model import (
    Annotation,
    Answers,
    Case,
    Expectation,
    LedgerEntry,
    Memory,
    Outcome,
    PreAlignmentVerdict,
    Shard,
    Tombstone,
)

__all__ = [
    "Annotation",
    "Answers",
    "Case",
    "Expectation",
    "LedgerEntry",
    "Memory",
    "Outcome",
    "PreAlignmentVerdict",
    "Shard",
    "Tombstone",
    "policy_label",
]
