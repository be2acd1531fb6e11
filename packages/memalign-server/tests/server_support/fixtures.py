"""Registries with one judge, servers over them, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from server_support import browser, world
from server_support.reviewing import hold_out, put_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = [
    "address",
    "chromium",
    "draws",
    "launched",
    "local",
    "no_script_fails",
    "owner",
    "page",
    "place",
    "queued",
    "shared",
    "url",
]

NONE = 4


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """No case is held out by chance, so that a test can teach any; it may choose which of four
    is, or None for chance."""

    def draw(place: int | None) -> None:
        by_chance = randbelow if place is None else lambda n: min(place, n)
        monkeypatch.setattr("memalign_server.store.cases.randbelow", by_chance)

    draw(NONE)
    return draw


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a registry that is not there yet; with `world.ON_BOTH` in each database."""
    with world.database(getattr(request, "param", "sqlite"), tmp_path) as url:
        yield url


@pytest.fixture
def local(place: str) -> Iterator[TestClient]:
    """A server on loopback without people; everybody is its owner."""
    with world.site(place) as client:
        yield client


@pytest.fixture
def queued(local: TestClient) -> TestClient:
    """That server with five judged cases."""
    put_in(local)
    return local


@pytest.fixture
def shared(place: str) -> Iterator[world.Shared]:
    """A server of a team that others can reach, with an owner and a reviewer."""
    with world.shared_server(place) as site:
        yield site


@pytest.fixture
def owner(shared: world.Shared) -> TestClient:
    """A browser of the owner of that team."""
    return shared.signed_in("owner")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A registry with a judge and five judged cases, of which none is held out, on each
    database."""
    with world.database(request.param, tmp_path) as url:
        world.opened(url).create(world.judge("tone"))
        with world.client(url, script=world.turning) as client:
            put_in(client)
            hold_out(client)
        yield url


@pytest.fixture(scope="module")
def launched() -> Iterator[Browser]:
    with browser.launched() as chromium:
        yield chromium


@pytest.fixture
def chromium(launched: Browser) -> Iterator[Browser]:
    """The browser of all tests of a file; the pages of a test close with it, or they would go
    on asking its server."""
    yield launched
    for context in launched.contexts:
        context.close()


@pytest.fixture
def address(url: str) -> Iterator[str]:
    """Where a server over that registry listens."""
    with browser.served(url) as address:
        yield address


@pytest.fixture
def page(chromium: Browser, address: str) -> Page:
    """A browser's page of that server."""
    return browser.opened(chromium, address)


@pytest.fixture(autouse=True)
def no_script_fails() -> Iterator[None]:
    browser.SCRIPT_ERRORS.clear()
    yield
    assert browser.SCRIPT_ERRORS == []
