"""Our errors as MLflow's: only what the caller did wrong is INVALID_PARAMETER_VALUE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from mlflow.protos import databricks_pb2 as codes

from memalign.errors import (
    ConfigurationError,
    InputError,
    MemalignError,
    ModelUnavailable,
    RateLimited,
)


def invalid(message: str) -> MlflowException:
    """Return the error for a caller's mistake."""
    return MlflowException(message, error_code=codes.INVALID_PARAMETER_VALUE)


@contextmanager
def translated() -> Iterator[None]:
    """Raise an MlflowException in place of every MemalignError."""
    try:
        yield
    except MemalignError as error:
        code = codes.INTERNAL_ERROR
        if isinstance(error, InputError | ConfigurationError):
            code = codes.INVALID_PARAMETER_VALUE
        elif isinstance(error, RateLimited):
            code = codes.REQUEST_LIMIT_EXCEEDED
        elif isinstance(error, ModelUnavailable):
            code = codes.TEMPORARILY_UNAVAILABLE
        raise MlflowException(str(error), error_code=code) from error
