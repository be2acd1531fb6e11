"""The tests in a distillation answer: read whatever their form, admitted where the call's labels bear them out.

A test that cannot be used is left out and counted, and its guideline stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec

from memalign.align.admission import ALPHA, LabelledCase, chance, column, labelled_cases, outcome
from memalign.judge.code_tests import Reading, checked, holds, sentence
from memalign.memory import Memory
from memalign.types import Check, CodeTest, FeedbackKey, TestKind
from memalign.values import Value, ValueType

__all__ = ["ProposedTests", "proposals_schema"]

MOST = 3
"""Of one guideline."""

NO_TEST = "it has not the form of a test"
NOT_READ = "it reads a field that the judge does not"
NOT_BORNE_OUT = "the labels do not bear it out"


def proposals_schema(fields: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a change's tests, of the fields that the judge reads."""
    bound = {"type": ["number", "null"]}
    text = {"type": "string"}
    properties = {
        "kind": {"type": "string", "enum": list(get_args(TestKind))},
        "field": {"type": "string", "enum": list(fields)},
        "text": text,
        "then": text,
        "low": bound,
        "high": bound,
        "holds": {"type": "boolean"},
    }
    item = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "array", "items": item}


class _Proposal(msgspec.Struct, frozen=True):
    test: CodeTest
    holds: bool

    def decides(self, reading: Reading) -> bool | None:
        """Whether the test comes out as the change says."""
        answer = holds(self.test, reading)
        return None if answer is None else answer is self.holds

    @property
    def turned(self) -> _Proposal:
        """The same test in the other sense."""
        return _Proposal(self.test, not self.holds)

    def check(self, value: Value | None) -> Check:
        """The check that it becomes, which speaks for the value."""
        answer: Literal["yes", "no"] = "yes" if self.holds else "no"
        return Check(question=sentence(self.test), answer=answer, value=value, test=self.test)


@dataclass(frozen=True, kw_only=True)
class ProposedTests:
    """Reads and admits the tests of one distillation answer.

    Attributes:
        changes: All changes of the answer: their tests are those that were tried.
        memory: The memory that holds the feedback.
        shown: The feedback that a guideline of this call is exposed to. Only its labels count, so that a test goes with
            them when they are forgotten.
        value_type: The judge's.
        fields: The fields, and parts of fields, that the judge reads.
        judged: Texts of the judged system, each with its field, which no test may copy.
    """

    changes: Sequence[object]
    memory: Memory
    shown: Collection[FeedbackKey]
    value_type: ValueType
    fields: Sequence[str]
    judged: Collection[tuple[str, str]] = field(default=(), repr=False)

    def read(self, tests: object, keys: Collection[FeedbackKey]) -> tuple[tuple[Check, ...], tuple[str, ...]]:
        """The checks that a change's tests become, and why each of the others was left out. Never raises.

        Several tests of one change are tried together first, since neither half of a condition tells anything alone.

        Args:
            tests: What the change has as its `tests`, any JSON value.
            keys: The feedback that the change names.
        """
        annotations = [annotation for key in keys if (annotation := self.memory.annotation(key))]
        comments = [annotation.rationale for annotation in annotations if annotation.rationale]
        proposals, faults = list[_Proposal](), list[str]()
        for entry in _entries(tests):
            proposal = _proposal(entry)
            if proposal is None:
                faults.append(NO_TEST)
            elif fault := self._fault(proposal.test, comments):
                faults.append(fault)
            elif proposal not in proposals:
                proposals.append(proposal)
        labels = {annotation.value for annotation in annotations if annotation.value is not None}
        checks = self._checks(proposals[:MOST], labels)
        return checks, (*faults, *[NOT_BORNE_OUT] * (len(proposals) - len(checks)))

    def _fault(self, test: CodeTest, comments: Collection[str]) -> str | None:
        return checked(test, self.judged, comments) if test.field in self.fields else NOT_READ

    def _checks(self, proposals: Sequence[_Proposal], labels: Collection[Value]) -> tuple[Check, ...]:
        """The proposals that the labels bear out: all together, or each that is borne out alone."""
        value, sure = self._value(labels)
        if value is None and not self._sides:
            return ()
        if len(proposals) > 1 and self._chance(proposals, value) <= self._limit:
            return tuple(proposal.check(value) for proposal in proposals)
        senses = [(proposal,) if sure else (proposal, proposal.turned) for proposal in proposals]
        limit = self._limit / (1 if sure else 2)
        return tuple(
            proposal.check(value) for sense in senses for proposal in sense if self._chance([proposal], value) <= limit
        )

    def _value(self, labels: Collection[Value]) -> tuple[Value | None, bool]:
        """The label that the tests of a change are to mean, and whether the change tells in which sense.

        Of feedback with both of two labels it does not. A side is better or not, whichever of them it is.
        """
        if self._sides or len(labels) == 1:
            return (None if self._sides else next(iter(labels))), True
        labelled = sorted({case.label for case in self._cases}, key=str)
        return (labelled[-1] if len(labelled) == 2 else None), False

    def _chance(self, proposals: Sequence[_Proposal], value: Value | None) -> float:
        def fires(reading: Reading) -> bool | None:
            answers = [proposal.decides(reading) for proposal in proposals]
            return None if None in answers else all(answers)

        table = column(self._cases, fires).table(outcome(self._cases, value, self.value_type))
        return chance(table, sides=self._sides)

    @cached_property
    def _cases(self) -> list[LabelledCase]:
        return labelled_cases(self.memory, self.value_type, self.shown) if self.value_type.closed else []

    @cached_property
    def _sides(self) -> bool:
        return any(case.sides for case in self._cases)

    @cached_property
    def _limit(self) -> float:
        """Bonferroni over all that the answer proposes; several tests of one change are tried together too."""
        proposed = [len(_entries(change.get("tests"))) for change in self.changes if isinstance(change, dict)]
        return ALPHA / max(1, sum(count + (count > 1) for count in proposed))


def _entries(tests: object) -> list[Any]:
    return tests if isinstance(tests, list) else []


def _proposal(entry: object) -> _Proposal | None:
    """The test of an entry; None for what is none."""
    if not isinstance(entry, dict):
        return None
    names = CodeTest.__struct_fields__
    parts = {name: value for name, value in entry.items() if name in names and value is not None}
    expected = entry.get("holds", True)
    try:
        return _Proposal(msgspec.convert(parts, CodeTest), expected) if isinstance(expected, bool) else None
    except msgspec.ValidationError:
        return None
