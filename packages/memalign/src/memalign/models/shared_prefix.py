"""Reading what all requests of a judge begin with apart from the rest, so that no answer hangs on what was asked before.

llama.cpp keeps the last prompt and reads the next one from where the two part. Where a prompt is cut changes how its
numbers are rounded, and over fifty likeliest tokens that is enough for another verdict: without this, the 1.5B gave
another one on 4 of 27 items when nothing was in its cache. So the head, which is the system message and what the chat
template puts around it, is read by itself, with a word behind it that no message begins with; whatever was there
before, the request is then read from the end of its head. That costs the reading of that word: 0.1 s a call with the
0.5B. Decision 16 has the figures.
"""

from __future__ import annotations

from collections import OrderedDict

from memalign.models.base import ChatRequest
from memalign.types import Usage

__all__ = ["MARK", "SharedPrefixes"]

MARK = "\u241e"
"""What is read behind a head: a control picture, which no message begins with."""

_LONG = 2_000
"""Characters of a message that are not read again when the message before began with them: 15 seconds of the 1.5B's."""

_RESTORED = 0.25
"""llama.cpp takes a former prompt out of its cache for a new one that shares at least this part of it."""

_KEPT = 64  # heads whose length is remembered


class SharedPrefixes:
    """What is known of the heads that one llama.cpp has read. Not safe for several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()  # tokens: of the head, of its last prompt
        self._last: ChatRequest | None = None

    def goes_on(self, request: ChatRequest) -> bool:
        """Whether `request` is read from where the last one ends or parts from it: another sample, another look."""
        last = self._last
        if last is None or last.system != request.system:
            return False
        if last.user == request.user and request.temperature != 0:
            return True
        return len(last.user) >= _LONG and request.user.startswith(last.user[:_LONG])

    def never_kept(self, request: ChatRequest) -> bool:
        """Whether nothing of the head was in the cache right after it was read: some models' prompts cannot be cut."""
        return self._known.get(request.system, (1, 1))[0] == 0

    def may_be_cached(self, request: ChatRequest) -> bool:
        """Whether the head of `request` is worth looking for in the cache: what is found in part is read twice."""
        if request.system not in self._known:
            return False
        prefix, prompt = self._known[request.system]
        same = self._last is not None and self._last.system == request.system
        return same or prefix >= _RESTORED * prompt

    def is_whole(self, request: ChatRequest, cached_tokens: int) -> bool:
        """Whether so many tokens from the cache are all of the head; if fewer, the rest was cut somewhere else."""
        return request.system in self._known and cached_tokens >= self._known[request.system][0]

    def read(self, request: ChatRequest, usage: Usage, *, prefix_apart: bool) -> None:
        """`request` was answered; where its head was read apart, what it found in the cache is the head."""
        prefix = usage.cached_tokens if prefix_apart else self._known[request.system][0]
        self._known[request.system] = (prefix, usage.input_tokens + usage.output_tokens)
        self._known.move_to_end(request.system)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        self._last = request

    def lose(self) -> None:
        """Something else was asked, or a call did not end: nobody knows what the cache begins with."""
        self._last = None
