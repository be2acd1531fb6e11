"""The limits of a run: what it may cost, one run after the other, and how many calls it may have in flight."""

from __future__ import annotations

import math

from memalign.errors import InputError

__all__ = ["SpendLimit", "SpendRun", "check_concurrency"]


def check_concurrency(concurrency: int | None) -> None:
    """Raise InputError for what is no number of calls in flight; None is as many as suit the model."""
    if concurrency is None:
        return
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InputError(f"concurrency must be 1 or more, a whole number, not {concurrency!r}")


class SpendLimit:
    """Dollars that one or several runs may spend together. Raises InputError where `most` is no amount above 0.

    `reached` says that one more call would have passed it.
    """

    def __init__(self, most: float) -> None:
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < math.inf:
            raise InputError(f"max_cost is a number of dollars above 0, not {most!r}")
        self.most = most
        self.spent = 0.0
        self.reached = False
        self._runs: list[SpendRun] = []

    def start_run(self) -> SpendRun:
        """Calls of another kind or judge, which may cost more or less."""
        self._runs.append(SpendRun(self))
        return self._runs[-1]

    @property
    def dearest(self) -> float:
        """What a call costs in the dearest run so far; 0.0 before the first answer."""
        return max((run.price for run in self._runs if run.price_known), default=0.0)

    @property
    def reserved(self) -> float:
        """What the calls in flight are expected to cost."""
        return sum(run.in_flight * run.price for run in self._runs if run.in_flight)


class SpendRun:
    """The calls of one run. A call is expected to cost the mean of its run; the first, as much as in the dearest run.

    Where calls differ in length, each has a `size` and the mean is that of a unit of it.
    """

    def __init__(self, limit: SpendLimit) -> None:
        self.limit = limit
        self.in_flight = 0.0
        self._answered = self._cost = 0.0

    @property
    def price_known(self) -> bool:
        """Whether this run has an answer, so that it is known what one costs."""
        return self._answered > 0

    @property
    def price(self) -> float:
        """What a call, or a unit of its size, is expected to cost."""
        return self._cost / self._answered if self.price_known else self.limit.dearest

    def room(self, size: float = 1.0) -> bool:
        """Whether one more call may be made."""
        limit = self.limit
        limit.reached = limit.reached or limit.spent + limit.reserved + size * self.price > limit.most
        return not limit.reached

    def begin(self, size: float = 1.0) -> None:
        """A call goes out."""
        self.in_flight += size

    def end(self, cost: float, *, answered: bool, size: float = 1.0) -> None:
        """A call came back, `answered` by a model, or failed for free, which says nothing of what the next one costs."""
        self.in_flight -= size
        self._answered += size * answered
        self._cost += cost
        self.limit.spent += cost
