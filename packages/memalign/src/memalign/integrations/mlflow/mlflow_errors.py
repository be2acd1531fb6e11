"""Our errors as MLflow's: what the caller did wrong is INVALID_PARAMETER_VALUE, what a model did is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INTERNAL_ERROR,
    INVALID_PARAMETER_VALUE,
    REQUEST_LIMIT_EXCEEDED,
    TEMPORARILY_UNAVAILABLE,
)

from memalign.errors import ConfigurationError, InputError, MemalignError, ModelUnavailable, RateLimited

__all__ = ["invalid", "translated"]


def invalid(message: str) -> MlflowException:
    """The error for what a caller gave."""
    return MlflowException(message, error_code=INVALID_PARAMETER_VALUE)


@contextmanager
def translated() -> Iterator[None]:
    """Raise an MlflowException in place of every MemalignError, with the same message."""
    try:
        yield
    except (InputError, ConfigurationError) as error:
        raise invalid(str(error)) from error
    except RateLimited as error:
        raise MlflowException(str(error), error_code=REQUEST_LIMIT_EXCEEDED) from error
    except ModelUnavailable as error:
        raise MlflowException(str(error), error_code=TEMPORARILY_UNAVAILABLE) from error
    except MemalignError as error:
        raise MlflowException(str(error), error_code=INTERNAL_ERROR) from error
