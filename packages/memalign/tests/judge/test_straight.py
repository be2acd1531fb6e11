"""A judgment goes straight through the files: a stranger who follows one does not get
lost between them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import memalign
from memalign import Judge, Judgment
from memalign.memory import Memory
from memalign.testing import ScriptedChatModel
from memalign.types import Guideline

SOURCE = str(Path(memalign.__file__).parent)

RULES = ("Replies thank nobody.", "A refund names a date.")


def finding(guideline: str, evidence: str) -> dict[str, Any]:
    return {"guideline": guideline, "evidence": evidence, "value": False}


ANSWER = {
    "findings": [finding("G1", "Thanks"), finding("G2", "")],
    "rationale": "It names no date.",
    "value": False,
}


def taught_judge() -> Judge[bool]:
    guidelines = [
        Guideline(id=f"G{number}", text=text) for number, text in enumerate(RULES, 1)
    ]
    return Judge(
        name="refunds",
        instructions="Is {{ outputs }} a good answer to {{ inputs }}?",
        feedback_value_type=bool,
        model=ScriptedChatModel(lambda _: ANSWER),
        memory=Memory(guidelines=tuple(guidelines)),
    )


def file_of(frame: FrameType) -> str | None:
    """The library's own file of Python in which a function stands, or None for another one."""
    file = frame.f_code.co_filename
    return file if file.startswith(SOURCE) and file.endswith(".py") else None


def running_file(frame: FrameType | None) -> str | None:
    """The file of the innermost of the library's own functions that are under way."""
    while frame is not None and file_of(frame) is None:
        frame = frame.f_back
    return frame and file_of(frame)


def test_one_judgment_changes_file_less_than_a_hundred_times() -> None:
    judge = taught_judge()
    files: list[str | None] = []
    calls = 0

    def follow(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event not in ("call", "return") or file_of(frame) is None:
            return
        calls += event == "call"
        running = running_file(frame if event == "call" else frame.f_back)
        if files[-1:] != [running]:
            files.append(running)

    async def judged() -> Judgment[bool]:
        sys.setprofile(follow)
        try:
            return await judge.ajudge(
                inputs="My refund?", outputs="Thanks, it comes soon."
            )
        finally:
            sys.setprofile(None)

    judgment = asyncio.run(judged())
    assert [each.evidence for each in judgment.findings] == ["Thanks", None]
    assert len(files) <= 100, "and the first is no change"
    assert calls < 180
