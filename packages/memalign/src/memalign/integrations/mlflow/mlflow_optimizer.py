"""MemAlignOptimizer: what `judge.align(traces=…, optimizer=…)` calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlflow.genai.judges.base import AlignmentOptimizer

from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.learning import forget_traces, learn
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.registry_loading import aligned_from
from memalign.judge import Progress
from memalign.models import ChatModel, EmbeddingModel

__all__ = ["MemAlignOptimizer"]


class MemAlignOptimizer(AlignmentOptimizer):  # type: ignore[misc]  # MLflow's classes are Any to mypy
    """Aligns MLflow judges with people's feedback; the arguments of MLflow's own optimizer, and more.

    `reflection_lm` distils guidelines (None: the judge's own model). `retrieval_k` is how many similar cases a judgment
    sees (None: as many as suit the model; an identical one is always shown). `embedding_model` is a provider's, such as
    `openai:/text-embedding-3-small`, with vectors of `embedding_dim` (None: the model's own length); None is the one in
    this process, which needs no network. Models are named as MLflow names them.

    `value_type` gives numbers their bounds (`"int:1..5"`), which MLflow's types lack. `parameters` are those of
    `memalign.Judge` (`{"samples": 3}`), beside the judge's own inference parameters. `authority` and `policy` say whose
    label counts where people differ. `shard_size` is that of `memalign.MemAlign`. With `skip_invalid`, labels that are
    none of the judge's are set aside with a warning instead of stopping the alignment. `progress` is called with the
    stage, how much of it is done, and of how much; None shows a bar in a notebook. With `log_run`
    every alignment is an MLflow run: settings, counts, and what changed in memory.

    Safe to use from several threads; an optimizer holds nothing of a judge.
    """

    def __init__(
        self,
        reflection_lm: str | ChatModel | None = None,
        retrieval_k: int | None = None,
        embedding_model: str | EmbeddingModel | None = None,
        embedding_dim: int | None = None,
        *,
        value_type: Any = None,
        parameters: Mapping[str, Any] | None = None,
        authority: Sequence[str] | None = None,
        policy: Sequence[Any] | None = None,
        shard_size: int | None = None,
        skip_invalid: bool = False,
        progress: Progress | None = None,
        log_run: bool = False,
    ) -> None:
        self._settings = Settings(
            reflection_lm=reflection_lm,
            retrieval_k=retrieval_k,
            embedding_model=embedding_model,
            embedding_dim=embedding_dim,
            value_type=value_type,
            parameters=_named("parameters", parameters),
            authority=_listed("authority", authority),
            policy=_listed("policy", policy),
            shard_size=shard_size,
            skip_invalid=skip_invalid,
        ).checked()
        if progress is not None and not callable(progress):
            raise invalid(f"progress must be a function of stage, done and total, got {progress!r}")
        self._progress = progress
        self._log_run = log_run

    def align(self, judge: Any, traces: list[Any]) -> MemAlignJudge:
        """A judge that learned from the feedback in `traces`; the one that is given stays as it is.

        For every trace that is given, memory holds what people say of it now: unchanged feedback costs nothing, changed
        feedback replaces, feedback that was taken back in MLflow is forgotten. Traces without feedback for the judge
        are named in a warning and skipped. Raises MlflowException: INVALID_PARAMETER_VALUE where nothing can be
        learned, for a judge that cannot be aligned, and for labels that are none of the judge's; nothing was asked of a
        model then.
        """
        start = aligned_from(judge, self._settings)
        core = start.memalign_judge
        options: dict[str, Any] = {"progress": self._progress, "log_run": self._log_run}
        result = learn(core, traces, self._settings, base=start.base_judge, scale=start.scale, **options)
        return start if start is judge and not result.changed else start.replaced(result, self._settings)

    def unalign(self, judge: MemAlignJudge, traces: Iterable[Any]) -> MemAlignJudge:
        """`judge` without the feedback on `traces` (or ids of traces), as `MemAlignJudge.unalign`."""
        options: dict[str, Any] = {"progress": self._progress, "log_run": self._log_run}
        result = forget_traces(judge.memalign_judge, traces, self._settings, **options)
        return judge if result is None else judge.replaced(result, self._settings)


def _named(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise invalid(f"{name} must be a dict, such as {{'samples': 3}}, got {value!r}")
    return dict(value or {})


def _listed(name: str, value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, str) or (value is not None and not isinstance(value, Iterable)):
        raise invalid(f"{name} must be a list, such as [{value!r}], got {value!r}")
    return None if value is None else tuple(value)
