"""People's labelled cases, as a judge is measured on them; and which of them it was taught."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.evaluation.cases import annotations_by_case
from memalign.io import FeedbackSource, read_feedback
from memalign.judge import named_parts, task_of
from memalign.judge.standing import same_cases
from memalign.memory.label_policy import policy_label
from memalign.types import Example, Feedback
from memalign.values import Value

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["LabelledCases", "knows", "need_judge"]

Examples = tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class LabelledCases:
    """Labelled cases, split into those that count and those that the judges were taught.

    Attributes:
        rows: People's rows on the cases that count.
        examples: The cases that count: each has a label, and no judge here was taught it.
        labels: The label of every example, taught ones included, by id.
        unlabelled: How many other cases have comments only.
        taught: The cases that a judge here was taught; they say nothing about unseen cases.
    """

    rows: tuple[Feedback, ...]
    examples: Examples
    labels: Mapping[str, Value]
    unlabelled: int
    taught: Examples

    @classmethod
    def of(
        cls, judge: Judge, labelled: FeedbackSource, *, others: Sequence[Judge] = ()
    ) -> LabelledCases:
        """Read labelled cases and set aside those that a judge was taught.

        Args:
            judge: The judge whose columns, value type and label policy count.
            labelled: People's rows.
            others: More judges whose taught cases do not count.

        Raises:
            InvalidRows: A row is not valid.
            InputError: No case has a label.
        """
        fields = named_parts(judge.instructions)
        file = read_feedback(
            labelled, value_type=judge.value_type, columns=judge.columns, fields=fields
        )
        rows: list[Feedback] = []
        labels: dict[str, Value] = {}
        examples: list[Example] = []
        taught: list[Example] = []
        unlabelled = 0
        for name, notes in annotations_by_case(file.rows).items():
            known = any(knows(one, note) for one in (judge, *others) for note in notes)
            label = policy_label(notes, judge.memory.authority)
            if not known:
                rows += notes
                unlabelled += label is None
            if label is not None:
                labels[name] = label
                side = taught if known else examples
                side.append(Example(id=name, **notes[0].content, meta=notes[0].meta))
        if not labels:
            raise InputError(
                "there are no labelled cases; a row needs what the judge reads, "
                "and a value (the label)"
            )
        return cls(
            rows=tuple(rows),
            examples=tuple(examples),
            labels=labels,
            unlabelled=unlabelled,
            taught=tuple(taught),
        )

    @property
    def all_examples(self) -> Examples:
        """The cases that count, and behind them the taught ones."""
        return self.examples + self.taught

    @property
    def unseen_examples(self) -> Examples:
        """The cases that count.

        Raises:
            InputError: There is none, because the judge was taught all.
        """
        if not self.examples:
            raise InputError(
                f"every labelled case ({len(self.taught)}) is in the judge's memory, so they "
                "say nothing about unseen cases; use cases that it has not learned from"
            )
        return self.examples


def knows(judge: Judge, case: Example | Feedback) -> bool:
    """Return whether a judge was taught this case, under this id or another.

    Content counts as the judge reads it: two cases that differ only in what its instructions do not
    name are one.
    """
    if judge.memory.case(case.id) is not None:
        return True
    example = case if isinstance(case, Example) else case.example
    if example is None:
        return False
    return bool(
        judge.memory.duplicates(example)
        or same_cases(task_of(judge), judge.memory, example)
    )


def need_judge(judge: object, call: str) -> None:
    """Refuse an argument that is no judge, as where two arguments were swapped.

    Args:
        judge: What was given.
        call: How the call is written, such as `evaluate(judge, labelled)`.

    Raises:
        TypeError: It is not a Judge.
    """
    from memalign.judge import Judge

    if not isinstance(judge, Judge):
        raise TypeError(
            f"{call}: the judge comes first, and this is a {type(judge).__name__}"
        )
