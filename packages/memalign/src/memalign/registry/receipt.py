"""The receipt of an erasure: what went, what waits, what was searched, and what it cannot reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memalign.types import FeedbackKey, as_json

__all__ = ["UNREACHABLE", "UNREACHABLE_ON_POSTGRESQL", "Receipt", "RedactedVersion", "Signature"]

UNREACHABLE = (
    "exported bundles and copies of the registry file",
    "feedback and judgment files, and sheets for review",
    "judges loaded before, in other processes",
    "MLflow versions and traces",
    "tools that feedback was taken from, and verdicts were written to",
    "logs of model providers",
    "backups, snapshots and spare blocks of the disk",
)
UNREACHABLE_ON_POSTGRESQL = (
    "exported bundles and copies of the registry",
    *UNREACHABLE[1:-1],
    "the server's write-ahead log (run CHECKPOINT and pg_switch_wal(); delete archived segments from before)",
    "backups and snapshots (delete those from before, or let them expire)",
    "replicas (physical ones follow once they replayed it; on subscribers run VACUUM FULL)",
    "the server's logs, where it logs statements with their parameters (delete those from before)",
    "spare blocks of the server's disk",
)


@dataclass(frozen=True, kw_only=True)
class RedactedVersion:
    """What one version lost: pieces of feedback, cases, guidelines."""

    number: int
    feedback: int
    cases: int
    guidelines: int


@dataclass(frozen=True, kw_only=True)
class Signature:
    """When a receipt was signed, the hash of the registry's state then, and the HMAC over all of it (hex)."""

    at: str
    state: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What an erasure did; kept nowhere by memalign, for it names what was erased.

    `keys` are the erased pieces of feedback; `versions` what each version lost; `latest` the new version without them
    (None when the latest never held them, or in a dry run). `guidelines` went from any version; `copied` of these were
    not learned from the feedback, but repeated its words. `pending` waits to be distilled again, `problem` says why;
    `rederived` are the guidelines written since. `searched` says what was searched for traces, and `elsewhere` names
    other judges of the registry that hold some of the same text or keys and keep it. `signature` is that of the registry;
    None in a dry run.
    """

    judge: str
    keys: tuple[FeedbackKey, ...]
    cases: tuple[str, ...]
    guidelines: tuple[str, ...]
    copied: tuple[str, ...]
    versions: tuple[RedactedVersion, ...]
    latest: int | None
    pending: tuple[FeedbackKey, ...] = ()
    rederived: tuple[str, ...] = ()
    problem: str = ""
    searched: str = ""
    elsewhere: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = UNREACHABLE
    dry_run: bool = False
    signature: Signature | None = None

    def with_rederivation(
        self, *, pending: tuple[FeedbackKey, ...], guidelines: tuple[str, ...] = (), problem: str = ""
    ) -> Receipt:
        """The receipt after the survivors were distilled again, or not."""
        return replace(self, pending=pending, rederived=guidelines, problem=problem if pending else "")

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return dict(as_json(self))

    def __str__(self) -> str:
        verb = "would be erased" if self.dry_run else "erased"
        pieces = "1 piece" if len(self.keys) == 1 else f"{len(self.keys)} pieces"
        lines = [f"{self.judge}: {pieces} of feedback {verb}: {_some(self.keys)}"]
        if self.cases:
            lines.append(f"  cases that nobody else spoke about: {_some(self.cases)}")
        lines.append(f"  guidelines learned with them in view: {_some(self.guidelines)}")
        if self.copied:
            lines.append(f"  of these, not learned from them but repeating their words: {_some(self.copied)}")
        lines += [
            f"  version {v.number}: {v.feedback} feedback, {v.cases} cases, {v.guidelines} guidelines"
            for v in self.versions
        ]
        if self.latest is not None:
            lines.append(f"  latest: version {self.latest}")
        if self.rederived:
            lines.append(f"  derived again without them: {_some(self.rederived)}")
        if self.pending:
            why = f" ({self.problem})" if self.problem else ""
            lines.append(f"  pending, to be derived again at the next align: {_some(self.pending)}{why}")
        if self.searched:
            lines.append(f"  searched: {self.searched}")
        if self.elsewhere:
            lines.append(f"  the same text or keys stay in other judges: {_some(self.elsewhere)}")
        lines.append(f"  out of reach: {'; '.join(self.unreachable)}")
        if self.signature is not None:
            lines.append(f"  signed: {self.signature.at}; the receipt as JSON can be verified")
        return "\n".join(lines)


def _some(names: Sequence[object], limit: int = 10) -> str:
    shown = ", ".join(map(str, names[:limit])) or "none"
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
