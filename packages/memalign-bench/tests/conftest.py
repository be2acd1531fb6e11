"""Tasks and a run to be benchmarked, and a judge model on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_support.world import answer, write_config, write_tasks
from tests.cli.conftest import memalign
from tests.support.endpoint import Endpoint

__all__ = ["memalign"]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A server that speaks chat completions; `openai:test` is on it."""
    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.fixture
def config(tmp_path: Path, tasks: Path) -> Path:
    return write_config(tmp_path)
