"""MLflow's review queues: the traces whose labels would teach most go in, what reviewers completed comes out.

Queues came with MLflow 3.14. Labelling sessions, their elder sisters, are a service of Databricks: MLflow has no store for
them elsewhere (`mlflow.genai.labeling.stores` registers the scheme `databricks` alone).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memalign.evaluation import NextCases, next_cases
from memalign.integrations.mlflow.adoption import aligned_from
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.learning import require_traces
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.sessions import SESSION
from memalign.integrations.mlflow.trace_feedback import examples_of
from memalign.judge import Progress

__all__ = ["REASON_TAG", "queue_next", "reviewed"]

REASON_TAG = "memalign.label_next"
"""The tag of a queued trace that says why it is there."""

_logger = logging.getLogger(__name__)


def queue_next(
    judge: Any,
    traces: list[Any],
    *,
    queue: str,
    n: int = 5,
    users: Sequence[str] = (),
    experiment_id: str | None = None,
    max_cost: float | None = None,
    progress: Progress | None = None,
) -> NextCases:
    """Put the `n` of `traces` whose labels would teach `judge` most into a review queue, and return them with the reasons.

    `judge` is one that may be aligned, or was; each trace is judged once (see `memalign.next_cases`). Of a session its first
    trace is queued. The queue and its question, named as the judge, are made where they are not there; `users` are the
    reviewers of a new queue. Traces in the queue already, and those that the judge learned from, are left out. The tag
    `memalign.label_next` of a trace says why it is there.

    Raises MlflowException: INVALID_PARAMETER_VALUE for MLflow before 3.14, where there is nothing to queue, and for a judge
    that cannot be aligned.
    """
    import mlflow
    from mlflow.tracking.fluent import _get_experiment_id

    _queues()
    require_traces(traces)
    experiment_id = experiment_id or _get_experiment_id()
    aligned = aligned_from(judge, Settings())
    core = aligned.memalign_judge
    found = _found(queue, experiment_id)
    there = set() if found is None else {item.item_id for item in _items(found)}
    every = examples_of(traces, core.fields, base=aligned.base_judge, memory=core.memory)
    cases = [each for each in every if each.id not in there]
    if not cases:
        raise invalid(
            f"nothing to put into the queue {queue!r}: no trace has what judge {judge.name!r} reads, or all are there"
        )
    with translated(), mlflow.tracing.context(enabled=False):
        chosen = next_cases(core, cases, n=n, max_cost=max_cost, progress=progress)
    if chosen.cases:
        made = found or _queues().create_review_queue(
            queue,
            queue_type="custom",
            users=list(users) or None,
            schema_ids=[_question(aligned, experiment_id)],
            experiment_id=experiment_id,
        )
        _queues().add_items_to_review_queue(made.queue_id, item_ids=[each.id for each in chosen.cases])
        for each in chosen.cases:
            mlflow.set_trace_tag(each.id, REASON_TAG, each.reason)
    return chosen


def reviewed(judge: Any, *, queue: str, experiment_id: str | None = None) -> list[Any]:
    """The traces of a review queue that reviewers completed, for `align`; of a judge of sessions all traces of each session.

    Declined and pending ones are left out, those that are gone are named in a warning. Raises MlflowException where there is
    no such queue.
    """
    import mlflow

    found = _queues().get_review_queue(name=queue, experiment_id=experiment_id)
    traces: dict[str, Any] = {}
    for item in _items(found, status="complete"):
        trace = mlflow.get_trace(item.item_id, silent=True)
        if trace is None:
            _logger.warning("queue %s: trace %s is gone", queue, item.item_id)
            continue
        traces[trace.info.trace_id] = trace
        name = trace.info.trace_metadata.get(SESSION)
        if name and judge.is_session_level_scorer:
            turns = mlflow.search_traces(
                locations=[found.experiment_id],
                filter_string=f"metadata.`{SESSION}` = '{name}'",
                return_type="list",
            )
            traces |= {turn.info.trace_id: turn for turn in turns}
    return list(traces.values())


def _queues() -> Any:
    """MLflow's module of review queues. Raises MlflowException where it has none."""
    try:
        from mlflow.genai import review_queues
    except ImportError as error:
        raise invalid('review queues came with MLflow 3.14. Run: pip install "mlflow>=3.14"') from error
    return review_queues


def _found(name: str, experiment_id: str | None) -> Any:
    """The queue of this name, or None."""
    return _or_none(lambda: _queues().get_review_queue(name=name, experiment_id=experiment_id))


def _or_none(get: Callable[[], Any]) -> Any:
    """What MLflow has, or None where it has none."""
    from mlflow.exceptions import MlflowException

    try:
        return get()
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise


def _items(queue: Any, status: str | None = None) -> Iterator[Any]:
    token = None
    while True:
        page = _queues().list_review_queue_items(queue.queue_id, status=status, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _question(judge: MemAlignJudge, experiment_id: str) -> str:
    """The id of the label schema that asks for the judge's verdict; made where there is none of its name."""
    from mlflow.genai import label_schemas

    there = _or_none(lambda: label_schemas.get_label_schema(judge.name, experiment_id=experiment_id))
    made = there or label_schemas.create_label_schema(
        judge.name,
        type="feedback",
        input=_input(judge, label_schemas),
        instruction=judge.base_judge.instructions,
        enable_comment=True,
        experiment_id=experiment_id,
    )
    return str(made.schema_id)


def _input(judge: MemAlignJudge, kinds: Any) -> Any:
    value_type = judge.scale.value_type
    if value_type.kind == "bool":
        return kinds.InputPassFail(positive_label="True", negative_label="False")
    if value_type.kind == "choice":
        return kinds.InputCategorical(options=[str(judge.scale.label(each)) for each in value_type.choices])
    if value_type.numeric:
        low, high = (value_type.low, value_type.high) if value_type.bounded else (None, None)
        return kinds.InputNumeric(min_value=low, max_value=high)
    return kinds.InputText()
