"""What MLflow's registry has of aligned judges, and which of them a plain judge is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlflow.exceptions import MlflowException

import memalign
from memalign.align.pasted import check_instructions, pasted_guidelines
from memalign.integrations.mlflow.base_judges import base_of
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.record import DATA, OURS, core_in_artifact

_SAME = ("instructions", "model", "feedback_value_type", "inference_params")
"""What two records of one judge share, whichever versions of MLflow wrote them."""

AGAIN = "align it again to give it a memory, or load an earlier version"


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A registered version.

    Attributes:
        base: MLflow's judge as its author made it.
        own: Our part of the record.
        shown: The instructions that MLflow shows.
    """

    base: Any
    own: dict[str, Any]
    shown: str

    def core(self, embedding: Any) -> memalign.Judge:
        """Return our judge with its memory.

        Raises MlflowException if the artifact is gone or was changed.
        """
        with damaged(self.base.name):
            return core_in_artifact(self.own, self.base, embedding)


def registered(
    name: str,
    *,
    experiment_id: str | None = None,
    version: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Registered:
    """Read a registered judge that memalign aligned; the latest version unless one is named.

    Raises:
        MlflowException: It is not there; it was never aligned, or its record is damaged
            (INVALID_PARAMETER_VALUE).
    """
    from mlflow.genai.scorers.base import Scorer

    stored = _store().get_scorer(experiment_id or _experiment(), name, version)
    record = dict(vars(stored.serialized_scorer))
    data = dict(record.get(DATA) or {})
    own = data.pop(OURS, None)
    if own is None:
        raise invalid(
            f"scorer {name!r} was never aligned by memalign; mlflow.genai.scorers.get_scorer loads "
            f"it. If its instructions were edited in MLflow since, {AGAIN}"
        )
    with damaged(name):
        author = {**data, "instructions": own["instructions"]}
        record = {**record, "description": own["description"], DATA: author}
        base = base_of(Scorer.model_validate(record))
        # MLflow's reader took them only later.
        base.aggregations = record.get("aggregations")
        for field, value in own["omitted"].items():
            if hasattr(base, field):  # a time limit is of newer versions of MLflow
                setattr(base, field, value)
        if headers:
            base._extra_headers = dict(headers)  # read a moment ago, nobody else has it
    return Registered(base=base, own=own, shown=data["instructions"])


@contextmanager
def damaged(name: str) -> Iterator[None]:
    """Say which scorer's record is damaged, where reading it fails."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise invalid(
            f"scorer {name!r}: its part of memalign is damaged: {error!r}"
        ) from error


def registered_as(judge: Any) -> Registered | None:
    """Return the registered judge that a plain judge of MLflow's is: it has guidelines too.

    Args:
        judge: What `get_scorer` gives, or a copy of it.

    Returns:
        The version with the same name, instructions, model, and type; None for a judge without
        guidelines.

    Raises:
        MlflowException: No such version is registered, so that the memory is not known
            (INVALID_PARAMETER_VALUE).
    """
    block = pasted_guidelines(judge.instructions).strip()
    if not block:
        return None
    experiment = getattr(judge, "_experiment_id", None) or _experiment()
    own = judge.model_dump()[DATA]
    behind = ""
    for stored in _versions(experiment, judge.name):
        data = dict(getattr(stored.serialized_scorer, DATA) or {})
        if data.pop(OURS, None) is None:
            continue
        if stored.scorer_name == judge.name and all(
            data.get(key) == own.get(key) for key in _SAME
        ):
            return registered(
                judge.name, experiment_id=experiment, version=stored.scorer_version
            )
        if (
            not behind
            and pasted_guidelines(data["instructions"]).strip() in judge.instructions
        ):
            behind = stored.scorer_name
    with translated():
        check_instructions(judge.name, judge.instructions, memory_of=behind)
    return None


def _versions(experiment: str, name: str) -> list[Any]:
    """Return the registered versions of that name, latest first, then the latest of every name."""
    own: list[Any] = []
    try:
        every = list(_store().list_scorers(experiment))
        if name in {stored.scorer_name for stored in every}:
            own.extend(_store().list_scorer_versions(experiment, name))
    except (MlflowException, NotImplementedError, AttributeError):
        return []  # a store without a registry
    return [*sorted(own, key=lambda stored: -int(stored.scorer_version)), *every]


def _store() -> Any:
    from mlflow.tracking._tracking_service.utils import _get_store

    return _get_store()


def _experiment() -> str:
    from mlflow.tracking.fluent import _get_experiment_id

    return str(_get_experiment_id())
