"""What a benchmark judges: tasks, their labelled cases, and the split into cases that teach and cases that test."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from memalign.errors import InputError
from memalign.memory.label_policy import policy_label
from memalign.types import Example, Feedback, canonical_json
from memalign.values import Value, ValueType

__all__ = ["Case", "Split", "Task", "cases_of", "taught_digest"]

_FIELD_WORDS = {
    "inputs": "Given",
    "outputs": "To judge",
    "expectations": "Reference",
    "conversation": "Conversation",
    "trace": "Trace",
}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled case: what is judged, everybody's feedback on it, and the label that the annotations' policy gives.

    `group` is what several cases share (a question, a story); cases of a group stay on one side of a split.
    """

    example: Example
    label: Value
    group: str
    feedback: tuple[Feedback, ...]

    @property
    def id(self) -> str:
        """The example's id."""
        return self.example.id


def taught_digest(cases: Sequence[Case]) -> str:
    """What `cases` teach, in 16 hex digits: their contents and labels and all that was said of them, in this order."""
    taught = [
        [
            case.id,
            case.example.content_hash,
            case.label,
            [[row.source, row.value, row.rationale] for row in case.feedback],
        ]
        for case in cases
    ]
    return hashlib.sha256(canonical_json(taught).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The cases that teach, in the order in which stages take them, and the cases that test."""

    train: tuple[Case, ...]
    test: tuple[Case, ...]


class Task(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One judge's task: its question, its values, its cases.

    `by_row` says that the task has too few groups to keep each on one side; its splits are by row then, and reports
    say so. `in_order` says that the data's authors split it: the first cases teach, whatever the seed. `licence` is the
    data's own, as its authors state it.
    """

    name: str
    category: str
    criterion: str
    values: str
    cases: tuple[Case, ...]
    by_row: bool = False
    in_order: bool = False
    licence: str = ""

    @property
    def value_type(self) -> ValueType:
        """The values in their parsed form."""
        return ValueType.of(self.values)

    @cached_property
    def instructions(self) -> str:
        """The judge's instructions: the criterion, and a line for every field that all cases have."""
        present = [name for name in _FIELD_WORDS if all(name in case.example.content for case in self.cases)]
        return "\n".join([self.criterion, *(f"{_FIELD_WORDS[name]}: {{{{ {name} }}}}" for name in present)])

    def split(self, *, seed: int, train: int, test: int = 0) -> Split:
        """`train` cases that teach and up to `test` others (0: all), drawn with `seed`; the same for every method and machine.

        A task whose cases are `in_order` has one split for all seeds.

        Raises InputError when the task has too few cases.
        """
        if len(self.cases) <= train:
            raise InputError(
                f"task {self.name!r} has {len(self.cases)} cases: too few to teach {train} and test others; cases without a label "
                "do not count"
            )
        if self.in_order:
            return Split(train=self.cases[:train], test=self.cases[train:][: test or None])
        side: Callable[[Case], str] = (lambda case: case.id) if self.by_row else (lambda case: case.group)
        sides = sorted({side(case) for case in self.cases})
        rng = random.Random(f"{self.name}:{seed}")
        rng.shuffle(sides)
        rank = {name: place for place, name in enumerate(sides)}
        # Within a group the order is drawn too: files list a question's answers system by system.
        shuffled = sorted(self.cases, key=lambda case: case.id)
        rng.shuffle(shuffled)
        shuffled.sort(key=lambda case: rank[side(case)])
        cut = next((n for n in range(train, len(shuffled)) if side(shuffled[n]) != side(shuffled[n - 1])), None)
        if cut is None:
            raise InputError(f"task {self.name!r}: {train} cases cannot be cut off between two groups")
        # Stages take the first 2, 5, 10 …: mixed, so that two cases are not two answers to one question.
        teaching, testing = shuffled[:train], shuffled[cut:]
        rng.shuffle(teaching)
        rng.shuffle(testing)
        return Split(train=tuple(teaching), test=tuple(testing[: test or None]))


def cases_of(rows: Sequence[Feedback]) -> tuple[Case, ...]:
    """Feedback rows as cases, in the order of their ids' first rows; cases without any label are left out.

    A row's group is `meta["group"]`, its id without one.
    """
    annotations: dict[str, list[Feedback]] = {}
    for row in rows:
        annotations.setdefault(row.id, []).append(row)
    cases = []
    for example_id, said in annotations.items():
        label = policy_label(said)
        content: dict[str, Any] = next((row.content for row in said if row.content), {})
        if label is None or not content:
            continue
        group = next((str(row.meta["group"]) for row in said if row.meta.get("group") is not None), example_id)
        example = Example(id=example_id, **content)
        cases.append(Case(example=example, label=label, group=group, feedback=tuple(said)))
    return tuple(cases)
