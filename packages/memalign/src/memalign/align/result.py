"""What an alignment reports: every row, every new guideline, every conflict, and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from memalign.memory.memory_card import memory_words
from memalign.types import FeedbackKey, Guideline, LedgerState, Usage, as_json
from memalign.values import Value, ValueT_co, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["AlignResult", "Conflict", "Impact", "LockCheck", "RowReport", "VerdictChange"]


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row of feedback: what it was to the judge, and its ledger state now.

    `key` is in its written form. `status` is new, changed, unchanged or invalid; `state` is None for an invalid row, whose `reason` says why.
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

    `effect` is fixed (right now), broken (was right), or moved (wrong before and after). `guideline_ids` are the new
    guidelines that the findings of the verdict name.
    """

    id: str
    label: Value | None
    before: Value | None
    after: Value | None
    effect: Literal["fixed", "broken", "moved"]
    guideline_ids: tuple[str, ...] = ()


class LockCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A locked case after an align: whether it is still judged right, and which guidelines were left out for it.

    Where it was not `answered`, nobody knows whether the new guidelines break it: they wait for the next align, unnamed,
    for they will be written again.
    """

    id: str
    kept: bool
    answered: bool = True
    guideline_ids: tuple[str, ...] = ()
    reason: str = ""


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """What the align changed on past cases: `checked` of them were judged by the judge before and after.

    The case itself is hidden from both. Locked cases hold already: it is the judge that is delivered.
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

    `guidelines` are those that this run wrote; `forgotten` those that it took out. `removed` are the withdrawn keys.
    `conflicts` are labels of people that differ on one content.
    `impact` is what changed on past cases, None where that was not checked; `locks` what became of each locked case.
    `notes` say what else waits for the next align, and `stopped` why calls were not made: a spend limit was reached. `taken_up`
    counts answers that an earlier, stopped run had paid for; `usage` is without them. A registry says as which `version` it keeps the judge, made from which
    `parent`: the same where nothing was committed, None outside a registry.
    """

    judge: Judge[ValueT_co]
    rows: tuple[RowReport, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    forgotten: tuple[Guideline, ...] = ()
    removed: tuple[FeedbackKey, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    impact: Impact | None = None
    locks: tuple[LockCheck, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str = ""
    taken_up: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    changed: bool = True
    version: int | None = None
    parent: int | None = None

    @property
    def pending(self) -> tuple[tuple[FeedbackKey, str], ...]:
        """Key and reason of every piece of feedback whose lesson still waits."""
        return tuple((e.key, e.reason) for e in self.judge.memory.ledger() if e.state == "pending")

    def __str__(self) -> str:
        """One line, such as `4 learned, 1 pending (t-7@ana: timed out), new G1-G3, 31 s, $0.004`."""
        states = Counter(row.state for row in self.rows if row.status in ("new", "changed") and row.state)
        parts = [f"{states[state]} {state}" for state in ("learned", "merged", "disputed", "rejected") if states[state]]
        if self.removed:
            parts.append(f"{len(self.removed)} withdrawn")
        if unchanged := sum(row.status == "unchanged" for row in self.rows):
            parts.append(f"{unchanged} unchanged")
        if invalid := sum(row.status == "invalid" for row in self.rows):
            parts.append(f"{invalid} invalid")
        if waiting := self.pending:
            parts.append(f"{len(waiting)} pending ({_by_reason(waiting)})")
        if self.forgotten:
            parts.append(f"forgot {_span(self.forgotten)}")
        if self.guidelines:
            parts.append(f"new {_span(self.guidelines)}")
        if self.impact is not None and self.impact.checked:
            impact = self.impact
            parts.append(f"fixed {impact.fixed} and broke {impact.broken} of {impact.checked} checked")
        if broken := [check.id for check in self.locks if not check.kept]:
            parts.append(f"locked and not kept: {', '.join(broken)}")
        if count := len(self.conflicts):
            parts.append(f"{count} conflict{'s' if count > 1 else ''}")
        parts.append(f"{self.seconds:.0f} s" if self.seconds >= 1 else f"{self.seconds:.2g} s")
        parts.append("cost unknown" if self.usage.cost is None else f"${self.usage.cost:.2g}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<AlignResult of {self.judge.name}: {self}>"

    def _repr_html_(self) -> str:
        """The card of a notebook."""
        from memalign.notebook import card, table

        memory = self.judge.memory
        attend: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            if row.state not in ("learned", "merged") and row.status != "unchanged":
                attend.setdefault((row.state or row.status, row.reason), []).append(row.key or f"line {row.line}")
        rows = [
            (f"{keys[0]}{f' and {len(keys) - 1} more' if len(keys) > 1 else ''}", state, reason)
            for (state, reason), keys in attend.items()
        ]
        new = [(each.id, each.text, ", ".join(map(str, each.supported_by[:5]))) for each in self.guidelines]
        changes = [] if self.impact is None else [
            (each.id, *map(value_text, (each.label, each.before, each.after)), ", ".join(each.guideline_ids))
            for each in self.impact.changes
        ]  # fmt: skip
        said = [
            (", ".join(each.ids), "; ".join(f"{key}: {value_text(value)}" for key, value in each.annotations.items()))
            for each in self.conflicts
        ]
        verdicts = ("id", "experts", "before", "after", "by")
        return card(
            self.judge.name,
            str(self),
            table(("id", "guideline", "from"), new, title="New guidelines"),
            table(verdicts, changes, title="Changed verdicts"),
            table(("ids", "labels"), said, title="Conflicts"),
            table(("feedback", "state", "reason"), rows, title="Not learned"),
            "".join(f"<div>{escape(note)}</div>" for note in self.notes[:10]),
            memory_words(memory),
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, for programs; the judge is named, not included."""
        plain = {field.name: as_json(getattr(self, field.name)) for field in fields(self) if field.name != "judge"}
        if self.impact is not None:
            plain["impact"] |= {"fixed": self.impact.fixed, "broken": self.impact.broken}
        pending = [{"key": str(key), "reason": reason} for key, reason in self.pending]
        named = {"judge": self.judge.name, "memory_hash": self.judge.memory.hash}
        return {**named, **plain, "pending": pending}


def _by_reason(waiting: Sequence[tuple[FeedbackKey, str]]) -> str:
    """`t-7@ana and 12 more: timed out; t-9@ana: no answer`; of the three reasons that most wait for."""
    keys: dict[str, list[FeedbackKey]] = {}
    for key, reason in waiting:
        keys.setdefault(reason, []).append(key)
    most = sorted(keys.items(), key=lambda pair: -len(pair[1]))
    said = [f"{each[0]}{f' and {len(each) - 1} more' if len(each) > 1 else ''}: {reason}" for reason, each in most[:3]]
    left = sum(len(each) for _, each in most[3:])
    return "; ".join([*said, *([f"and {left} more"] if left else [])])


def _span(guidelines: tuple[Guideline, ...]) -> str:
    """`G1-G3, G7`."""
    numbers = sorted(guideline.number for guideline in guidelines)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"G{run[0]}-G{run[-1]}" if len(run) > 1 else f"G{run[0]}" for run in runs)
