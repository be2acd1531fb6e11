"""Guidelines that were pasted into instructions, without the memory that could forget them."""

from __future__ import annotations

import re

from memalign.errors import InputError

__all__ = ["check_instructions", "pasted_guidelines"]

_BLOCK = re.compile(
    r"Distilled\s+Guidelines\s*\(\s*\d+\s*\)\s*:.*", re.IGNORECASE | re.DOTALL
)
"""As MLflow shows the guidelines of an aligned judge in its instructions."""


def pasted_guidelines(instructions: str) -> str:
    """Return the block of distilled guidelines in instructions.

    Args:
        instructions: An author's text.

    Returns:
        From its heading to the end of the text; "" without such a block.
    """
    block = _BLOCK.search(instructions)
    return block[0] if block else ""


def check_instructions(name: str, instructions: str, *, memory_of: str = "") -> None:
    """Refuse to learn beside pasted guidelines.

    Args:
        name: The judge's.
        instructions: The judge's.
        memory_of: The judge whose memory is behind the guidelines, if another is known to be.

    Raises:
        InputError: The instructions hold a block of distilled guidelines.
    """
    if not pasted_guidelines(instructions):
        return
    load = f"memalign.integrations.mlflow.load({memory_of or name!r})"
    raise InputError(
        f"the instructions of judge {name!r} hold 'Distilled Guidelines', "
        "without the memory that they came from: "
        "they would be learned twice, and never forgotten. "
        f"Load the judge of MLflow with its memory, {load}, "
        "or delete the guidelines from the instructions"
    )
