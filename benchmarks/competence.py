"""How well does a judge learn from models of set competence? Accuracy by policy and number of comments.

    python benchmarks/competence.py competence.jsonl --figure docs/images/competence.svg
    python benchmarks/competence.py beside.jsonl --competitors .competitors/bin/python

Models are simulated (simulated.py). One line of the file is one judged case; a cell is one policy, one competence and
one number of comments, on 100 unseen cases. The same command asks for the cells that the file lacks,
the corners first. With `--competitors` (competitors.py) all methods learn the six policies from 50 comments.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import scale
from charts import Panel, Point, chart
from loopback import Loopback
from shared import Line, append, judge_of, markdown, read, share, simulation_parser
from simulated import INSTRUCTIONS, MODELS, POLICIES, Competence, decide, rows
from simulated import chat as simulated_chat

SIZES = (2, 5, 10, 20, 50)
UNSEEN = 100
SEED = 1
SHARES = (0.5, 0.7, 0.85, 0.97)
ARMS = {"chat": "a chat model judges", "decision": "a decision model judges"}
"""Where a decision model judges, the chat model only writes guidelines."""


class Cell(NamedTuple):
    """What is tried: who judges, by which policy, how well, and after how many comments."""

    arm: str
    policy: str
    competence: Competence
    size: int

    @property
    def key(self) -> str:
        """Its name in the file."""
        shares = ".".join(f"{name}{value:g}" for name, value in vars(self.competence).items())
        return f"{self.arm}/{self.policy}/{shares}/{self.size}"


def competences(arm: str) -> list[Competence]:
    """Every competence for itself, the extremes of following first; only those that the arm uses."""
    ordered = sorted(SHARES, key=lambda share: share not in (min(SHARES), max(SHARES)))
    grid = [Competence(following=following, seed=SEED) for following in ordered]
    alone: Any = {
        "zero": (0.5, 0.9, 0.75),
        "distilling": (0.5, 0.97, 0.7),
        "citing": (0.5,) if arm == "chat" else (),
    }
    usual = Competence(following=0.85, seed=SEED)
    single = [replace(usual, **{name: value}) for name, values in alone.items() for value in values]
    return [*grid[:2], *single, *grid[2:]]


def cells(arms: Iterable[str]) -> list[Cell]:
    """All of them; the arms take turns, so that the first cells have every arm, policy and number of comments."""
    turns = itertools.zip_longest(*map(competences, ARMS))
    abilities = [(arm, able) for turn in turns for arm, able in zip(ARMS, turn, strict=True)]
    wanted = [(arm, able) for arm, able in abilities if able is not None and arm in arms]
    return [
        Cell(arm, policy, able, size)
        for arm, able in wanted
        for policy in POLICIES
        for size in SIZES
    ]


def measured(cell: Cell, address: str) -> list[Line]:
    """Teach a judge, and have it judge what it was not taught: a line for each case."""
    policy = POLICIES[cell.policy]
    MODELS["simulated"] = policy, cell.competence
    writer, decider = f"openai:simulated@{address}", f"system-one:simulated@{address}"
    judge = judge_of("house", INSTRUCTIONS, decider if cell.arm == "decision" else writer, writer)
    aligned = judge.align(rows(policy, cell.size, SEED)).judge
    cases = policy.cases(UNSEEN, SEED, first=100_000)
    items = [{"id": f"c-{case.number}", **case.fields} for case in cases]
    lines = []
    for case, judgment in zip(cases, aligned.judge_many(items), strict=True):
        if judgment.error is not None:
            raise RuntimeError(f"{cell.key}: {judgment.error}")
        lines.append(
            {
                "cell": cell.key,
                "id": judgment.id,
                "label": policy.label(case),
                "value": judgment.value,
            }
        )
    return lines


def run(file: Path, arms: Sequence[str], *, most: int | None = None) -> None:
    """Ask for the cells that the file lacks."""
    done = {line["cell"] for line in read(file)}
    missing = [cell for cell in cells(arms) if cell.key not in done][:most]
    with Loopback(simulated_chat, decide) as server:
        for number, cell in enumerate(missing, 1):
            append(file, measured(cell, server.base_url))
            print(f"\r{number} of {len(missing)} cells", end="", file=sys.stderr, flush=True)


def scores(lines: Iterable[Line]) -> dict[Cell, float]:
    """The accuracy of each cell."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for line in lines:
        groups[line["cell"]].append(line["value"] == line["label"])
    return {cell: statistics.mean(groups[cell.key]) for cell in cells(ARMS) if cell.key in groups}


def tables(by_cell: dict[Cell, float]) -> Iterator[str]:
    """The mean accuracy of each arm over competences, and what it gains."""
    for arm, words in ARMS.items():
        chosen = {cell: right for cell, right in by_cell.items() if cell.arm == arm}
        rows = []
        for policy in POLICIES:
            groups = [
                [chosen[c] for c in chosen if (c.policy, c.size) == (policy, size)]
                for size in SIZES
            ]
            rows.append(
                [policy, *(f"{statistics.mean(group):.2f}" if group else "" for group in groups)]
            )
        yield f"\n{words[0].upper()}{words[1:]}, {len(chosen)} cells\n"
        yield markdown(["policy", *SIZES], rows)
        yield from gain(chosen)


def gain(chosen: dict[Cell, float]) -> Iterator[str]:
    """What two comments give to models that follow rules."""
    able = [
        cell
        for cell in chosen
        if cell.competence.following >= 0.85 and cell.policy != scale.POLICY and cell.size == 2
    ]
    if able:
        points = 100 * statistics.mean(chosen[cell] - cell.competence.zero for cell in able)
        line = f"{points:+.0f} points from two comments, {len(able)} cells of five policies"
        yield f"\nFollows rules in .85 of the cases or more: {line}"


def figure(by_cell: dict[Cell, float]) -> str:
    """A plot for each policy: the mean over competences by the number of comments, and where nine of ten are."""
    panels = []
    for policy in POLICIES:
        lines: dict[str, list[Point]] = defaultdict(list)
        for arm, size in itertools.product(ARMS, SIZES):
            group = [
                right
                for c, right in by_cell.items()
                if (c.arm, c.policy, c.size) == (arm, policy, size)
            ]
            if len(group) > 1:
                cuts = statistics.quantiles(group, n=20, method="inclusive")
                lines[ARMS[arm]].append(Point(size, statistics.mean(group), cuts[0], cuts[-1]))
        panels.append(Panel(policy, (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), lines))
    title = "Right of unseen cases by the number of comments, over models of every competence"
    return chart(title, list(ARMS.values()), panels)


def beside(lines: Sequence[Line]) -> str:
    """Right of unseen cases after 50 comments, by method and policy."""
    right = {(line["method"], line["policy"]): line["right"] for line in lines if "right" in line}
    methods = [
        method for method in scale.METHODS if any((method, policy) in right for policy in POLICIES)
    ]
    rows = [
        [method, *(f"{share(right.get((method, policy), ())):.2f}" for policy in POLICIES)]
        for method in methods
    ]
    return markdown(["50 comments", *POLICIES], rows)


def main() -> None:
    """Ask what is missing, print the tables, and draw."""
    parser = simulation_parser(__doc__)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--most", type=int, help="cells to ask for at most")
    options = parser.parse_args()
    if options.competitors:
        if not options.table:
            scale.run(options.file, options.competitors, [50], 0.0, list(POLICIES))
        print(beside(read(options.file)))
        return
    if not options.table:
        run(options.file, options.arms, most=options.most)
    by_cell = scores(read(options.file))
    print(*tables(by_cell), sep="\n")
    if options.figure:
        options.figure.write_text(figure(by_cell), "utf-8")


if __name__ == "__main__":
    main()
