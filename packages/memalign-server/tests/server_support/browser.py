"""A real Chromium, a server that it can reach, and what people do there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign_server.store import Store
from memalign_server.store.tables import reviews
from server_support import world

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
REVIEW = "/judges/tone/review"
LATE = f"{REVIEW}?case=late"
SETUP = "/judges/tone/setup?open="
SCRIPT_ERRORS: list[str] = []


@contextmanager
def launched() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(
            "no Chromium here: the pages are not tested in a browser; "
            "install the distribution's chromium"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def served(url: str, port: int = 0) -> AbstractContextManager[str]:
    """A server over a registry, as long as it is used; its address."""
    return world.listening(world.server(url, script=world.turning), port)


def opened(chromium: Browser, address: str, **options: Any) -> Page:
    """A page of its own browser; a script that fails there fails the test."""
    page = chromium.new_context(base_url=address, **options).new_page()
    page.set_default_timeout(60_000)
    page.on(
        "pageerror",
        lambda error: SCRIPT_ERRORS.append(f"{page.url}: {error} {error.stack}"),
    )
    return page


def enter(page: Page, url: str, name: str, back: str = "/") -> None:
    """Sign somebody of the team in by a new personal link, and go on to a page."""
    page.goto(world.link(url, name))
    page.click("main form button")
    page.wait_for_url(lambda address: "/join/" not in address)
    page.goto(back)


def until(page: Page, expression: str) -> None:
    """Wait for JavaScript to be true; the page's policy lets no script evaluate a text, so it
    is requested from here."""
    from playwright.sync_api import Error

    def is_true() -> bool:
        try:
            return bool(page.evaluate(expression))
        except Error as error:
            # Another page may be taking the place of this one.
            if "context" not in error.message:
                raise
            return False

    wait_for(page, is_true, expression)


def wait_for(page: Page, happened: Callable[[], bool], what: str = "it") -> None:
    """Wait for something that is not of the page, and let the browser go on meanwhile."""
    for _ in range(1200):
        if happened():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {what}")


def hold_back(page: Page, address: str) -> list[Route]:
    """Hold the next request back that goes to such an address; it is in the list then."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(address, hold, times=1)
    return held


def answers_in(url: str) -> dict[tuple[str, str], Any]:
    """The answers that a registry's server has, by case and person."""
    with Store(url).read() as connection:
        rows = connection.execute(select(reviews).where(reviews.c.state != "undone"))
        return {(row.case_id, row.person): row for row in rows}


def answered(page: Page, key: str) -> None:
    page.keyboard.press(key)
    page.wait_for_selector(".foot.back")


def next_case(page: Page) -> None:
    """Press Enter, and wait for the case that comes then."""
    page.keyboard.press("Enter")
    page.wait_for_selector("#foot:not(.back)")


def words_saved(page: Page) -> None:
    page.wait_for_selector("#foot :text('Words saved'):visible")


OUTSIDE = """[
  ...document.querySelectorAll('main :is(button, .button):not(.quiet)'),
].filter(button => {
    const column = button.closest('.page-720, .page-960, .wide');
    if (!column || !button.offsetParent) return false;
    const padding = parseFloat(getComputedStyle(column).paddingLeft);
    return button.getBoundingClientRect().left < column.getBoundingClientRect().left + padding - 1;
}).map(button => button.outerHTML)"""
"""The buttons with a border that begin left of their column."""


def faults_of(page: Page) -> list[str]:
    """What axe finds on a page, whether it is too wide, and buttons that stand out of their
    column."""
    from axe_playwright_python.sync_playwright import Axe

    faults = []
    for fault in Axe().run(page).response["violations"]:
        faults.append(f"{page.url} {fault['id']}: {fault['nodes']}"[:1000])
    for html in page.evaluate(OUTSIDE):
        faults.append(f"{page.url} is out of line: {html}")
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        faults.append(f"{page.url} is too wide")
    return faults
