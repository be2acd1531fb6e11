"""The receipt of an erasure: what went, what waits, what is left, and what is out of reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memalign.registry.kinds import LESSONS, NOUNS
from memalign.types import FeedbackKey, as_json

__all__ = [
    "UNREACHABLE",
    "UNREACHABLE_ON_POSTGRESQL",
    "Receipt",
    "RedactedVersion",
    "in_words",
]

UNREACHABLE = (
    "exported bundles and copies of the registry file",
    "feedback and judgment files, and sheets for review",
    "judges that other processes have loaded",
    "MLflow versions and traces",
    "tools that feedback came from or verdicts were sent to",
    "logs of model providers",
    "backups, snapshots and spare blocks of the disk",
)
UNREACHABLE_ON_POSTGRESQL = (
    "exported bundles and copies of the registry",
    *UNREACHABLE[1:-1],
    "the server's write-ahead log (run CHECKPOINT and pg_switch_wal(), and delete older archived "
    "segments)",
    "backups and snapshots (delete older ones, or let them expire)",
    "replicas (physical ones follow when they have replayed it; on subscribers, run VACUUM FULL)",
    "the server's logs, if it logs statements with their parameters (delete older ones)",
    "spare blocks of the server's disk",
)


@dataclass(frozen=True, kw_only=True)
class RedactedVersion:
    """What one version lost: cases, comments (what one person said of one case), guidelines."""

    number: int
    cases: int = 0
    comments: int = 0
    guidelines: int = 0

    @property
    def lost(self) -> dict[str, int]:
        """Return how many it lost of each kind, by its noun."""
        return {noun: getattr(self, f"{noun}s") for noun in NOUNS}

    @property
    def lessons(self) -> int:
        """Return how much it lost of what was learned or written for the judge."""
        return sum(self.lost[kind.noun] for kind in LESSONS.values())

    def __str__(self) -> str:
        return in_words(self.lost)


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What an erasure did; kept nowhere by memalign, for it names what was erased.

    Attributes:
        judge: The judge's name.
        at: When it was erased, ISO 8601 in UTC.
        keys: The comments that went: what one person said of one case, taught or not.
        cases: The ids of the cases that went, taught, queued or only in the result of work.
        guidelines: The guidelines that went, from any version.
        copied: Those that were not learned from the feedback, but repeated its words.
        wordings: Those that people wrote or confirmed.
        locked: The locked cases that are locked no longer, because they or their label went.
        versions: What each version lost.
        latest: The version that stands afterwards, with what was learned again; None when the
            latest never held any of them, and in a dry run.
        pending: Feedback that waits to be distilled again; `problem` says why. In a dry run it is
            the feedback that an erasure would distil again.
        rederived: The guidelines that were written since.
        searched: What was searched afterwards; empty in a dry run.
        looked_for: What was looked for there, in words that name nothing of it.
        left: Where a word is left: table and column, or file, never the words.
        stays: Which rows of this judge these are: `guideline G1`, `comment t-3@ben`, `version 2`.
        elsewhere: Other judges of the registry that hold some of the same text and keep it.
        unreachable: What nobody can search from here.
        dry_run: Whether nothing was done.
    """

    judge: str
    at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    keys: tuple[FeedbackKey, ...]
    cases: tuple[str, ...]
    guidelines: tuple[str, ...]
    copied: tuple[str, ...]
    wordings: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    versions: tuple[RedactedVersion, ...]
    latest: int | None
    pending: tuple[FeedbackKey, ...] = ()
    rederived: tuple[str, ...] = ()
    problem: str = ""
    searched: str = ""
    looked_for: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = UNREACHABLE
    dry_run: bool = False

    @property
    def complete(self) -> bool:
        """True if it was searched, and no word is left in any judge or any other table."""
        if self.left or self.elsewhere:
            return False
        return bool(self.searched)

    @property
    def counts(self) -> str:
        """`6 cases, 2 comments and 1 guideline`."""
        return in_words(self.numbers)

    @property
    def gone(self) -> dict[str, tuple[Any, ...]]:
        """Return what went, as keys or ids, by the kind's noun."""
        return {noun: getattr(self, kind.field) for noun, kind in NOUNS.items()}

    @property
    def numbers(self) -> dict[str, int]:
        """Return how many went of each kind, by its noun."""
        return {noun: len(names) for noun, names in self.gone.items()}

    @property
    def lessons(self) -> tuple[str, ...]:
        """Return the ids of what went of all that was learned or written for the judge."""
        return sum((self.gone[kind.noun] for kind in LESSONS.values()), ())

    def to_dict(self) -> dict[str, Any]:
        """Return the same as JSON values."""
        return {**as_json(self), "complete": self.complete, "counts": self.counts}

    def without_names(self) -> dict[str, Any]:
        """Return what may be kept of it: how many cases and comments went, not their names."""
        values = self.to_dict()
        for naming in ("keys", "pending", "locked", "stays"):
            del values[naming]
        values["cases"] = len(self.cases)
        values["numbers"] = self.numbers
        values["waiting"] = len(self.pending)
        return values

    def __str__(self) -> str:
        done = f"erased for good, {self.at}"
        waiting = "pending until the next align, to be learned again"
        if self.dry_run:
            done = "would be erased"
            waiting = "to be learned again without them"
        if self.problem:
            waiting += f" ({self.problem})"
        parts: dict[str, Sequence[object]] = {
            **{f"{noun}s": names for noun, names in self.gone.items()},
            "of these, those that only repeat their words": self.copied,
            "of these, those that people wrote or confirmed": self.wordings,
            "cases that are locked no longer": self.locked,
            "learned again without them": self.rederived,
            waiting: self.pending,
        }
        lines = [f"{self.judge}: {self.counts} {done}"]
        for what, names in parts.items():
            if names:
                lines.append(f"  {what}: {_some(names)}")
        for version in self.versions:
            if any(version.lost.values()):
                lines.append(f"  from version {version.number}: {version}")
        if self.latest is not None:
            lines.append(f"  latest: version {self.latest}")
        if self.searched:
            lines.append(f"  searched again afterwards: {self.searched}")
            lines.append(f"  looked for: {'; '.join(self.looked_for)}")
            lines.append(f"  everything gone: {self.answer}")
        lines.append(f"  out of reach: {'; '.join(self.unreachable)}")
        return "\n".join(lines)

    @property
    def answer(self) -> str:
        """One sentence that says whether everything is gone."""
        if self.complete:
            return "yes, no word is left"
        where = list(self.left)
        for name in self.elsewhere:
            where.append(f"the judge {name}, where it is to be erased too")
        which = ""
        if self.stays:
            which = f" ({_some(self.stays)})"
        return f"NO, words are left in {'; '.join(where)}{which}"


def in_words(counts: Mapping[str, int]) -> str:
    """Return `6 cases, 2 comments and 1 guideline`; what there is none of is not named.

    Args:
        counts: How many there are of each noun.
    """
    parts = []
    for noun, count in counts.items():
        if count == 1:
            parts.append(f"1 {noun}")
        elif count:
            parts.append(f"{count:,} {noun}s")
    if not parts:
        return "nothing"
    *first, last = parts
    if not first:
        return last
    return f"{', '.join(first)} and {last}"


def _some(names: Sequence[object], limit: int = 10) -> str:
    text = ", ".join(map(str, names[:limit]))
    more = len(names) - limit
    if more > 0:
        text += f" and {more} more"
    return text
