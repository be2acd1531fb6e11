"""Memory: episodic (cases) and semantic (guidelines), retrieval, and the working memory of one judgment."""

from memalign.memory.model import Case, LedgerEntry, Memory, Probe, Shard, Tombstone, Voice
from memalign.memory.standing import Relation
from memalign.memory.voices import policy_label

__all__ = ["Case", "LedgerEntry", "Memory", "Probe", "Relation", "Shard", "Tombstone", "Voice", "policy_label"]
