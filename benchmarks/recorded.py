"""The calibrator on answers that were recorded: how near it comes to people on dialogues that it never learned.

    python benchmarks/recorded.py llm_rubric.jsonl

The file has one dialogue and judge a line: `part` (synthetic or real), `answers` (by question the probabilities of 1 to
4 that a provider's model gave), `human` (what the judge said of the same questions, null where one does not apply). It
is made of microsoft/LLM-Rubric (MIT). Learned from the synthetic part, and measured on the real one: `human.Q0`, 1 to
4. No model is called. The published figures are those of arXiv 2501.00274, whose small net has parameters of each
judge.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, pearsonr, spearmanr

from memalign.judge.calibrator import fit
from memalign.judge.observations import LabelledCase, Observation
from memalign.memory import Expectation
from memalign.values import ValueType

LEVELS = (1, 2, 3, 4)
OVERALL = "Q0"
QUESTIONS = tuple(f"Q{number}" for number in range(1, 9))
EXPECTED = tuple(Expectation(label=max(LEVELS), checks=((question, 1),)) for question in QUESTIONS)
"""A high answer to each question speaks for a high label: all that is told beforehand."""


def mean(chances: Sequence[float]) -> float:
    """The expected level."""
    return sum(level * chance for level, chance in zip(LEVELS, chances, strict=True)) / sum(chances)


def margin(chances: Sequence[float]) -> float:
    """The expected level as the log-odds of a yes: 0 in the middle of the scale."""
    share = min(max((mean(chances) - LEVELS[0]) / (LEVELS[-1] - LEVELS[0]), 1e-3), 1 - 1e-3)
    return math.log(share / (1 - share))


def case(row: dict[str, Any]) -> LabelledCase:
    """A dialogue as the calibrator is told of it: eight answers, and the model's own of the ninth."""
    answers, overall = row["answers"], row["answers"][OVERALL]
    verdict = min(LEVELS, key=lambda level: abs(level - mean(overall)))
    observation = Observation(
        answers={question: margin(answers[question]) for question in QUESTIONS},
        expected=EXPECTED,
        verdict=verdict,
        chances=dict(zip(LEVELS, (chance / sum(overall) for chance in overall), strict=True)),
    )
    return LabelledCase(observation, row["human"][OVERALL])


def line(name: str, guessed: Sequence[float], labels: Sequence[float]) -> str:
    """One row of the table."""
    error = math.sqrt(np.mean((np.array(guessed) - np.array(labels)) ** 2))
    figures = [measure(guessed, labels)[0] for measure in (pearsonr, spearmanr, kendalltau)]
    cells = " | ".join(f"{figure:.3f}" for figure in figures)
    return f"| {name} | {cells} | {error:.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="the recorded answers, JSON lines")
    rows = [json.loads(text) for text in parser.parse_args().file.read_text("utf-8").splitlines()]
    labelled = [row for row in rows if row["human"][OVERALL] is not None]
    taught = [case(row) for row in labelled if row["part"] == "synthetic"]
    unseen = [case(row) for row in labelled if row["part"] != "synthetic"]
    labels = [float(case.label) for case in unseen]
    calibrator = fit(ValueType.of("int:1..4"), taught)
    predictions = [calibrator.says(case.observation) for case in unseen]
    own = [sum(float(level) * chance for level, chance in (case.observation.chances or {}).items()) for case in unseen]
    weighed = [sum(float(level) * chance for level, chance in chances.items()) for chances in predictions]
    print(f"taught {len(taught)}, unseen {len(unseen)}\n")
    print("| | Pearson | Spearman | Kendall | RMSE |\n|---|---|---|---|---|")
    print(line("the model's own expected answer", own, labels))
    print(line("the calibrator", weighed, labels))
    print("| published: a net with parameters of each judge | 0.313 | 0.368 | 0.291 | |")


if __name__ == "__main__":
    main()
