"""A limit on what runs over many items may cost, one run after the other."""

from __future__ import annotations

import math

from memalign.errors import InputError

__all__ = ["SpendLimit"]


class SpendLimit:
    """Dollars that one or several runs may spend together. Raises InputError where `most` is no amount above 0.

    `reached` says that one more call would have passed it. A call in flight is expected to cost the mean of its run; the
    first of a run, as much as a call of the dearest run before it.
    """

    def __init__(self, most: float) -> None:
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < math.inf:
            raise InputError(f"max_cost is a number of dollars above 0, not {most!r}")
        self.most = most
        self.spent = 0.0
        self.reached = False
        self._expected = self._spent_before = 0.0
        self._answered = self._in_flight = 0

    def start_run(self) -> None:
        """Calls of another judge follow, which may cost more or less."""
        self._expected, self._spent_before = max(self._expected, self._mean), self.spent
        self._answered = self._in_flight = 0

    @property
    def price_known(self) -> bool:
        """Whether this run has an answer, so that it is known what one costs."""
        return self._answered > 0

    @property
    def _mean(self) -> float:
        return (self.spent - self._spent_before) / max(self._answered, 1)

    def room(self) -> bool:
        """Whether one more call may be made."""
        price = self._mean if self.price_known else self._expected
        self.reached = self.reached or self.spent + (self._in_flight + 1) * price > self.most
        return not self.reached

    def begin(self) -> None:
        """A call goes out."""
        self._in_flight += 1

    def end(self, cost: float, *, answered: bool) -> None:
        """A call came back, `answered` by a model, or failed for free, which says nothing of what the next one costs."""
        self._in_flight -= 1
        self._answered += answered
        self.spent += cost
