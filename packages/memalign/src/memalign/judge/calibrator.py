"""The calibrator of a decision model: from the answers about an item to what the experts would say of it.

A guideline fires where the answers to its checks are as its experts would expect them, all of them: a soft AND. Fires,
what the answers say one by one, the model's own verdict and the length are weighed by one small regression with one
ridge, drawn to what experts said: a guideline that fires counts +1 before any case was seen. It is fitted to the memory's own
cases, a pure function of them and of the recorded answers. No guideline counts on a case that it stems from.
Evidence: LLM-Rubric (arXiv 2501.00274); docs/decisions/0019-checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.cache import kept
from memalign.judge.observations import LabelledCase, Observation, labelled_cases, sides_in
from memalign.judge.regression import conditional_logit, least_squares, softmax
from memalign.judge.spec import base_fingerprint_of
from memalign.memory.model import Expectation
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge

__all__ = ["FEWEST", "HABIT", "LENGTH", "VERDICT", "Calibrated", "Calibrator", "Worth", "calibrator_of", "fit"]

HABIT, VERDICT, LENGTH = "how often experts say so", "the model's own verdict", "the length"
FIRES, CHECKS, MINED = "guidelines that fire", "answers one by one", "mined guidelines that fire"
FEWEST = 10
"""Labelled cases that weights are fitted to."""
MOST_LABELS = 10
"""With more labels there is no calibrator."""
FOLDS = 5
RIDGE = 1.0
"""How strongly every weight is drawn to where it starts."""
START = {FIRES: 1.0, VERDICT: 2.0, MINED: 5.0}
"""What counts before any case was seen, in log-odds; all else starts at 0. Below 2 weak checks outvote a good model.
Mined guidelines were admitted by these labels already; with less than 5 two dozen guidelines that say nothing drown them."""
ALONE = 0.3
"""The size of a column of one check alone: so the one ridge holds it ten times as strongly as what all checks share."""
SHRUNK = 2.0
"""Answers that the usual one of all checks counts for, where one check has few of its own."""
FAR, WIDTH = 3.0, 0.3
"""Spreads that one extreme counts for at most; and what is added to a spread, which may be 0."""
SURE = 6.0
"""Log-odds of an answer, at most: what models say beyond tells nothing more."""
SAME = 1e-9
"""Two verdicts are as near to a label where their nearness differs by no more."""


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """How well the model's own verdict and the calibrator agree with the labels of `n` cases held out of the fit.

    Attributes:
        n: Cases whose own verdict is known.
        model: The mean nearness of the model's own verdicts, in [0, 1]: the share that agrees, of numbers one less the
            distance over the range.
        calibrator: The same of the calibrator's verdicts.
        fixed: Cases where the calibrator is nearer to the label.
        broken: Cases where the model's own verdict is nearer.
    """

    n: int = 0
    model: float = 0.0
    calibrator: float = 0.0
    fixed: int = 0
    broken: int = 0

    @classmethod
    def of(cls, model: Sequence[float], calibrator: Sequence[float]) -> Worth:
        """What the nearness of the two verdicts to the label, case by case, comes to."""
        if not model:
            return cls()
        gains = [after - before for before, after in zip(model, calibrator, strict=True)]
        return cls(
            n=len(gains),
            model=fmean(model),
            calibrator=fmean(calibrator),
            fixed=sum(gain > SAME for gain in gains),
            broken=sum(gain < -SAME for gain in gains),
        )

    @property
    def decides(self) -> bool:
        """Whether the calibrator is better by more than chance: by whole cases, so that no rounding decides."""
        return self.n >= FEWEST and self.fixed - self.broken > max(1.0, math.sqrt(self.fixed + self.broken))


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibrator says of an item.

    Attributes:
        value: The verdict.
        probabilities: Of each label; None of a float.
        fitted: Whether labelled cases taught the weights; else guidelines count as their experts meant them.
        decides: Whether held-out cases say that it is better than the model's own verdict.
    """

    value: Value
    probabilities: dict[Value, float] | None
    fitted: bool = True
    decides: bool = False


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """How an observation becomes the rows of a regression: one a label, or a single one of a number.

    Attributes:
        kind: The two sides of an item, labels without an order, ranks of an int, or a number.
        code: How one number of an item speaks for the labels, (columns, labels).
        alone: The checks with a weight of their own, by name.
        usual: The mean and the spread of the answers to each check, and under "" to all of them.
        asks_new: Whether checks that no case answered count: where cases were asked others, written without them, or none.
        length: The mean and the spread of the length.
    """

    kind: Literal["sides", "labels", "ranks", "number"]
    labels: tuple[Value, ...]
    code: Any
    middle: float
    half: float
    alone: tuple[str, ...]
    usual: dict[str, tuple[float, float]]
    asks_new: bool
    length: tuple[float, float]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column stands for."""
        habits = max(len(self.labels), 1)
        return (*[HABIT] * habits, VERDICT, *[LENGTH] * len(self.code), FIRES, CHECKS, MINED, *self.alone)

    def rows(self, known: Observation) -> NDArray[np.float64]:
        """Shape (labels, columns); of a number (1, columns)."""
        import numpy as np

        height = max(len(self.labels), 1)
        terms = self.terms(known)
        shared = sum(terms.values(), np.zeros((height, 4)))
        alone = [terms[name][:, 3] if name in terms else np.zeros(height) for name in self.alone]
        length = np.clip((known.length - self.length[0]) / self.length[1], -FAR, FAR)
        habit = np.eye(height) - 1 / height if self.labels else np.ones((1, 1))
        return np.column_stack([habit, self._verdict(known), self.code.T * length, shared[:, :3], *alone])

    def terms(self, known: Observation) -> dict[str, NDArray[np.float64]]:
        """What each answered check adds to four columns (labels, 4): FIRES, CHECKS, MINED, and its own."""
        import numpy as np

        answers = {
            name: self._centred(name, margin)
            for name, margin in known.answers.items()
            if margin is not None and (self.asks_new or name in self.usual)
        }
        terms: dict[str, NDArray[np.float64]] = {}
        counting = [each for each in known.expected if any(name in answers for name, _ in each.checks)]
        for expected in counting:
            towards = self._towards(expected.label)
            told = [(name, sign, sign * answers[name]) for name, sign in expected.checks if name in answers]
            missing = 0.5 ** (len(expected.checks) - len(told))
            fires = missing * self._fires([margin for *_, margin in told])
            for name, sign, margin in told:
                term = terms.setdefault(name, np.zeros((len(towards), 4)))
                part, alone = fires / len(told), margin / len(told) / math.sqrt(len(counting))
                shares = (0.0, 0.0, part, sign) if expected.mined else (part, alone, 0.0, sign)
                term += towards[:, None] * shares
        for name, term in terms.items():
            # Its own weight has either sign, whatever is expected. Only of several labels does it matter for which.
            own = self.code[0] if len(self.code) == 1 else term[:, 3] / max(float(np.abs(term[:, 3]).max()), SAME)
            term[:, 3] = ALONE * answers[name] * own
        return terms

    def _fires(self, margins: Sequence[float]) -> float:
        """How far a guideline fires beyond what nothing known would say; of two sides, for the first one less for the other."""
        fires = math.prod(1 / (1 + math.exp(-2 * margin)) for margin in margins)
        other = math.prod(1 / (1 + math.exp(2 * margin)) for margin in margins)
        return fires - (other if self.kind == "sides" else 0.5 ** len(margins))

    def _centred(self, name: str, margin: float) -> float:
        mean, spread = self.usual.get(name, self.usual[""])
        return max(-FAR, min(FAR, (max(-SURE, min(SURE, margin)) - mean) / spread))

    def _towards(self, label: Value | None) -> NDArray[np.float64]:
        """Which labels a guideline speaks for, (labels,), where the answers are as expected; zeros where nobody knows."""
        import numpy as np

        if self.kind == "sides":
            return np.asarray(self.code[0])
        if label is None or (self.labels and label not in self.labels):
            return np.zeros(len(self.code.T))
        if self.kind == "labels":
            return np.array([other == label for other in self.labels]) - 1 / len(self.labels)
        return np.asarray(np.sign(float(label) - self.middle) * self.code[0])

    def _verdict(self, known: Observation) -> NDArray[np.float64]:
        import numpy as np

        height, verdict = max(len(self.labels), 1), known.verdict
        if verdict is None or (self.labels and verdict not in self.labels):
            return np.zeros(height)
        chances = known.chances or {verdict: 1.0}
        if self.kind in ("ranks", "number"):
            mean = sum(float(label) * chance for label, chance in chances.items())
            return np.asarray(self.code[0] * (mean - self.middle) / self.half)
        return np.array([chances.get(label, 0.0) for label in self.labels]) - 1 / len(self.labels)


class Calibrator(msgspec.Struct, frozen=True, kw_only=True):
    """Weights (columns,) of `columns`, and what they are worth on the labelled cases, each held out in turn."""

    columns: Columns
    weights: Any
    value_type: ValueType
    worth: Worth = Worth()
    fitted: bool = True

    def says(self, known: Observation) -> Calibrated:
        """The verdict on an item of which this is known."""
        import numpy as np

        columns, probabilities = self.columns, None
        scores = columns.rows(known) @ self.weights
        if columns.kind == "number":
            low, high = float(self.value_type.low or 0.0), float(self.value_type.high or 1.0)
            value: Value = float(np.clip(columns.middle + columns.half * scores[0], low, high))
        else:
            value = columns.labels[int(np.argmax(scores))]
            probabilities = dict(zip(columns.labels, map(float, softmax(scores[None])[0]), strict=True))
        return Calibrated(value=value, probabilities=probabilities, fitted=self.fitted, decides=self.worth.decides)

    def parts(self, known: Observation, value: Value) -> dict[str, float]:
        """What adds up to the score of a verdict, by the name of a check, `HABIT`, `VERDICT` or `LENGTH`.

        Args:
            known: What is known of the item.
            value: The verdict, whoever gave it.

        Returns:
            Of labels the log-odds for it against the strongest other, of a float the points from the mean of all labels.
            A check has its share of what all checks have together.
        """
        import numpy as np

        columns, rows = self.columns, self.columns.rows(known)
        if columns.kind == "number":
            counts = np.array([columns.half])
        else:
            place = columns.labels.index(value)
            scores = rows @ self.weights
            others = np.where(np.arange(len(scores)) == place, -np.inf, scores)
            counts = np.eye(len(scores))[place] - np.eye(len(scores))[int(np.argmax(others))]
        weight = dict(zip(columns.names, map(float, self.weights), strict=True))
        parts: dict[str, float] = {}
        for name, part in zip(columns.names, counts @ (rows * self.weights), strict=True):
            if name in (HABIT, VERDICT, LENGTH):
                parts[name] = parts.get(name, 0.0) + float(part)
        for name, term in columns.terms(known).items():
            parts[name] = float(counts @ term @ [weight[FIRES], weight[CHECKS], weight[MINED], weight.get(name, 0.0)])
        return parts


# -- fitting -----------------------------------------------------------------------------------------------------------


def fit(value_type: ValueType, cases: Sequence[LabelledCase], sides: tuple[str, ...] = ()) -> Calibrator | None:
    """The calibrator of these cases; a pure function of them.

    With fewer than ten, or one label only, nothing is fitted: guidelines count as their experts meant them, and it never
    decides. None for a float then, which has no unit to start in.

    Args:
        value_type: What labels and verdicts are.
        cases: The labelled cases, in an order that does not hang on who came first.
        sides: The two labels that name the sides of every item; empty where it has none.
    """
    import numpy as np

    columns = _columns(value_type, cases, sides)
    starts = np.array([START.get(name, 0.0) for name in columns.names])
    if columns.kind == "number":  # the verdict as it is: of a guideline nobody knows by how many points it counts
        starts = np.array([float(name == VERDICT) for name in columns.names])
    made = Calibrator(columns=columns, weights=starts, value_type=value_type)
    if len(cases) < FEWEST or len({case.label for case in cases}) < 2:
        return None if columns.kind == "number" else msgspec.structs.replace(made, fitted=False)
    rows, numbers = np.stack([columns.rows(case.known) for case in cases]), np.arange(len(cases))

    def fitted(chosen: NDArray[np.bool_]) -> Calibrator:
        weights = _weights(columns, rows[chosen], [cases[n].label for n in numbers[chosen]], starts)
        return msgspec.structs.replace(made, weights=weights)

    own: list[float] = []
    calibrated: list[float] = []
    for fold in range(FOLDS):
        rest = fitted(numbers % FOLDS != fold)
        for known, label in cases[fold::FOLDS]:
            if known.verdict is not None:  # one that is not known is neither right nor wrong
                own.append(_nearness(value_type, known.verdict, label))
                calibrated.append(_nearness(value_type, rest.says(known).value, label))
    return msgspec.structs.replace(fitted(numbers >= 0), worth=Worth.of(own, calibrated))


def _weights(
    columns: Columns, rows: NDArray[np.float64], labels: Sequence[Value], starts: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    ridge = np.full(len(starts), RIDGE)
    if columns.kind == "number":
        values = np.array([(float(label) - columns.middle) / columns.half for label in labels])
        return least_squares(rows[:, 0], values, ridge, starts)
    return conditional_logit(rows, np.array([columns.labels.index(label) for label in labels]), ridge, starts)


def _columns(value_type: ValueType, cases: Sequence[LabelledCase], sides: tuple[str, ...]) -> Columns:
    import numpy as np

    kind: Literal["sides", "labels", "ranks", "number"] = "sides" if sides else "labels"
    if value_type.numeric:
        kind = "ranks" if value_type.kind == "int" else "number"
    labels = value_type.labels if kind != "number" else ()
    low, high = (float(value_type.low or 0), float(value_type.high or 1)) if value_type.numeric else (0.0, 1.0)
    margins: dict[str, list[float]] = {}
    for known, _ in cases:
        for name, margin in known.answers.items():
            if margin is not None:
                margins.setdefault(name, []).append(max(-SURE, min(SURE, margin)))
    lengths = np.array([known.length for known, _ in cases] or [0.0])
    centre = (
        0.0 if kind == "sides" else float(lengths.mean())
    )  # swapping sides must turn every sign: nothing is taken off
    named = {name for known, _ in cases for each in known.expected for name, _ in each.checks}
    return Columns(
        kind=kind,
        labels=labels,
        code=_code(kind, labels, sides),
        middle=fmean(float(case.label) for case in cases) if value_type.numeric and cases else (low + high) / 2,
        half=(high - low) / 2,
        alone=tuple(name for name in sorted(margins.keys() & named) if not name.startswith(Expectation.WORDLESS)),
        usual=_usual(margins, centred=kind != "sides"),
        asks_new=not margins or any(name.startswith(Expectation.WORDLESS) for name in margins),
        length=(centre, float(np.sqrt(((lengths - centre) ** 2).mean())) + SAME),
    )


def _usual(margins: Mapping[str, Sequence[float]], *, centred: bool) -> dict[str, tuple[float, float]]:
    """The mean and spread of the answers to each check, drawn to those of all: what was never asked has none of its own."""
    every = [margin for several in margins.values() for margin in several]
    mean = fmean(every) if every and centred else 0.0
    square = fmean((margin - mean) ** 2 for margin in every) if every else 1.0
    usual = {"": (mean, math.sqrt(square) + WIDTH)}
    for name, several in margins.items():
        own = (sum(several) + SHRUNK * mean) / (len(several) + SHRUNK) if centred else 0.0
        squares = sum((margin - own) ** 2 for margin in several) + SHRUNK * square
        usual[name] = own, math.sqrt(squares / (len(several) + SHRUNK)) + WIDTH
    return usual


def _code(kind: str, labels: tuple[Value, ...], sides: tuple[str, ...]) -> NDArray[np.float64]:
    import numpy as np

    if kind == "number":
        return np.ones((1, 1))
    if kind == "ranks":
        return np.linspace(-1.0, 1.0, len(labels))[None]
    if kind == "sides":
        return np.array([[0.5 if label == sides[0] else -0.5 if label == sides[1] else 0.0 for label in labels]])
    return np.array([[0.5, -0.5]]) if len(labels) == 2 else np.eye(len(labels)) - 1 / len(labels)


def _nearness(value_type: ValueType, value: Value, label: Value) -> float:
    """How near a verdict is to the label: 1 the same; of numbers one less the distance over the range."""
    if not value_type.numeric:
        return float(value_type.agree(value, label))
    return 1 - abs(float(value) - float(label)) / (float(value_type.high or 1) - float(value_type.low or 0))


def calibrator_of(judge: Judge) -> Calibrator | None:
    """The calibrator of the judge's memory, fitted once for all who ask; None where it has none.

    It is fitted to what this very judge's models answered: not another model, nor these with other instructions.
    """
    value_type, memory = judge.value_type, judge.memory
    if not value_type.closed or len(value_type.labels) > MOST_LABELS or not memory.cases:
        return None

    def make() -> Calibrator | None:
        made = fit(value_type, labelled_cases(judge), sides_in(judge))
        checked = any(guideline.checks for guideline in memory.semantic)
        return made if made is not None and (made.fitted or checked) else None

    return kept(memory, ("calibrator", base_fingerprint_of(judge)), make)
