"""Items with a number, judges of whether it is even, and what people said of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from memalign import Judge
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedChatModel
from memalign.types import Feedback
from tests.support.scripted import scripted


def number_in(text: str) -> int:
    """The number of the item that a prompt ends with."""
    return int(re.findall(r"item (\d+)", text)[-1])


def is_even(number: int) -> bool:
    return number % 2 == 0


def said(number: int, value: Any, source: str = "ana", **more: Any) -> Feedback:
    """What a person said of an item."""
    text = f"item {number}"
    return Feedback(id=f"h-{number}", outputs=text, value=value, source=source, **more)


def labelled(first: int, last: int, **more: Any) -> list[Feedback]:
    """Items that Ana labelled as what they are."""
    return [said(number, is_even(number), **more) for number in range(first, last)]


def judging(verdict: Callable[[int], Any], **changes: Any) -> Judge:
    """A judge whose verdict (or error) is a function of the item's number."""

    def answer(request: ChatRequest) -> Any:
        value = verdict(number_in(request.user))
        if isinstance(value, Exception):
            return value
        return {"rationale": "Read.", "value": value}

    return scripted(answer, **changes)[0]


def asked(judge: Judge) -> list[int]:
    """The numbers of the items that the judge's model was asked about."""
    model = cast("ScriptedChatModel", judge.model)
    return [number_in(request.user) for request in model.requests]
