"""How well does a judge learn from models of set competence? Delivered accuracy beside own and calibrated verdict.

    python benchmarks/competence.py competence.jsonl --figure docs/images/competence.svg
    python benchmarks/competence.py competence.jsonl --table      asks nothing
    python benchmarks/competence.py beside.jsonl --competitors .competitors/bin/python

Models are simulated (simulated.py) and asked over HTTP as any other. One line of the file is one judged case, with both
verdicts; a cell is one policy, one competence and one number of comments, on 100 cases that nobody taught. What is
missing in the file is asked; the corners of the competences come first, so a run that is stopped early has met them.
With `--competitors` (competitors.py makes the environment) others learn the six policies from 50 comments as well.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import scale
from charts import Panel, Point, chart
from loopback import Loopback
from simulated import INSTRUCTIONS, MODELS, POLICIES, Competence, decide, rows
from simulated import chat as simulated_chat

import memalign as ma

SIZES = (2, 5, 10, 20, 50)
UNSEEN = 100
SEEDS = (1, 2)
SHARES = (0.5, 0.7, 0.85, 0.97)
MANY = "twenty rules"
ARMS = {"chat": "a chat model alone", "checks": "a chat model with checks", "decision": "a decision model judges"}
"""With checks, a decision model answers them beside it; where one judges, the chat model only writes guidelines."""


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


def competences(arm: str, seed: int) -> list[Competence]:
    """Following against checking in full, and every other competence for itself; only those that the arm uses."""
    ends = (min(SHARES), max(SHARES))
    pairs = list(itertools.product(SHARES, SHARES if arm != "chat" else (0.85,)))
    pairs.sort(key=lambda pair: not (pair[0] in ends and (arm == "chat" or pair[1] in ends)))  # the corners first
    grid = [Competence(following=following, checking=checking, seed=seed) for following, checking in pairs]
    alone = [("zero", 0.5), ("zero", 0.9), ("zero", 0.75), ("distilling", 0.5), ("distilling", 0.97)]
    alone += [("distilling", 0.7), *([("citing", 0.5)] if arm == "chat" else [])]
    single = [replace(Competence(following=0.85, seed=seed), **{name: cast("Any", share)}) for name, share in alone]
    corners = 2 if arm == "chat" else 4
    return [*grid[:corners], *single, *grid[corners:]]


def cells(arms: Iterable[str]) -> list[Cell]:
    """All of them; the arms take turns, so that the first cells have every arm, policy and number of comments."""
    turns = [itertools.zip_longest(*(competences(arm, seed) for arm in ARMS)) for seed in SEEDS]
    abilities = [(arm, able) for turn in itertools.chain(*turns) for arm, able in zip(ARMS, turn, strict=True)]
    wanted = [(arm, able) for arm, able in abilities if able is not None and arm in arms]
    return [Cell(arm, policy, able, size) for arm, able in wanted for policy in POLICIES for size in SIZES]


def measured(cell: Cell, address: str) -> list[dict[str, Any]]:
    """Teach a judge, and have it judge what it was not taught: a line for each case."""
    policy, seed = POLICIES[cell.policy], cell.competence.seed
    MODELS["simulated"] = policy, cell.competence
    writer, decider = f"openai:simulated@{address}", f"system-one:simulated@{address}"
    judge = ma.Judge(
        name="house",
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model=decider if cell.arm == "decision" else writer,
        check_model=decider if cell.arm == "checks" else None,
        parameters={"reflection_model": writer} if cell.arm == "decision" else {},
    )
    aligned = judge.align(rows(policy, cell.size, seed)).judge
    cases = policy.cases(UNSEEN, seed, first=100_000)
    items = [{"id": f"c-{case.number}", **case.fields} for case in cases]
    lines = []
    for case, judgment in zip(cases, aligned.judge_many(items), strict=True):
        if judgment.error is not None:
            raise RuntimeError(f"{cell.key}: {judgment.error}")
        sure, value = judgment.confidence, judgment.value
        line = {"cell": cell.key, "id": judgment.id, "label": policy.label(case), "value": value}
        line["own"] = value if judgment.own_value is None else judgment.own_value
        line["calibrated"] = None if cell.arm == "chat" or sure is None else value == (sure >= 0.5)
        lines.append(line)
    return lines


def run(file: Path, arms: Sequence[str], *, most: int | None = None) -> None:
    """Ask for the cells that the file lacks."""
    done = {line["cell"] for line in scale.read(file)}
    missing = [cell for cell in cells(arms) if cell.key not in done][:most]
    with Loopback(simulated_chat, decide) as server, file.open("a", encoding="utf-8") as out:
        for number, cell in enumerate(missing, 1):
            out.writelines(json.dumps(line) + "\n" for line in measured(cell, server.base_url))
            out.flush()
            print(f"\r{number} of {len(missing)} cells", end="", file=sys.stderr, flush=True)


# -- the tables and the figure ---------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Accuracies of a cell over all seeds: of what is delivered, the model's own verdict, and the calibrator's."""

    delivered: float
    own: float
    calibrated: float

    @property
    def regret(self) -> float:
        """How far what is delivered is behind the better of the two verdicts."""
        return max(self.own, self.calibrated) - self.delivered


def scores(lines: Iterable[dict[str, Any]]) -> dict[Cell, Score]:
    """By cell, whose competence then has the first seed; where nothing was calibrated, that is the own verdict."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["cell"].replace(f"seed{SEEDS[1]}", f"seed{SEEDS[0]}")].append(line)
    by_cell = {}
    for cell in cells(ARMS):
        if group := groups.get(cell.key):
            weighed = "own" if any(line["calibrated"] is None for line in group) else "calibrated"
            columns = ("value", "own", weighed)
            shares = (statistics.mean(line[name] == line["label"] for line in group) for name in columns)
            by_cell[cell] = Score(*shares)
    return by_cell


def tables(by_cell: dict[Cell, Score]) -> str:
    """Delivered accuracy, in brackets own and calibrated verdict, mean over competences; then the regret."""
    lines = []
    for arm, words in ARMS.items():
        chosen = {cell: score for cell, score in by_cell.items() if cell.arm == arm}
        both = "" if arm == "chat" else " (own, calibrated)"
        lines += [f"\n{words[0].upper()}{words[1:]}, {len(chosen)} cells: delivered{both}\n"]
        lines += ["| policy | " + " | ".join(map(str, SIZES)) + " |", "|---" * (len(SIZES) + 1) + "|"]
        for policy in POLICIES:
            groups = [[chosen[c] for c in chosen if (c.policy, c.size) == (policy, size)] for size in SIZES]
            means = [[f"{statistics.mean(column):.2f}" for column in zip(*group, strict=True)] for group in groups]
            if arm == "chat":
                texts = ["".join(mean[:1]) for mean in means]
            else:
                texts = [f"{mean[0]} ({', '.join(mean[1:])})" if mean else "" for mean in means]
            lines.append(f"| {policy} | " + " | ".join(texts) + " |")
        able = {c: s for c, s in chosen.items() if c.competence.following >= 0.85 and c.policy != MANY}
        gains = [s.delivered - c.competence.zero for c, s in able.items() if c.size == 2 and arm == "chat"]
        if gains:
            gain = f"{100 * statistics.mean(gains):+.0f} points from two comments"
            lines.append(f"\nFollows rules in .85 of the cases or more: {gain}, {len(gains)} cells of five policies")
        late = {cell: score.regret for cell, score in chosen.items() if cell.size >= 10}
        if arm != "chat" and late:
            over, worst = sum(regret > 0.05 + 1e-9 for regret in late.values()), max(late, key=late.__getitem__)
            mean = f"\nRegret from 10 comments on: {statistics.mean(late.values()):.3f} on average"
            lines.append(f"{mean}, over .05 in {over} of {len(late)}, at worst {late[worst]:.2f} ({worst.key})")
    return "\n".join(lines)


def figure(by_cell: dict[Cell, Score]) -> str:
    """A plot for each policy: the mean over competences by the number of comments, and where nine of ten are."""
    panels = []
    for policy in POLICIES:
        lines: dict[str, list[Point]] = defaultdict(list)
        for arm, size in itertools.product(ARMS, SIZES):
            group = [s.delivered for c, s in by_cell.items() if (c.arm, c.policy, c.size) == (arm, policy, size)]
            if len(group) > 1:
                cuts = statistics.quantiles(group, n=20, method="inclusive")
                lines[ARMS[arm]].append(Point(size, statistics.mean(group), cuts[0], cuts[-1]))
        panels.append(Panel(policy, (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), lines))
    title = "Right of unseen cases by the number of comments, over models of every competence"
    return chart(title, list(ARMS.values()), panels)


def beside(lines: Sequence[dict[str, Any]]) -> str:
    """Right of unseen cases after 50 comments, by method and policy."""
    table = ["| 50 comments | " + " | ".join(POLICIES) + " |", "|---" * (len(POLICIES) + 1) + "|"]
    for method in scale.METHODS:
        right = {line["policy"]: line["right"] for line in lines if line["method"] == method and "right" in line}
        texts = [f"{statistics.mean(some):.2f} {scale.interval(some)}" for some in right.values()]
        table.append(f"| {method} | " + " | ".join(texts) + " |")
    return "\n".join(table)


def main() -> None:
    """Ask what is missing, print the tables, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="raw lines, JSONL; made where it is not there, and gone on with")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--most", type=int, help="cells to ask for at most")
    parser.add_argument("--competitors", type=Path, metavar="PYTHON", help="compare at one setting, in another file")
    parser.add_argument("--figure", type=Path, help="the SVG that is drawn")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if options.competitors:
        scale.run(options.file, options.competitors, [50], 0.0, list(POLICIES))
        print(beside(scale.read(options.file)))
        return
    if not options.table:
        run(options.file, options.arms, most=options.most)
    by_cell = scores(scale.read(options.file))
    print(tables(by_cell))
    if options.figure:
        options.figure.write_text(figure(by_cell), "utf-8")


if __name__ == "__main__":
    main()
