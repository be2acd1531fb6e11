"""How long a test waits for what must come: long enough for any machine, so that only what never comes fails."""

PATIENCE = 600.0
"""Seconds."""
