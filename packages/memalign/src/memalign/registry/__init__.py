"""The registry: judges and their versions, with history, bundles and erasing."""

from memalign.registry.bundle import load_bundle, write_bundle
from memalign.registry.database import Database
from memalign.registry.diff import Change, MemoryDiff
from memalign.registry.erase import Selection
from memalign.registry.kinds import LESSONS, NOUNS
from memalign.registry.other_tables import Passage, Words
from memalign.registry.receipt import Receipt, RedactedVersion
from memalign.registry.registry import Registry, Saved
from memalign.registry.residue import Residue
from memalign.registry.tables import judges as judges_table
from memalign.registry.tables import versions as versions_table
from memalign.registry.tables import without_statistics
from memalign.registry.versions import JudgeSummary, VersionInfo

__all__ = [
    "LESSONS",
    "NOUNS",
    "Change",
    "Database",
    "JudgeSummary",
    "MemoryDiff",
    "Passage",
    "Receipt",
    "RedactedVersion",
    "Registry",
    "Residue",
    "Saved",
    "Selection",
    "VersionInfo",
    "Words",
    "judges_table",
    "load_bundle",
    "versions_table",
    "without_statistics",
    "write_bundle",
]
