"""The calibrator: a small regression from what is found in an item to what the experts would say.

It takes the answers to the guidelines' checks, the model's own verdict, and two plain features. It is fitted on the
memory's own cases: a pure function of them and of the recorded answers, fitted anew whenever feedback comes or goes.
A check never counts on a case that its guideline is exposed to: none was recorded there, since the case was hidden.
Evidence: LLM-Rubric (arXiv 2501.00274), and docs/decisions/0019-checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.cache import kept_async
from memalign.content import sides_of
from memalign.judge.checks import which_checks
from memalign.judge.columns import TOGETHER, Columns, Known, Taught
from memalign.judge.features import plain_features
from memalign.judge.logit import conditional_logit, least_squares, softmax
from memalign.judge.spec import base_fingerprint_of
from memalign.memory.model import Case
from memalign.models.resolve import resolve_embedding
from memalign.types import Check, Example, Guideline
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge
    from memalign.models.base import Limits

__all__ = ["FEWEST", "Calibrated", "Calibrator", "Fit", "Worth", "calibrate", "calibrates", "fit_calibrator"]

FEWEST, MOST = 10, 500
"""Cases that a calibrator is fitted on: with fewer there is none, and of more a fixed sample is enough."""
MOST_LABELS = 10
"""With more labels there is no calibrator."""
SAME = 1e-9
"""Two verdicts are as near to a label where their nearness differs by no more."""
FOLDS = 5
RIDGES = (1e5, 100.0, 30.0, 10.0, 3.0)
"""How strongly each check's weight is drawn to that of all: by the first, all checks count the same."""
TOGETHER_WEIGHT, TOGETHER_RIDGE, RIDGE = 1.0, 0.5, 1.0
"""What all checks together count before any case was seen, how strongly that holds, and how strongly all else is drawn to 0."""


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """How well the model's own verdict and the calibrator agree with the labels of `n` cases not fitted on.

    Attributes:
        n: Cases whose own verdict is known.
        model: The mean nearness of the model's own verdicts, in [0, 1]: the share that agrees, of numbers one less the
            distance over the range.
        calibrator: The same of the calibrator's verdicts.
        fixed: Cases where the calibrator is nearer to the label.
        broken: Cases where the model's own verdict is nearer.
    """

    n: int
    model: float
    calibrator: float
    fixed: int = 0
    broken: int = 0

    @classmethod
    def of(cls, model: Sequence[float], calibrator: Sequence[float]) -> Worth:
        """What the nearness of the two verdicts to the label, case by case, comes to."""
        if len(model) < FOLDS:
            return cls(n=0, model=0.0, calibrator=0.0)
        pairs = list(zip(model, calibrator, strict=True))
        return cls(
            n=len(pairs),
            model=fmean(model),
            calibrator=fmean(calibrator),
            fixed=sum(after - before > SAME for before, after in pairs),
            broken=sum(before - after > SAME for before, after in pairs),
        )

    @property
    def decides(self) -> bool:
        """Whether the calibrator is better by more than chance: by whole cases, so that no rounding decides."""
        return self.fixed - self.broken > max(1.0, math.sqrt(self.fixed + self.broken))


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibrator says of an item: a value, each label's probability (none of a float), and what adds up to it.

    `parts` are (name, contribution): of labels the log-odds for the value against the strongest other, of a float its
    distance from the mean. A name is a question, or one of `memalign.judge.columns`: `HABIT`, `VERDICT`, `PLAIN`.
    `fitted`: it is fitted on taught cases, not only on what guidelines expect. `decides`: these cases say that it is better
    than the model's own verdict.
    """

    value: Value
    probabilities: dict[Value, float] | None
    parts: tuple[tuple[str, float], ...]
    fitted: bool = True
    decides: bool = False


class Calibrator(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted weights (columns,) over `columns`, and what they are worth on the cases they were fitted on, held out in turn."""

    columns: Columns
    weights: Any
    ridge: float
    worth: Worth
    fitted: bool = True
    low: float = 0.0
    high: float = 1.0

    def says(self, known: Known) -> Calibrated:
        """The verdict on an item of which this is known."""
        import numpy as np

        added = self.columns.rows([known])[0] * self.weights
        scores = added.sum(axis=1)
        if self.columns.kind == "number":
            value: Value = float(np.clip(scores[0] + self.columns.middle, self.low, self.high))
            parts = self._parts(added[0])
            return Calibrated(
                value=value, probabilities=None, parts=parts, fitted=self.fitted, decides=self.worth.decides
            )
        chances = softmax(scores[None])[0]
        best = int(np.argmax(scores))
        other = int(np.argsort(scores)[-2])
        return Calibrated(
            value=self.columns.labels[best],
            probabilities=dict(zip(self.columns.labels, map(float, chances), strict=True)),
            parts=self._parts(added[best] - added[other]),
            fitted=self.fitted,
            decides=self.worth.decides,
        )

    def _parts(self, added: NDArray[np.float64]) -> tuple[tuple[str, float], ...]:
        """What each thing adds, by its name; what two answers add together is half of either."""
        found: dict[str, float] = {}
        for names, part in zip(self.columns.names, added, strict=True):
            for name in names:
                if name != TOGETHER:
                    found[name] = found.get(name, 0.0) + float(part) / len(names)
        return tuple(found.items())


def calibrates(judge: Judge, limits: Limits) -> bool:
    """Whether the judge has a calibrator: as it is set, else where checks were answered, and for weak models."""
    answered = any(case.answers is not None for case in judge.memory.cases)
    return bool(judge.parameters.get("calibrate", answered or limits.brief))


async def calibrate(judge: Judge, example: Example, verdict: Value, margins: Mapping[str, float]) -> Calibrated | None:
    """What the calibrator says of an item; None where there is none."""
    calibrator = await fit_calibrator(judge)
    if calibrator is None:
        return None
    return calibrator.says((await _known_of(judge, [example], [(verdict, margins)]))[0])


async def fit_calibrator(judge: Judge) -> Calibrator | None:
    """The calibrator of the judge's memory, fitted once for all who ask.

    With fewer than ten labelled cases that the judge's model was asked about, or with one label only, nothing is fitted:
    every check that was answered counts the same, for what its guideline expects; see `Fit.of`.
    """

    async def make() -> Calibrator | None:
        guidelines = judge.memory.semantic
        fit = Fit(
            value_type=judge.value_type,
            checks=await _checks(judge),
            together=_pairs_of_questions(guidelines),
            sides=_sides(judge),
            pinned=frozenset(check.question for each in guidelines if each.pinned for check in each.checks),
        )
        return fit.of(await _taught(judge))

    return await kept_async(judge.memory, ("calibrator", base_fingerprint_of(judge)), make)


async def _known_of(
    judge: Judge, examples: Sequence[Example], said: Sequence[tuple[Value | None, Mapping[str, float]]]
) -> list[Known]:
    """What a calibrator is told of these examples, of each of which the model's own verdict and the margins are `said`."""
    # The in-process embedder, whatever retrieval uses: two texts more a judgment must cost nothing.
    plain = await plain_features(examples, judge.value_type, resolve_embedding(None))
    return [
        # "Does not apply" is kept as a margin of 0, and is no answer: neither a yes nor a no.
        Known(features, verdict, {question: margin for question, margin in margins.items() if margin != 0.0})
        for features, (verdict, margins) in zip(plain, said, strict=True)
    ]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Fitting for judgments of one type and these checks, by their questions: on all taught cases, and on parts of them.

    `together` are pairs of questions that one guideline asks. `sides` are the labels that name the sides of every item,
    empty where it has none. Checks that are `pinned` keep the weight that is expected, at least.
    """

    value_type: ValueType
    checks: Mapping[str, Sequence[Check]]
    together: tuple[tuple[str, str], ...] = ()
    sides: tuple[str, ...] = ()
    pinned: frozenset[str] = frozenset()

    def of(self, taught: Sequence[Taught]) -> Calibrator | None:
        """What these cases give: with fewer than ten, or one label only, what is expected of the checks that were answered.

        None where there is no such check, and for a float, which has no unit in which one could count.
        """
        # What is usual of a check that no case answered is not known: a model that leans to yes would turn every verdict.
        answered = {q: asking for q, asking in self.checks.items() if any(q in each.known.margins for each in taught)}
        fit = msgspec.structs.replace(self, checks=answered)
        if len(taught) >= FEWEST and len({each.label for each in taught}) > 1:
            return fit.calibrator(taught)
        return fit.expected(taught) if answered and self.value_type.labels else None

    def calibrator(self, taught: Sequence[Taught]) -> Calibrator:
        """Fitted on all, with the ridge and the worth that the cases themselves tell, held out in turn."""
        told: list[float] = []
        held: list[float] = []
        for fold in range(FOLDS):
            rest = [each for n, each in enumerate(taught) if n % FOLDS != fold]
            fitted = self.fitted(rest, self.ridge(rest))
            for each in taught[fold::FOLDS]:
                if each.known.verdict is not None:  # one that is not known is neither right nor wrong
                    told.append(_nearness(self.value_type, each.known.verdict, each.label))
                    held.append(_nearness(self.value_type, fitted.says(each.known).value, each.label))
        return msgspec.structs.replace(self.fitted(taught, self.ridge(taught)), worth=Worth.of(told, held))

    def expected(self, taught: Sequence[Taught]) -> Calibrator:
        """Not fitted: what the guidelines expect of their checks, which all count the same; it never decides."""
        import numpy as np

        columns = self.columns(taught)
        weights = np.zeros(len(columns.names))
        weights[columns.of_checks] = TOGETHER_WEIGHT * columns.share
        return msgspec.structs.replace(self._made(columns, weights, RIDGES[0]), fitted=False)

    def ridge(self, taught: Sequence[Taught]) -> float:
        """The ridge of the checks' own weights: the strongest whose loss is within one standard error of the least."""
        import numpy as np

        if not self.checks:
            return RIDGES[0]
        losses = np.zeros((len(RIDGES), len(taught)))
        for fold in range(FOLDS):
            rest = [each for n, each in enumerate(taught) if n % FOLDS != fold]
            columns = self.columns(rest)
            rows, held = columns.rows([each.known for each in rest]), list(taught[fold::FOLDS])
            for number, ridge in enumerate(RIDGES):
                fitted = self.fitted(rest, ridge, columns, rows)
                losses[number, fold::FOLDS] = [_loss(fitted, each) for each in held]
        least = int(losses.mean(axis=1).argmin())
        for number in range(least):
            more = losses[number] - losses[least]
            if more.mean() <= more.std() / np.sqrt(len(taught)):
                return RIDGES[number]
        return RIDGES[least]

    def columns(self, taught: Sequence[Taught]) -> Columns:
        """The columns, in the scales of these cases."""
        return Columns.of(self.value_type, taught, self.checks, together=self.together, sides=self.sides)

    def fitted(
        self,
        taught: Sequence[Taught],
        ridge: float,
        columns: Columns | None = None,
        rows: NDArray[np.float64] | None = None,
    ) -> Calibrator:
        """A calibrator with these columns (None: those of the cases) and this ridge; its worth is not known yet."""
        import numpy as np

        columns = self.columns(taught) if columns is None else columns
        rows = columns.rows([each.known for each in taught]) if rows is None else rows
        first = [names[0] for names in columns.names]
        pulls = {TOGETHER: TOGETHER_RIDGE} | dict.fromkeys(columns.questions, ridge)
        drawn = np.array([pulls.get(name, RIDGE) for name in first])
        # A number has no unit in which a check could be expected to count.
        prior = 0.0 if columns.kind == "number" else TOGETHER_WEIGHT
        centre = np.array([prior * (name == TOGETHER) for name in first])
        if columns.kind == "number":
            values = np.array([float(each.label) - columns.middle for each in taught])
            weights = least_squares(rows[:, 0], values, drawn, centre)
        else:
            codes = np.array([columns.labels.index(each.label) for each in taught])
            weights = conditional_logit(rows, codes, drawn, centre)
        # What all checks count together is each one's part of it: so a finding has one weight.
        shared = first.index(TOGETHER)
        weights[columns.of_checks] += weights[shared] * columns.share
        weights[shared] = 0.0
        # A check that a person pinned is heard, whatever few cases say.
        floor = np.array([question in self.pinned for question in columns.questions]) * prior * columns.share
        own = weights[columns.of_checks]
        weights[columns.of_checks] = np.where(floor > 0, np.maximum(own, floor), own)
        return self._made(columns, weights, ridge)

    def _made(self, columns: Columns, weights: NDArray[np.float64], ridge: float) -> Calibrator:
        low, high = self.value_type.low or 0.0, self.value_type.high or 1.0
        return Calibrator(columns=columns, weights=weights, ridge=ridge, worth=_UNKNOWN, low=low, high=high)


_UNKNOWN = Worth(n=0, model=0.0, calibrator=0.0)


async def _checks(judge: Judge) -> dict[str, tuple[Check, ...]]:
    """The questions that a judgment asks, with every check of the guidelines in force that asks them."""
    asked, _ = await which_checks(judge)
    guidelines = judge.memory.semantic
    return {
        each.question: tuple(check for g in guidelines for check in g.checks if check.question == each.question)
        for each in asked
    }


def _pairs_of_questions(guidelines: Sequence[Guideline]) -> tuple[tuple[str, str], ...]:
    """Every two questions that one guideline asks, each pair once."""
    asked = (sorted({check.question for check in guideline.checks}) for guideline in guidelines)
    return tuple(dict.fromkeys(pair for questions in asked for pair in combinations(questions, 2)))


def _nearness(value_type: Any, value: Value, label: Value) -> float:
    """How near a verdict is to the label: 1 the same; of numbers one less the distance over the range."""
    if not value_type.numeric:
        return float(value_type.agree(value, label))
    return 1 - abs(float(value) - float(label)) / (float(value_type.high) - float(value_type.low))


def _loss(calibrator: Calibrator, taught: Taught) -> float:
    said = calibrator.says(taught.known)
    if said.probabilities is None:
        return (float(said.value) - float(taught.label)) ** 2
    return -math.log(max(said.probabilities[taught.label], 1e-9))


# -- what the memory knows ---------------------------------------------------------------------------------------------


async def _taught(judge: Judge) -> list[Taught]:
    """The memory's labelled cases that the judge's model was asked about.

    What another model said, or this one with other instructions, does not count. A verdict that is not known from the
    pass over labelled cases may be the one from before learning.
    """
    memory, value_type = judge.memory, judge.value_type
    if not value_type.closed or (not value_type.labels and value_type.kind != "float"):
        return []
    if len(value_type.labels) > MOST_LABELS:
        return []
    made_by, known = base_fingerprint_of(judge), dict[str, tuple[Case, Value | None, Mapping[str, float], Value]]()
    for case in memory.cases:
        label = memory.label(case)
        if label is None or (value_type.labels and label not in value_type.labels):
            continue
        answers = case.answers if case.answers is not None and case.answers.judge == made_by else None
        first = case.pre_alignment.value if case.pre_alignment and case.pre_alignment.judge == made_by else None
        verdict = answers.verdict if answers is not None and answers.verdict is not None else first
        if verdict is not None or answers is not None:
            known.setdefault(case.example.content_hash, (case, verdict, answers.margins if answers else {}, label))
    # By hash: as good as drawn, and the same whatever came first.
    chosen = [known[content] for content in sorted(known)[:MOST]]
    said = [(verdict, margins) for _, verdict, margins, _ in chosen]
    items = await _known_of(judge, [case.example for case, *_ in chosen], said)
    return [Taught(known, label) for known, (*_, label) in zip(items, chosen, strict=True)]


def _sides(judge: Judge) -> tuple[str, ...]:
    """The two labels that name the sides of every case in memory, in the labels' order; empty where there are none."""
    found = {tuple(sorted(sides_of(case.example.content, judge.value_type.choices))) for case in judge.memory.cases}
    if len(found) != 1 or len(sides := next(iter(found))) != 2:
        return ()
    return tuple(label for label in judge.value_type.choices if label in sides)
