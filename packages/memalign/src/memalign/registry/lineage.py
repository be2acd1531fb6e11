"""One piece of feedback through all versions: what it said, where it ended each time, and what it taught."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.errors import UnknownKey
from memalign.memory import Annotation
from memalign.registry import versions
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec, RowKey
from memalign.registry.versions import timeline
from memalign.types import FeedbackKey, Guideline, LedgerState, as_json, select_keys
from memalign.values import Value

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Lineage", "Step", "lineages"]

Spans = list[tuple[int, int, Any]]
"""What something was from one version up to another (exclusive)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A version from which on something was different for the feedback: what made it, and where the feedback stood.

    `state` is None where the version does not know it. `guideline_ids` carry it, each as what stands for it in prompts.
    """

    version: int
    action: str
    created_at: str
    state: LedgerState | None
    reason: str
    guideline_ids: tuple[str, ...]
    value: Value | None
    rationale: str | None


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """What became of one piece of feedback, as of a version: the answer to "what did it learn from me".

    `state` and `reason` are the ledger's; `value` and `rationale` what is kept of the words. `guidelines` carry it: those
    that state it, and what stands for them in prompts. `steps` are how it got there, the oldest first.
    """

    key: FeedbackKey
    version: int
    state: LedgerState
    reason: str
    value: Value | None = None
    rationale: str | None = None
    guidelines: tuple[Guideline, ...] = ()
    steps: tuple[Step, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return dict(as_json(self))


def lineages(
    connection: Connection, judge: int, selector: str, *, name: str, version: int, erased: ErasedHashes
) -> tuple[Lineage, ...]:
    """What became of a key (`t-17@ana`), or of all feedback on a case (`t-17`), up to a version. Raises UnknownKey."""
    found = timeline(connection, judge, version, ("annotation", "tombstone", "guideline"))
    rows = {row: FeedbackKey.parse(row[1]) for row in found if row[0] != "guideline"}
    chosen = select_keys(set(rows.values()), [selector])[selector]
    if not chosen:
        day = erased.erased_on(selector)
        if day is None:
            raise UnknownKey(
                f"version {version} of {name!r} never held feedback {selector!r}; `memalign ledger` lists all"
            )
        return (Lineage(key=FeedbackKey.parse(selector), version=version, state="erased", reason=f"erased on {day}"),)
    codec = Codec()

    def decoded(row: RowKey) -> Spans:
        return [(since, until, codec.decode(row[0], body)) for since, until, body in found[row]]

    rules = [span for row in found if row[0] == "guideline" for span in decoded(row)]
    said = {key: [span for row, named in rows.items() if named == key for span in decoded(row)] for key in chosen}
    made = versions.history(connection, judge)[:version]
    return tuple(_lineage(key, said[key], rules, made, erased) for key in sorted(chosen))


def _lineage(
    key: FeedbackKey,
    said: Spans,
    rules: Spans,
    made: Sequence[versions.VersionInfo],
    erased: ErasedHashes,
) -> Lineage:
    steps: list[Step] = []
    carry: tuple[Guideline, ...] = ()
    for version in made:
        carry = _carrying(key, {rule.id: rule for rule in _at(version.number, rules)})
        step = _step(next(iter(_at(version.number, said)), None), carry, version)
        if (not steps and step.state) or (steps and _differ(steps[-1], step)):
            steps.append(step)
    last = steps[-1]
    return Lineage(
        key=key,
        version=made[-1].number,
        state=last.state or ("erased" if erased.erased_on(key) else "withdrawn"),
        reason=last.reason or ("" if last.state else "not in this version any more"),
        value=last.value,
        rationale=last.rationale,
        guidelines=carry,
        steps=tuple(steps),
    )


def _at(number: int, spans: Spans) -> Iterator[Any]:
    return (value for since, until, value in spans if since <= number < until)


def _carrying(key: FeedbackKey, there: dict[str, Guideline]) -> tuple[Guideline, ...]:
    """The guidelines that state the feedback, and those that stand before them in prompts."""
    own = [rule for rule in there.values() if key in rule.supported_by]
    faces = [there[rule.superseded_by] for rule in own if rule.superseded_by in there]
    return tuple(sorted({rule.id: rule for rule in (*own, *faces)}.values(), key=lambda rule: rule.number))


def _step(row: Any, carry: tuple[Guideline, ...], made: versions.VersionInfo) -> Step:
    said = row if isinstance(row, Annotation) else None
    return Step(
        version=made.number,
        action=made.action,
        created_at=made.created_at,
        state=None if row is None else row.state,
        reason="" if row is None else row.reason,
        guideline_ids=tuple(rule.id for rule in carry if rule.status == "active"),
        value=None if said is None else said.value,
        rationale=None if said is None else said.rationale,
    )


def _differ(one: Step, other: Step) -> bool:
    names = ("state", "reason", "guideline_ids", "value", "rationale")
    return any(getattr(one, name) != getattr(other, name) for name in names)
