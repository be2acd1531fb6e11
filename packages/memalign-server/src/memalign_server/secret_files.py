"""Secrets in files, as containers get them: `PGPASSWORD_FILE=/run/secrets/…` is `PGPASSWORD`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from memalign.errors import ConfigurationError

__all__ = ["SECRETS", "read_secret_files"]

SECRETS: Final = (
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MEMALIGN_API_TOKEN",
    "MEMALIGN_OPENID_CLIENT_SECRET",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "OPENAI_API_KEY",
    "PGPASSWORD",
)
"""The variables that may be given as files."""


def read_secret_files() -> None:
    """Set each of the variables whose file is named to what the file holds, without its last line end.

    Raises:
        ConfigurationError: A variable is given both ways, or its file is empty or cannot be read.
    """
    for name in SECRETS:
        path = os.environ.get(f"{name}_FILE")
        if not path:
            continue
        if os.environ.get(name):
            raise ConfigurationError(f"{name} and {name}_FILE are both set; take one away")
        try:
            secret = Path(path).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"{name}_FILE names {path}, which cannot be read: {error}") from None
        if not secret.strip() or "\0" in secret:
            raise ConfigurationError(f"{name}_FILE names {path}, which holds no secret: it is empty or has a null byte")
        os.environ[name] = secret
