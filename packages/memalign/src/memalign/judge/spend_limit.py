"""A ceiling of cost, for one run over many items or for several side by side."""

from __future__ import annotations

import asyncio
import math

from memalign.errors import InputError

__all__ = ["RunSpend", "SpendLimit"]


class SpendLimit:
    """Dollars that one or several runs may spend together. Raises InputError where `most` is no amount above 0."""

    def __init__(self, most: float) -> None:
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < math.inf:
            raise InputError(f"max_cost is a number of dollars above 0, not {most!r}")
        self.most = most
        self.reached = False
        """Whether one more call would have passed it: then all runs stop, those of cheaper judges too."""
        self.first = asyncio.Lock()
        """Held by a run while it makes its first call: what that costs must be known before others are made."""
        self._run_spends: list[RunSpend] = []

    @property
    def spent(self) -> float:
        """Dollars, of all calls that came back."""
        return sum(run_spend.spent for run_spend in self._run_spends)

    def run_spend(self) -> RunSpend:
        """What one run under this ceiling spends."""
        run_spend = RunSpend(self)
        self._run_spends.append(run_spend)
        return run_spend

    def check(self, run_spend: RunSpend) -> None:
        """Note whether one more call of `run_spend` would pass the ceiling; a call in flight counts with the mean of its run."""
        dearest = max(each.mean for each in self._run_spends)
        expected = sum(each.in_flight * each.mean for each in self._run_spends)
        one_more = run_spend.mean if run_spend.known else dearest
        self.reached = self.reached or self.spent + expected + one_more > self.most


class RunSpend:
    """What one run has spent, in dollars, of how many calls that is known, and how many are in flight.

    A call that failed before any model answered cost nothing, and says nothing of what the next one will cost.
    """

    def __init__(self, spend_limit: SpendLimit) -> None:
        self.spend_limit = spend_limit
        self.spent = 0.0
        self.known = self.in_flight = 0

    @property
    def mean(self) -> float:
        """Dollars a call, 0 where none was answered yet."""
        return self.spent / max(self.known, 1)

    def room(self) -> bool:
        """Whether one more may be asked for."""
        self.spend_limit.check(self)
        return not self.spend_limit.reached

    def begin(self) -> None:
        """A call goes out."""
        self.in_flight += 1

    def end(self, cost: float, *, answered: bool) -> None:
        """A call came back, `answered` by a model, or failed for free."""
        self.in_flight -= 1
        self.known += answered
        self.spent += cost
