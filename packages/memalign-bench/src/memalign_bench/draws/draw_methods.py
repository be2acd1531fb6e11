"""The methods of a study: from a draw of labelled items to each label's probability for the unseen ones.

Those with checks are the product's own calibrator (`memalign.judge.calibrator.Fit`), fitted on the draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.judge.calibrator import Calibrator, Fit
from memalign.judge.logit import conditional_logit, softmax
from memalign_bench.draws.drawing import Draw, Prepared
from memalign_bench.draws.study import Study
from memalign_bench.methods.baselines import NEIGHBOURS, logistic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Chances = NDArray[np.float64]
    """Probabilities, (unseen items, labels)."""

__all__ = [
    "ABLATIONS",
    "BASELINES",
    "DECIDED",
    "EVERYTHING",
    "FEATURES",
    "FORMER",
    "METHODS",
    "ablations",
    "everything_of",
    "main_methods",
]

MAJORITY, NEIGHBOUR, EMBEDDINGS, FEATURES = (
    "majority",
    "neighbours' vote",
    "regression on embeddings",
    "regression on length and likeness",
)
BASELINES = (MAJORITY, NEIGHBOUR, EMBEDDINGS, FEATURES)
"""What needs no language model."""
ZERO, SHIFTED, FORMER = "zero-shot", "zero-shot + intercept", "zero-shot + length + likeness"
UNLABELLED, CHECKS, EVERYTHING = "checks, equal weights, no label", "checks", "everything"
DECIDED = "everything or zero-shot, decided"
METHODS = (*BASELINES, ZERO, SHIFTED, FORMER, UNLABELLED, CHECKS, EVERYTHING, DECIDED)
FIXED = 1e6
"""A ridge by which a weight stays where it is."""


def main_methods(study: Study, draw: Draw) -> dict[str, Chances]:
    """Every method's probabilities on the draw's unseen items; without verdicts, none of those that need them."""
    known = Prepared(study=study)
    found = {
        MAJORITY: _majority(known, draw),
        NEIGHBOUR: _neighbours(known, draw),
        EMBEDDINGS: _regression(known, draw, known.vectors),
        FEATURES: _regression(known, draw, known.features),
    }
    fit = _fit(known, draw)
    cases = known.taught(draw)
    everything = fit.calibrator(cases)
    found[EVERYTHING] = _told(everything, known, draw)
    if study.judged:
        zero = softmax(known.said)
        found[ZERO] = zero[list(draw.unseen)]
        found[SHIFTED] = _shifted(known, draw)
        found[FORMER] = _former(known, draw)
        found[DECIDED] = found[EVERYTHING] if everything.worth.decides else found[ZERO]
    alone = replace(known, verdict=False, plain=False)
    found[UNLABELLED] = _unlabelled(alone, draw)
    found[CHECKS] = _calibrated(alone, draw)
    return {name: found[name] for name in METHODS if name in found}


ABLATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "without the polarity prior": ({}, {"prior": 0.0, "prior_ridge": FIXED}),
    "own cases not masked": ({"masked": False}, {}),
    "4 questions asked": ({"most": 4}, {}),
    "16 questions asked": ({"most": 16}, {}),
    "all questions asked": ({"most": None}, {}),
    "no pairs of questions": ({}, {"together": ()}),
    "yes or no instead of margins": ({"yes_or_no": True}, {}),
    "without the verdict": ({"verdict": False}, {}),
    "without length and likeness": ({"plain": False}, {}),
}
"""Everything, but for one thing: what is known of items, and how the calibrator is fitted."""


def ablations(study: Study, draw: Draw) -> dict[str, Chances]:
    """The probabilities of everything but for one thing."""
    return {
        name: _calibrated(Prepared(study=study, **known), draw, **fitted)
        for name, (known, fitted) in ABLATIONS.items()
        if study.judged or "verdict" not in known
    }


def everything_of(study: Study, draw: Draw) -> dict[str, Chances]:
    """Everything, and what was there before, for draws of fewer labels."""
    known = Prepared(study=study)
    found = {EVERYTHING: _calibrated(known, draw), FEATURES: _regression(known, draw, known.features)}
    return found | ({FORMER: _former(known, draw)} if study.judged else {})


# -- without checks ------------------------------------------------------------------------------------------------


def _majority(known: Prepared, draw: Draw) -> Chances:
    import numpy as np

    counts = np.bincount(known.truth[list(draw.taught)], minlength=len(known.labels)) + 0.5
    return np.tile(counts / counts.sum(), (len(draw.unseen), 1))


def _neighbours(known: Prepared, draw: Draw) -> Chances:
    import numpy as np

    taught, labels = list(draw.taught), len(known.labels)
    near = np.argsort(-(known.vectors[list(draw.unseen)] @ known.vectors[taught].T), axis=1, kind="stable")
    votes = np.eye(labels)[known.truth[taught]][near[:, :NEIGHBOURS]]
    # Of equally many votes the nearer one's counts.
    order = np.linspace(1e-3, 0, votes.shape[1])[None, :, None]
    counts = (votes * (1 + order)).sum(axis=1) + 0.5
    result: Chances = counts / counts.sum(axis=1, keepdims=True)
    return result


def _regression(known: Prepared, draw: Draw, features: NDArray[np.float64]) -> Chances:
    import numpy as np

    taught = list(draw.taught)
    order, chances = logistic(features[taught], [known.labels[n] for n in known.truth[taught]])
    found = np.zeros((len(draw.unseen), len(known.labels)))
    found[:, [known.labels.index(label) for label in order]] = chances(features[list(draw.unseen)])
    return found


def _former(known: Prepared, draw: Draw) -> Chances:
    """What the calibrator was before there were checks: the verdict and two plain features."""
    import numpy as np

    verdicts = np.eye(len(known.labels))[known.said.argmax(axis=1)]
    given = verdicts[:, verdicts[list(draw.taught)].any(axis=0)]
    return _regression(known, draw, np.hstack([known.features, given]))


def _shifted(known: Prepared, draw: Draw) -> Chances:
    """The verdict's log-probabilities, and a number added to each label's."""
    import numpy as np

    taught, labels = list(draw.taught), len(known.labels)
    rows = np.concatenate(
        [known.said[:, :, None], np.tile(np.eye(labels) - 1 / labels, (len(known.said), 1, 1))], axis=2
    )
    ridge, centre = np.array([FIXED, *[1.0] * labels]), np.array([1.0, *[0.0] * labels])
    return softmax(rows[list(draw.unseen)] @ conditional_logit(rows[taught], known.truth[taught], ridge, centre))


# -- with checks ---------------------------------------------------------------------------------------------------


def _fit(known: Prepared, draw: Draw) -> Fit:
    return Fit(
        value_type=known.study.value_type,
        checks=known.checks(draw),
        together=known.pairs(draw),
        sides=known.study.header.sides,
    )


def _told(calibrator: Calibrator, known: Prepared, draw: Draw) -> Chances:
    return softmax(calibrator.columns.rows([known.known(place) for place in draw.unseen]) @ calibrator.weights)


def _calibrated(known: Prepared, draw: Draw, **changed: Any) -> Chances:
    """The calibrator with its own ridge; what it is worth is not asked, which takes five times as long."""
    fit, cases = msgspec.structs.replace(_fit(known, draw), **changed), known.taught(draw)
    return _told(fit.fitted(cases, fit.ridge(cases)), known, draw)


def _unlabelled(known: Prepared, draw: Draw) -> Chances:
    """All checks of the draw with one weight, and the direction that their guidelines tell: no label is fitted on."""
    return _told(_fit(known, draw).expected(known.taught(draw)), known, draw)
