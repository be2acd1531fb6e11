"""A judgment goes straight through the files: a stranger who follows one does not get
lost between them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType

import memalign
from memalign import Judgment
from memalign.memory import Memory
from memalign.types import Guideline
from tests.support.scripted import scripted

SOURCE = str(Path(memalign.__file__).parent)

RULES = (
    Guideline(id="G1", text="Replies thank nobody."),
    Guideline(id="G2", text="A refund names a date."),
)
ANSWER = {
    "findings": [
        {"guideline": "G1", "evidence": "Thanks", "value": False},
        {"guideline": "G2", "evidence": "", "value": False},
    ],
    "rationale": "It names no date.",
    "value": False,
}


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
    judge, _ = scripted(
        ANSWER,
        instructions="Is {{ outputs }} a good answer to {{ inputs }}?",
        memory=Memory(guidelines=RULES),
    )
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

    async def judged() -> Judgment:
        sys.setprofile(follow)
        try:
            return await judge.ajudge(
                inputs="My refund?", outputs="Thanks, it comes soon."
            )
        finally:
            sys.setprofile(None)

    judgment = asyncio.run(judged())
    thanked, undated = judgment.findings
    assert (thanked.evidence, undated.evidence) == ("Thanks", None)
    assert len(files) <= 100, "and the first is no change"
    assert calls < 180
