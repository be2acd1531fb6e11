"""The demo: one story on a real model."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    JsonOutput,
    UnusedRegistryUrl,
)


def demo(
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="The default is your provider's, else the embedded model, downloaded first (1.1 GB, once).",
        ),
    ] = None,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """See a judge learn from five pieces of feedback and forget one again, on a real model.

    Verdicts before and after, the guidelines with the feedback they come from, and what each stage cost. Needs no key.
    """
    from memalign.demo import run_demo

    return run_demo(model=model, json_output=json_output)
