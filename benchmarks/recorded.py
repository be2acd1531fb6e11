"""How near does the calibrator come to people, on recorded answers of a model about dialogues that it never learned?

    python benchmarks/recorded.py llm_rubric.jsonl

The file is made of microsoft/LLM-Rubric (MIT), a dialogue and judge a line: `part` (synthetic or real), `answers` (by
question the probabilities of 1 to 4 that a provider's model gave) and `human` (what the judge said, or null).
Synthetic dialogues are taught, and `human.Q0` of the real ones is measured. No model is called. The published figures
are of arXiv 2501.00274, and the interval is the library's jackknife.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, pearsonr, spearmanr  # type: ignore[import-untyped]
from shared import markdown, read

from memalign.evaluation.cases import estimate
from memalign.evaluation.intervals import agreement_interval
from memalign.judge.calibrator import fit
from memalign.judge.observations import LabelledCase, Observation
from memalign.memory import Expectation
from memalign.metrics import ccc
from memalign.values import ValueType

LEVELS = (1, 2, 3, 4)
QUESTIONS = tuple(f"Q{number}" for number in range(1, 9))
EXPECTED = tuple(Expectation(label=max(LEVELS), checks=((question, 1),)) for question in QUESTIONS)
"""A high answer to each question speaks for a high label: all that is told beforehand."""


def mean(chances: Iterable[float]) -> float:
    """The expected level."""
    return float(np.average(LEVELS, weights=list(chances)))


def margin(chances: Sequence[float]) -> float:
    """The expected level as the log-odds of a yes: 0 in the middle of the scale."""
    share = min(max((mean(chances) - LEVELS[0]) / (LEVELS[-1] - LEVELS[0]), 1e-3), 1 - 1e-3)
    return math.log(share / (1 - share))


def case(row: dict[str, Any]) -> LabelledCase:
    """A dialogue as the calibrator is told of it: eight answers, and the model's own of the ninth."""
    answers, overall = row["answers"], row["answers"]["Q0"]
    observation = Observation(
        answers={question: margin(answers[question]) for question in QUESTIONS},
        expected=EXPECTED,
        verdict=min(LEVELS, key=lambda level: abs(level - mean(overall))),
        chances=dict(zip(LEVELS, (chance / sum(overall) for chance in overall), strict=True)),
    )
    return LabelledCase(observation, row["human"]["Q0"])


def line(name: str, guessed: Sequence[float], labels: Sequence[float]) -> list[str]:
    """One row of the table."""
    error = math.sqrt(np.mean((np.array(guessed) - np.array(labels)) ** 2))
    figures = [f"{measure(guessed, labels)[0]:.3f}" for measure in (pearsonr, spearmanr, kendalltau)]
    agreement = estimate(ccc(guessed, labels), None, lambda: agreement_interval(ccc, guessed, labels))
    return [name, *figures, f"{error:.2f}", f"{agreement:.2f}"]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path, help="the recorded answers, JSON lines")
    rows = read(options.parse_args().file)
    labelled = [row for row in rows if row["human"]["Q0"] is not None]
    taught = [case(row) for row in labelled if row["part"] == "synthetic"]
    unseen = [case(row) for row in labelled if row["part"] != "synthetic"]
    labels = [float(case.label) for case in unseen]
    calibrator = fit(ValueType.of("int:1..4"), taught)
    print(f"taught {len(taught)}, unseen {len(unseen)}\n")
    own = [mean((case.observation.chances or {}).values()) for case in unseen]
    calibrated = [mean(calibrator.says(case.observation).values()) for case in unseen]
    lines = [line("the model's own expected answer", own, labels), line("the calibrator", calibrated, labels)]
    lines.append(["published: a net with parameters of each judge", "0.313", "0.368", "0.291", "", ""])
    print(markdown(("", "Pearson", "Spearman", "Kendall", "RMSE", "CCC"), lines))


if __name__ == "__main__":
    main()
