"""From what is known of an item to the columns of a regression: one row a label, or one row for a number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from memalign.types import Check
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["HABIT", "PLAIN", "TOGETHER", "VERDICT", "Columns", "Known", "Taught"]

HABIT = "how often experts say so"
VERDICT = "the model's own verdict"
PLAIN = ("the length", "the likeness to the reference")
TOGETHER = "all checks together"
FAR = 3.0
"""In spreads, of a plain feature and of the product of two answers: one extreme must not outweigh all others."""
WIDTH = 0.3
"""Added to the spread of a margin (log-odds), so that a question that is always answered the same stays small."""


class Known(NamedTuple):
    """What is known of an item: plain features (2,), the model's own verdict, and each question's margin."""

    plain: NDArray[np.float64]
    verdict: Value | None
    margins: Mapping[str, float]


class Taught(NamedTuple):
    """A labelled case that weights are fitted on."""

    known: Known
    label: Value


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """How items become rows of shape (labels, columns); of a number (1, columns).

    `kind` is what the labels are: the two sides of an item (and perhaps a tie), labels without an order, ranks of an
    `int`, or a number. `code` (columns, labels) spreads one number of an item over the labels. `directions`
    (questions, labels) is what a yes speaks for; all zeros where no label is expected and none can be learned.
    `expected` says of which questions the guideline told it. `pairs` are the places of two questions of one guideline:
    under a rule with a condition it matters whether both answers go together, and neither tells that alone. `means` and `scales` are those of plain features and margins, over the taught cases.
    """

    kind: Literal["sides", "labels", "ranks", "number"]
    labels: tuple[Value, ...]
    questions: tuple[str, ...]
    code: Any
    directions: Any
    expected: Any
    pairs: tuple[tuple[int, int], ...]
    means: Any
    scales: Any
    middle: float
    half: float

    @classmethod
    def of(
        cls,
        value_type: ValueType,
        taught: Sequence[Taught],
        checks: Mapping[str, Sequence[Check]],
        *,
        together: Collection[tuple[str, str]] = (),
        sides: tuple[str, ...] = (),
    ) -> Columns:
        """The columns for judgments of this type.

        `checks` has, by its question, every check that asks it; `together` the pairs of questions that a guideline asks.
        """
        import numpy as np

        kind = _kind(value_type, sides)
        labels = value_type.labels if kind != "number" else ()
        low, high = (float(value_type.low or 0), float(value_type.high or 1)) if value_type.numeric else (0.0, 1.0)
        middle = float(np.mean([float(each.label) for each in taught])) if value_type.numeric else 0.0
        questions = tuple(checks)
        code = _code(kind, labels, sides)
        directions, expected = _directions(kind, labels, code, checks, middle)
        place = {question: number for number, question in enumerate(questions)}
        pairs = () if kind == "sides" else tuple((place[a], place[b]) for a, b in together if {a, b} <= place.keys())
        plain = np.array([each.known.plain for each in taught])
        means, scales = [*plain.mean(axis=0)], [*(plain.std(axis=0) + 1e-9)]
        if kind == "sides":  # swapping them must turn every sign, and so nothing may be taken off
            means, scales = [0.0, 0.0], [*(np.sqrt((plain**2).mean(axis=0)) + 1e-9)]
        for question in questions:
            margins = np.array([each.known.margins[question] for each in taught if question in each.known.margins])
            mean = float(margins.mean()) if len(margins) and kind != "sides" else 0.0
            spread = float(np.sqrt(((margins - mean) ** 2).mean())) if len(margins) else 1.0
            means.append(mean)
            scales.append(spread + WIDTH)
        return cls(
            kind=kind,
            labels=labels,
            questions=questions,
            code=code,
            directions=directions,
            expected=expected,
            pairs=pairs,
            means=np.array(means),
            scales=np.array(scales),
            middle=middle,
            half=(high - low) / 2,
        )

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """What each column stands for: `HABIT`, `VERDICT`, one of `PLAIN`, `TOGETHER`, a question, or a pair of them."""
        intercepts = max(len(self.labels), 1)
        plain = [name for name in PLAIN for _ in range(len(self.code))]
        alone = [(name,) for name in (*[HABIT] * intercepts, VERDICT, *plain, TOGETHER, *self.questions)]
        return (*alone, *((self.questions[one], self.questions[other]) for one, other in self.pairs))

    @property
    def of_checks(self) -> slice:
        """The columns of the questions, each alone."""
        end = len(self.names) - len(self.pairs)
        return slice(end - len(self.questions), end)

    @property
    def share(self) -> NDArray[np.float64]:
        """Each question's part, (questions,), of what all count together."""
        import numpy as np

        part: NDArray[np.float64] = self.expected / np.sqrt(max(float(self.expected.sum()), 1.0))
        return part

    def rows(self, items: Sequence[Known]) -> NDArray[np.float64]:
        """Shape (items, labels, columns); a question without an answer says nothing."""
        import numpy as np

        height = max(len(self.labels), 1)
        habit = np.eye(height) - 1 / height if self.labels else np.ones((1, 1))
        found = np.zeros((len(items), height, len(self.names)))
        count, ones, others = len(self.questions), [one for one, _ in self.pairs], [other for _, other in self.pairs]
        for row, known in zip(found, items, strict=True):
            # An item longer than all that were taught says no more than the longest of them could.
            plain = np.clip((known.plain - self.means[:2]) / self.scales[:2], -FAR, FAR)
            asked = np.array([known.margins.get(question, np.nan) for question in self.questions]).reshape(count)
            margins = np.nan_to_num((asked - self.means[2:]) / self.scales[2:])
            checks = (margins[:, None] * self.directions).T
            together = checks @ self.share
            # For which label they speak when they go together is for the cases to teach: the sign is learned.
            pairs = (np.clip(margins[ones] * margins[others], -FAR, FAR)[:, None] * self.directions[ones]).T
            parts = [habit, self._verdict(known.verdict)[:, None], *(self.code.T * each for each in plain)]
            row[:] = np.hstack([*parts, together[:, None], checks, pairs])
        return found

    def _verdict(self, verdict: Value | None) -> NDArray[np.float64]:
        import numpy as np

        if verdict is None or (self.labels and verdict not in self.labels):
            return np.zeros(max(len(self.labels), 1))
        if self.kind in ("ranks", "number"):
            centred: NDArray[np.float64] = self.code[0] * (float(verdict) - self.middle) / self.half
            return centred
        return (np.array([label == verdict for label in self.labels]) - 1 / len(self.labels)).astype(float)


def _kind(value_type: ValueType, sides: tuple[str, ...]) -> Literal["sides", "labels", "ranks", "number"]:
    match value_type.kind:
        case "int":
            return "ranks"
        case "float":
            return "number"
        case _:
            return "sides" if sides else "labels"


def _code(kind: str, labels: tuple[Value, ...], sides: tuple[str, ...]) -> NDArray[np.float64]:
    """How one number of an item speaks for the labels, (columns, labels)."""
    import numpy as np

    if kind == "number":
        return np.ones((1, 1))
    if kind == "ranks":
        ranks = np.arange(len(labels)) - (len(labels) - 1) / 2
        rising: NDArray[np.float64] = (ranks / ranks.max())[None]
        return rising
    if kind == "sides":
        return np.array([[0.5 if label == sides[0] else -0.5 if label == sides[1] else 0.0 for label in labels]])
    if len(labels) == 2:
        return np.array([[0.5, -0.5]])
    return np.eye(len(labels)) - 1 / len(labels)


def _directions(
    kind: str,
    labels: tuple[Value, ...],
    code: NDArray[np.float64],
    checks: Mapping[str, Sequence[Check]],
    middle: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What a yes to each question speaks for, (questions, labels), and whether its guidelines tell it, (questions,)."""
    import numpy as np

    found, expected = np.zeros((len(checks), code.shape[1])), np.zeros(len(checks))
    for number, several in enumerate(checks.values()):
        for check in several:
            sign = 1.0 if check.answer == "yes" else -1.0
            if kind == "sides":
                found[number] += sign * code[0]
            elif check.value is None or (labels and check.value not in labels):
                continue
            elif kind == "labels":
                found[number] += sign * (np.array([label == check.value for label in labels]) - 1 / len(labels))
            else:
                found[number] += sign * np.sign(float(check.value) - middle) * code[0]
        size = float(np.abs(found[number]).max())
        expected[number] = float(size > 0)
        if size > 0:
            found[number] *= float(np.abs(code).max()) / size  # two guidelines that ask the same count as one
        elif len(code) == 1:
            found[number] = code[0]  # no label is expected: the sign is for the cases to teach
    return found, expected
