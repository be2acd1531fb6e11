from __future__ import annotations

from pathlib import Path

import pytest

from memalign import Registry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memalign.db"


@pytest.fixture
def registry(path: Path) -> Registry:
    return Registry(f"sqlite:///{path}")
