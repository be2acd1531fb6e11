"""Waiting between attempts, and what a failure says in the end."""

from __future__ import annotations

import pytest

from memalign.errors import ModelUnavailable, RateLimited
from memalign.models.retry import AttemptFailed, Retry

QUICK = Retry(attempts=3, base_seconds=0.001)


@pytest.mark.parametrize(
    ("attempt", "requested", "least", "most"),
    [(1, None, 0.5, 1), (2, None, 1, 2), (3, None, 2, 4), (9, None, 60, 60), (1, 20, 20, 21), (1, 3600, 60, 60)],
)
def test_waits_double_and_stop_at_the_longest(attempt, requested, least, most):
    assert least <= Retry(base_seconds=1, max_wait=60).wait(attempt, requested=requested) <= most


@pytest.mark.parametrize(
    ("failures", "attempts", "message"),
    [
        ([AttemptFailed(ModelUnavailable, "down", retry=True)] * 2, 3, None),
        (
            [AttemptFailed(RateLimited, "HTTP 429", advice="Ask later.", retry=True)] * 3,
            3,
            r"^openai:m at http://x: HTTP 429 \(3 attempts\)\. Ask later\.$",
        ),
        ([AttemptFailed(ModelUnavailable, "gone")], 1, r"^openai:m at http://x: gone$"),
        ([TypeError("a bug")], 1, "a bug"),
    ],
)
async def test_what_may_pass_is_tried_again_and_nothing_else(
    failures: list[Exception], attempts: int, message: str | None
):
    waiting, numbers = list(failures), []

    async def attempt(number: int) -> str:
        numbers.append(number)
        if waiting:
            raise waiting.pop(0)
        return "up"

    if message is None:
        assert await QUICK.run(attempt, subject="openai:m") == "up"
    else:
        last = failures[-1]
        with pytest.raises(last.error if isinstance(last, AttemptFailed) else type(last), match=message):
            await QUICK.run(attempt, subject="openai:m at http://x")
    assert len(numbers) == attempts
