"""The registry: judges and their versions, with history, bundles and erasing."""

from memalign.registry.bundle import load_bundle, write_bundle
from memalign.registry.diff import FeedbackChange, GuidelineChange, MemoryDiff, SettingChange
from memalign.registry.receipt import Receipt, RedactedVersion
from memalign.registry.registry import Registry, Saved
from memalign.registry.versions import JudgeSummary, VersionInfo

__all__ = [
    "FeedbackChange",
    "GuidelineChange",
    "JudgeSummary",
    "MemoryDiff",
    "Receipt",
    "RedactedVersion",
    "Registry",
    "Saved",
    "SettingChange",
    "VersionInfo",
    "load_bundle",
    "write_bundle",
]
