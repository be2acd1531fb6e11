"""A memory in a line, and as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign.notebook import card, table

if TYPE_CHECKING:
    from memalign.memory.model import Memory

__all__ = ["memory_card", "memory_words"]


def memory_words(memory: Memory) -> str:
    """`12 guidelines in force, 3 not, 40 cases, 2 pieces of feedback pending`."""
    away = len(memory.guidelines) - len(memory.semantic)
    waiting = len(memory.pending)
    counts = [
        f"{_counted(len(memory.semantic), 'guideline')} in force" + (f", {away} not" if away else ""),
        _counted(len(memory.cases), "case"),
    ]
    if waiting:
        counts.append(f"{_counted(waiting, 'piece')} of feedback pending")
    return ", ".join(counts)


def memory_card(memory: Memory) -> str:
    """The guidelines in force with the feedback behind them."""
    rows = [
        (guideline.id, guideline.text, ", ".join(map(str, memory.sources_of(guideline)[:5])))
        for guideline in memory.semantic
    ]
    guidelines = table(("id", "guideline", "from"), rows, title="Guidelines in force")
    return card("Memory", memory_words(memory), guidelines)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
