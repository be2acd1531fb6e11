"""Two small regressions with a ridge: conditional logit for labels, least squares for numbers. Both by closed steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["conditional_logit", "least_squares", "softmax"]

STEPS = 50
ENOUGH = 1e-9
"""Of the loss, relative: a step that wins less is the last."""


def conditional_logit(
    rows: NDArray[np.float64], codes: NDArray[np.int64], ridge: NDArray[np.float64], centre: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights (features,) of the model in which label k has the score `rows[i, k] @ weights`; by Newton's method.

    `rows` is (n, labels, features), `codes` (n,) in [0, labels), `ridge` (features,): how strongly each weight is drawn
    to its `centre` (features,). McFadden's conditional logit (1974). With one column a label and feature it is
    multinomial logistic regression, with columns that grow with the label's rank an ordinal one (adjacent categories).
    """
    import numpy as np

    n, labels, features = rows.shape
    truth = np.eye(labels)[codes]
    weights = centre.copy()

    def loss_of(tried: NDArray[np.float64]) -> float:
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
        curve = flat.T @ flat - means.T @ means + np.diag(ridge)
        step = np.linalg.lstsq(curve, slope, rcond=None)[0]
        size = 1.0
        while (new := loss_of(weights - size * step)) > loss and size > 1e-4:
            size /= 2  # where the labels are far apart a whole step may overshoot
        weights = weights - size * step
        if loss - new < ENOUGH * max(1.0, loss):
            break
        loss = new
    return weights


def least_squares(
    rows: NDArray[np.float64], values: NDArray[np.float64], ridge: NDArray[np.float64], centre: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights (features,) of a linear regression, drawn to `centre` by `ridge`; `rows` is (n, features), `values` (n,)."""
    import numpy as np

    curve = rows.T @ rows + np.diag(ridge)
    found: NDArray[Any] = np.linalg.lstsq(curve, rows.T @ values + ridge * centre, rcond=None)[0]
    return found


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (n, labels) of scores (n, labels)."""
    import numpy as np

    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return result
