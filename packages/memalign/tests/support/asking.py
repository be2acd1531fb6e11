"""Judges with a decision model: guidelines have checks, and it answers them from the words that it sees."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from memalign import Judge
from memalign.memory import Memory
from memalign.models.base import Limits, Question
from memalign.testing import Decide, ScriptedChatModel, ScriptedDecisionModel
from tests.support.learning import Imp, bare, words_in


class ScriptedEmbeddedModel(ScriptedChatModel):
    """A ScriptedChatModel that decides, too, as the embedded model does: see ScriptedDecisionModel for `decide`."""

    def __init__(self, answers: Any, *, decide: Decide, limits: Limits | None = None) -> None:
        super().__init__(answers, limits=limits)
        self.decisions = ScriptedDecisionModel(decide, limits=limits)
        self.decide = self.decisions.decide


class Checker(Imp):
    """An Imp that decides: its verdict depends on every unique word in the prompt, so what it was made with shows."""

    def decide(self, state: str, question: Question) -> Any:
        """The answer to a question, or the verdict: of all that is in view."""
        if error := self.storm.get("decision"):
            return error
        seen = " ".join(words_in(f"{question.text} {state}"))
        drawn = zlib.crc32(f"{question.text} {seen}".encode()) % 1000 / 1000
        if question.key == "value":
            return {label: drawn if number == 0 else (1 - drawn) for number, label in enumerate(question.labels[:2])}
        return {"n/a": 1.0} if drawn > 0.9 else drawn


def checking(
    kind: str = "check", *, shard_size: int = 3, imp: Checker | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel, ScriptedDecisionModel]:
    """An unaligned judge, the chat model that distils, and the decision model that answers.

    Of kind `check` the chat model judges, of kind `alone` the decision model does, and of kind `embedded` both are one.
    """
    imp = imp or Checker()
    limits = Limits(shard_size=shard_size, brief=kind == "embedded")
    chat = (
        ScriptedEmbeddedModel(imp, decide=imp.decide, limits=limits)
        if kind == "embedded"
        else ScriptedChatModel(imp, limits=limits)
    )
    decisions = chat.decisions if isinstance(chat, ScriptedEmbeddedModel) else ScriptedDecisionModel(imp.decide)
    settings: dict[str, Any] = {
        "model": decisions if kind == "alone" else chat,
        "check_model": decisions if kind == "check" else None,
    }
    return bare(**settings | changes)[0], chat, decisions


def answered(memory: Memory) -> dict[str, Mapping[str, float | None]]:
    """The margins of every case that has answers, by its id."""
    return {case.id: case.answers.margins for case in memory.cases if case.answers is not None}
