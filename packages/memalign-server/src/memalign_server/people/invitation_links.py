"""The address of an invitation."""

from __future__ import annotations

__all__ = ["link_of"]


def link_of(base: str, public_url: str | None, secret: str) -> str:
    """The address of the page where an invitation is taken up; `base` is the one by which the request came."""
    return f"{(public_url or base).rstrip('/')}/join/{secret}"
