"""How well a judge learns from models of set competence: delivered accuracy beside own and calibrated verdict.

    python benchmarks/competence.py competence.jsonl           asks what is missing in that file, then prints the table
    python benchmarks/competence.py competence.jsonl --table   prints the table of what is there

Models are simulated (simulated.py) and asked over HTTP as any other. One line of the file is one judged case, with both
verdicts; a cell is one policy, one competence and one number of comments, on cases that nobody taught.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loopback import Loopback
from simulated import INSTRUCTIONS, POLICIES, Case, Competence, Policy, chat, decide

import memalign as ma
from memalign.judge.decision import calibrator_of

SIZES = (2, 5, 10, 20, 50)
UNSEEN = 100
SEEDS = (1, 2)
SHARES = (0.5, 0.7, 0.85, 0.97)
ARMS = {
    "chat": "a chat model alone",
    "checks": "a chat model, and a decision model that answers the checks",
    "decision": "a decision model judges; the chat model only writes guidelines",
}


class Cell(NamedTuple):
    """What is tried: who judges, by which policy, how well, and after how many comments."""

    arm: str
    policy: str
    competence: Competence
    size: int

    @property
    def key(self) -> str:
        """Its name in the file."""
        return f"{self.arm}/{self.competence.name(self.policy)}/{self.size}"


def competences(arm: str, seed: int) -> list[Competence]:
    """Following against checking in full, and every other competence for itself; only those that the arm uses.

    The corners come first, so that a run that is stopped early has met the whole range.
    """
    pairs = list(itertools.product(SHARES, SHARES if arm != "chat" else (0.85,)))
    ends = (min(SHARES), max(SHARES))
    corners = [pair for pair in pairs if pair[0] in ends and (arm == "chat" or pair[1] in ends)]
    inner = [pair for pair in pairs if pair not in corners]
    grid = {pair: Competence(following=pair[0], checking=pair[1], seed=seed) for pair in pairs}
    single: list[Competence] = []
    for name, shares in {"zero": (0.5, 0.9, 0.75), "distilling": (0.5, 0.97, 0.7), "citing": (0.5,)}.items():
        if name != "citing" or arm == "chat":
            single += [Competence(**{"following": 0.85, "seed": seed, name: share}) for share in shares]
    return [*(grid[pair] for pair in corners), *single, *(grid[pair] for pair in inner)]


def cells(arms: Iterable[str]) -> list[Cell]:
    """All of them; the arms take turns, so that the first cells have every arm, policy and number of comments."""
    turns = [
        (seed, rank, place, arm, competence)
        for seed in SEEDS
        for place, arm in enumerate(arms)
        for rank, competence in enumerate(competences(arm, seed))
    ]
    turns.sort(key=lambda turn: turn[:3])
    return [
        Cell(arm, policy, competence, size) for *_, arm, competence in turns for policy in POLICIES for size in SIZES
    ]


def judge_of(cell: Cell, address: str) -> ma.Judge:
    """The judge that has learned nothing yet."""
    name = cell.competence.name(cell.policy)
    writer, decider = f"openai:{name}@{address}", f"system-one:{name}@{address}"
    return ma.Judge(
        name="house",
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model=decider if cell.arm == "decision" else writer,
        check_model=decider if cell.arm == "checks" else None,
        parameters={"reflection_model": writer} if cell.arm == "decision" else {},
    )


def row(policy: Policy, case: Case) -> dict[str, Any]:
    """An expert's feedback on a case."""
    return {
        **fields(case),
        "value": policy.label(case),
        "rationale": policy.comment(case),
        "source": "ana",
    }


def fields(case: Case) -> dict[str, Any]:
    """A case as an example."""
    return {"id": f"c-{case.number}", "inputs": case.letter, "outputs": case.reply}


def measured(cell: Cell, address: str) -> list[dict[str, Any]]:
    """Teach a judge, and have it judge what it was not taught: a line for each case, and the first has what it cost."""
    policy = POLICIES[cell.policy]
    seed = cell.competence.seed
    taught = policy.cases(cell.size, seed, first=1_000)
    unseen = policy.cases(UNSEEN, seed, first=100_000)
    started = time.perf_counter()
    judge = judge_of(cell, address)
    # The queue that experts review holds the judge's own verdicts, so an align knows them without asking.
    result = judge.align([row(policy, case) for case in taught])
    aligned = time.perf_counter() - started
    lines = []
    for case, judgment in zip(unseen, result.judge.judge_many([fields(case) for case in unseen]), strict=True):
        if judgment.error is not None:
            raise RuntimeError(f"{cell.key}: {judgment.error}")
        own = judgment.value if judgment.own_value is None else judgment.own_value
        sure = judgment.confidence
        lines.append(
            {
                "cell": cell.key,
                "id": f"c-{case.number}",
                "label": policy.label(case),
                "value": judgment.value,
                "own": own,
                "calibrated": None if cell.arm == "chat" or sure is None else judgment.value == (sure >= 0.5),
                "by": judgment.decided_by,
                "findings": len(judgment.findings),
            }
        )
    usage = result.usage
    calibrator = None if cell.arm == "chat" else calibrator_of(result.judge)
    if calibrator is not None:
        lines[0] |= {"held_out": [calibrator.worth.n, calibrator.worth.fixed, calibrator.worth.broken]}
    lines[0] |= {"guidelines": len(result.judge.memory.guidelines), "calls": usage.calls, "seconds": round(aligned, 2)}
    return lines


def run(file: Path, arms: Sequence[str], *, most: int | None = None) -> None:
    """Ask for the cells that the file lacks."""
    done = {line["cell"] for line in read(file)}
    missing = [cell for cell in cells(arms) if cell.key not in done][:most]
    with Loopback(chat, decide) as server, file.open("a", encoding="utf-8") as out:
        for number, cell in enumerate(missing, 1):
            for line in measured(cell, server.base_url):
                out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"\r{number} of {len(missing)} cells", end="", file=sys.stderr, flush=True)


def read(file: Path) -> Iterator[dict[str, Any]]:
    """The lines that are there."""
    if file.exists():
        yield from map(json.loads, file.read_text("utf-8").splitlines())


# -- the table -------------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Accuracies of a cell over all seeds."""

    delivered: float
    own: float
    calibrated: float | None

    @property
    def behind(self) -> float:
        """How far what is delivered is behind the better of the two verdicts."""
        return max(self.own, self.calibrated or 0.0) - self.delivered


def scores(lines: Iterable[dict[str, Any]]) -> dict[Cell, Score]:
    """By cell, whose competence then has no seed."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["cell"].replace(".seed2/", ".seed1/")].append(line)
    by_key = {cell.key: cell for cell in cells(ARMS)}
    return {by_key[key]: _score(group) for key, group in groups.items() if key in by_key}


def _score(group: Sequence[dict[str, Any]]) -> Score:
    def share(verdict: str) -> float:
        return sum(line[verdict] == line["label"] for line in group) / len(group)

    complete = all(line["calibrated"] is not None for line in group)
    return Score(share("value"), share("own"), share("calibrated") if complete else None)


def table(by_cell: dict[Cell, Score]) -> str:
    """Delivered accuracy, in brackets the own verdict's and the calibrator's, mean over competences."""
    lines = []
    for arm, words in ARMS.items():
        if not any(cell.arm == arm for cell in by_cell):
            continue
        lines += [f"\n**{words[0].upper()}{words[1:]}**: delivered (own, calibrated)\n"]
        lines += ["| policy | " + " | ".join(map(str, SIZES)) + " |", "|---" * (len(SIZES) + 1) + "|"]
        for policy in POLICIES:
            cells = [(cell, score) for cell, score in by_cell.items() if (cell.arm, cell.policy) == (arm, policy)]
            row = [_mean([score for cell, score in cells if cell.size == size]) for size in SIZES]
            lines.append(f"| {policy} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _mean(group: Sequence[Score]) -> str:
    if not group:
        return ""
    delivered, own = (sum(score[place] for score in group) / len(group) for place in (0, 1))
    weighed = [score.calibrated for score in group if score.calibrated is not None]
    calibrated = f", {sum(weighed) / len(weighed):.2f}" if weighed else ""
    return f"{delivered:.2f} ({own:.2f}{calibrated})"


def criteria(by_cell: dict[Cell, Score]) -> str:
    """What has to hold, and whether it does."""
    lines = ["\n| has to hold | is |", "|---|---|"]
    for arm in [arm for arm in ARMS if arm != "chat" and any(cell.arm == arm for cell in by_cell)]:
        behind = {cell: score.behind for cell, score in by_cell.items() if cell.arm == arm and cell.size >= 10}
        over = sum(value > 0.05 + 1e-9 for value in behind.values())
        worst = max(behind, key=lambda cell: behind[cell])
        mean = sum(behind.values()) / len(behind)
        lines.append(f"| {arm}: behind the better verdict on average at most .02 | {mean:.3f} |")
        lines.append(
            f"| {arm}: in a cell at most .05 | {over} of {len(behind)} over, {behind[worst]:.2f}: {worst.key} |"
        )
    for size in (2, 5):
        gains = [
            score.delivered - cell.competence.zero
            for cell, score in by_cell.items()
            if cell.size == size
            and cell.arm != "decision"
            and cell.competence.following >= 0.85
            and cell.competence.distilling >= 0.9
            and cell.policy != "twenty rules"
        ]
        if gains:
            lines.append(f"| a model that follows gains from {size} comments | {sum(gains) / len(gains):+.3f} |")
    for share in (0.85, 0.97):
        allowed = share**2 + (1 - share) ** 2
        for size in (20, 50):
            learned = [
                score.delivered / allowed
                for cell, score in by_cell.items()
                if (cell.policy, cell.size, cell.competence.checking) == ("conditional", size, share)
                and cell.arm != "chat"
                and (cell.arm == "decision" or cell.competence.following == 0.5)
                and cell.competence.distilling >= 0.9
            ]
            if learned:
                mean = sum(learned) / len(learned)
                lines.append(
                    f"| checking {share}, following badly, {size} comments: .9 of what checks allow | {mean:.2f} |"
                )
    return "\n".join(lines)


def main() -> None:
    """Ask what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="raw lines, JSONL; made where it is not there, and gone on with")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--most", type=int, help="cells to ask for at most")
    parser.add_argument("--table", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    if not arguments.table:
        run(arguments.file, arguments.arms, most=arguments.most)
    by_cell = scores(read(arguments.file))
    print(table(by_cell), criteria(by_cell), sep="\n")


if __name__ == "__main__":
    main()
