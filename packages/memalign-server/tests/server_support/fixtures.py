"""Servers over a registry with one judge, and clients of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import randbelow

import pytest
from fastapi.testclient import TestClient

from server_support import world

__all__ = ["draws", "local", "shared"]

NONE, LAST = 4, 3
"""Which of four cases is held out."""


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """No case is held out by chance, so that a test can teach any; it may choose which of four is, or None for chance."""

    def draw(place: int | None) -> None:
        by_chance = randbelow if place is None else lambda n: min(place, n)
        monkeypatch.setattr("memalign_server.review.cases.randbelow", by_chance)

    draw(NONE)
    return draw


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
