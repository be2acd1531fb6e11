"""Waiting between attempts, and what a failure says in the end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memalign.errors import ModelUnavailable, RateLimited
from memalign.models.retry import AttemptFailed, Retry, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
QUICK = Retry(attempts=3, base_seconds=0.001)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_milliseconds_or_a_date(headers, seconds):
    assert retry_after(headers, now=NOW) == seconds


def test_waits_double_and_stop_at_the_longest():
    retry = Retry(base_seconds=1, max_wait=5)
    waits = [retry.wait(attempt) for attempt in (1, 2, 3, 4, 9)]
    assert [0.5 <= waits[0] <= 1, 1 <= waits[1] <= 2, 2 <= waits[2] <= 4, 4 <= waits[3] <= 5, waits[4] == 5] == [
        True
    ] * 5


def test_the_requested_wait_is_kept_within_limits():
    retry = Retry(base_seconds=1, max_wait=60)
    assert 20 <= retry.wait(1, requested=20) <= 21
    assert retry.wait(1, requested=3600) == 60


async def test_a_failure_that_may_pass_is_tried_again():
    attempts = []

    async def attempt(number: int) -> str:
        attempts.append(number)
        if len(attempts) < 3:
            raise AttemptFailed(ModelUnavailable, "down", retry=True)
        return "up"

    assert await QUICK.run(attempt, subject="openai:m") == "up"
    assert len(attempts) == 3


async def test_the_last_error_names_model_cause_and_attempts():
    async def attempt(_: int) -> str:
        raise AttemptFailed(RateLimited, "HTTP 429", advice="Ask later.", retry=True)

    with pytest.raises(RateLimited, match=r"^openai:m at http://x: HTTP 429 \(3 attempts\)\. Ask later\.$"):
        await QUICK.run(attempt, subject="openai:m at http://x")


async def test_a_permanent_failure_is_tried_once():
    attempts = []

    async def attempt(number: int) -> str:
        attempts.append(number)
        raise AttemptFailed(ModelUnavailable, "gone")

    with pytest.raises(ModelUnavailable, match=r"^m: gone$"):
        await QUICK.run(attempt, subject="m")
    assert len(attempts) == 1


async def test_a_bug_is_not_retried():
    async def attempt(_: int) -> str:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        await QUICK.run(attempt, subject="m")
