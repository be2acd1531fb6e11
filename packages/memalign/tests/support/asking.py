"""A model whose guidelines have checks, and which answers them where it tells probabilities."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from memalign import Check, Judge
from memalign.memory import Memory
from memalign.models.base import ChatRequest, Limits
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel, ScriptedYesNoModel
from tests.support.learning import INSTRUCTIONS, Imp, words_in

SHARED = "Is it kind to whoever has waited?"


def margin_of(question: str, item: str) -> float:
    """What the model tells of a question about an item, whatever else it was asked: in [-5, 5]."""
    return zlib.crc32(f"{question} {words_in(item)}".encode()) % 1000 / 100 - 5


class Checker(Imp):
    """An Imp that writes checks: one with the unique words in view, and one that all guidelines share.

    Its verdict depends on every unique word in the prompt: what it was made with shows.
    """

    def _changes(self, request: ChatRequest) -> list[Any]:
        return [
            each | {"checks": _checks(each["text"])} if isinstance(each, dict) and each.get("text") else each
            for each in super()._changes(request)
        ]

    def _rule(self, request: ChatRequest) -> Answer:
        said = super()._rule(request)
        return said | {"checks": _checks(said["because"])} if isinstance(said, dict) else said

    def _verdict(self, request: ChatRequest, item: str) -> Answer:
        seen = " ".join(words_in(request.system + request.user))
        return {"rationale": f"because of {seen}", "value": zlib.crc32(seen.encode()) % 2 == 0}


def _checks(text: str) -> list[dict[str, Any]]:
    about = " ".join(words_in(text)[:20])
    own = [{"question": f"Does it mind what {about} asks for?", "answer": "no"}] if about else []
    return [*own, {"question": SHARED, "answer": "yes"}]


def checking(
    *, apart: bool = False, shard_size: int = 3, concurrency: int = 16, imp: Imp | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """An unaligned judge whose model writes checks, and answers them where it can (`apart`); and the model."""
    imp = imp or Checker()
    limits = Limits(shard_size=shard_size, concurrency=concurrency)

    def margin(item: str, question: str) -> float | BaseException:
        return imp.storm.get("margins") or margin_of(question, item)

    model = ScriptedYesNoModel(imp, margin=margin, limits=limits) if apart else ScriptedChatModel(imp, limits=limits)
    settings: dict[str, Any] = {
        "name": "replies",
        "instructions": INSTRUCTIONS,
        "feedback_value_type": bool,
        "embedding_model": HashEmbedding(dim=16),
        "model": model,
    }
    return Judge(**settings | changes), model


def questions_in(memory: Memory) -> set[str]:
    """Every question of a memory's guidelines, whatever their status."""
    return {check.question for guideline in memory.guidelines for check in guideline.checks}


def answered(memory: Memory) -> dict[str, Mapping[str, float]]:
    """The margins of every case that has answers, by its id."""
    return {case.id: case.answers.margins for case in memory.cases if case.answers is not None}


def checks_of(questions: Iterable[str]) -> tuple[Check, ...]:
    return tuple(Check(question=question) for question in questions)
