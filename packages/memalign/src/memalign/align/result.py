"""The report of an alignment: every row, every new guideline, every conflict, and the cost."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from memalign.memory import Memory
from memalign.notebook import html_view
from memalign.types import FeedbackKey, Guideline, LedgerState, Usage, as_json
from memalign.values import Value, ValueT_co, dollars, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = [
    "AlignResult",
    "BrokenLock",
    "Conflict",
    "Impact",
    "RowReport",
    "VerdictChange",
    "conflicts_in",
]

_SHOWN = 8
"""Guidelines and conflicts that a terminal shows."""
_WIDTH = 120
"""Characters of each."""
_ORDER = (
    "learned",
    "merged",
    "disputed",
    "rejected",
    "withdrawn",
    "unchanged",
    "invalid",
)
"""The order in which a summary counts rows."""


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row of feedback: whether it was new to the judge, and its ledger state now.

    Attributes:
        line: Its line in the file, or its place among the rows.
        key: Its key in written form.
        status: Whether it was new, changed or unchanged, or cannot be used.
        state: Its ledger state; None for an invalid row.
        reason: Why it is in that state, or invalid.
    """

    line: int
    key: str
    status: Literal["new", "changed", "unchanged", "invalid"]
    state: LedgerState | None = None
    reason: str = ""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback that a person has to settle.

    Attributes:
        kind: `labels`: people gave different labels to the same content. `comments`: comments on
            several cases contradict each other, so that no guideline can follow both.
        ids: The cases.
        annotations: Every annotation with its label, None if it has none.
        label: The label that counts meanwhile; None for a tie, and for comments.
        reason: Why that label counts, or what the comments disagree about.
    """

    ids: tuple[str, ...]
    annotations: dict[FeedbackKey, Value | None]
    label: Value | None = None
    reason: str = ""
    kind: Literal["labels", "comments"] = "labels"


class VerdictChange(msgspec.Struct, frozen=True, kw_only=True):
    """A past case on which the judge changed its verdict, with the case itself hidden from it.

    Attributes:
        id: The case.
        label: The experts' label.
        before: The verdict of the judge before.
        after: The verdict of the judge now.
        effect: fixed (right now), broken (was right), or moved (wrong before and after).
        guideline_ids: The new guidelines that the findings of the verdict name.
    """

    id: str
    label: Value | None
    before: Value | None
    after: Value | None
    effect: Literal["fixed", "broken", "moved"]
    guideline_ids: tuple[str, ...] = ()


class BrokenLock(msgspec.Struct, frozen=True, kw_only=True):
    """A locked case that the new judge gets wrong while the case is hidden from it.

    Attributes:
        id: The case.
        label: The experts' label.
        value: The verdict of the new judge; None if the case could not be judged.
        guideline_ids: The guidelines that the verdict names.
        reason: Why there is no verdict.
    """

    id: str
    label: Value | None
    value: Value | None = None
    guideline_ids: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        """`locked case t-1: judged true, experts say false (G3)`."""
        if self.reason:
            return f"locked case {self.id} {self.reason}"
        value = value_text(self.value)
        label = value_text(self.label)
        line = f"locked case {self.id}: judged {value}, experts say {label}"
        if self.guideline_ids:
            line += f" ({', '.join(self.guideline_ids)})"
        return line


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on past cases that an align changed. Each case is hidden from both judges.

    Attributes:
        checked: How many cases the judge before and the judge now have judged.
        changes: The cases on which they differ.
    """

    checked: int = 0
    changes: tuple[VerdictChange, ...] = ()

    @property
    def fixed(self) -> int:
        """How many verdicts are right now and were not."""
        return self._count("fixed")

    @property
    def broken(self) -> int:
        """How many verdicts were right and are not."""
        return self._count("broken")

    def _count(self, effect: str) -> int:
        return sum(change.effect == effect for change in self.changes)


@dataclass(frozen=True, kw_only=True)
class AlignResult(Generic[ValueT_co]):
    """A complete new judge, and what was learned or forgotten on the way.

    Attributes:
        judge: The judge.
        rows: What became of every row.
        guidelines: The guidelines that this run wrote.
        forgotten: The guidelines that it removed.
        removed: The withdrawn keys.
        conflicts: Labels that differ on one content, and comments that contradict each other.
        impact: What changed on past cases; None unless asked for.
        broken: Locked cases that the judge gets wrong. A registry then commits nothing, unless it
            is told to.
        notes: What else waits for the next align, and what was left out.
        stopped: Why calls were not made, if a spend limit was reached.
        taken_up: How many answers of an earlier, stopped run were used.
        usage: The cost, without those.
        seconds: How long it took.
        changed: Whether the judge is another one.
        held: If a locked case is broken, the judge as it was, with the feedback pending for that
            reason.
        version: The number under which a registry keeps it; None outside of one.
        parent: The version that it was made from. It equals `version` if nothing was committed.
    """

    judge: Judge[ValueT_co]
    rows: tuple[RowReport, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    forgotten: tuple[Guideline, ...] = ()
    removed: tuple[FeedbackKey, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    impact: Impact | None = None
    broken: tuple[BrokenLock, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str = ""
    taken_up: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    changed: bool = True
    held: Judge[ValueT_co] | None = None
    version: int | None = None
    parent: int | None = None

    @property
    def pending(self) -> tuple[tuple[FeedbackKey, str], ...]:
        """Key and reason of every piece of feedback whose lesson still waits."""
        waiting = []
        for entry in self.judge.memory.ledger():
            if entry.state == "pending":
                waiting.append((entry.key, entry.reason))
        return tuple(waiting)

    @property
    def summary(self) -> str:
        """One line, such as `4 learned, 1 pending (t-7@ana: timed out), new G1-G3, 3 s, $0.004`."""
        counts = Counter(withdrawn=len(self.removed))
        counts.update(map(_outcome, self.rows))
        parts = []
        for name in _ORDER:
            if counts[name]:
                parts.append(f"{counts[name]} {name}")
        pending = self.pending
        if pending:
            key, reason = pending[0]
            parts.append(f"{len(pending)} pending ({key}: {reason})")
        if self.forgotten:
            parts.append(f"forgot {_span(self.forgotten)}")
        if self.guidelines:
            parts.append(f"new {_span(self.guidelines)}")
        if self.broken:
            ids = ", ".join(lock.id for lock in self.broken)
            parts.append(f"locked and not kept: {ids}")
        if self.conflicts:
            parts.append(f"conflicts: {len(self.conflicts)}")
        digits = ".0f" if self.seconds >= 1 else ".2g"
        parts.append(f"{self.seconds:{digits}} s")
        if self.usage.cost is None:
            parts.append("cost unknown")
        else:
            parts.append(dollars(self.usage.cost))
        return ", ".join(parts)

    def __str__(self) -> str:
        """Return the summary, then new guidelines and conflicts, as many as a screen holds."""
        news = [*map(str, self.guidelines), *self._conflict_lines()]
        lines = [f"{self.judge.name}: {self.summary}"]
        for line in news[:_SHOWN]:
            short = textwrap.shorten(line, _WIDTH, placeholder="…")
            lines.append(short)
        more = len(news) - _SHOWN
        if more > 0:
            lines.append(f"… and {more:,} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        above = [f"{self.judge.name}: {self.summary}", *self._conflict_lines()]
        rows = []
        for guideline in self.guidelines:
            sources = ", ".join(map(str, guideline.supported_by))
            rows.append((guideline.id, guideline.text, sources))
        return html_view(above, ("guideline", "text", "taught by"), rows)

    def _conflict_lines(self) -> list[str]:
        lines = []
        for conflict in self.conflicts:
            ids = ", ".join(conflict.ids)
            lines.append(f"conflict: {ids}: {conflict.reason}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, for programs; the judge is named, not included."""
        plain: dict[str, Any] = {
            "judge": self.judge.name,
            "memory_hash": self.judge.memory.hash,
        }
        for each in fields(self):
            if each.name not in ("judge", "held"):
                plain[each.name] = as_json(getattr(self, each.name))
        if self.impact is not None:
            plain["impact"]["fixed"] = self.impact.fixed
            plain["impact"]["broken"] = self.impact.broken
        plain["pending"] = []
        for key, reason in self.pending:
            plain["pending"].append({"key": str(key), "reason": reason})
        return plain


def _outcome(row: RowReport) -> str:
    if row.status in ("new", "changed"):
        return str(row.state)
    return row.status


def _span(guidelines: tuple[Guideline, ...]) -> str:
    """Return `G1-G3`, or the ids one by one if others lie between."""
    first = guidelines[0]
    last = guidelines[-1]
    count = len(guidelines)
    if count > 1 and last.number - first.number == count - 1:
        return f"{first.id}-{last.id}"
    return ", ".join(guideline.id for guideline in guidelines)


def conflicts_in(memory: Memory) -> tuple[Conflict, ...]:
    """Return what people have to settle: labels that differ, then comments that contradict."""
    labels = {}
    for case in memory.cases:
        given: dict[FeedbackKey, Value | None] = {}
        for said in memory.annotations_on(case):
            if said.value is not None:
                given[said.key] = said.value
        content = case.example.content_hash
        if content in labels or len(set(given.values())) < 2:
            continue
        label = memory.label(case)
        reason = "by authority, then majority, then recency"
        if label is None:
            reason = "a tie, so no label counts until somebody settles it"
        labels[content] = Conflict(
            ids=_cases_of(given), annotations=given, label=label, reason=reason
        )
    comments = []
    for named in memory.open_conflicts:
        values = {key: memory.record(key)[0].value for key in named.feedback}
        conflict = Conflict(
            kind="comments",
            ids=_cases_of(values),
            annotations=values,
            reason=named.about,
        )
        comments.append(conflict)
    return (*labels.values(), *comments)


def _cases_of(keys: Iterable[FeedbackKey]) -> tuple[str, ...]:
    ids = dict.fromkeys(key.id for key in keys)
    return tuple(ids)
