"""Memory: episodic (cases) and semantic (guidelines), retrieval, and the working memory of one judgment."""

from memalign.memory.label_policy import policy_label
from memalign.memory.model import Case, LedgerEntry, Memory, Probe, Shard, Tombstone, Voice
from memalign.memory.precedence import Relation

__all__ = ["Case", "LedgerEntry", "Memory", "Probe", "Relation", "Shard", "Tombstone", "Voice", "policy_label"]
