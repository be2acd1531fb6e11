"""By what a judge is known again: 16 hex digits over everything that can change a verdict."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from memalign.errors import ConfigurationError
from memalign.judge.parameters import OF_MODELS, SAID_BESIDE
from memalign.memory.model import Memory
from memalign.models.resolve import WORDLLAMA, canonical_name, resolve_embedding
from memalign.types import canonical_json

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["base_fingerprint_of", "fingerprint_of"]


def fingerprint_of(judge: Judge) -> str:
    """See `Judge.fingerprint`."""
    parts = {
        "instructions": judge.instructions,
        "value_type": judge.value_type.spec,
        "model": judge.model_name,
        "retrieval_k": judge.retrieval_k if judge.memory else None,  # nothing to retrieve, nothing to tell apart
        "parameters": {key: value for key, value in judge.parameters.items() if key not in OF_MODELS},
        "memory": judge.memory.hash,
    }
    if judge.check_model_name is not None:
        parts["check_model"] = _canonical(judge.check_model_name)
    # Left out where it finds nothing or is the usual one: a judge that names the usual one is the same judge.
    if judge.memory and (embedding := _other_embedding_model(judge)) is not None:
        parts["embedding_model"] = embedding
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def base_fingerprint_of(judge: Judge) -> str:
    """See `Judge.base_fingerprint`."""
    made_with = {key: value for key, value in judge.parameters.items() if key not in SAID_BESIDE}
    return fingerprint_of(judge.replace(memory=Memory(), parameters=made_with))  # whose label counts is no part of it


def _other_embedding_model(judge: Judge) -> str | None:
    """The embedding model in one spelling; None for the in-process one, however it was named or wrapped."""
    name = judge.embedding_model_name
    if name is None or name in (WORDLLAMA, f"local:{WORDLLAMA}", resolve_embedding().name):
        return None
    return _canonical(name)


def _canonical(name: str) -> str:
    try:
        return canonical_name(name)
    except ConfigurationError:  # the name of an object, which no provider needs to know
        return name
