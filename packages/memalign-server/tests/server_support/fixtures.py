"""Servers over a registry with one judge, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server_support import world

__all__ = ["local", "people", "shared"]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[world.Browser]:
    """A server on loopback without accounts; everybody is its owner."""
    world.registry(tmp_path)
    with world.Browser(world.server(tmp_path), base_url=world.ADDRESS) as client:
        yield client


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.people(tmp_path_factory.mktemp("people"))


@pytest.fixture
def shared(tmp_path: Path, people: Path) -> Iterator[world.Shared]:
    """A server that others can reach, with a person of each role in each of two teams."""
    with world.shared_server(people, tmp_path) as site:
        yield site
