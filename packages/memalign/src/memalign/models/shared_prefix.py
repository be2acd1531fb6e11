"""The prefix that all requests of a judge share is read apart, so that no answer hangs on what was asked before.

llama.cpp keeps the last prompt and reads the next one from where the two part. Where a prompt is cut changes how its
numbers are rounded, which is enough for another verdict: without this, the 1.5B gave another one on 4 of 27 items when
nothing was in its cache. So the shared prefix, the system message and what the chat template puts around it, is read by
itself, with a mark behind it; whatever was there before, the request is then read from the end of its prefix. That
costs 0.1 s a call with the 0.5B. Decision 16 has the figures.

The questions about one item are read from the end of the item in the same way, with the mark read between them.
"""

from __future__ import annotations

from memalign.models.base import ChatRequest
from memalign.types import Usage

__all__ = ["SharedPrefixes"]

_LONG = 2_000
"""Characters of a message that are not read again when the message before began with them: 15 seconds of the 1.5B's."""


class SharedPrefixes:
    """What is known of the shared prefixes that one llama.cpp has read. Not safe for several threads."""

    def __init__(self) -> None:
        self._tokens: dict[int, int] = {}  # of a prefix, by the hash of its system message
        self._last: ChatRequest | None = None

    def goes_on(self, request: ChatRequest) -> bool:
        """Whether `request` is read from where the last one ends or parts from it: another sample, another question."""
        last = self._last
        if last is None or last.system != request.system:
            return False
        if last.user == request.user and request.temperature != 0:
            return True
        return len(last.user) >= _LONG and request.user.startswith(last.user[:_LONG])

    def never_kept(self, request: ChatRequest) -> bool:
        """Whether the cache held nothing of the prefix right after it was read: some models' prompts cannot be cut."""
        return self._tokens.get(hash(request.system)) == 0

    def is_known(self, request: ChatRequest) -> bool:
        """Whether the prefix was read before, so that it is worth a look into the cache."""
        return hash(request.system) in self._tokens

    def is_whole(self, request: ChatRequest, cached_tokens: int) -> bool:
        """Whether so many tokens from the cache are all of the prefix; if fewer, the rest was cut somewhere else."""
        return self.is_known(request) and cached_tokens >= self._tokens[hash(request.system)]

    def read(self, request: ChatRequest, usage: Usage, *, prefix_apart: bool) -> None:
        """`request` was answered; where its prefix was read apart, what it found in the cache is the prefix."""
        if prefix_apart:
            self._tokens[hash(request.system)] = usage.cached_tokens
        self._last = request

    def lose(self) -> None:
        """Something else was asked, or a call did not end: nobody knows what the cache begins with."""
        self._last = None
