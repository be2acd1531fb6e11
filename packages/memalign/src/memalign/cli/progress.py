"""How far a run has come, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from memalign.cli.output import listed, open_console, show, top

Progress = Callable[[str, int, int], None]
"""Called with the phase, how much of it is done, and the total, which is 0 if it is not known."""


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show on stderr how far a run has come: as it goes on a terminal, at its end elsewhere."""
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=open_console(stderr=True)) as drawn:
        tasks: dict[str, Any] = {}

        def update(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = drawn.add_task(phase, total=total or None)
            drawn.update(tasks[phase], completed=done, total=total or None)

        yield update


def say_by_reason(word: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Say of ids why they failed, each reason once: a server that is down gives all the same.

    Args:
        word: What the lines begin with, such as `failed`.
        pairs: Ids with their reasons.
    """
    ids: dict[str, list[str]] = {}
    for example_id, reason in pairs:
        ids.setdefault(reason, []).append(example_id)
    commonest_first = sorted(ids.items(), key=lambda entry: -len(entry[1]))
    lines = [
        f"{word}: {listed(names, 5)}: {reason}" for reason, names in commonest_first
    ]
    show(*top(lines, rest="the output has all"), stderr=True)
