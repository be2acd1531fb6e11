"""What a run over many items has come to: how fast, at what cost, how long still, and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memalign.types import Usage

if TYPE_CHECKING:
    from memalign.types import Judgment

__all__ = ["RunProgress"]

_NAMED = 5  # ids of a reason for failures
_REASONS = 20
_NOTES = 20
_KEPT = 1_000  # failures that --json lists


class RunProgress:
    """Counts judgments as they come (`note`), and says how it goes (`text`). However many there are, it stays small."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = 0.0  # when the first judgment came: before it a library is loaded
        self.judged = 0
        self.failed = 0
        self.usage = Usage()
        self.failures: list[tuple[str, str]] = []
        """Id and reason of the first failures."""
        self.notes: list[tuple[str, str]] = []
        """Id and text of the first notes."""
        self.noted = 0
        self._reasons: dict[str, tuple[int, list[str]]] = {}

    def note(self, example_id: str, judgment: Judgment) -> None:
        """Count a judgment of this run."""
        self._first = self._first if self.judged else self._clock()
        self.judged += 1
        self.usage += judgment.usage
        for text in judgment.notes:
            self.noted += 1
            if len(self.notes) < _NOTES:
                self.notes.append((example_id, text))
        if judgment.error is None:
            return
        self.failed += 1
        if len(self.failures) < _KEPT:
            self.failures.append((example_id, judgment.error))
        # A reason may name its item: of a hundred thousand reasons, a few are enough.
        reason = judgment.error if judgment.error in self._reasons or len(self._reasons) < _REASONS else "other reasons"
        count, ids = self._reasons.get(reason, (0, []))
        self._reasons[reason] = (count + 1, [*ids, example_id] if count < _NAMED else ids)

    def reasons(self) -> list[str]:
        """A line for each reason of failures, the most frequent first."""
        lines = []
        for reason, (count, ids) in sorted(self._reasons.items(), key=lambda pair: -pair[1][0]):
            more = f", … {count - _NAMED} more" if count > _NAMED else ""
            lines.append(f"failed: {', '.join(ids)}{more}: {reason}")
        return lines

    def text(self, done: int, total: int) -> str:
        """`61 a second, $0.42, 26 min left`; nothing before the second judgment."""
        seconds = self._clock() - self._first
        if self.judged < 2 or seconds <= 0:
            return ""
        rate = (self.judged - 1) / seconds
        speed = f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second" if rate >= 1 else _each(1 / rate)
        cost = [] if not self.usage.cost else [f"${self.usage.cost:.2f}"]
        left = [f"{_duration((total - done) / rate)} left"] if total > done else []
        return ", ".join([speed, *cost, *left])


def _each(seconds: float) -> str:
    return f"{_duration(seconds)} each"


def _duration(seconds: float) -> str:
    """`40 s`, `26 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
