"""The calibrator of a decision model: from the answers about an item to what the experts would say of it.

A guideline fires where the answers to its checks are as its experts would expect them, all of them: a soft AND. Fires,
what the answers say one by one, the model's own verdict and the length are weighed by one small regression with one
ridge, drawn to what experts said: a guideline that fires counts +1 before any case was seen. It is fitted to the
memory's own cases, a pure function of them and of the recorded answers. No guideline counts on a case that it stems
from. Evidence: LLM-Rubric (arXiv 2501.00274); docs/decisions/0019-checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from memalign.judge.observations import FEWEST, LabelledCase, Observation
from memalign.memory.model import Expectation
from memalign.values import Value, ValueType

__all__ = ["HABIT", "LENGTH", "VERDICT", "Calibrator", "Worth", "conditional_logit", "fit", "softmax"]

Array: TypeAlias = NDArray[np.float64]

HABIT, VERDICT, LENGTH = "how often experts say so", "the model's own verdict", "the length"
FIRES, CHECKS, MINED = "guidelines that fire", "answers one by one", "mined guidelines that fire"
FOLDS = 5
RIDGE = 1.0  # how strongly every weight is drawn to where it starts
START = {FIRES: 1.0, VERDICT: 2.0, MINED: 5.0}
"""What counts before any case was seen, in log-odds; all else starts at 0. Below 2 weak checks outvote a good model.
Mined guidelines were admitted by these labels already; with less than 5 two dozen that say nothing drown them."""
ALONE = 0.3
"""The size of a column of one check alone: so the one ridge holds it ten times as strongly as what all checks share."""
SHRUNK = 2.0
"""Answers that the usual one of all checks counts for, where one check has few of its own."""
FAR, WIDTH = 3.0, 0.3
"""Spreads that one extreme counts for at most; and what is added to a spread, which may be 0."""
SURE = 6.0  # log-odds of an answer, at most: what models say beyond tells nothing more
SAME = 1e-9
"""A step that wins no more of the loss is the last; and what is added to a spread of lengths, which may be 0."""
STEPS = 50


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """On how many of `n` held-out cases the calibrator's verdict is nearer to the label than the model's own.

    These are `fixed`, and where it is farther they are `broken`. Of labels without an order the right one is nearer.
    """

    n: int = 0
    fixed: int = 0
    broken: int = 0

    @property
    def decides(self) -> bool:
        """Whether the calibrator is better by more than chance: by whole cases, so that no rounding decides."""
        return self.n >= FEWEST and self.fixed - self.broken > max(1.0, math.sqrt(self.fixed + self.broken))


class Columns(NamedTuple):
    """How an observation becomes the rows of a regression, one a label."""

    kind: Literal["sides", "labels", "ranks"]  # the sides of an item, labels without an order, or whole numbers
    labels: tuple[Value, ...]
    code: Array  # how one number of an item speaks for the labels, (columns, labels)
    middle: float  # the mean of the ranks
    alone: tuple[str, ...]  # the checks with a weight of their own, by name
    usual: dict[str, tuple[float, float]]  # mean and spread of the answers to each check, under "" to all
    asks_new: bool  # whether checks count that no case answered
    length: tuple[float, float]  # its mean and spread

    @property
    def names(self) -> tuple[str, ...]:
        """What each column stands for."""
        return (*[HABIT] * len(self.labels), VERDICT, *[LENGTH] * len(self.code), FIRES, CHECKS, MINED, *self.alone)

    def rows(self, observation: Observation) -> Array:
        """What is known of an item, of shape (labels, columns)."""
        terms, nothing = self.terms(observation), np.zeros((len(self.labels), 4))
        shared, alone = sum(terms.values(), nothing)[:, :3], [terms.get(name, nothing)[:, 3] for name in self.alone]
        length = _bounded((observation.length - self.length[0]) / self.length[1], FAR)
        habit = np.eye(len(self.labels)) - 1 / len(self.labels)
        return np.column_stack([habit, self._verdict(observation), self.code.T * length, shared, *alone])

    def terms(self, observation: Observation) -> dict[str, Array]:
        """What each answered check adds to four columns (labels, 4): FIRES, CHECKS, MINED, and its own."""
        answers = {
            name: self._centred(name, margin)
            for name, margin in observation.answers.items()
            if margin is not None and (self.asks_new or name in self.usual)
        }
        terms: dict[str, Array] = {}
        counting = [rule for rule in observation.expected if any(name in answers for name, _ in rule.checks)]
        for expected in counting:
            signed = {name: sign * answers[name] for name, sign in expected.checks if name in answers}
            missing = 0.5 ** (len(expected.checks) - len(signed))  # each is as likely as not
            fires = missing * self._fires(signed.values()) / len(signed)
            for name, margin in signed.items():
                alone = margin / len(signed) / math.sqrt(len(counting))
                columns = (0.0, 0.0, fires, 0.0) if expected.mined else (fires, alone, 0.0, 0.0)
                term = terms.setdefault(name, np.zeros((len(self.labels), 4)))
                term += self._towards(expected.label)[:, None] * columns
        for name, term in terms.items():  # its own weight has either sign, whatever is expected
            term[:, 3] = ALONE * answers[name] * self.code[0]
        return terms

    def _fires(self, margins: Collection[float]) -> float:
        """How far a guideline fires beyond what nothing known would say; of two sides the difference of both."""
        fires = math.prod(1 / (1 + math.exp(-2 * margin)) for margin in margins)
        other = math.prod(1 / (1 + math.exp(2 * margin)) for margin in margins)
        return fires - (other if self.kind == "sides" else 0.5 ** len(margins))

    def _centred(self, name: str, margin: float) -> float:
        mean, spread = self.usual.get(name, self.usual[""])
        return _bounded((_bounded(margin, SURE) - mean) / spread, FAR)

    def _towards(self, label: Value | None) -> Array:
        """Which labels a guideline speaks for, (labels,), if the answers are as expected; zeros if nobody knows."""
        if self.kind == "sides":
            return np.asarray(self.code[0])
        if label is None or label not in self.labels:
            return np.zeros(len(self.labels))
        if self.kind == "labels":
            return np.array([other == label for other in self.labels]) - 1 / len(self.labels)
        return np.asarray(np.sign(float(label) - self.middle) * self.code[0])

    def _verdict(self, observation: Observation) -> Array:
        if observation.verdict is None or observation.verdict not in self.labels:
            return np.zeros(len(self.labels))
        chances = observation.chances or {observation.verdict: 1.0}
        if self.kind == "ranks":
            mean = sum(float(label) * chance for label, chance in chances.items())
            half = (float(self.labels[-1]) - float(self.labels[0])) / 2
            return np.asarray(self.code[0] * (mean - self.middle) / half)
        return np.array([chances.get(label, 0.0) for label in self.labels]) - 1 / len(self.labels)


def _bounded(number: float, most: float) -> float:
    return max(-most, min(most, number))


class Calibrator(msgspec.Struct, frozen=True, kw_only=True):
    """Weights (columns,) of `columns`, and what they are worth on the labelled cases, each held out in turn."""

    columns: Columns
    weights: Array
    worth: Worth = Worth()
    fitted: bool = True  # else no labelled cases taught the weights: guidelines count as their experts meant them

    def says(self, observation: Observation) -> dict[Value, float]:
        """The probability of each label, of an item of which this is known; the likeliest one is the verdict."""
        scores = self.columns.rows(observation) @ self.weights
        return dict(zip(self.columns.labels, map(float, softmax(scores[None])[0]), strict=True))

    def verdict(self, observation: Observation) -> Value:
        """The likeliest label."""
        chances = self.says(observation)
        return max(chances, key=lambda label: chances[label])

    def parts(self, observation: Observation, value: Value) -> dict[str, float]:
        """What adds up to the log-odds of a verdict, whoever gave it, against the strongest other label.

        By the name of a check, which has its share of what all have together, `HABIT`, `VERDICT` or `LENGTH`.
        """
        columns, rows = self.columns, self.columns.rows(observation)
        place, units = columns.labels.index(value), np.eye(len(columns.labels))
        others = np.where(units[place] == 1, -np.inf, rows @ self.weights)
        counts = units[place] - units[int(np.argmax(others))]
        parts = dict.fromkeys((HABIT, VERDICT, LENGTH), 0.0)
        for name, part in zip(columns.names, counts @ (rows * self.weights), strict=True):
            if name in parts:
                parts[name] += float(part)
        weight = dict(zip(columns.names, self.weights, strict=True))
        for name, term in columns.terms(observation).items():
            parts[name] = float(counts @ term @ [weight.get(column, 0.0) for column in (FIRES, CHECKS, MINED, name)])
        return parts


def fit(value_type: ValueType, cases: Sequence[LabelledCase], sides: tuple[str, ...] = ()) -> Calibrator:
    """The calibrator of these cases, whose labels can be listed; a pure function of them and of their order.

    With fewer than ten, or one label only, nothing is fitted: guidelines count as their experts meant them, and it
    never decides. `sides` are the two labels that name the sides of every item; empty where it has none.
    """
    columns = _columns(value_type, cases, sides)
    starts = np.array([START.get(name, 0.0) for name in columns.names])
    start = Calibrator(columns=columns, weights=starts, fitted=False)
    if len(cases) < FEWEST or len({case.label for case in cases}) < 2:
        return start
    rows, numbers = np.stack([columns.rows(case.observation) for case in cases]), np.arange(len(cases))
    codes = np.array([columns.labels.index(case.label) for case in cases])

    def fitted(chosen: NDArray[np.bool_]) -> Calibrator:
        weights = conditional_logit(rows[chosen], codes[chosen], np.full(len(starts), RIDGE), starts)
        return Calibrator(columns=columns, weights=weights)

    def nearness(value: Value, label: Value) -> float:
        return -abs(float(value) - float(label)) if value_type.numeric else float(value_type.agree(value, label))

    gains = list[float]()
    for fold in range(FOLDS):
        rest = fitted(numbers % FOLDS != fold)
        for observation, label in cases[fold::FOLDS]:
            if observation.verdict is not None:  # one that is not known is neither right nor wrong
                gains.append(nearness(rest.verdict(observation), label) - nearness(observation.verdict, label))
    fixed, broken = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return msgspec.structs.replace(fitted(numbers >= 0), worth=Worth(n=len(gains), fixed=fixed, broken=broken))


def _columns(value_type: ValueType, cases: Sequence[LabelledCase], sides: tuple[str, ...]) -> Columns:
    labels, middle = value_type.labels, 0.5
    if value_type.numeric:
        middle = fmean([float(case.label) for case in cases] or map(float, labels))
        code = np.linspace(-1.0, 1.0, len(labels))[None]
    elif sides:
        code = np.array([[0.5 if label == sides[0] else -0.5 if label == sides[1] else 0.0 for label in labels]])
    else:
        code = np.array([[0.5, -0.5]]) if len(labels) == 2 else np.eye(len(labels)) - 1 / len(labels)
    margins: dict[str, list[float]] = {}
    for observation, _ in cases:
        for name, margin in observation.answers.items():
            if margin is not None:
                margins.setdefault(name, []).append(_bounded(margin, SURE))
    wordless = {name for name in margins if name.startswith(Expectation.WORDLESS)}
    lengths = np.array([observation.length for observation, _ in cases] or [0.0])
    centre = 0.0 if sides else float(lengths.mean())  # swapping sides must turn every sign: nothing is taken off
    return Columns(
        kind="sides" if sides else "ranks" if value_type.numeric else "labels",
        labels=labels,
        code=code,
        middle=middle,
        alone=tuple(sorted(margins.keys() - wordless)) if len(code) == 1 else (),
        usual=_usual(margins, centred=not sides),
        asks_new=not margins or bool(wordless),
        length=(centre, float(np.sqrt(((lengths - centre) ** 2).mean())) + SAME),
    )


def _usual(margins: Mapping[str, Sequence[float]], *, centred: bool) -> dict[str, tuple[float, float]]:
    """The mean and spread of the answers to each check, drawn to those of all, which a check never asked has."""
    every = [margin for answers in margins.values() for margin in answers]
    mean = fmean(every) if every and centred else 0.0
    square = fmean((margin - mean) ** 2 for margin in every) if every else 1.0
    usual = {"": (mean, math.sqrt(square) + WIDTH)}
    for name, answers in margins.items():
        own = (sum(answers) + SHRUNK * mean) / (len(answers) + SHRUNK) if centred else 0.0
        squares = sum((margin - own) ** 2 for margin in answers) + SHRUNK * square
        usual[name] = own, math.sqrt(squares / (len(answers) + SHRUNK)) + WIDTH
    return usual


def conditional_logit(rows: Array, codes: NDArray[np.int64], ridge: Array, centre: Array) -> Array:
    """Weights (features,) of the model in which label k has the score `rows[i, k] @ weights`; by Newton's method.

    `rows` is (n, labels, features), `codes` (n,) in [0, labels), `ridge` (features,): how strongly each weight is drawn
    to its `centre` (features,). McFadden's conditional logit (1974). With one column a label and feature it is
    multinomial logistic regression, with columns that grow with the label's rank an ordinal one (adjacent categories).
    """
    n, labels, features = rows.shape
    truth = np.eye(labels)[codes]
    weights = centre.copy()

    def loss_of(tried: Array) -> float:
        scores = rows @ tried
        scores -= scores.max(axis=1, keepdims=True)
        likely = scores[np.arange(n), codes] - np.log(np.exp(scores).sum(axis=1))
        return float(-likely.sum() + 0.5 * (ridge * (tried - centre) ** 2).sum())

    loss = loss_of(weights)
    for _ in range(STEPS):
        p = softmax(rows @ weights)
        slope = np.einsum("nkf,nk->f", rows, p - truth) + ridge * (weights - centre)
        flat = (rows * np.sqrt(p)[:, :, None]).reshape(n * labels, features)
        means = np.einsum("nkf,nk->nf", rows, p)
        step = np.linalg.lstsq(flat.T @ flat - means.T @ means + np.diag(ridge), slope, rcond=None)[0]
        size = 1.0
        while (new := loss_of(weights - size * step)) > loss and size > 1e-4:
            size /= 2  # where the labels are far apart a whole step may overshoot
        weights = weights - size * step
        if loss - new < SAME * max(1.0, loss):
            break
        loss = new
    return weights


def softmax(scores: Array) -> Array:
    """Probabilities (n, labels) of scores (n, labels)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
