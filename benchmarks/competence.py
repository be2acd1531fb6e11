"""How well does a judge learn from models of set competence? Accuracy by policy and comments.

    python benchmarks/competence.py competence.jsonl
    python benchmarks/competence.py beside.jsonl --competitors .competitors/bin/python

Models are simulated (simulated.py). A cell is one policy, one competence and one number of
comments, on 100 unseen cases; a line of the file is one judged case. The same command asks for the
cells that the file lacks. With `--competitors` (competitors.py) all methods learn the six policies
from 50 comments.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import scale
from loopback import Loopback
from shared import Line, append, judge_of, markdown, read, share, simulation_parser
from simulated import INSTRUCTIONS, MODELS, POLICIES, Competence, decide, rows
from simulated import chat as simulated_chat

SIZES = (2, 5, 10, 20, 50)
UNSEEN = 100
SEED = 1
TRIED = (
    Competence(following=0.5, seed=SEED),
    Competence(following=0.97, seed=SEED),
    Competence(following=0.85, zero=0.5, seed=SEED),
    Competence(following=0.85, zero=0.9, seed=SEED),
)
ARMS = {"chat": "A chat model judges", "decision": "A decision model judges"}
"""Where a decision model judges, the chat model only writes guidelines."""


class Cell(NamedTuple):
    """What is tried: who judges, by which policy, how well, and after how many comments."""

    arm: str
    policy: str
    competence: Competence
    size: int

    @property
    def key(self) -> str:
        """Return the cell's name in the file."""
        following = self.competence.following
        return f"{self.arm}/{self.policy}/{following:g}/{self.competence.zero:g}/{self.size}"


def cells(arms: Iterable[str]) -> Iterator[Cell]:
    """Yield every cell of these arms."""
    for arm in arms:
        for able in TRIED:
            for policy in POLICIES:
                for size in SIZES:
                    yield Cell(arm, policy, able, size)


def measured(cell: Cell, address: str) -> Iterator[Line]:
    """Teach a judge, have it judge unseen cases, and yield a line for each."""
    policy = POLICIES[cell.policy]
    MODELS["simulated"] = (policy, cell.competence)
    writer = f"openai:simulated@{address}"
    model = f"system-one:simulated@{address}" if cell.arm == "decision" else writer
    judge = judge_of("house", INSTRUCTIONS, model, writer)
    aligned = judge.align(rows(policy, cell.size, SEED)).judge
    cases = policy.cases(UNSEEN, SEED, first=100_000)
    items = [{"id": f"c-{case.number}", **case.fields} for case in cases]
    for case, judgment in zip(cases, aligned.judge_many(items), strict=True):
        if judgment.error is not None:
            raise RuntimeError(f"{cell.key}: {judgment.error}")
        label = policy.label(case)
        yield {
            "cell": cell.key,
            "id": judgment.id,
            "label": label,
            "value": judgment.value,
        }


def run(file: Path, arms: Sequence[str], most: int | None) -> None:
    """Ask for the cells that the file lacks."""
    done = {line["cell"] for line in read(file)}
    missing = [cell for cell in cells(arms) if cell.key not in done][:most]
    with Loopback(simulated_chat, decide) as server:
        for number, cell in enumerate(missing, 1):
            append(file, list(measured(cell, server.base_url)))
            print(
                f"\r{number} of {len(missing)} cells",
                end="",
                file=sys.stderr,
                flush=True,
            )


def accuracies(lines: Iterable[Line]) -> dict[Cell, float]:
    """Return the accuracy of each cell that has lines."""
    right: dict[str, list[bool]] = defaultdict(list)
    for line in lines:
        right[line["cell"]].append(line["value"] == line["label"])
    found = {}
    for cell in cells(ARMS):
        if cell.key in right:
            found[cell] = statistics.mean(right[cell.key])
    return found


def table(by_cell: dict[Cell, float]) -> str:
    """Return the mean accuracy over competences, by policy and number of comments."""
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for cell, accuracy in by_cell.items():
        groups[cell.policy, cell.size].append(accuracy)
    lines = []
    for policy in POLICIES:
        line = [policy]
        for size in SIZES:
            group = groups[policy, size]
            line.append(f"{statistics.mean(group):.2f}" if group else "")
        lines.append(line)
    return markdown(["policy", *SIZES], lines)


def gain(by_cell: dict[Cell, float]) -> str:
    """Return what two comments give to models that follow rules, where one or two rules decide."""
    gains = []
    for cell, accuracy in by_cell.items():
        able = cell.competence
        if able.following >= 0.85 and cell.size == 2 and cell.policy != scale.POLICY:
            gains.append(accuracy - able.zero)
    if not gains:
        return ""
    points = f"{100 * statistics.mean(gains):+.0f} points from two comments"
    return f"Follows rules in .85 of the cases or more: {points}, {len(gains)} cells"


def beside(lines: Sequence[Line]) -> str:
    """Return the share of unseen cases that is right after 50 comments, by method and policy."""
    right = {}
    for line in lines:
        if "right" in line:
            right[line["method"], line["policy"]] = line["right"]
    rows = []
    for method in scale.METHODS:
        row = [method]
        for policy in POLICIES:
            row.append(f"{share(right.get((method, policy), ())):.2f}")
        rows.append(row)
    return markdown(["50 comments", *POLICIES], rows)


def main() -> None:
    """Ask for what is missing, and print the tables."""
    parser = simulation_parser(__doc__)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--most", type=int, help="the most cells to ask for")
    options = parser.parse_args()
    file = options.file
    if options.competitors:
        scale.run(file, options.competitors, [50], 0.0, list(POLICIES))
        print(beside(read(file)))
        return
    run(file, options.arms, options.most)
    by_cell = accuracies(read(file))
    for arm, words in ARMS.items():
        chosen = {}
        for cell, accuracy in by_cell.items():
            if cell.arm == arm:
                chosen[cell] = accuracy
        print(f"\n{words}, {len(chosen)} cells\n")
        print(table(chosen))
        print()
        print(gain(chosen))


if __name__ == "__main__":
    main()
