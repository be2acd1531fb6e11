"""Does a corrected figure come near to people's, on recorded answers of a provider's model?

    python benchmarks/recorded.py llm_rubric.jsonl

The file is made of microsoft/LLM-Rubric (MIT), with a dialogue and a judge in each line: `part`
(synthetic or real), `answers` (by question the probabilities of 1 to 4 that a provider's model
gave) and `human` (what the judge said, or null). Of each question a part of the dialogues, drawn a
thousand times, is labelled, and the rest is traffic: what all people said is the truth. No model is
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from shared import Line, markdown, parser_of, read_lines

from memalign.evaluation.traffic import corrected_mean, corrected_share, refusal
from memalign.metrics import Estimate

LEVELS = (1, 2, 3, 4)
QUESTIONS = {"Q0": "overall", "Q6": "concise"}
LABELLED = {"real": 60, "synthetic": 100}
DRAWS = 1_000
TITLES = (
    "dialogues",
    "n",
    "people",
    "the model alone",
    "corrected, first draw",
    "holds people's",
    "refused",
)

Correct = Callable[[Sequence[float], Sequence[float], Sequence[float]], Estimate]


def expected(chances: Sequence[float]) -> float:
    """Return the level that a model expects."""
    return float(np.average(LEVELS, weights=list(chances)))


def passing(chances: Sequence[float]) -> float:
    """Return 1 if a model holds 3 or 4 likelier than 1 or 2, else 0."""
    return float(sum(chances[2:]) >= sum(chances) / 2)


def row(
    name: str,
    people: Sequence[float],
    judge: Sequence[float],
    labelled: int,
    correct: Correct,
) -> list[str]:
    """Return a row of the table: the truth, the judge's own figure, and a thousand draws."""
    truth = np.array(people)
    said = np.array(judge)
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(DRAWS):
        order = rng.permutation(len(truth))
        known = order[:labelled]
        rest = order[labelled:]
        labels = truth[known].tolist()
        verdicts = said[known].tolist()
        if not refusal(labels, verdicts):
            estimates.append(correct(labels, verdicts, said[rest].tolist()))
    held = 0
    for estimate in estimates:
        held += (estimate.low or 0.0) <= truth.mean() <= (estimate.high or 0.0)
    given = len(estimates)
    return [
        name,
        f"{len(truth)}",
        f"{truth.mean():.2f}",
        f"{said.mean():.2f}",
        f"{estimates[0]:.2f}" if estimates else "",
        f"{held / given:.0%}" if given >= DRAWS / 10 else "too few to say",
        f"{1 - given / DRAWS:.0%}",
    ]


def rows_of(lines: Sequence[Line]) -> Iterator[list[str]]:
    """Yield two rows for each question of each part: the mean, and the share that passes."""
    for part, labelled in LABELLED.items():
        mine = [line for line in lines if line["part"] == part]
        for question, word in QUESTIONS.items():
            levels = []
            chances = []
            for line in mine:
                level = line["human"][question]
                if level is not None:
                    levels.append(float(level))
                    chances.append(line["answers"][question])
            title = f"{part}, {word}: mean of 1 to 4"
            said = list(map(expected, chances))
            yield row(title, levels, said, labelled, corrected_mean)
            title = f"{part}, {word}: share of 3 or 4"
            good = [float(level >= 3) for level in levels]
            said = list(map(passing, chances))
            yield row(title, good, said, labelled, corrected_share)


def main() -> None:
    """Print the table."""
    options = parser_of(__doc__)
    options.add_argument("file", type=Path, help="the recorded answers, JSON lines")
    lines = read_lines(options.parse_args().file)
    print(markdown(TITLES, rows_of(lines)))


if __name__ == "__main__":
    main()
