"""What an alignment reports: every row, every new guideline, every conflict, and what it cost."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from memalign.align.annotations import sort_rows
from memalign.io import FeedbackFile
from memalign.memory import Memory
from memalign.models.calls import Calls
from memalign.notebook import html_view
from memalign.types import FeedbackKey, Guideline, LedgerState, Usage, as_json
from memalign.values import Value, ValueT_co, dollars, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge, Progress

__all__ = ["AlignResult", "BrokenLock", "Conflict", "Impact", "RowReport", "Run", "VerdictChange"]

_SHOWN = 8  # guidelines and conflicts in a terminal
_WIDTH = 120  # characters of each


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row of feedback: what it was to the judge, and its ledger state now.

    Attributes:
        line: Its line in the file, or its place among the rows.
        key: In its written form.
        status: What it was.
        state: None for an invalid row.
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
        kind: `labels`: people gave different labels to the same content. `comments`: what they said of several cases
            contradicts each other, so that no guideline can follow both.
        ids: The cases.
        annotations: Every annotation with its label, None where it has none.
        label: Of labels the one that counts meanwhile; None for a tie.
        reason: Why that label counts; of comments what the conflict is about.
    """

    ids: tuple[str, ...]
    annotations: dict[FeedbackKey, Value | None]
    label: Value | None = None
    reason: str = ""
    kind: Literal["labels", "comments"] = "labels"


class VerdictChange(msgspec.Struct, frozen=True, kw_only=True):
    """A past case of which the judge says something else than before, with the case itself hidden from it.

    Attributes:
        id: The case.
        label: The experts'.
        before: The verdict of the judge before.
        after: That of the judge now.
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
        label: The experts'.
        value: What the new judge says; None where nobody could judge the case.
        guideline_ids: The guidelines that its verdict names.
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
        verdict, label = (value_text(value) for value in (self.value, self.label))
        named = f" ({', '.join(self.guideline_ids)})" if self.guideline_ids else ""
        return f"locked case {self.id}: judged {verdict}, experts say {label}{named}"


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """What the align changed on past cases: `checked` of them were judged by the judge before and after.

    The case itself is hidden from both.
    """

    checked: int = 0
    changes: tuple[VerdictChange, ...] = ()

    @property
    def fixed(self) -> int:
        """How many verdicts are right now and were not."""
        return sum(change.effect == "fixed" for change in self.changes)

    @property
    def broken(self) -> int:
        """How many verdicts were right and are not."""
        return sum(change.effect == "broken" for change in self.changes)


@dataclass(frozen=True, kw_only=True)
class AlignResult(Generic[ValueT_co]):
    """A complete new judge, and what was learned or forgotten on the way.

    Attributes:
        judge: The judge.
        rows: What became of every row.
        guidelines: Those that this run wrote.
        forgotten: Those that it took out.
        removed: The withdrawn keys.
        conflicts: Labels that differ on one content, and comments that contradict each other.
        impact: What changed on past cases; None where that was not asked for.
        broken: Locked cases that the judge gets wrong. A registry then commits nothing, unless it is told to.
        notes: What else waits for the next align, and what was left out.
        stopped: Why calls were not made: a spend limit was reached.
        taken_up: Answers that an earlier, stopped run had paid for.
        usage: What it cost, without those.
        seconds: How long it took.
        changed: Whether the judge is another one.
        held: Where a locked case is broken: the judge as it was, with the feedback pending for that reason.
        version: As which a registry keeps it; None outside of one.
        parent: From which version it was made: the same where nothing was committed.
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
        return tuple((e.key, e.reason) for e in self.judge.memory.ledger() if e.state == "pending")

    @property
    def summary(self) -> str:
        """One line, such as `4 learned, 1 pending (t-7@ana: timed out), new G1-G3, 31 s, $0.004`."""
        named = Counter(
            row.status if row.status in ("unchanged", "invalid") else str(row.state)
            for row in self.rows
        )
        named["withdrawn"] = len(self.removed)
        order = ("learned", "merged", "disputed", "rejected", "withdrawn", "unchanged", "invalid")
        parts = [f"{named[name]} {name}" for name in order if named[name]]
        for key, reason in self.pending[:1]:
            parts.append(f"{len(self.pending)} pending ({key}: {reason})")
        parts += [f"forgot {_span(self.forgotten)}"] if self.forgotten else []
        parts += [f"new {_span(self.guidelines)}"] if self.guidelines else []
        if self.broken:
            parts.append(f"locked and not kept: {', '.join(lock.id for lock in self.broken)}")
        parts += [f"conflicts: {len(self.conflicts)}"] if self.conflicts else []
        parts.append(f"{self.seconds:.0f} s" if self.seconds >= 1 else f"{self.seconds:.2g} s")
        parts.append("cost unknown" if self.usage.cost is None else dollars(self.usage.cost))
        return ", ".join(parts)

    def __str__(self) -> str:
        """Return the summary, then the new guidelines and the conflicts, as many as a screen holds."""
        news = [str(guideline) for guideline in self.guidelines]
        news += [
            f"conflict: {', '.join(conflict.ids)}: {conflict.reason}" for conflict in self.conflicts
        ]
        lines = [textwrap.shorten(line, _WIDTH, placeholder="…") for line in news[:_SHOWN]]
        more = len(news) - _SHOWN
        if more > 0:
            lines.append(f"… and {more:,} more")
        return "\n".join([f"{self.judge.name}: {self.summary}", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            (rule.id, rule.text, ", ".join(map(str, rule.supported_by))) for rule in self.guidelines
        ]
        conflicts = [
            f"conflict: {', '.join(conflict.ids)}: {conflict.reason}" for conflict in self.conflicts
        ]
        title = f"{self.judge.name}: {self.summary}"
        return html_view([title, *conflicts], ("guideline", "text", "taught by"), rows)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, for programs; the judge is named, not included."""
        plain = {
            field.name: as_json(getattr(self, field.name))
            for field in fields(self)
            if field.name not in ("judge", "held")
        }
        if self.impact is not None:
            plain["impact"] |= {"fixed": self.impact.fixed, "broken": self.impact.broken}
        pending = [{"key": str(key), "reason": reason} for key, reason in self.pending]
        named = {"judge": self.judge.name, "memory_hash": self.judge.memory.hash}
        return {**named, **plain, "pending": pending}


def _span(guidelines: tuple[Guideline, ...]) -> str:
    """`G1-G3`, or the ids one by one where others lie between."""
    ids = [guideline.id for guideline in guidelines]
    adjacent = guidelines[-1].number - guidelines[0].number == len(ids) - 1 > 0
    return f"{ids[0]}-{ids[-1]}" if adjacent else ", ".join(ids)


# -- while it runs -----------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Run:
    """One run of the pipeline: the judge that it was given, its calls, and what its steps have to report so far."""

    before: Judge
    calls: Calls
    progress: Progress | None = None
    file: FeedbackFile = field(default_factory=lambda: FeedbackFile(rows=(), lines=()))
    removed: Sequence[FeedbackKey] = ()
    usage: Usage = field(default_factory=Usage)
    impact: Impact | None = None
    broken: tuple[BrokenLock, ...] = ()
    held: Judge | None = None
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def spend(self, usage: Usage) -> None:
        """Add what a call cost."""
        self.usage += usage

    def failure(self, error: Exception) -> str:
        """Why a call failed; what it cost is added."""
        self.spend(getattr(error, "usage", None) or Usage())
        return f"{type(error).__name__}: {error}"

    def tell(self, phase: str, done: int, total: int) -> None:
        """Show how far a step is."""
        if self.progress is not None:
            self.progress(phase, done, total)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds of a step."""
        started = time.perf_counter()
        yield
        self.usage += Usage(seconds={phase: time.perf_counter() - started})

    def result(self, judge: Judge) -> AlignResult:
        """The report on `judge`, which the run made of the one before."""
        before, after = ({g.id: g for g in side.memory.guidelines} for side in (self.before, judge))
        ledger = {entry.key: entry for entry in judge.memory.ledger()}
        status = sort_rows(self.before.memory, self.file.rows)
        rows = [
            RowReport(line=e.line, key=e.id or "", status="invalid", reason=e.reason)
            for e in self.file.invalid
        ]
        for line, row in zip(self.file.lines, self.file.rows, strict=True):
            key, entry = row.key, ledger[row.key]
            rows.append(
                RowReport(
                    line=line,
                    key=str(key),
                    status=status[key],
                    state=entry.state,
                    reason=entry.reason,
                )
            )
        return AlignResult(
            judge=judge,
            rows=tuple(sorted(rows, key=lambda row: row.line)),
            guidelines=tuple(g for name, g in after.items() if name not in before),
            forgotten=tuple(g for name, g in before.items() if name not in after),
            removed=tuple(self.removed),
            conflicts=_conflicts(judge.memory),
            impact=self.impact,
            broken=self.broken,
            held=self.held,
            notes=tuple(self.notes),
            stopped=self.calls.stopped,
            usage=self.usage,
            seconds=time.perf_counter() - self.started,
            changed=judge != self.before,
        )


def _conflicts(memory: Memory) -> tuple[Conflict, ...]:
    """Every content on which people's labels differ, by the id of its first case; then comments that contradict."""
    conflicts = dict[str, Conflict]()
    for case in memory.cases:
        labels = {a.key: a.value for a in memory.annotations_on(case) if a.value is not None}
        if len({*labels.values()}) > 1:
            label, tie = memory.label(case), "a tie, so no label counts until somebody settles it"
            reason = tie if label is None else "by authority, then majority, then recency"
            ids = tuple(dict.fromkeys(key.id for key in labels))
            conflict = Conflict(ids=ids, annotations={**labels}, label=label, reason=reason)
            conflicts.setdefault(case.example.content_hash, conflict)
    comments = []
    for named in memory.open_conflicts:
        values = {key: memory.record(key)[0].value for key in named.feedback}
        ids = tuple(dict.fromkeys(key.id for key in values))
        comments.append(Conflict(kind="comments", ids=ids, annotations=values, reason=named.about))
    return (*conflicts.values(), *comments)
