"""Is an expert's rule taken up? Twelve invented policies, twenty comments each, and unseen items that the rule decides.

    python benchmarks/house_rules.py OUT [--model local:qwen2.5-coder-1.5b] [--unseen 60]

`OUT` keeps each policy's judge (`registry.db`), its judgments with findings and both verdicts (`POLICY.jsonl`), and its
guidelines and checks (`POLICY.guidelines.json`); the same command goes on where it was stopped. Beside the judge stand
the rules that code mines from the same comments, and a naive Bayes of words: both without a model. Intervals are by
topic.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from baselines import BASELINES, ruled, share
from policies import POLICIES, feedback, policy

import memalign as ma
from memalign.io import read_judgments
from memalign.types import as_json
from memalign.values import ValueType

COLUMNS = ("own verdict", "delivered", "by the calibrator", "mined alone", "words alone")


def run(name: str, settings: argparse.Namespace) -> None:
    """Align the policy's judge and judge the unseen items, as far as that is not done."""
    registry = ma.Registry(f"sqlite:///{settings.folder / 'registry.db'}")
    if name in {entry.name for entry in registry.list()}:
        judge = registry.load(name)
    else:
        instructions = f"{policy(name).criterion}\n\nInputs: {{{{ inputs }}}}\nOutputs: {{{{ outputs }}}}"
        blank = ma.Judge(name=name, feedback_value_type=bool, model=settings.model, instructions=instructions)
        optimizer = ma.MemAlign(reflection_model=settings.reflection_model)
        result = blank.align(feedback(name, "teaching", settings.taught), optimizer=optimizer)
        judge = result.judge
        learned = {"guidelines": judge.memory.guidelines, "usage": result.usage, "notes": result.notes}
        text = json.dumps(as_json(learned), ensure_ascii=False, indent=1)
        settings.folder.joinpath(f"{name}.guidelines.json").write_text(text, "utf-8")
        registry.save(judge)
    items = [row.example for row in feedback(name, "unseen", settings.unseen) if row.example]
    judge.judge_many(items, out=settings.folder / f"{name}.jsonl")


def verdicts(name: str, settings: argparse.Namespace) -> dict[str, Any]:
    """Which of a policy's unseen items each way has right: of those that the judge has judged, or of all."""
    path = settings.folder / f"{name}.jsonl"
    judgments = read_judgments(path).judgments if path.exists() else {}
    unseen, taught = feedback(name, "unseen", settings.unseen), feedback(name, "teaching", settings.taught)
    cases = [row for row in unseen if row.id in judgments and judgments[row.id].value is not None] or unseen
    judged = [(judgments[case.id], case.value) for case in cases if case.id in judgments]
    items = [case.example for case in cases if case.example]
    rules = ruled(taught, ValueType.of(bool))
    labelled = [(row.example, row.value) for row in taught if row.example and row.value is not None]
    words = BASELINES["words"](labelled, items)
    return {
        "policy": name,
        "kind": policy(name).kind + ("" if policy(name).literal else ", no literal"),
        "groups": [f"{name} {case.meta['group']}" for case in cases],
        "own verdict": [(one.value if one.own_value is None else one.own_value) == label for one, label in judged],
        "delivered": [judgment.value == label for judgment, label in judged],
        "by the calibrator": [judgment.decided_by == "calibrator" for judgment, _ in judged],
        "mined alone": [rules(item) == case.value for item, case in zip(items, cases, strict=True)] if rules else [],
        "words alone": [verdict == case.value for verdict, case in zip(words, cases, strict=True)],
    }


def line(name: str, kind: str, rows: Sequence[dict[str, Any]]) -> str:
    """One line of the table: shares of the cases over all of these rows, and of how many where it is not all."""
    cells = [name, kind, str(sum(len(row["groups"]) for row in rows))]
    for column in COLUMNS:
        taken = [row for row in rows if row[column]]
        right, groups = ([part for row in taken for part in row[key]] for key in (column, "groups"))
        part = f" of {len(taken)}" if 0 < len(taken) < len(rows) else ""
        cells.append(f"{share(right, groups):.2f}{part}" if taken else "-")
    return f"| {' | '.join(cells)} |"


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows and their sums as a Markdown table; a way that was not taken has a hyphen."""
    titles = ("policy", "kind", "n", *COLUMNS)
    yield from (f"| {' | '.join(titles)} |", "|---" * len(titles) + "|")
    yield from (line(row["policy"], row["kind"], [row]) for row in rows)
    without = [row for row in rows if "no literal" in row["kind"]]
    sums = {"the eight with literals": [row for row in rows if row not in without], "the four without": without}
    yield from (line(name, "", group) for name, group in {**sums, "all": rows}.items() if group)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--reflection-model")
    parser.add_argument("--taught", type=int, default=20)
    parser.add_argument("--unseen", type=int, default=60)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--table-only", action="store_true", help="judge nothing, print what is there")
    settings = parser.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    for name in settings.policies if not settings.table_only else ():
        run(name, settings)
    print(*table([verdicts(name, settings) for name in settings.policies]), sep="\n")


if __name__ == "__main__":
    main()
