"""One piece of feedback through all versions: what it said, where it ended each time, and what it taught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from memalign.errors import UnknownKey
from memalign.memory import Annotation
from memalign.registry import versions
from memalign.registry.ledger import Erasures
from memalign.registry.schema import rows
from memalign.registry.store import Codec, decoded
from memalign.types import FeedbackKey, Guideline, LedgerState, as_json, select_keys
from memalign.values import Value

__all__ = ["Lineage", "Step", "lineages"]


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
    connection: Connection, judge: int, selector: str, *, name: str, version: int, erased: Erasures
) -> tuple[Lineage, ...]:
    """The trail of a key (`t-17@ana`), or of all annotations on a case (`t-17`), up to a version. Raises UnknownKey."""
    query = select(rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body).where(
        rows.c.judge == judge, rows.c.kind.in_(("annotation", "tombstone", "guideline")), rows.c.since <= version
    )
    codec = Codec()
    spans = [
        (kind, key, since, version if until is None else min(until - 1, version), body)
        for kind, key, since, until, body in connection.execute(query)
    ]
    every = [(kind, FeedbackKey.parse(key), *rest) for kind, key, *rest in spans if kind != "guideline"]
    chosen = frozenset(select_keys({key for _, key, *_ in every}, [selector])[selector])
    own = [each for each in every if each[1] in chosen]
    rules = [(since, last, decoded("guideline", body)) for kind, _, since, last, body in spans if kind == "guideline"]
    if not chosen:
        day = erased.erased_on(selector)
        if day is None:
            raise UnknownKey(
                f"version {version} of {name!r} never held feedback {selector!r}; `memalign ledger` lists all"
            )
        return (Lineage(key=FeedbackKey.parse(selector), version=version, state="erased", reason=f"erased on {day}"),)
    made = {each.number: each for each in versions.history(connection, judge)}
    found = []
    for key in sorted(chosen):
        steps: list[Step] = []
        carry: tuple[Guideline, ...] = ()
        for number in range(1, version + 1):
            row = next((each for each in own if each[1] == key and each[2] <= number <= each[3]), None)
            there = {rule.id: rule for since, last, rule in rules if since <= number <= last}
            carry = _carrying(key, there)
            step = _step(row and codec.decode(row[0], row[4]), carry, made[number])
            if (not steps and step.state) or (steps and _differ(steps[-1], step)):
                steps.append(step)
        last = steps[-1]
        day = erased.erased_on(key)
        found.append(
            Lineage(
                key=key,
                version=version,
                state=last.state or ("erased" if day else "withdrawn"),
                reason=last.reason or ("" if last.state else "not in this version any more"),
                value=last.value,
                rationale=last.rationale,
                guidelines=carry,
                steps=tuple(steps),
            )
        )
    return tuple(found)


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
        guideline_ids=tuple(rule.id for rule in carry if rule.status in ("active", "demoted")),
        value=None if said is None else said.value,
        rationale=None if said is None else said.rationale,
    )


def _differ(one: Step, other: Step) -> bool:
    names = ("state", "reason", "guideline_ids", "value", "rationale")
    return any(getattr(one, name) != getattr(other, name) for name in names)
