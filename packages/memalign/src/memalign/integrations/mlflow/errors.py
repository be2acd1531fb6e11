"""Our errors as MLflow's: what the caller did wrong is INVALID_PARAMETER_VALUE, what a model did is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from mlflow.protos import databricks_pb2 as codes

from memalign.errors import ConfigurationError, InputError, MemalignError, ModelUnavailable, RateLimited

_WORDS = (
    (r"--base-url, (OPENAI_BASE_URL)", r"make_judge(base_url=…), \1"),
    (r"set another model with --model", "name another model"),
    (r"use --model local:", "take the model local:/"),
    (r"(, or |or )?ask for less at once \(--concurrency\)", r"\1ask for less at once (MEMALIGN_CONCURRENCY)"),
    (r"MEMALIGN_CONCURRENCY, --concurrency", "MEMALIGN_CONCURRENCY"),
    (r"memalign edit NAME --param (\w+)=(\w+)", r"make_judge(inference_params={'\1': \2})"),
    (r"or less thought: --param (\w+)=(\w+)", r"or less thought: {'\1': '\2'}"),
    (r"memalign edit NAME --header '([^':]+): ([^']+)'", r"make_judge(extra_headers={'\1': '\2'})"),
    (r"memalign edit NAME --context N, ", ""),
    (r"memalign edit NAME --authority WHO", "MemAlignOptimizer(authority=[WHO])"),
    (r"--skip-invalid \(in Python: skip_invalid=True\)", "MemAlignOptimizer(skip_invalid=True)"),
    (r"write it yourself \(memalign guideline NAME --add\)", "write it into the judge's instructions"),
)
"""Options of our command line that messages name, and what a caller of MLflow does instead."""


def in_mlflows_words(message: str) -> str:
    """The message with what a caller of MLflow can do in place of our command line's options."""
    for option, words in _WORDS:
        message = re.sub(option, words, message)
    return message


def invalid(message: str) -> MlflowException:
    """The error for a caller's mistake."""
    return MlflowException(message, error_code=codes.INVALID_PARAMETER_VALUE)


@contextmanager
def translated() -> Iterator[None]:
    """Raise an MlflowException in place of every MemalignError, with its message `in_mlflows_words`."""
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
        raise MlflowException(in_mlflows_words(str(error)), error_code=code) from error
