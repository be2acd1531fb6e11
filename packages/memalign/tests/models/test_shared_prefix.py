"""What is known of the shared prefixes in a cache: when one is read again, and when a request goes on from the last."""

from __future__ import annotations

from typing import Any

import pytest

from memalign.models.base import ChatRequest
from memalign.models.shared_prefix import SharedPrefixes
from memalign.types import Usage


def request(user: str = "Is water wet?", *, system: str = "Answer in JSON.", **changes: Any) -> ChatRequest:
    return ChatRequest(system=system, user=user, schema={"type": "object"}, temperature=0.0, **changes)


def after(asked: ChatRequest, *, cached: int = 30, prompt: int = 90) -> SharedPrefixes:
    prefixes = SharedPrefixes()
    prefixes.read(asked, Usage(input_tokens=prompt, cached_tokens=cached, output_tokens=10), prefix_apart=True)
    return prefixes


def test_nothing_is_known_at_first() -> None:
    prefixes = SharedPrefixes()
    assert not prefixes.goes_on(request())
    assert not prefixes.is_known(request())
    assert not prefixes.never_kept(request())
    assert not prefixes.is_whole(request(), 1000)


@pytest.mark.parametrize(
    "then",
    [
        request("Is water wet?"),  # at temperature 0 it must come out alike, so it is read alike
        request("Is water dry?"),
        request("Is water wet?", system="Answer in words."),
    ],
)
def test_a_short_request_starts_after_its_prefix(then: ChatRequest) -> None:
    assert not after(request("Is water wet?")).goes_on(then)


def test_a_repeated_or_long_common_prompt_goes_on() -> None:
    sample = ChatRequest(system="s", user="Is water wet?", schema={}, temperature=0.7)
    assert after(sample).goes_on(sample)
    assert not after(sample).goes_on(ChatRequest(system="t", user="Is water wet?", schema={}, temperature=0.7))
    long = "word " * 400
    assert after(request(long + "one")).goes_on(request(long + "two"))
    assert not after(request(long[:-1])).goes_on(request(long[:-1]))


def test_another_prompt_between_leaves_only_the_prefix_known() -> None:
    sample = ChatRequest(system="s", user="Is water wet?", schema={}, temperature=0.7)
    prefixes = after(sample)
    prefixes.lose()
    assert not prefixes.goes_on(sample)
    assert prefixes.is_known(sample)


def test_a_prefix_returned_in_part_is_not_whole() -> None:
    prefixes = after(request(), cached=30)
    assert prefixes.is_whole(request(), 30)
    assert not prefixes.is_whole(request(), 29)


def test_an_uncut_prompt_has_no_prefix_read_apart() -> None:
    prefixes = after(request(), cached=0)
    assert prefixes.never_kept(request())
    assert not prefixes.never_kept(request(system="Answer in words."))
    prefixes.read(request(), Usage(input_tokens=90, cached_tokens=0, output_tokens=10), prefix_apart=False)
    assert prefixes.never_kept(request())


def test_a_continued_prompt_keeps_its_prefix_length() -> None:
    prefixes = after(request(), cached=30)
    prefixes.read(request(), Usage(input_tokens=90, cached_tokens=89, output_tokens=10), prefix_apart=False)
    assert prefixes.is_whole(request(), 30)
