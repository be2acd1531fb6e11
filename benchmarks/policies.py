"""Invented house rules, each a page of prose in `house_rules/`, and the items that are dealt from it.

A page has pools of sentences, of which an item is put together, and cells: the combinations of what the rule looks at,
each with its label and an expert's comments on such an item. Nothing but the rule tells the labels apart: both are
dealt the same topics, openings and numbers, each in an order of its own; and where a rule has a condition all
combinations are as frequent, so that neither half of it decides anything alone. Teaching and unseen items have pools of
their own.
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from memalign import Feedback

__all__ = ["POLICIES", "Policy", "feedback", "policy"]

PAGES = Path(__file__).with_name("house_rules")
POLICIES = tuple(sorted(page.stem for page in PAGES.glob("*.toml")))

Entry = str | dict[str, str]
Pool = list[Entry] | dict[Literal["from", "to"], int]


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One combination of what the rule looks at: its label, the slots that make it, the comments on such items."""

    name: str
    holds: bool
    slots: dict[str, str]
    comments: list[Entry]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page. `topic` names the pool that says what an item is about; `literal`: whether words decide the rule."""

    kind: Literal["plain", "condition", "exception", "order"]
    rule: str
    criterion: str
    expert: str
    topic: str
    fields: dict[str, str | dict[str, str]]
    literal: bool = True
    pools: dict[str, Pool] = {}
    teaching: dict[str, Pool]
    unseen: dict[str, Pool]
    cells: list[Cell]


def policy(name: str) -> Policy:
    """The page of that name."""
    return msgspec.convert(tomllib.loads(PAGES.joinpath(f"{name}.toml").read_text("utf-8")), Policy)


def feedback(name: str, part: Literal["teaching", "unseen"], n: int, *, seed: int = 0) -> list[Feedback]:
    """The first `n` of a policy's items, with label and comment; any even number has both labels alike."""
    page, rng = policy(name), random.Random(f"{name}:{part}:{seed}")
    dealer = _Dealer(page.pools | (page.teaching if part == "teaching" else page.unseen), page.cells, rng)
    cells = _cells(page.cells, 20 if part == "teaching" else 60)
    for cell in cells:
        _item(page, cell, dealer)  # counts what each label will ask for
    dealer.deal()
    items: dict[str, list[dict[str, Any]]] = {cell.name: [] for cell in page.cells}
    for cell in cells:
        items[cell.name].append(_item(page, cell, dealer))
    order = enumerate(_mixed(cells, rng), 1)
    return [Feedback(id=f"{name}-{part[0]}{number:02d}", **items[cell.name].pop()) for number, cell in order][:n]


class _Dealer:
    """What the pools give to items: both labels are dealt the same entries, each in an order of its own."""

    def __init__(self, pools: dict[str, Pool], cells: Sequence[Cell], rng: random.Random) -> None:
        self._pools, self._rng = pools | {f"comments: {cell.name}": cell.comments for cell in cells}, rng
        self._asked = Counter[tuple[str, bool]]()
        self._dealt: dict[tuple[str, bool], list[Entry]] = {}

    def next(self, name: str, *, label: bool) -> Entry:
        """The next entry of a pool for an item of that label; until all is dealt, only counted."""
        if self._dealt:
            return self._dealt[name, label].pop()
        self._asked[name, label] += 1
        return self._once(name)[0]

    def deal(self) -> None:
        """Give each label as much of every pool as it has asked for: every entry once before any again."""
        for name in self._pools:
            counts = {label: self._asked[name, label] for label in (True, False)}
            entries: list[Entry] = []
            while len(entries) < max(counts.values()):
                entries += self._once(name)
            self._dealt |= {(name, label): self._rng.sample(entries[:n], n) for label, n in counts.items()}

    def _once(self, name: str) -> list[Entry]:
        pool = self._pools[name]
        if isinstance(pool, dict):
            return [str(self._rng.randint(pool["from"], pool["to"]))]
        return self._rng.sample(pool, len(pool))


class _Slots(dict[str, Any]):
    """One item's slots, each filled when a text first asks for it."""

    def __init__(self, cell: Cell, dealer: _Dealer) -> None:
        super().__init__()
        self._cell, self._dealer = cell, dealer

    def __missing__(self, name: str) -> Any:
        drawn = self._cell.slots.get(name) or self._dealer.next(name, label=self._cell.holds)
        self[name] = self.fill(drawn)
        return self[name]

    def fill(self, text: Any) -> Any:
        """A text with every slot filled; of an entry with parts, the entry."""
        return text.format_map(self) if isinstance(text, str) else text


def _item(page: Policy, cell: Cell, dealer: _Dealer) -> dict[str, Any]:
    slots = _Slots(cell, dealer)
    fields: dict[str, Any] = {
        name: {key: slots.fill(text) for key, text in field.items()} if isinstance(field, dict) else slots.fill(field)
        for name, field in page.fields.items()
    }
    topic = slots[page.topic]
    rationale = slots.fill(dealer.next(f"comments: {cell.name}", label=cell.holds))
    group = topic if isinstance(topic, str) else next(iter(topic.values()))
    return fields | {"value": cell.holds, "rationale": rationale, "source": page.expert, "meta": {"group": group}}


def _cells(cells: Sequence[Cell], n: int) -> list[Cell]:
    """The cells of `n` items: one that holds and one that is broken in turn, and of each label all cells in turn."""
    holding, broken = ([cell for cell in cells if cell.holds is holds] for holds in (True, False))
    return [cell for place in range(n // 2) for cell in (holding[place % len(holding)], broken[place % len(broken)])]


def _mixed(cells: Sequence[Cell], rng: random.Random) -> list[Cell]:
    """The same cells with each pair's two labels, and each two pairs' four cells, in a random order."""
    order = list[Cell]()
    for start in range(0, len(cells), 4):
        labels = [[cell for cell in cells[start : start + 4] if cell.holds is holds] for holds in (True, False)]
        for group in labels:
            rng.shuffle(group)
        for pair in zip(*labels, strict=True):
            order += rng.sample(pair, 2)
    return order
