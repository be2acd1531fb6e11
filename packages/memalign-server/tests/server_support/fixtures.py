"""Servers over a registry with one judge, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from server_support import world

__all__ = ["local", "shared"]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[TestClient]:
    """A server on loopback without people; everybody is its owner."""
    world.registry(tmp_path)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:
        yield client


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[world.Shared]:
    """A server of a team that others can reach, with an owner and a reviewer."""
    with world.shared_server(tmp_path) as site:
        yield site
