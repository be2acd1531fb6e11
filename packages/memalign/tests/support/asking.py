"""Judges with a decision model: guidelines have checks, and it answers them from the words that it sees."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from memalign import Judge
from memalign.memory import Memory
from memalign.models.base import ChatRequest, Decision, Limits, Question
from memalign.testing import (
    Answer,
    Decide,
    HashEmbedding,
    ScriptedChatModel,
    ScriptedDecisionModel,
)
from tests.support.learning import INSTRUCTIONS, Imp, words_in

SHARED = "Is it kind to whoever has waited?"


class ScriptedEmbeddedModel(ScriptedChatModel):
    """A ScriptedChatModel that decides, too, as the embedded model does: see ScriptedDecisionModel for `decide`."""

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[ChatRequest], Answer | Awaitable[Answer]],
        *,
        decide: Decide,
        name: str = "scripted",
        limits: Limits | None = None,
    ) -> None:
        super().__init__(answers, name=name, limits=limits)
        self.decisions = ScriptedDecisionModel(decide, name=name, limits=limits)

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        """The scripted answers to the questions."""
        return await self.decisions.decide(state, questions, timeout=timeout)


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

    def decide(self, state: str, question: Question) -> Any:
        """The answer to a question, or the verdict: of all that is in view."""
        if error := self.storm.get("decision"):
            return error
        seen = " ".join(words_in(f"{question.text} {state}"))
        drawn = zlib.crc32(f"{question.text} {seen}".encode()) % 1000 / 1000
        if question.key == "value":
            return {label: drawn if number == 0 else (1 - drawn) for number, label in enumerate(question.labels[:2])}
        return {"n/a": 1.0} if drawn > 0.9 else drawn


def _checks(text: str) -> list[dict[str, Any]]:
    about = " ".join(words_in(text)[:20])
    own = [{"question": f"Does it mind what {about} asks for?", "answer": "no"}] if about else []
    return [*own, {"question": SHARED, "answer": "yes"}]


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
        "name": "replies",
        "instructions": INSTRUCTIONS,
        "feedback_value_type": bool,
        "embedding_model": HashEmbedding(dim=16),
        "model": decisions if kind == "alone" else chat,
        "check_model": decisions if kind == "check" else None,
    }
    return Judge(**settings | changes), chat, decisions


def answered(memory: Memory) -> dict[str, Mapping[str, float | None]]:
    """The margins of every case that has answers, by its id."""
    return {case.id: case.answers.margins for case in memory.cases if case.answers is not None}
