"""What stands between a run and the models that it asks.

A judge holds its model's name, and whoever asks it resolves that name where it is needed. So a run that keeps answers, or
spends within a limit, says so here once, and `resolve` gives the model through it in every place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel

__all__ = ["Through", "asked_through", "chat_through", "decision_through", "embedding_through"]


class Through(Protocol):
    """Gives for a model one that asks it; for one that it gave before, that one."""

    def chat(self, model: ChatModel) -> ChatModel:
        """The model by which `model` is asked."""
        ...

    def decision(self, model: DecisionModel) -> DecisionModel:
        """The model by which `model` is asked."""
        ...

    def embedding(self, model: EmbeddingModel) -> EmbeddingModel:
        """The model by which `model` is asked."""
        ...


_through: ContextVar[Through | None] = ContextVar("memalign_asked_through", default=None)


@contextmanager
def asked_through(through: Through | None) -> Iterator[None]:
    """In this block, and in the tasks and threads that it starts, models are asked through `through`."""
    token = _through.set(through)
    try:
        yield
    finally:
        _through.reset(token)


def chat_through(model: ChatModel) -> ChatModel:
    """The model as this run asks it."""
    through = _through.get()
    return model if through is None else through.chat(model)


def decision_through(model: DecisionModel) -> DecisionModel:
    """The decision model as this run asks it."""
    through = _through.get()
    return model if through is None else through.decision(model)


def embedding_through(model: EmbeddingModel) -> EmbeddingModel:
    """The embedding model as this run asks it."""
    through = _through.get()
    return model if through is None else through.embedding(model)
