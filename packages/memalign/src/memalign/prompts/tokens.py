"""About how many tokens a text takes, without a tokenizer."""

from __future__ import annotations

__all__ = ["BYTES_PER_TOKEN", "estimate_tokens"]

BYTES_PER_TOKEN = 3.0  # low on purpose: English is nearer four, and a prompt that is too long is an error


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` takes, rather too many than too few; no tokenizer is loaded for it."""
    return int(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN) + 1
