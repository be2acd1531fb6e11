"""`python -m memalign` is the command line."""

from __future__ import annotations

from memalign.cli import main

main()
