"""What a model's tokens cost, by genai-prices' bundled list or by a person's word, and its context."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from memalign.models.providers import Target
from memalign.types import Usage

__all__ = ["Prices", "context_window", "list_price"]

_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """US dollars for a million tokens; `cached` is for input tokens out of a cache (None: as other input)."""

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None

    def cost(self, usage: Usage) -> float:
        """US dollars for a usage, whose input tokens include the cached ones."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output) / 1e6


def list_price(usage: Usage, target: Target, model: str | None = None) -> float | None:
    """US dollars for a usage of the target's model, or of the `model` that answered; None where no list knows it.

    A server of one's own may call its model gpt-4.1-mini: only a known address has a known price.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    place: dict[str, Any] = (
        {"provider_api_url": target.base_url} if target.base_url else {"provider_id": target.provider}
    )
    tokens = Tokens(
        input_tokens=usage.input_tokens, cache_read_tokens=usage.cached_tokens, output_tokens=usage.output_tokens
    )
    try:
        return float(calc_price(tokens, model or target.model, **place).total_price)
    except (LookupError, ValueError):  # of counts that do not add up the answer is there and paid for
        return None


def context_window(target: Target) -> int | None:
    """The tokens that the target's model takes, prompt and answer; None where no list knows it."""
    from genai_prices.data_snapshot import get_snapshot

    provider = None if target.base_url else target.provider
    try:
        _, model = get_snapshot().find_provider_model(target.model, None, provider, target.base_url)
    except LookupError:
        return None
    return model.context_window
