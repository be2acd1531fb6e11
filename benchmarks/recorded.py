"""Does a corrected figure come near to people's, on recorded answers of a provider's model?

    python benchmarks/recorded.py llm_rubric.jsonl

The file is made of microsoft/LLM-Rubric (MIT), a dialogue and judge a line: `part` (synthetic or real), `answers` (by
question the probabilities of 1 to 4 that a provider's model gave) and `human` (what the judge said, or null). Of each
question a part of the dialogues, drawn a thousand times, is labelled, and the rest is traffic: what all people said is
the truth. No model is called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shared import markdown, read

from memalign.evaluation.traffic import corrected_mean, corrected_share, refusal
from memalign.metrics import Estimate

LEVELS = (1, 2, 3, 4)
QUESTIONS = {"Q0": "overall", "Q1": "natural", "Q6": "concise"}
LABELLED = {"real": 60, "synthetic": 100}
DRAWS = 1_000

Correct = Callable[[Sequence[float], Sequence[float], Sequence[float]], Estimate]


def expected(chances: Sequence[float]) -> float:
    """Return the level that a model expects."""
    return float(np.average(LEVELS, weights=list(chances)))


def passing(chances: Sequence[float]) -> float:
    """Return 1 if a model holds 3 or 4 likelier than 1 or 2, else 0."""
    return float(sum(chances[2:]) >= sum(chances) / 2)


def row(
    name: str, people: Sequence[float], judge: Sequence[float], labelled: int, correct: Correct
) -> list[str]:
    """One row of the table: the truth, the judge's own figure, and what became of a thousand draws."""
    truth, said = np.array(people), np.array(judge)
    rng = np.random.default_rng(0)
    first: Estimate | None = None
    held = given = 0
    for _ in range(DRAWS):
        order = rng.permutation(len(truth))
        known, rest = order[:labelled], order[labelled:]
        if refusal(truth[known].tolist(), said[known].tolist()):
            continue
        estimate = correct(truth[known].tolist(), said[known].tolist(), said[rest].tolist())
        first = first or estimate
        given += 1
        held += (estimate.low or 0.0) <= truth.mean() <= (estimate.high or 0.0)
    shown = "" if first is None else f"{first:.2f}"
    coverage = f"{held / given:.0%}" if given >= DRAWS / 10 else "too few to say"
    refused = f"{1 - given / DRAWS:.0%}"
    return [
        name,
        f"{len(truth)}",
        f"{truth.mean():.2f}",
        f"{said.mean():.2f}",
        shown,
        coverage,
        refused,
    ]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("file", type=Path, help="the recorded answers, JSON lines")
    rows = read(options.parse_args().file)
    lines = []
    for part, labelled in LABELLED.items():
        for question, word in QUESTIONS.items():
            answered: list[dict[str, Any]] = []
            for each in rows:
                if each["part"] == part and each["human"][question] is not None:
                    answered.append(each)
            people = [each["human"][question] for each in answered]
            chances = [each["answers"][question] for each in answered]
            scores = [float(level) for level in people]
            means = [expected(each) for each in chances]
            lines.append(
                row(f"{part}, {word}: mean of 1 to 4", scores, means, labelled, corrected_mean)
            )
            good = [float(level >= 3) for level in people]
            lines.append(
                row(
                    f"{part}, {word}: share of 3 or 4",
                    good,
                    [passing(c) for c in chances],
                    labelled,
                    corrected_share,
                )
            )
    head = (
        "dialogues",
        "n",
        "people",
        "the model alone",
        "corrected, first draw",
        "holds people's",
        "refused",
    )
    print(markdown(head, lines))


if __name__ == "__main__":
    main()
