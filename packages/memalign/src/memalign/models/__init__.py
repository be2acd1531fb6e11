"""Models: their protocols, and `resolve` from names to models.

Each adapter is a file, loaded when it is used.
"""

from __future__ import annotations

from memalign.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionModel,
    EmbeddingModel,
    Limits,
    Question,
)
from memalign.models.judge_models import open_judging_model
from memalign.models.resolve import (
    default_model_name,
    resolve,
    resolve_decision,
    resolve_embedding,
)

__all__ = [
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "Decision",
    "DecisionModel",
    "EmbeddingModel",
    "Limits",
    "Question",
    "default_model_name",
    "open_judging_model",
    "resolve",
    "resolve_decision",
    "resolve_embedding",
]
