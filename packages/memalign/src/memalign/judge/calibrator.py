"""The calibrator: a small regression from the judge's verdict and plain features to what the experts would say.

It is fitted on the memory's own cases, with the verdicts that the judge gave before it learned from them. As a pure function
of the memory it is fitted anew whenever feedback comes or goes. A weak judge has habits (one label nearly always), and a
task has tells (a convincing argument is longer); the evidence is in docs/decisions/0012-verdict.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from memalign.cache import kept_async
from memalign.judge.features import plain_features
from memalign.memory.model import Case
from memalign.models.resolve import resolve_embedding
from memalign.types import Example
from memalign.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge
    from memalign.models.base import Limits

__all__ = ["FEWEST", "MOST", "Calibrator", "Worth", "calibrate", "calibrates", "calibrator_worth", "fit_calibrator"]

FEWEST, MOST = 30, 2000
"""Cases that a calibrator is fitted on: with fewer there is none, and of more a fixed sample is enough."""
MOST_LABELS = 10
"""With more labels there is no calibrator: a fit takes their number to the sixth (forty: a quarter of an hour)."""
FOLDS = 10
ENOUGH = 300
"""Cases on which a calibrator's worth is measured: ten fits, of three tenths of a second with ten labels."""
CLEARLY = 0.05
"""McNemar's exact p below which a calibrator is better than the verdicts."""
RIDGE = 1.0
STEPS = 30


class Calibrator(msgspec.Struct, frozen=True, kw_only=True):
    """A logistic regression on standardised features: (features,) means and scales, (features + 1, labels) weights."""

    labels: tuple[Value, ...]
    verdicts: tuple[Value, ...]
    means: Any
    scales: Any
    weights: Any

    def chances(self, plain: NDArray[np.float64], verdict: Value) -> dict[Value, float]:
        """The probability of each label for an item of these two plain features and this verdict."""
        import numpy as np

        row = (_row(plain, verdict, self.verdicts) - self.means) / self.scales
        scores = np.append(row, 1.0) @ self.weights
        return dict(zip(self.labels, (float(p) for p in _softmax(scores[None])[0]), strict=True))


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """How many of `n` taught cases the judge had right before it learned, and a calibrator not fitted on them.

    `fixed` and `broken` are the cases that only the calibrator and only the judge had right.
    """

    n: int
    judge: int
    calibrator: int
    fixed: int
    broken: int

    @property
    def clear(self) -> bool:
        """Whether the calibrator is better by more than chance."""
        from memalign.metrics import mcnemar_exact  # with numpy, see below

        return self.fixed > self.broken and mcnemar_exact(self.fixed, self.broken) < CLEARLY


def calibrates(judge: Judge, limits: Limits) -> bool:
    """Whether the judge's judgments have a calibrated value: as it is set, else for weak models; strong ones were not tried."""
    return bool(judge.parameters.get("calibrate", limits.brief))


async def calibrate(judge: Judge, example: Example, verdict: Value) -> dict[Value, float] | None:
    """Each label's probability, given a verdict of the judge; None where there is no calibrator."""
    calibrator = await fit_calibrator(judge)
    if calibrator is None:
        return None
    return calibrator.chances((await _features(judge, [example]))[0], verdict)


async def fit_calibrator(judge: Judge) -> Calibrator | None:
    """The calibrator of the judge's memory, fitted once for all who ask; None where `_taught` gives no cases for it."""

    async def make() -> Calibrator | None:
        taught = await _taught(judge)
        return _fit(taught, judge) if taught else None

    return await kept_async(judge.memory, ("calibrator", judge.base_fingerprint), make)


async def calibrator_worth(judge: Judge) -> Worth | None:
    """What a calibrator would be worth, by the memory's own cases alone; no model is asked. None where there is none.

    Ten-fold: each tenth of the cases is answered by a calibrator that the other nine taught.
    """
    taught = await _taught(judge, most=ENOUGH)
    if not taught:
        return None
    right: list[tuple[bool, bool]] = []
    for fold in range(FOLDS):
        calibrator = _fit([each for n, each in enumerate(taught) if n % FOLDS != fold], judge)
        for plain, verdict, answer in taught[fold::FOLDS]:
            chances = calibrator.chances(plain, verdict)
            right.append((verdict == answer, max(chances, key=lambda label: chances[label]) == answer))
    return Worth(
        n=len(right),
        judge=sum(judge for judge, _ in right),
        calibrator=sum(calibrator for _, calibrator in right),
        fixed=sum(calibrator and not judge for judge, calibrator in right),
        broken=sum(judge and not calibrator for judge, calibrator in right),
    )


class _Taught(NamedTuple):
    """A case that a calibrator is fitted on: plain features (2,), the judge's first verdict, the label that counts."""

    plain: NDArray[np.float64]
    verdict: Value
    answer: Value


async def _taught(judge: Judge, *, most: int = MOST) -> list[_Taught]:
    """The memory's cases with a label and a pre-alignment verdict; none where they are too few for a calibrator.

    Only for bool and choices: a score's distance was not measured to be worth it. A stale pre-alignment verdict does not
    count: the habits of another model or of other instructions are not this judge's.
    """
    memory, allowed = judge.memory, judge.value_type.labels
    if judge.value_type.kind not in ("bool", "choice") or len(allowed) > MOST_LABELS:
        return []
    made_by, known = judge.base_fingerprint, dict[str, tuple[Case, Value, Value]]()
    for case in memory.cases:
        label, verdict = memory.label(case), case.pre_alignment
        if verdict is not None and verdict.judge == made_by and label is not None and label in allowed:
            known.setdefault(case.example.content_hash, (case, verdict.value, label))
    # By hash: as good as drawn, and the same whatever came first.
    chosen = [known[content] for content in sorted(known)[:most]]
    if len(chosen) < FEWEST or len({label for _, _, label in chosen}) < 2:
        return []
    plain = await _features(judge, [case.example for case, _, _ in chosen])
    return [_Taught(each, verdict, label) for each, (_, verdict, label) in zip(plain, chosen, strict=True)]


async def _features(judge: Judge, examples: Sequence[Example]) -> NDArray[np.float64]:
    # The in-process embedder, whatever retrieval uses: two texts more a judgment must cost nothing.
    return await plain_features(examples, judge.value_type, resolve_embedding(None))


def _fit(taught: Sequence[_Taught], judge: Judge) -> Calibrator:
    import numpy as np

    answers = [each.answer for each in taught]
    labels = tuple(label for label in judge.value_type.labels if label in answers)
    verdicts = tuple(sorted({each.verdict for each in taught}, key=str))
    rows = np.stack([_row(each.plain, each.verdict, verdicts) for each in taught])
    means, scales = rows.mean(axis=0), rows.std(axis=0)
    scales[scales == 0] = 1.0
    weights = regression((rows - means) / scales, np.array([labels.index(answer) for answer in answers]), len(labels))
    return Calibrator(labels=labels, verdicts=verdicts, means=means, scales=scales, weights=weights)


def _row(plain: NDArray[np.float64], verdict: Value, verdicts: tuple[Value, ...]) -> NDArray[np.float64]:
    import numpy as np

    return np.array([*plain, *(float(verdict == each) for each in verdicts)])


def regression(rows: NDArray[np.float64], codes: NDArray[np.int64], labels: int) -> NDArray[np.float64]:
    """Multinomial logistic regression with a ridge of 1 on all but the intercepts, by Newton's method.

    `rows` of shape (n, features), `codes` of shape (n,) in [0, labels); gives weights of shape (features + 1, labels), the
    last row the intercepts. The same as scikit-learn's default. That package is a hundred times memalign's size, so it is
    no dependency.
    """
    import numpy as np

    n, width = rows.shape[0], rows.shape[1] + 1
    x = np.hstack([rows, np.ones((n, 1))])
    truth = np.eye(labels)[codes]
    # Two columns share what is one line between two labels. That of the intercepts keeps the matrix regular, no more.
    ridge = np.diag([2 * RIDGE if labels == 2 else RIDGE] * (width - 1) + [1e-9])
    weights = np.zeros((width, labels))
    for _ in range(STEPS):
        p = _softmax(x @ weights)
        slope = x.T @ (p - truth) + ridge @ weights
        curve = np.zeros((width, labels, width, labels))
        for one in range(labels):
            for other in range(labels):
                w = p[:, one] * ((one == other) - p[:, other])
                curve[:, one, :, other] = (x * w[:, None]).T @ x + (one == other) * ridge
        step = np.linalg.lstsq(curve.reshape(width * labels, -1), slope.reshape(-1), rcond=None)[0]
        weights -= step.reshape(width, labels)
        if float(np.abs(step).max()) < 1e-8:
            break
    return weights


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return result
