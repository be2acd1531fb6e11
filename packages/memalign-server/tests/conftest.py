"""A server over a registry with one judge, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from server_support import world


@pytest.fixture
def local(tmp_path: Path) -> Iterator[TestClient]:
    """A server on loopback without accounts; everybody is its owner."""
    world.registry(tmp_path)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:
        yield client
