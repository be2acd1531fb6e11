"""What MLflow loads by its entry point, so that it reads our records also where nobody imported memalign.

MLflow has no place for readers of scorers. It loads every package's entry points of the group `mlflow.scorer_store`
when its own registry is imported, in workers and servers too. Ours names a store for addresses `memalign:`, which
nobody has.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NoReturn

__all__ = ["OURS", "scorer_store", "teach_mlflow"]

OURS = "memalign"
"""Our part of a record; MLflow ignores keys that it does not know."""

_INSTRUCTIONS, _MEMORY = "instructions_judge_pydantic_data", "memory_augmented_judge_data"
_logger = logging.getLogger(__name__)


def scorer_store(**_: Any) -> NoReturn:
    """No store of scorers: the name that the entry point needs."""
    message = "memalign stores scorers where MLflow does; give MLflow's own tracking URI"
    raise ValueError(message)


def teach_mlflow() -> None:
    """Let `Scorer.model_validate`, through which MLflow reads every record, read ours; all others go on as before.

    Without DSPy those of MLflow's own MemAlign are adopted, which MLflow could not read then.
    """
    from mlflow.genai.scorers.base import Scorer

    theirs = Scorer.model_validate.__func__
    if getattr(theirs, "reads_memalign", False):
        return

    @functools.wraps(theirs)
    def model_validate(cls: type[Any], obj: Any, *args: Any, **kwargs: Any) -> Any:
        whole = obj if isinstance(obj, Mapping) else getattr(obj, "__dict__", {})
        judge = _read(whole) if _concerns_us(whole) else None
        return theirs(cls, obj, *args, **kwargs) if judge is None else judge

    model_validate.reads_memalign = True  # type: ignore[attr-defined]
    Scorer.model_validate = classmethod(model_validate)


def _concerns_us(whole: Mapping[str, Any]) -> bool:
    if OURS in (whole.get(_INSTRUCTIONS) or {}):
        return True
    return whole.get(_MEMORY) is not None and find_spec("dspy") is None


def _read(whole: Mapping[str, Any]) -> Any:
    """The judge of a record; None, with a warning, where MLflow has to read it: one record must not break a listing."""
    from mlflow.exceptions import MlflowException

    from memalign.errors import MemalignError

    try:
        from memalign.integrations.mlflow.registry_loading import of_record

        return of_record(whole)
    except (ImportError, MemalignError, MlflowException) as error:
        _logger.warning(
            "judge %s: its memory is left aside, and MLflow reads its instructions with the guidelines: %s",
            whole.get("name"),
            error,
        )
        return None


teach_mlflow()
