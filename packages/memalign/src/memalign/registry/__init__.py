"""The registry: judges and their versions, with history, bundles and erasing."""

from memalign.registry.bundle import load_bundle, write_bundle
from memalign.registry.diff import Change, MemoryDiff
from memalign.registry.receipt import Receipt, RedactedVersion
from memalign.registry.registry import Registry, Saved
from memalign.registry.versions import JudgeSummary, VersionInfo

__all__ = [
    "Change",
    "JudgeSummary",
    "MemoryDiff",
    "Receipt",
    "RedactedVersion",
    "Registry",
    "Saved",
    "VersionInfo",
    "load_bundle",
    "write_bundle",
]
