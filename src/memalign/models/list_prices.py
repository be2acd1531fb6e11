"""What tokens cost by the list price of the model's provider, as genai-prices has it: bundled, no network."""

from __future__ import annotations

from memalign.models.providers import Target
from memalign.records import Usage

__all__ = ["list_price"]


def list_price(target: Target, usage: Usage, *, model: str | None = None) -> float | None:
    """US dollars for `usage` of the target's model, or of the `model` that answered; None where no list knows it.

    A server of one's own may call its model gpt-4.1-mini: only a known address has a known price.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input_tokens, cache_read_tokens=usage.cached_tokens, output_tokens=usage.output_tokens
    )
    name = model or target.model
    try:
        if target.base_url:
            found = calc_price(tokens, name, provider_api_url=target.base_url)
        else:
            found = calc_price(tokens, name, provider_id=target.provider)
    except LookupError:
        return None
    return float(found.total_price)
