"""The traces of an MLflow experiment as cases to judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import mlflow
from mlflow.exceptions import MlflowException

from memalign.errors import InputError
from memalign.integrations.mlflow.traces import examples_of
from memalign.judge import Progress
from memalign.types import Example

_PAGE = 100
"""Traces of one request, so that progress is shown; MLflow's servers take no more than 500."""
_PATIENCE = 10
"""Seconds until a tracking server must answer at all; MLflow itself tries for minutes."""


@dataclass(frozen=True, kw_only=True)
class ExperimentCases:
    """Cases by the ids of their traces, newest first.

    Attributes:
        examples: The cases.
        skipped: How many traces lack what the judge reads.
        more: Whether there are others.
    """

    examples: tuple[Example, ...]
    skipped: int
    more: bool


def cases_of_experiment(
    experiment: str,
    fields: Sequence[str],
    *,
    tracking_uri: str | None = None,
    filter_string: str | None = None,
    most: int = 1_000,
    progress: Progress | None = None,
) -> ExperimentCases:
    """Return the newest traces of an experiment as cases with a judge's fields.

    The traces of a session are one case for a judge of conversations.

    Args:
        experiment: Its name or its id.
        fields: What the judge reads.
        tracking_uri: Where MLflow is; None for the active one.
        filter_string: In MLflow's syntax of `search_traces`.
        most: How many traces.
        progress: Is told of every page.

    Raises:
        InputError: MLflow does not find or understand something, or no server answers.
    """
    uri = tracking_uri or mlflow.get_tracking_uri()
    with _refused(f"no MLflow answers at {urlsplit(uri).hostname}"):
        _check_server(uri)
    client = mlflow.MlflowClient(tracking_uri=uri)
    traces: list[Any] = []
    token = None
    with _refused(f"MLflow cannot give the traces of {experiment!r}"):
        locations = [_id_of(client, experiment)]
        while len(traces) < most:
            page = client.search_traces(
                locations=locations,
                filter_string=filter_string,
                max_results=min(_PAGE, most - len(traces)),
                page_token=token,
            )
            traces += page
            token = page.token
            if progress is not None:
                progress("reading", len(traces), 0)
            if not (page and token):
                break
    examples = tuple(examples_of(traces, fields))
    skipped = 0 if "conversation" in fields else len(traces) - len(examples)
    return ExperimentCases(
        examples=examples, skipped=skipped, more=bool(token) and len(traces) >= most
    )


@contextmanager
def _refused(problem: str) -> Iterator[None]:
    """Raise an InputError that names the problem in place of MLflow's errors."""
    try:
        yield
    except MlflowException as error:
        raise InputError(f"{problem}: {error.message[:300]}") from error


def _check_server(uri: str) -> None:
    """Ask a tracking server whether it is there. Raises MlflowException."""
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    if urlsplit(uri).scheme in ("http", "https"):
        host = get_default_host_creds(uri)
        http_request(host, "/health", "GET", max_retries=0, timeout=_PATIENCE)


def _id_of(client: Any, experiment: str) -> str:
    """Return the id of an experiment. Raises InputError or MlflowException if there is none."""
    record = client.get_experiment_by_name(experiment)
    if record is None and experiment.isdigit():
        record = client.get_experiment(experiment)
    if record is None:
        raise InputError(
            f"MLflow has no experiment {experiment!r} there; give its name or its id"
        )
    return str(record.experiment_id)
