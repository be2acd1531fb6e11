"""Keys of feedback in tests, from their written form."""

from memalign.types import FeedbackKey


def keys(*written: str) -> tuple[FeedbackKey, ...]:
    """`keys("t-1@ana", "t-2@ben")`."""
    return tuple(map(FeedbackKey.parse, written))
