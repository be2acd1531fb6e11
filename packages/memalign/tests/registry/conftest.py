from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memalign import Registry
from tests.support.places import KINDS, Place, place_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """For what is true of files only; all else takes a `place`."""
    return tmp_path / "memalign.db"


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def registry(place: Place) -> Registry:
    return place.registry()
