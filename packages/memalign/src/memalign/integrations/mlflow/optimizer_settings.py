"""The optimizer's settings: kept with the judges it aligns, so that these learn and forget as they were made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memalign.align import MemAlign
from memalign.integrations.mlflow.label_types import scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.model_routes import check_not_managed, routed_chat, routed_embedding
from memalign.models import ChatModel, EmbeddingModel, resolve_embedding

__all__ = ["Settings"]

_KEPT = ("retrieval_k", "embedding_dim", "parameters", "shard_size", "skip_invalid")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """As the arguments of `MemAlignOptimizer`, which see."""

    reflection_lm: str | ChatModel | None = None
    retrieval_k: int | None = None
    embedding_model: str | EmbeddingModel | None = None
    embedding_dim: int | None = None
    value_type: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    authority: tuple[str, ...] | None = None
    policy: tuple[Any, ...] | None = None
    shard_size: int | None = None
    skip_invalid: bool = False

    def checked(self) -> Settings:
        """These settings; raises MlflowException (INVALID_PARAMETER_VALUE) for one that cannot be."""
        for name in ("retrieval_k", "embedding_dim", "shard_size"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number <= 0):
                raise invalid(f"{name} must be a positive integer, got {number!r}")
        models = (
            ("reflection_lm", ChatModel, "gpt-4.1-mini"),
            ("embedding_model", EmbeddingModel, "text-embedding-3-small"),
        )
        for name, protocol, such in models:
            model = getattr(self, name)
            if model is not None and not isinstance(model, (str, protocol)):
                raise invalid(f"{name} must be the name of a model, such as 'openai:/{such}', got {model!r}")
            if isinstance(model, str):
                check_not_managed(model, name)
        if self.value_type is not None:
            scale_of(None, self.value_type)
        self._optimizer(None, None)  # keys and addresses may follow until the first align
        return self

    def memalign(self) -> MemAlign:
        """Our optimizer with these settings.

        Raises MlflowException where a model cannot be had, before anything is asked.
        """
        reflection, embedding = self.reflection_lm, self.routed_embedding_model()
        if isinstance(reflection, str):
            reflection = routed_chat(reflection, what="reflection_lm")
        with translated():
            resolve_embedding(embedding)
        return self._optimizer(reflection, embedding)

    def routed_embedding_model(self) -> str | EmbeddingModel | None:
        """The embedding model, where MLflow's route would have it. Raises MlflowException."""
        model = self.embedding_model
        return routed_embedding(model, self.embedding_dim) if isinstance(model, str) else model

    def _optimizer(self, reflection: str | ChatModel | None, embedding: str | EmbeddingModel | None) -> MemAlign:
        with translated():
            return MemAlign(
                reflection_model=reflection,
                embedding_model=embedding,
                retrieval_k=self.retrieval_k,
                authority=self.authority,
                policy=self.policy,
                shard_size=self.shard_size,
            )

    def record(self) -> dict[str, Any]:
        """As JSON values; models that are objects of the caller's own are left out."""
        record = {name: getattr(self, name) for name in _KEPT} | {"parameters": dict(self.parameters)}
        models = {name: getattr(self, name) for name in ("reflection_lm", "embedding_model")}
        several = {name: list(value) for name in ("authority", "policy") if (value := getattr(self, name)) is not None}
        return record | {name: model for name, model in models.items() if isinstance(model, str)} | several

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Settings:
        """The settings of a record; what a newer memalign added is left out."""
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in record.items() if name in names}
        for name in ("authority", "policy"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)
