"""Where tests draw from: always the same, or from the seed in MEMALIGN_TEST_SEED."""

from __future__ import annotations

import os

SEED = int(os.environ.get("MEMALIGN_TEST_SEED", "0"))


def seeds(count: int, *, after: int = 0) -> range:
    """So many seeds, which come after `after` others."""
    first = SEED * 1_000 + after + 1
    return range(first, first + count)
