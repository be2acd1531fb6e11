"""Models: their protocols, and `resolve` from names to models. One file an adapter, loaded when it is used."""

from __future__ import annotations

from memalign.models.base import ChatModel, ChatReply, ChatRequest, EmbeddingModel, Limits, YesNoModel
from memalign.models.resolve import default_model_name, resolve, resolve_embedding

__all__ = [
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "EmbeddingModel",
    "Limits",
    "YesNoModel",
    "default_model_name",
    "resolve",
    "resolve_embedding",
]
