"""What a row of a file is before anybody has checked it."""

from __future__ import annotations

from typing import Any

RawRow = dict[str, Any]
