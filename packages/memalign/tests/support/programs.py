"""Programs of this folder in a process of their own, which a test can kill."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Where they are run, as `-m` looks for modules there."""


def program(module: str) -> list[str]:
    """The command that runs a module such as `tests.support.killing`."""
    return [sys.executable, "-m", module]
