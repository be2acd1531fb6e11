"""What a model's tokens cost, by genai-prices' bundled list or by a person, and its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from memalign.models.providers import Target
from memalign.types import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

__all__ = ["Prices", "context_window", "list_price"]

_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Prices(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """US dollars for a million tokens.

    Attributes:
        input: Of input tokens.
        output: Of output tokens.
        cached: Of input tokens out of a cache; None: as of other input.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None

    def cost(self, usage: Usage) -> float:
        """Return US dollars for a usage, whose input tokens include the cached ones."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (
            fresh * self.input
            + usage.cached_tokens * cached
            + usage.output_tokens * self.output
        ) / 1e6


def list_price(usage: Usage, target: Target, model: str | None = None) -> float | None:
    """Return US dollars for a usage of a model, or None if no list knows the model.

    A server of one's own may call its model gpt-4.1-mini: only a known address has a known price.

    Args:
        usage: The tokens.
        target: The model that was asked.
        model: The name that answered, if it is another one.
    """
    listed = _listed(usage, target, model or target.model)
    return None if listed is None else float(listed.total_price)


def context_window(target: Target) -> int | None:
    """Return the tokens that a model takes, prompt and answer, or None if no list knows it."""
    listed = _listed(Usage(), target, target.model)
    return None if listed is None else listed.model.context_window


def _listed(usage: Usage, target: Target, model: str) -> PriceCalculation | None:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    place: dict[str, Any] = {"provider_id": target.provider}
    if target.base_url:
        place = {"provider_api_url": target.base_url}
    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return calc_price(tokens, model, **place)
    except (
        LookupError,
        ValueError,
    ):
        # Counts that do not add up have an answer, which is paid for.
        return None
