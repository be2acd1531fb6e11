"""--verbose: the raw answers that could not be used, on stderr while the command runs. Nothing of them is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from memalign.cli.output import Output

__all__ = ["Verbose", "showing_raw_answers"]

Verbose = Annotated[bool, typer.Option("--verbose", help="Show each raw answer that could not be used, on stderr.")]


class _OnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        where, _, answer = record.getMessage().partition("\n")
        Output().say("\n".join([f"raw answer: {where}", *(f"  | {line}" for line in answer.splitlines())]))


@contextmanager
def showing_raw_answers(wanted: bool) -> Iterator[None]:
    """Inside, raw answers are shown where they are `wanted`."""
    if not wanted:
        yield
        return
    logger = logging.getLogger("memalign.raw_answers")
    before, handler = logger.level, _OnStderr()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
