"""Aligned judges in MLflow's registry.

The record is that of MLflow's judge of instructions, with the guidelines in them, so that MLflow
without memalign can load, show, schedule and run it. Under `memalign`, which MLflow ignores, it has
the author's text, the ids of the traces, and where the artifact with the whole memory is, by its
checksum: a registered judge stays what it was, whatever becomes of its traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mlflow.exceptions import MlflowException

import memalign
from memalign.errors import MemalignError
from memalign.integrations.mlflow.base_judges import core_name
from memalign.integrations.mlflow.errors import invalid
from memalign.integrations.mlflow.routes import judge_model
from memalign.integrations.mlflow.verdicts import instructions_with, learned_guidelines
from memalign.models.providers import without_secrets
from memalign.registry.bundle import bundle_of, load_bundle

DATA = "instructions_judge_pydantic_data"
"""MLflow's part of a record that holds a judge of instructions."""
OURS = "memalign"
"""Our part inside it."""

_OMITTED = (
    "timeout",
    "_base_url",
    "_include_tool_calls_in_conversation",
    "_include_timing_in_conversation",
)
"""What MLflow's own record of a judge leaves out. Headers are never written down."""

_ARTIFACT = "memalign/judge.json"


def record_of(
    base: Any,
    core: memalign.Judge,
    settings: Mapping[str, Any],
    reference: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the record of a judge as JSON values: small, whatever the memory holds.

    Args:
        base: MLflow's judge.
        core: Ours.
        settings: The optimizer's.
        reference: Where the memory is.
    """
    dumped: dict[str, Any] = base.model_dump()
    omitted: dict[str, Any] = {}
    for name in _OMITTED:
        value = getattr(base, name, None)
        if value:
            omitted[name] = without_secrets(value) if name == "_base_url" else value
    own = {
        **reference,
        "instructions": base.instructions,
        "settings": dict(settings),
        "value_type": core.value_type.spec,
        "omitted": omitted,
        "description": base.description,
        "episodic_trace_ids": [case.id for case in core.memory.cases],
        "semantic_memory": [
            guideline.record for guideline in learned_guidelines(core.memory)
        ],
    }
    data = {
        **dumped[DATA],
        "instructions": instructions_with(base.instructions, core.memory),
        OURS: own,
    }
    call = f"memalign.integrations.mlflow.load({base.name!r})"
    where = f"Learned by memalign: {call} gives it with its memory."
    described = "\n\n".join(filter(None, (base.description, where)))
    timeout = {"timeout": base.timeout} if "timeout" in dumped else {}
    return {**dumped, **timeout, "description": described, DATA: data}


@contextmanager
def registration(
    name: str, core: memalign.Judge, experiment_id: str | None
) -> Iterator[dict[str, Any]]:
    """Keep a memory as an artifact of a run in the experiment, and say where.

    If the block fails, the run is deleted. Raises MlflowException if no run or no artifact can be
    made.
    """
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    document = bundle_of(core)
    client = MlflowClient()
    experiment = experiment_id or _get_experiment_id()
    tags = {"memalign.judge": name, "memalign.memory_hash": core.memory.hash}
    run = None
    what = f"no run can be made in experiment {experiment}"
    try:
        run = client.create_run(
            experiment, run_name=f"memalign: {name}", tags=tags
        ).info
        place = f"experiment {experiment}, {run.artifact_uri}"
        what = f"its memory cannot be written to the artifacts of {place}"
        client.log_dict(run.run_id, document, _ARTIFACT)
        client.set_terminated(run.run_id)
    except (OSError, MlflowException) as error:
        if run is not None:
            client.delete_run(run.run_id)
        raise MlflowException(
            f"judge {name!r} is not registered: {what} ({error}). Register it in an experiment "
            "that you may write to, with artifacts that this process may write, "
            "mlflow.create_experiment(NAME, artifact_location=…), or save the judge elsewhere: "
            "memalign.Registry().save(judge.memalign_judge)"
        ) from error
    try:
        yield {
            "run_id": run.run_id,
            "artifact": _ARTIFACT,
            "checksum": document["checksum"],
        }
    except BaseException:
        client.delete_run(run.run_id)  # nothing refers to it
        raise


def core_in_artifact(
    own: Mapping[str, Any], base: Any, embedding: Any
) -> memalign.Judge:
    """Return the judge of ours that a record refers to.

    Raises MlflowException if its artifact is gone or was changed.
    """
    import mlflow

    where = f"runs:/{own['run_id']}/{own['artifact']}"
    reason = (
        f"judge {base.name!r}: its memory ({where}) cannot be read; align it again on "
        "its traces"
    )
    try:
        document = mlflow.artifacts.load_dict(where)
        if document.get("checksum") != own["checksum"]:
            raise invalid(f"{reason}: it is not the one that was registered")
        core = load_bundle(document)
    except (MlflowException, MemalignError, OSError) as error:
        raise MlflowException(f"{reason} ({error})") from error
    # A bundle holds neither the key nor the settings of a model: `base` has them.
    changes = {} if embedding is None else {"embedding_model": embedding}
    return core.replace(name=core_name(base.name), model=judge_model(base), **changes)
