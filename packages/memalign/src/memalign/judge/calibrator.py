"""A head: a small regression from the judge's verdict and plain features to what this memory's experts would say.

Fitted on the memory's own cases, with the verdicts that the judge gave before it learned from them (their pre-alignment verdicts). It is
a pure function of the memory, so it is refitted, exactly, whenever feedback comes or goes. A weak judge has habits (one
label nearly always) and its task has tells (a convincing argument is longer); with fifty labels such a regression is
worth as much as the judge, and the two together more than either (docs/decisions/0012-verdict.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from memalign.cache import kept_async
from memalign.judge.features import plain_features
from memalign.memory.model import Case
from memalign.metrics import mcnemar_exact
from memalign.models.resolve import resolve_embedding
from memalign.types import Example
from memalign.values import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge
    from memalign.models.base import Limits

__all__ = ["FEWEST", "MOST", "Calibrator", "Worth", "calibrate", "calibrates", "calibrator_worth", "fit_calibrator"]

FEWEST, MOST = 30, 2000
"""Labelled cases with a pre-alignment verdict: below, there is no head; above, a fixed sample of them is enough."""
MOST_LABELS = 10
"""Labels above which there is no head: a fit takes their number to the sixth (forty: a quarter of an hour)."""
FOLDS = 10
ENOUGH = 300
"""Cases, drawn as above, on which a head's worth is measured: ten fits, of three tenths of a second with ten labels."""
CLEARLY = 0.05
"""McNemar's exact p below which a head is better than the verdicts, as everywhere here."""
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
    """How many of `n` taught cases the judge had right before it learned, and a head that was not fitted on them.

    `fixed` and `broken` are the cases that only the head and only the judge had right.
    """

    n: int
    judge: int
    calibrator: int
    fixed: int
    broken: int

    @property
    def clear(self) -> bool:
        """Whether the head is better by more than chance."""
        return self.fixed > self.broken and mcnemar_exact(self.fixed, self.broken) < CLEARLY


def calibrates(judge: Judge, limits: Limits) -> bool:
    """Whether the judge's judgments have a calibrated value: as it is set, else for weak models.

    These have habits that a head sees; strong ones were not tried (docs/decisions/0012-verdict.md).
    """
    return bool(judge.parameters.get("calibrate", limits.brief))


async def calibrate(judge: Judge, example: Example, verdict: Value) -> dict[Value, float] | None:
    """What the judge's head makes of a verdict: each label's probability. None where there are too few cases for one."""
    calibrator = await fit_calibrator(judge)
    if calibrator is None:
        return None
    # The in-process embedder, whatever retrieval uses: two texts more a judgment must cost nothing.
    return calibrator.chances((await plain_features([example], judge.value_type, resolve_embedding(None)))[0], verdict)


async def fit_calibrator(judge: Judge) -> Calibrator | None:
    """The head of the judge's memory; None below 30 cases with a label and a pre-alignment verdict, for one label only, or above ten.

    Only for bool and choices: a score's distance was not measured to be worth it. A stale pre-alignment verdict does not count (the habits of
    another model or of other instructions are not this judge's), nor does a label that the judge cannot give.
    """

    async def make() -> Calibrator | None:
        known = await _known(judge)
        return None if known is None else _fit(known, judge)

    return await kept_async(judge.memory, ("calibrator", judge.base_fingerprint), make)


async def calibrator_worth(judge: Judge) -> Worth | None:
    """What a head would be worth, by the memory's own cases alone; no model is asked. None where there is no head.

    Ten-fold: each tenth of the cases is answered by a head that the other nine taught.
    """
    import numpy as np

    known = await _known(judge, most=ENOUGH)
    if known is None:
        return None
    right: list[tuple[bool, bool]] = []
    for fold in range(FOLDS):
        apart = np.arange(len(known.answers)) % FOLDS == fold
        calibrator = _fit(known.of(~apart), judge)
        for plain, verdict, answer in zip(*known.of(apart), strict=True):
            chances = calibrator.chances(plain, verdict)
            right.append((verdict == answer, max(chances, key=lambda label: chances[label]) == answer))
    return Worth(
        n=len(right),
        judge=sum(judge for judge, _ in right),
        calibrator=sum(calibrator for _, calibrator in right),
        fixed=sum(calibrator and not judge for judge, calibrator in right),
        broken=sum(judge and not calibrator for judge, calibrator in right),
    )


class _Known(NamedTuple):
    """What heads are fitted on, by case: plain features (n, 2), the judge's first verdict, the label that counts."""

    plain: NDArray[np.float64]
    verdicts: list[Value]
    answers: list[Value]

    def of(self, chosen: NDArray[np.bool_]) -> _Known:
        """Some of the cases."""
        places = chosen.nonzero()[0]
        return _Known(
            self.plain[places], [self.verdicts[place] for place in places], [self.answers[place] for place in places]
        )


async def _known(judge: Judge, *, most: int = MOST) -> _Known | None:
    """The memory's own cases; None where there are too few for a head, or of one label, or labels no head can tell."""
    memory = judge.memory
    if judge.value_type.kind not in ("bool", "choice"):
        return None
    known: dict[str, Case] = {}
    made_by, allowed = judge.base_fingerprint, judge.value_type.labels
    if len(allowed) > MOST_LABELS:
        return None
    for case in memory.cases:
        if case.pre_alignment is not None and case.pre_alignment.judge == made_by and memory.label(case) in allowed:
            known.setdefault(case.example.content_hash, case)
    # By hash: as good as drawn, and the same whatever came first.
    cases = [known[content] for content in sorted(known)[:most]]
    answers = [label for case in cases if (label := memory.label(case)) is not None]
    verdicts = [case.pre_alignment.value for case in cases if case.pre_alignment is not None]
    if len(cases) < FEWEST or len(set(answers)) < 2:
        return None
    plain = await plain_features([case.example for case in cases], judge.value_type, resolve_embedding(None))
    return _Known(plain, verdicts, answers)


def _fit(known: _Known, judge: Judge) -> Calibrator:
    import numpy as np

    labels = tuple(label for label in judge.value_type.labels if label in known.answers)
    given = tuple(sorted(set(known.verdicts), key=str))
    rows = np.stack([_row(each, verdict, given) for each, verdict in zip(known.plain, known.verdicts, strict=True)])
    means, scales = rows.mean(axis=0), rows.std(axis=0)
    scales[scales == 0] = 1.0
    codes = np.array([labels.index(answer) for answer in known.answers])
    weights = regression((rows - means) / scales, codes, len(labels))
    return Calibrator(labels=labels, verdicts=given, means=means, scales=scales, weights=weights)


def _row(plain: NDArray[np.float64], verdict: Value, verdicts: tuple[Value, ...]) -> NDArray[np.float64]:
    import numpy as np

    return np.array([*plain, *(float(verdict == each) for each in verdicts)])


def regression(rows: NDArray[np.float64], codes: NDArray[np.int64], labels: int) -> NDArray[np.float64]:
    """Multinomial logistic regression with a ridge of 1 on all but the intercepts, by Newton's method.

    `rows` of shape (n, features), `codes` of shape (n,) in [0, labels); gives weights of shape (features + 1, labels), the
    last row the intercepts. The same as scikit-learn's default, which would weigh a hundred times what memalign does.
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
