"""Is an expert's rule taken up? Twelve invented policies with twenty comments each.

    python benchmarks/house_rules.py OUT [--model local:qwen2.5-coder-1.5b] [--unseen 60]

A page of `house_rules/` has pools of sentences, of which items are put together, and cells: the
combinations of what the rule looks at, with their label and comments. Nothing but the rule tells
the labels apart: both are dealt the same topics, openings and numbers, in an order of its own.
Teaching and unseen items have pools of their own. `OUT` keeps the judges (`registry.db`) and their
judgments (`POLICY.jsonl`); the same command completes a run that was stopped. Beside the judge are
rules that code mines from the same comments, and a naive Bayes of words. Intervals are by topic.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from baselines import BASELINES, ruled
from shared import (
    Line,
    aligned,
    judge_of,
    judged_values,
    markdown,
    parser_of,
    share,
)

import memalign as ma
from memalign.values import ValueType

COLUMNS = ("delivered", "mined alone", "words alone")
PAGES = Path(__file__).with_name("house_rules")
POLICIES = tuple(sorted(page.stem for page in PAGES.glob("*.toml")))
TAUGHT = 20
FIELDS = "\n\nInputs: {{ inputs }}\nOutputs: {{ outputs }}"
MOST = {"teaching": 20, "unseen": 60}
"""How many items of a policy there are; fewer are the first of them."""

Part = Literal["teaching", "unseen"]
Asked = tuple[str, bool]
"""A pool, and the label of the item that asks for one of its entries."""
Pool = list[Any] | dict[Literal["from", "to"], int]


def policy(name: str) -> Line:
    """Return the page of that name."""
    return tomllib.loads(PAGES.joinpath(f"{name}.toml").read_text("utf-8"))


def feedback(name: str, part: Part, n: int) -> list[ma.Feedback]:
    """Return a policy's first items, with labels and comments.

    Args:
        name: The policy.
        part: Which of its items.
        n: How many; any even number of them has both labels equally often.
    """
    page = policy(name)
    rng = random.Random(f"{name}:{part}:0")
    cells = cells_in_turn(page["cells"], MOST[part])
    pools = pools_of(page, part)
    items = items_by_cell(page, cells, pools, rng)
    rows = []
    for number, cell in enumerate(mixed(cells, rng), 1):
        item = items[cell["name"]].pop()
        row = ma.Feedback(id=f"{name}-{part[0]}{number:02d}", **item)
        rows.append(row)
    return rows[:n]


def pools_of(page: Line, part: Part) -> dict[str, Pool]:
    """Return the pools of a part, with each cell's comments as one more pool."""
    pools: dict[str, Pool] = page.get("pools", {}) | page[part]
    for cell in page["cells"]:
        pools[comments_of(cell)] = cell["comments"]
    return pools


def comments_of(cell: Line) -> str:
    """Return the name of the pool of a cell's comments."""
    return f"comments: {cell['name']}"


def cells_in_turn(cells: Sequence[Line], n: int) -> list[Line]:
    """Return the cells of `n` items: labels alternate, and each label takes its cells in turn."""
    holding, broken = by_label(cells)
    chosen = []
    for place in range(n // 2):
        chosen.append(holding[place % len(holding)])
        chosen.append(broken[place % len(broken)])
    return chosen


def by_label(cells: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Part the cells in which the rule holds from those in which it is broken."""
    holding: list[Line] = []
    broken: list[Line] = []
    for cell in cells:
        side = holding if cell["holds"] else broken
        side.append(cell)
    return holding, broken


def mixed(cells: Sequence[Line], rng: random.Random) -> Iterator[Line]:
    """Yield the cells of every four items in a random order, each two with both labels."""
    for start in range(0, len(cells), 4):
        four = cells[start : start + 4]
        holding, broken = by_label(four)
        rng.shuffle(holding)
        rng.shuffle(broken)
        for pair in zip(holding, broken, strict=True):
            yield from rng.sample(pair, 2)


def items_by_cell(
    page: Line, cells: Sequence[Line], pools: Mapping[str, Pool], rng: random.Random
) -> dict[str, list[Line]]:
    """Put an item together for each of the cells.

    Which entries an item needs is known only when its texts are filled. So all items are made
    twice: of samples, to count what each label asks for, and then of what was dealt to it.
    """
    asked: Counter[Asked] = Counter()

    def sampled(name: str, label: bool) -> Any:
        asked[name, label] += 1
        entries = shuffled(pools[name], rng)
        return entries[0]

    for cell in cells:
        slots = Slots(cell, sampled)
        item_of(page, slots)
    hands = dealt(pools, asked, rng)

    def from_hand(name: str, label: bool) -> Any:
        return hands[name, label].pop()

    items: dict[str, list[Line]] = {}
    for cell in cells:
        slots = Slots(cell, from_hand)
        item = item_of(page, slots)
        items.setdefault(cell["name"], []).append(item)
    return items


def dealt(
    pools: Mapping[str, Pool], asked: Mapping[Asked, int], rng: random.Random
) -> dict[Asked, list[Any]]:
    """Deal each label as many entries of every pool as it asks for.

    Both labels get the same entries, each in an order of its own, and every entry once before any
    is dealt again.
    """
    hands = {}
    for name, pool in pools.items():
        counts = {label: asked[name, label] for label in (True, False)}
        most = max(counts.values())
        entries: list[Any] = []
        while len(entries) < most:
            entries += shuffled(pool, rng)
        for label, count in counts.items():
            same = entries[:count]
            hands[name, label] = rng.sample(same, count)
    return hands


def shuffled(pool: Pool, rng: random.Random) -> list[Any]:
    """Return every entry of a pool in a random order, or one number of a range."""
    if isinstance(pool, dict):
        return [str(rng.randint(pool["from"], pool["to"]))]
    return rng.sample(pool, len(pool))


class Slots(dict[str, Any]):
    """One item's slots, each filled when a text first asks for it."""

    def __init__(self, cell: Line, draw: Any) -> None:
        super().__init__()
        self.cell = cell
        self.draw = draw

    def __missing__(self, name: str) -> Any:
        text = self.cell["slots"].get(name) or self.draw(name, self.cell["holds"])
        self[name] = self.fill(text)
        return self[name]

    def fill(self, text: Any) -> Any:
        """Return a text with every slot filled; of an entry with parts, each part."""
        if isinstance(text, str):
            return text.format_map(self)
        return {part: self.fill(text[part]) for part in text}


def item_of(page: Line, slots: Slots) -> Line:
    """Return the item of a cell, with its label and comment."""
    item: Line = {}
    for name, text in page["fields"].items():
        item[name] = slots.fill(text)
    topic = slots[page["topic"]]
    if not isinstance(topic, str):
        topic = next(iter(topic.values()))
    comment = comments_of(slots.cell)
    return item | {
        "value": slots.cell["holds"],
        "rationale": slots[comment],
        "source": page["expert"],
        "meta": {"group": topic},
    }


def run(name: str, settings: argparse.Namespace) -> None:
    """Align the policy's judge and judge the unseen items, as far as that is not done."""
    instructions = policy(name)["criterion"] + FIELDS
    untaught = judge_of(name, instructions, settings.model)
    taught = feedback(name, "teaching", TAUGHT)
    database = settings.folder / "registry.db"
    judge = aligned(untaught, taught, database)
    unseen = feedback(name, "unseen", settings.unseen)
    out = settings.folder / f"{name}.jsonl"
    judge.judge_many(examples_of(unseen), out=out)


def examples_of(rows: Sequence[ma.Feedback]) -> list[ma.Example]:
    """Return what was judged in each row."""
    return [row.example for row in rows if row.example is not None]


def verdicts(name: str, settings: argparse.Namespace) -> Line:
    """Return which unseen items each way has right: of those that are judged, or of all."""
    cases = feedback(name, "unseen", settings.unseen)
    values = judged_values(settings.folder / f"{name}.jsonl")
    if values:
        cases = [row for row in cases if row.id in values]
    page = policy(name)
    kind = page["kind"]
    if not page.get("literal", True):
        kind += ", no literal"
    groups = [f"{name} {case.meta['group']}" for case in cases]
    found: Line = {"policy": name, "kind": kind, "groups": groups}
    if values:
        given = [values[case.id] for case in cases]
        found["delivered"] = right(given, cases)
    taught = feedback(name, "teaching", TAUGHT)
    items = examples_of(cases)
    rules = ruled(taught, ValueType.of(bool))
    if rules is not None:
        found["mined alone"] = right(map(rules, items), cases)
    labelled: list[Any] = [(row.example, row.value) for row in taught]
    words = BASELINES["words"](labelled, items)
    found["words alone"] = right(words, cases)
    return found


def right(values: Iterable[Any], cases: Sequence[ma.Feedback]) -> list[bool]:
    """Return whether each verdict is the label."""
    pairs = zip(values, cases, strict=True)
    return [value == case.value for value, case in pairs]


def line(name: str, kind: str, rows: Sequence[Line]) -> list[object]:
    """Return a line of the table: the shares over all items of these policies.

    A way that was not taken has a hyphen; one that some policies have says how many.
    """
    n = sum(len(row["groups"]) for row in rows)
    cells: list[object] = [name, kind, n]
    for column in COLUMNS:
        taken = [row for row in rows if column in row]
        verdicts: list[bool] = []
        groups: list[str] = []
        for row in taken:
            verdicts += row[column]
            groups += row["groups"]
        cell = "-"
        if taken:
            cell = f"{share(verdicts, groups):.2f}"
        if 0 < len(taken) < len(rows):
            cell += f" of {len(taken)}"
        cells.append(cell)
    return cells


def main() -> None:
    """Run what is missing, and print the table."""
    options = parser_of(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    options.add_argument("--unseen", type=int, default=60)
    options.add_argument(
        "--policies", nargs="+", default=list(POLICIES), choices=POLICIES
    )
    options.add_argument(
        "--table", action="store_true", help="judge nothing, print what is there"
    )
    settings = options.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    if not settings.table:
        for name in settings.policies:
            run(name, settings)
    rows = [verdicts(name, settings) for name in settings.policies]
    lines = [line(row["policy"], row["kind"], [row]) for row in rows]
    lines.append(line("all", "", rows))
    print(markdown(("policy", "kind", "n", *COLUMNS), lines))


if __name__ == "__main__":
    main()
