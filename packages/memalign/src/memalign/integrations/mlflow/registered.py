"""Aligned judges in MLflow's registry.

The record is that of MLflow's judge of instructions, with the guidelines in them, so that MLflow without memalign and
DSPy loads, shows and runs it. Under `memalign` it has the author's text, the ids of the traces, and the artifact with
the whole memory, by its checksum: a registered judge stays what it was, whatever becomes of its traces.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.exceptions import MlflowException

import memalign
from memalign.errors import MemalignError
from memalign.integrations.mlflow.adoption import adopted_core
from memalign.integrations.mlflow.base_judges import core_name, core_of, model_of
from memalign.integrations.mlflow.label_types import Scale
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow_entry import OURS
from memalign.models.providers import without_secrets

if TYPE_CHECKING:
    from memalign.integrations.mlflow.aligned_judge import MemAlignJudge

__all__ = ["ARTIFACT", "FLAGS", "FORMAT", "OURS", "THEIRS", "core_of_bundle", "fetched", "record_of", "registration"]

FORMAT = 1
"""Of our part of a record."""

THEIRS = "instructions_judge_pydantic_data"

FLAGS = ("_include_tool_calls_in_conversation", "_include_timing_in_conversation")
"""Of MLflow's judges of sessions, which its own record leaves out."""

ARTIFACT = "memalign/judge.json"
_REFERENCE = ("run_id", "artifact", "checksum")
"""What names the artifact in our part of a record."""


def record_of(judge: MemAlignJudge) -> dict[str, Any]:
    """The record of a judge, as JSON values: small, whatever the memory holds."""
    import mlflow

    base = judge._base_judge  # one piece in two files
    dumped: dict[str, Any] = base.model_dump()
    own = {
        **{name: value for name, value in (judge._record or {}).items() if name in _REFERENCE},
        "format": FORMAT,
        "instructions": base.instructions,
        "settings": judge._settings.record(),
        "value_type": judge._scale.value_type.spec,
        "timeout": getattr(judge, "timeout", None),
        "episodic_trace_ids": judge._episodic_trace_ids,
        "semantic_memory": [guideline.model_dump() for guideline in judge._semantic_memory],
    }
    if base_url := getattr(base, "_base_url", None):
        own["base_url"] = without_secrets(base_url)  # headers are never written down
    if flags := [name for name in FLAGS if getattr(base, name, False)]:
        own["flags"] = flags
    return {
        **dumped,
        "name": judge.name,
        "description": judge.description,
        "aggregations": judge.aggregations,
        "mlflow_version": mlflow.__version__,
        **({"timeout": judge.timeout} if "timeout" in dumped else {}),
        THEIRS: {**dumped[THEIRS], "instructions": judge.instructions, OURS: own},
    }


@contextmanager
def registration(judge: MemAlignJudge, *, name: str | None, experiment_id: str | None) -> Iterator[MemAlignJudge]:
    """`judge` with its memory kept as an artifact of a run in the experiment; without the run where the block fails."""
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    from memalign.registry.bundle import bundle_of

    core = judge.memalign_judge
    document = bundle_of(core.replace(name=core_name(name)) if name else core)
    client, experiment = MlflowClient(), experiment_id or _get_experiment_id()
    try:
        run = client.create_run(
            experiment,
            run_name=f"memalign: {name or judge.name}",
            tags={"memalign.judge": name or judge.name, "memalign.memory_hash": core.memory.hash},
        )
    except MlflowException as error:
        raise _unregistered(name or judge.name, f"no run can be made in experiment {experiment}", error) from error
    try:
        _write(client, run, document, name or judge.name)
        client.set_terminated(run.info.run_id)
        reference = dict(zip(_REFERENCE, (run.info.run_id, ARTIFACT, document["checksum"]), strict=True))
        yield judge._named(name or judge.name, reference)
    except BaseException:
        client.delete_run(run.info.run_id)  # nothing refers to it
        raise


def _write(client: Any, run: Any, document: Mapping[str, Any], name: str) -> None:
    try:
        client.log_dict(run.info.run_id, dict(document), ARTIFACT)
    except (OSError, MlflowException) as error:
        place = f"experiment {run.info.experiment_id}, {run.info.artifact_uri}"
        what = f"its memory cannot be written to the artifacts of {place}"
        raise _unregistered(name, what, error) from error


def _unregistered(name: str, what: str, error: Exception) -> MlflowException:
    """What a registration that the server or the artifacts' store refused is told as."""
    return MlflowException(
        f"judge {name!r} is not registered: {what} ({error}). Register it in an experiment that you may write to, with "
        "artifacts that this process may write, mlflow.create_experiment(NAME, artifact_location=…), or save the judge "
        "elsewhere: memalign.Registry().save(judge.memalign_judge)"
    )


def fetched(base: Any, scale: Scale, settings: Settings, record: Mapping[str, Any]) -> memalign.Judge:
    """The judge of ours that a record refers to; of one without an artifact, what it names is adopted.

    Raises MlflowException where the artifact is gone or was changed.
    """
    if "run_id" not in record:
        guidelines, trace_ids = (record.get(name) or () for name in ("semantic_memory", "episodic_trace_ids"))
        return adopted_core(base, scale, settings, guidelines, trace_ids)
    where = f"runs:/{record['run_id']}/{record.get('artifact')}"
    reason = (
        f"judge {base.name!r}: its memory ({where}) cannot be read; memalign.integrations.mlflow.adopt(judge) makes "
        "one of what the record itself has: its guidelines, and today's feedback on its traces"
    )
    try:
        document = _document(str(record["run_id"]), str(record.get("artifact")))
    except (MlflowException, OSError) as error:
        raise MlflowException(f"{reason} ({error})") from error
    if document.get("checksum") != record.get("checksum"):
        raise invalid(f"{reason}: it is not the one that was registered")
    try:
        return core_of_bundle(document, base, scale, settings)
    except MemalignError as error:
        raise invalid(f"{reason} ({error})") from error


def _document(run_id: str, artifact: str) -> dict[str, Any]:
    """The content of a run's artifact.

    A worker of a tracking server, as of scheduled scorers, works on the server's database. What the server keeps for
    others (`mlflow-artifacts:`) it reaches at the server's own address, which MLflow gives it for the gateway.
    """
    import mlflow
    from mlflow.environment_variables import MLFLOW_GATEWAY_URI
    from mlflow.utils.uri import is_http_uri

    server = MLFLOW_GATEWAY_URI.get()
    if server and not is_http_uri(mlflow.get_tracking_uri()):
        root = str(mlflow.MlflowClient().get_run(run_id).info.artifact_uri)
        if root.startswith("mlflow-artifacts:"):
            with tempfile.TemporaryDirectory() as folder:
                uri = f"{root}/{artifact}"
                path = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=folder, tracking_uri=server)
                return dict(json.loads(Path(path).read_text("utf-8")))
    return dict(mlflow.artifacts.load_dict(f"runs:/{run_id}/{artifact}"))


def core_of_bundle(document: Mapping[str, Any], base: Any, scale: Scale, settings: Settings) -> memalign.Judge:
    """The judge of ours in a bundle, asked as MLflow's judge `base` is."""
    from memalign.registry.bundle import read_bundle

    core, _ = read_bundle(dict(document))
    # What a bundle cannot hold: the address and the settings of the judge's own model.
    wanted = core_of(base, scale, settings.parameters)
    changes = {} if settings.embedding_model is None else {"embedding_model": settings.routed_embedding_model()}
    return core.replace(name=core_name(base.name), model=model_of(base), parameters=wanted.parameters, **changes)
