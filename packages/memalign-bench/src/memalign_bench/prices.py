"""Token prices, the same for every method."""

from __future__ import annotations

import msgspec

from memalign.errors import ConfigurationError
from memalign.models.list_prices import list_price_of
from memalign.models.providers import target_of
from memalign.types import Usage

__all__ = ["UNPAID", "Prices", "cost_of"]

UNPAID = ("local:",)
"""Models of this machine: nobody is paid for them."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens: read, read from the provider's cache, written."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        """What `usage` costs at these prices."""
        fresh = usage.input_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output) / 1e6


def cost_of(model: str, usage: Usage, prices: Prices | None) -> float | None:
    """What `usage` of the judge model costs, in US dollars: at `prices`, without them by the provider's list.

    None where no list knows the model.
    """
    if prices is not None:
        return prices.of(usage)
    if model.startswith(UNPAID):
        return 0.0
    try:
        return list_price_of(usage, target_of(model))
    except ConfigurationError:  # a model that cannot be opened here has no price here
        return None
