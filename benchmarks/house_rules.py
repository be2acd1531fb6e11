"""Is an expert's rule taken up? Twelve invented policies, twenty comments each, and unseen items that the rule decides.

    python benchmarks/house_rules.py OUT [--model local:qwen2.5-coder-1.5b] [--unseen 60]

A page of `house_rules/` has pools of sentences, of which an item is put together, and cells: the combinations of what
the rule looks at, with their label and comments. Nothing but the rule tells the labels apart: both are dealt the same
topics, openings and numbers, in an order of its own. Teaching and unseen items have pools of their own. `OUT` keeps the
judges (`registry.db`) and their judgments (`POLICY.jsonl`); the same command completes a run that
was stopped. Beside the judge are rules that code mines from the same comments, and a naive Bayes of words. Intervals
are by topic.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from baselines import BASELINES, ruled
from shared import Line, aligned, judge_of, markdown, share

import memalign as ma
from memalign.io import read_judgments
from memalign.values import ValueType

COLUMNS = ("delivered", "mined alone", "words alone")
PAGES = Path(__file__).with_name("house_rules")
POLICIES = tuple(sorted(page.stem for page in PAGES.glob("*.toml")))

Pool = list[Any] | dict[Literal["from", "to"], int]


def policy(name: str) -> Line:
    """The page of that name."""
    return tomllib.loads(PAGES.joinpath(f"{name}.toml").read_text("utf-8"))


def feedback(name: str, part: Literal["teaching", "unseen"], n: int) -> list[ma.Feedback]:
    """The first `n` of a policy's items, with label and comment; any even number has both labels alike."""
    page, rng = policy(name), random.Random(f"{name}:{part}:0")
    comments = {f"comments: {cell['name']}": cell["comments"] for cell in page["cells"]}
    dealer = _Dealer(page.get("pools", {}) | page[part] | comments, rng)
    cells = _cells(page["cells"], 20 if part == "teaching" else 60)
    for cell in cells:
        _item(page, cell, dealer)  # counts what each label will ask for
    dealer.deal()
    items: dict[str, list[Line]] = {cell["name"]: [] for cell in cells}
    for cell in cells:
        items[cell["name"]].append(_item(page, cell, dealer))
    order = enumerate(_mixed(cells, rng), 1)
    return [
        ma.Feedback(id=f"{name}-{part[0]}{number:02d}", **items[cell["name"]].pop())
        for number, cell in order
    ][:n]


class _Dealer:
    """What the pools give to items: both labels are dealt the same entries, each in an order of its own."""

    def __init__(self, pools: Mapping[str, Pool], rng: random.Random) -> None:
        self._pools, self._rng = pools, rng
        self._asked = Counter[tuple[str, bool]]()
        self._dealt: dict[tuple[str, bool], list[Any]] = {}

    def next(self, name: str, *, label: bool) -> Any:
        """The next entry of a pool for an item of that label; until all is dealt, only counted."""
        if self._dealt:
            return self._dealt[name, label].pop()
        self._asked[name, label] += 1
        return self._once(name)[0]

    def deal(self) -> None:
        """Give each label as much of every pool as it has asked for: every entry once before any again."""
        for name in self._pools:
            counts = {label: self._asked[name, label] for label in (True, False)}
            entries: list[Any] = []
            while len(entries) < max(counts.values()):
                entries += self._once(name)
            self._dealt |= {
                (name, label): self._rng.sample(entries[:n], n) for label, n in counts.items()
            }

    def _once(self, name: str) -> list[Any]:
        pool = self._pools[name]
        if isinstance(pool, dict):
            return [str(self._rng.randint(pool["from"], pool["to"]))]
        return self._rng.sample(pool, len(pool))


class _Slots(dict[str, Any]):
    """One item's slots, each filled when a text first asks for it."""

    def __init__(self, cell: Line, dealer: _Dealer) -> None:
        super().__init__()
        self._cell, self._dealer = cell, dealer

    def __missing__(self, name: str) -> Any:
        drawn = self._cell["slots"].get(name) or self._dealer.next(name, label=self._cell["holds"])
        self[name] = self.fill(drawn)
        return self[name]

    def fill(self, text: Any) -> Any:
        """A text with every slot filled, or each part of an entry with parts."""
        return (
            text.format_map(self)
            if isinstance(text, str)
            else {part: self.fill(text[part]) for part in text}
        )


def _item(page: Line, cell: Line, dealer: _Dealer) -> Line:
    slots = _Slots(cell, dealer)
    fields = {name: slots.fill(field) for name, field in page["fields"].items()}
    topic = slots[page["topic"]]
    rationale = slots[f"comments: {cell['name']}"]
    group = topic if isinstance(topic, str) else next(iter(topic.values()))
    return fields | {
        "value": cell["holds"],
        "rationale": rationale,
        "source": page["expert"],
        "meta": {"group": group},
    }


def _cells(cells: Sequence[Line], n: int) -> list[Line]:
    """The cells of `n` items: one that holds and one that is broken in turn, and of each label all cells in turn."""
    holding, broken = (
        [cell for cell in cells if cell["holds"] is holds] for holds in (True, False)
    )
    return [
        cell
        for place in range(n // 2)
        for cell in (holding[place % len(holding)], broken[place % len(broken)])
    ]


def _mixed(cells: Sequence[Line], rng: random.Random) -> list[Line]:
    """The same cells with each pair's two labels, and each two pairs' four cells, in a random order."""
    order = list[Line]()
    for start in range(0, len(cells), 4):
        labels = [
            [cell for cell in cells[start : start + 4] if cell["holds"] is holds]
            for holds in (True, False)
        ]
        for group in labels:
            rng.shuffle(group)
        for pair in zip(*labels, strict=True):
            order += rng.sample(pair, 2)
    return order


def run(name: str, settings: argparse.Namespace) -> None:
    """Align the policy's judge and judge the unseen items, as far as that is not done."""
    instructions = (
        f"{policy(name)['criterion']}\n\nInputs: {{{{ inputs }}}}\nOutputs: {{{{ outputs }}}}"
    )
    judge = judge_of(name, instructions, settings.model)
    judge = aligned(
        judge, feedback(name, "teaching", settings.taught), settings.folder / "registry.db"
    )
    items = [row.example for row in feedback(name, "unseen", settings.unseen) if row.example]
    judge.judge_many(items, out=settings.folder / f"{name}.jsonl")


def verdicts(name: str, settings: argparse.Namespace) -> Line:
    """Which of a policy's unseen items each way has right: of those that the judge has judged, or of all."""
    path = settings.folder / f"{name}.jsonl"
    judgments = read_judgments(path).judgments if path.exists() else {}
    unseen, taught = (
        feedback(name, "unseen", settings.unseen),
        feedback(name, "teaching", settings.taught),
    )
    cases = [
        row for row in unseen if row.id in judgments and judgments[row.id].value is not None
    ] or unseen
    judged = [(judgments[case.id], case.value) for case in cases if case.id in judgments]
    items = [case.example for case in cases if case.example]
    rules = ruled(taught, ValueType.of(bool))
    labelled = [(row.example, row.value) for row in taught if row.example and row.value is not None]
    words = BASELINES["words"](labelled, items)
    return {
        "policy": name,
        "kind": policy(name)["kind"]
        + ("" if policy(name).get("literal", True) else ", no literal"),
        "groups": [f"{name} {case.meta['group']}" for case in cases],
        "delivered": [judgment.value == label for judgment, label in judged],
        "mined alone": [rules(item) == case.value for item, case in zip(items, cases, strict=True)]
        if rules
        else [],
        "words alone": [verdict == case.value for verdict, case in zip(words, cases, strict=True)],
    }


def line(name: str, kind: str, rows: Sequence[Line]) -> list[object]:
    """Shares of the cases over all of these rows, and of how many rows where it is not all of them."""
    cells: list[object] = [name, kind, sum(len(row["groups"]) for row in rows)]
    for column in COLUMNS:
        taken = [row for row in rows if row[column]]
        right, groups = ([part for row in taken for part in row[key]] for key in (column, "groups"))
        part = f" of {len(taken)}" if 0 < len(taken) < len(rows) else ""
        cells.append(f"{share(right, groups):.2f}{part}" if taken else "-")
    return cells


def table(rows: Sequence[Line]) -> str:
    """The policies and all of them; a way that was not taken has a hyphen."""
    lines = [*(line(row["policy"], row["kind"], [row]) for row in rows), line("all", "", rows)]
    return markdown(("policy", "kind", "n", *COLUMNS), lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    options.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    options.add_argument("--taught", type=int, default=20)
    options.add_argument("--unseen", type=int, default=60)
    options.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    options.add_argument("--table", action="store_true", help="judge nothing, print what is there")
    settings = options.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    for name in settings.policies if not settings.table else ():
        run(name, settings)
    print(table([verdicts(name, settings) for name in settings.policies]))


if __name__ == "__main__":
    main()
