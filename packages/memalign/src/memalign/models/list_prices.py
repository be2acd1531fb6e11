"""What genai-prices' list says of a model: what its tokens cost, and its context. The list is bundled: no network."""

from __future__ import annotations

import logging

from memalign.models.providers import Target
from memalign.types import Usage

__all__ = ["context_window", "list_price", "list_price_of"]

logger = logging.getLogger(__name__)


def list_price(target: Target, tokens: object, *, model: str | None = None) -> float | None:
    """US dollars for `tokens` of the target's model, or of the `model` that answered; None where no list knows it.

    `tokens` are counted by kind, as attributes named `input_tokens`, `cache_read_tokens` (of the input), `output_tokens`
    and so on. A server of one's own may call its model gpt-4.1-mini: only a known address has a known price.
    """
    from genai_prices import calc_price

    name = model or target.model
    try:
        if target.base_url:
            found = calc_price(tokens, name, provider_api_url=target.base_url)
        else:
            found = calc_price(tokens, name, provider_id=target.provider)
    except LookupError:
        return None
    except ValueError:  # counts that do not add up: the answer is there and paid for
        logger.debug("no price for %s", target.name, exc_info=True)
        return None
    return float(found.total_price)


def list_price_of(usage: Usage, target: Target) -> float | None:
    """US dollars for a `usage` of the target's model by the list; None where no list knows it."""
    from genai_prices import Usage as Tokens

    tokens = Tokens(
        input_tokens=usage.input_tokens, cache_read_tokens=usage.cached_tokens, output_tokens=usage.output_tokens
    )
    return list_price(target, tokens)


def context_window(target: Target) -> int | None:
    """The tokens that the target's model takes, prompt and answer; None where no list knows it."""
    from genai_prices.data_snapshot import get_snapshot

    by_address = target.base_url is not None
    try:
        _, model = get_snapshot().find_provider_model(
            target.model,
            provider=None,
            provider_id=None if by_address else target.provider,
            provider_api_url=target.base_url,
        )
    except LookupError:
        return None
    return model.context_window
