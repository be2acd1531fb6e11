"""Is an expert's rule taken up? Twelve invented policies, twenty comments each, and unseen items that the rule decides.

    python benchmarks/house_rules.py FOLDER [--model local:qwen2.5-coder-1.5b] [--unseen 60]

Each policy's judge is kept in `FOLDER/registry.db`, its judgments with findings and both verdicts in
`FOLDER/POLICY.jsonl`, its guidelines and checks in `FOLDER/POLICY.guidelines.json`. A run that was stopped goes on
where it was. Beside the judge stand the rule that code mines from the same comments, without a model, and a naive Bayes
of words.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from policies import POLICIES, feedback, policy

import memalign as ma
from memalign.align.learned_tests import mined
from memalign.judge.code_tests import holds
from memalign.memory import Annotation, Case, Memory
from memalign.metrics import wilson_interval
from memalign.types import Guideline, as_json
from memalign.values import ValueType

FIELDS = ("inputs", "outputs")


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--reflection-model")
    parser.add_argument("--taught", type=int, default=20)
    parser.add_argument("--unseen", type=int, default=60)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--table-only", action="store_true", help="judge nothing, print what is there")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not chosen.table_only:
        for name in chosen.policies:
            run(name, chosen)
    print(table([row(name, chosen) for name in chosen.policies]))


def run(name: str, chosen: argparse.Namespace) -> None:
    """Align the policy's judge and judge the unseen items, as far as that is not done."""
    registry = ma.Registry(f"sqlite:///{chosen.folder / 'registry.db'}")
    if name in {entry.name for entry in registry.list()}:
        judge = registry.load(name)
    else:
        blank = ma.Judge(
            name=name,
            feedback_value_type=bool,
            model=chosen.model,
            instructions=f"{policy(name).criterion}\n\nInputs: {{{{ inputs }}}}\nOutputs: {{{{ outputs }}}}",
        )
        optimizer = ma.MemAlign(reflection_model=chosen.reflection_model)
        result = blank.align(feedback(name, "teaching", chosen.taught), optimizer=optimizer)
        judge = result.judge
        learned = {"guidelines": judge.memory.guidelines, "usage": result.usage, "notes": result.notes}
        text = json.dumps(as_json(learned), ensure_ascii=False, indent=1)
        chosen.folder.joinpath(f"{name}.guidelines.json").write_text(text, "utf-8")
        registry.save(judge)
    items = [row.example for row in feedback(name, "unseen", chosen.unseen) if row.example]
    judge.judge_many(items, out=chosen.folder / f"{name}.jsonl")


def row(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """What the table says of a policy: how many of the unseen items each way has right."""
    labels = {case.id: case for case in feedback(name, "unseen", chosen.unseen)}
    path = chosen.folder / f"{name}.jsonl"
    judged = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    answers = {answer["id"]: answer for answer in judged if answer.get("value") is not None and answer["id"] in labels}
    unseen = [labels[key] for key in answers] or list(labels.values())
    taught = feedback(name, "teaching", chosen.taught)
    rules = mined(memory(taught), ValueType.of(bool), FIELDS)
    words = naive_bayes(taught)

    def own(answer: dict[str, Any]) -> Any:
        return answer["value"] if answer.get("own_value") is None else answer["own_value"]

    return {
        "policy": name,
        "kind": policy(name).kind + ("" if policy(name).literal else ", no literal"),
        "n": len(unseen),
        "judged": len(answers),
        "own": sum(own(answer) == labels[key].value for key, answer in answers.items()),
        "delivered": sum(answer["value"] == labels[key].value for key, answer in answers.items()),
        "calibrator": sum(answer.get("decided_by") == "calibrator" for answer in answers.values()),
        "mined": sum(by_rules(rules, case) == case.value for case in unseen) if rules else None,
        "words": sum(words(case) == case.value for case in unseen),
    }


def memory(rows: Iterable[ma.Feedback]) -> Memory:
    """The rows as a memory in which nothing was distilled."""
    cases = (Case(example=row.example, annotations=(Annotation.of(row),)) for row in rows if row.example)
    return Memory(cases=tuple(sorted(cases, key=lambda case: case.id)))


def by_rules(rules: Sequence[Guideline], case: ma.Feedback) -> Any:
    """What the mined guidelines mean for a case; None where none of them fires."""
    for rule in rules:
        if all(check.test and holds(check.test, case.content) == (check.answer == "yes") for check in rule.checks):
            return rule.checks[0].value
    return None


def naive_bayes(taught: Sequence[ma.Feedback]) -> Any:
    """A classifier by the words of items, with add-one smoothing: what labels tell without any reading."""
    counts = {label: Counter[str]() for label in (True, False)}
    for case in taught:
        counts[bool(case.value)].update(words_of(case))
    vocabulary = counts[True] | counts[False]

    def likelihood(case: ma.Feedback, label: bool) -> float:
        total = counts[label].total() + len(vocabulary)
        return sum(math.log((counts[label][word] + 1) / total) for word in words_of(case) if word in vocabulary)

    return lambda case: likelihood(case, True) > likelihood(case, False)


def words_of(case: ma.Feedback) -> list[str]:
    """The words of an item, each with its field."""
    return [f"{field}:{word}" for field in FIELDS for word in re.findall(r"\w+", str(case.content.get(field)).lower())]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows and their sums as a Markdown table; a way that was not taken has a hyphen."""
    titles = ("policy", "kind", "n", "own verdict", "delivered", "by the calibrator", "mined alone", "words alone")
    lines = [" | ".join(titles), " | ".join("---" for _ in titles)]
    groups = [
        ("the eight with literals", [row for row in rows if "no literal" not in row["kind"]]),
        ("the four without", [row for row in rows if "no literal" in row["kind"]]),
        ("all", list(rows)),
    ]
    for row in rows:
        lines.append(" | ".join(cells(row["policy"], row["kind"], [row])))
    lines += [" | ".join(cells(name, "", group)) for name, group in groups if group]
    return "\n".join(f"| {line} |" for line in lines)


def cells(name: str, kind: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """One line of the table: shares of the cases, over all of these rows."""
    n, judged = sum(row["n"] for row in rows), sum(row["judged"] for row in rows)

    def share(column: str, total: int) -> str:
        return f"{sum(row[column] or 0 for row in rows) / total:.2f}" if total else "-"

    interval = wilson_interval(sum(row["delivered"] for row in rows), judged) if judged else None
    bounds = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
    mined = [row for row in rows if row["mined"] is not None]
    return [
        name,
        kind,
        str(n),
        share("own", judged),
        share("delivered", judged) + bounds,
        share("calibrator", judged),
        f"{sum(row['mined'] for row in mined) / sum(row['n'] for row in mined):.2f} of {len(mined)}" if mined else "-",
        share("words", n),
    ]


if __name__ == "__main__":
    main()
