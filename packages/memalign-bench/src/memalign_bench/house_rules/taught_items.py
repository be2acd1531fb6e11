"""Items of a house rule, drawn from its page: twenty that teach, sixty unseen, with the expert's remark on each.

Nothing but the rule tells the labels apart. Both labels are dealt the same topics, openings, numbers and the like, each
in an order of its own; and where a rule has a condition or an exception, all four combinations are as frequent, so that
neither half of the rule decides anything alone. Teaching and unseen items have pools of their own.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from memalign.errors import InputError
from memalign.types import Feedback
from memalign_bench.house_rules.policies import POLICIES, Cell, Entry, Policy, Pool, Range, load_policy
from memalign_bench.tasks import Task, cases_of

__all__ = ["TAUGHT", "UNSEEN", "house_rule_rows", "house_rule_tasks", "write_house_rules"]

TAUGHT, UNSEEN = 20, 60
LICENCE = "Apache-2.0"
CATEGORIES = {
    "plain": "plain rules",
    "condition": "rules with a condition",
    "exception": "rules with an exception",
    "order": "rules about order",
}

Side = Literal["teaching", "unseen"]


def house_rule_rows(name: str, *, seed: int = 0) -> tuple[Feedback, ...]:
    """The feedback on one house rule's items: the 20 that teach, then the 60 unseen, the same for a `seed` anywhere.

    Labels alternate in pairs, so that every even number of rows from the first on has as many of each. Raises InputError
    for a rule that is not there.
    """
    policy = load_policy(name)
    return (*_rows(policy, "teaching", TAUGHT, seed), *_rows(policy, "unseen", UNSEEN, seed))


def house_rule_tasks(names: Sequence[str] = (), *, seed: int = 0) -> tuple[Task, ...]:
    """The tasks of the house rules called `names`, all without names, in that order; their first 20 cases teach."""
    return tuple(
        Task(
            name=name,
            category=CATEGORIES[load_policy(name).kind],
            criterion=load_policy(name).criterion,
            values="bool",
            cases=cases_of(house_rule_rows(name, seed=seed)),
            in_order=True,
            licence=LICENCE,
        )
        for name in names or POLICIES
    )


def write_house_rules(folder: Path, *, seed: int = 0) -> list[Path]:
    """Write `tasks.toml` and a feedback file for each house rule into `folder`, as `--data` reads them; gives the files.

    Files of these names are overwritten. Raises InputError for a folder that cannot be written.
    """
    tables = [
        f"# {load_policy(name).rule}\n[{name}]\ncategory = {json.dumps(CATEGORIES[load_policy(name).kind])}\n"
        f'criterion = {json.dumps(load_policy(name).criterion)}\nvalues = "bool"\nsplit = "order"\n'
        f"license = {json.dumps(LICENCE)}\n"
        for name in POLICIES
    ]
    texts = {"tasks.toml": "\n".join(tables)}
    for name in POLICIES:
        rows = map(_flat, house_rule_rows(name, seed=seed))
        texts[f"{name}.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}; give another folder with -o") from None
    return [folder / file for file in texts]


def _flat(row: Feedback) -> dict[str, Any]:
    return {
        "id": row.id,
        "inputs": row.inputs,
        "outputs": row.outputs,
        "value": row.value,
        "rationale": row.rationale,
        "source": row.source,
        **row.meta,
    }


class _Hands:
    """What the pools of one side give to items: both labels are dealt the same, each in an order of its own.

    Until `deal`, it only counts what is asked for.
    """

    def __init__(self, pools: dict[str, Pool], rng: random.Random) -> None:
        self._pools = pools
        self._rng = rng
        self._asked: Counter[tuple[str, bool]] = Counter()
        self._hands: dict[tuple[str, bool], list[Entry]] = {}

    def next(self, name: str, *, label: bool) -> Entry:
        """The next entry of a pool for an item of that label."""
        if self._hands:
            return self._hands[name, label].pop()
        self._asked[name, label] += 1
        return self._once(self._pools[name])[0]

    def deal(self) -> None:
        """Give each label as much of every pool as it has asked for: every entry once before any again."""
        for name, pool in self._pools.items():
            asked = {label: self._asked[name, label] for label in (True, False)}
            entries: list[Entry] = []
            while len(entries) < max(asked.values()):
                entries += self._once(pool)
            for label, n in asked.items():
                self._hands[name, label] = self._rng.sample(entries[:n], n)

    def _once(self, pool: Pool) -> list[Entry]:
        if isinstance(pool, Range):
            return [str(self._rng.randint(pool.first, pool.last))]
        return self._rng.sample(pool, len(pool))


class _Slots(dict[str, Any]):
    """One item's slots, each filled once, when a text first asks for it."""

    def __init__(self, cell: Cell, hands: _Hands) -> None:
        super().__init__()
        self._cell = cell
        self._hands = hands

    def __missing__(self, name: str) -> Entry:
        filled: Entry
        if name in self._cell.slots:
            filled = self.fill(self._cell.slots[name])
        else:
            drawn = self._hands.next(name, label=self._cell.holds)
            filled = self.fill(drawn) if isinstance(drawn, str) else drawn
        self[name] = filled
        return filled

    def fill(self, text: str) -> str:
        """`text` with every slot filled."""
        return text.format_map(self)


def _rows(policy: Policy, side: Side, n: int, seed: int) -> Iterator[Feedback]:
    rng = random.Random(f"{policy.name}:{side}:{seed}")
    pools = policy.pools | (policy.teaching if side == "teaching" else policy.unseen)
    hands = _Hands({**pools, **{cell.name: list(cell.comments) for cell in policy.cells}}, rng)
    for cell in _cells(policy, n):
        _item(policy, cell, hands)
    hands.deal()
    made: dict[str, list[dict[str, Any]]] = {cell.name: [] for cell in policy.cells}
    for cell in _cells(policy, n):
        made[cell.name].append(_item(policy, cell, hands))
    for number, cell in enumerate(_mixed(_cells(policy, n), rng), 1):
        yield Feedback(id=f"{policy.name}-{side[0]}{number:02d}", **made[cell.name].pop())


def _item(policy: Policy, cell: Cell, hands: _Hands) -> dict[str, Any]:
    """One item of a cell, as the fields of its feedback."""
    slots = _Slots(cell, hands)
    inputs, outputs = (_filled(policy.fields[field], slots) for field in ("inputs", "outputs"))
    topic = slots[policy.topic]
    return {
        "inputs": inputs,
        "outputs": outputs,
        "value": cell.holds,
        "rationale": slots.fill(str(hands.next(cell.name, label=cell.holds))),
        "source": policy.expert,
        "meta": {"group": topic if isinstance(topic, str) else next(iter(topic.values()))},
    }


def _filled(field: str | dict[str, str], slots: _Slots) -> Any:
    if isinstance(field, str):
        return slots.fill(field)
    return {key: slots.fill(text) for key, text in field.items()}


def _cells(policy: Policy, n: int) -> list[Cell]:
    """The cells of `n` items: a kept one and a broken one in turn, and of each label all cells in turn."""
    kept, broken = ([cell for cell in policy.cells if cell.holds is holds] for holds in (True, False))
    return [
        cell
        for place in range(n // 2)
        for cell in (kept[place % len(kept)], broken[place % len(broken)])
    ]  # fmt: skip


def _mixed(cells: Sequence[Cell], rng: random.Random) -> Iterator[Cell]:
    """The same cells with each pair's two labels, and each two pairs' four cells, in a random order."""
    for start in range(0, len(cells), 4):
        kept = [cell for cell in cells[start : start + 4] if cell.holds]
        broken = [cell for cell in cells[start : start + 4] if not cell.holds]
        rng.shuffle(kept)
        rng.shuffle(broken)
        for pair in zip(kept, broken, strict=True):
            yield from rng.sample(pair, 2)
