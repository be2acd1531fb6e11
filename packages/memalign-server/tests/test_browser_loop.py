"""A new expert's whole way in a real Chromium, and what goes wrong on it: a model that is down, two tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from memalign_server.people.people import Role
from server_support import world
from test_browser import answered, chromium, enter, new_link, no_script_fails, opened, served, until, url

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "no_script_fails", "url"]  # fixtures

pytestmark = pytest.mark.slow


def explain(page: Page, words: str, then: str) -> None:
    """Answer the case that is reply against the judge, say why, and go on."""
    page.keyboard.press("n")
    page.wait_for_selector("label:has-text('What did it miss?')")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_selector(then)


def test_an_experts_first_day(chromium: Browser, url: str) -> None:
    world.link(url, "olga")
    world.link(url, "ana", Role.REVIEWER)
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(new_link(url, "ana"))
        page.click("button:has-text('Go on as ana')")
        page.wait_for_selector("h1:has-text('Is the reply warm and helpful?')")  # the one judge's next case
        assert page.locator("nav a").all_inner_texts() == ["Review", "Learned", "Trust"]
        for number in range(3):
            explain(
                page,
                f"Sympathy comes first, {number}.",
                "text=You explained 3 things." if number == 2 else "#foot:not(.back)",
            )
        page.click("text=Later")
        page.wait_for_selector("text=Case 4 of 5")
        page.click("button:has-text('Not sure')")
        page.wait_for_selector("text=Case 5 of 5")
        page.click("button:has-text('Skip')")
        page.wait_for_selector("text=You are through. 3 answers, 3 explained.")
        page.click("text=See the 1 that you skipped")
        page.wait_for_selector("#foot:not(.back)")
        answered(page, "y")
        page.goto("/judges/tone/teach")
        page.keyboard.press("Enter")
        page.wait_for_url("**/learned**")
        page.wait_for_selector("text=A reply must show sympathy before facts")
        page.click("nav a:has-text('Review')")
        page.wait_for_selector("text=You are through. 4 answers, 3 explained.")
        page.click("text=Back")
        page.wait_for_selector(".foot.back")


def test_two_tabs_of_one_browser(chromium: Browser, url: str) -> None:
    with served(url) as address:
        first = opened(chromium, address)
        second = first.context.new_page()
        for page in (first, second):
            page.goto("/judges/tone/review?case=late")
        answered(first, "n")
        second.keyboard.press("y")
        second.wait_for_selector("text=You have answered this case in another window: No.")
        assert "It answers the question." not in second.inner_text("main")
        second.wait_for_timeout(100)
        answered(second, "y")
        first.reload()
        first.wait_for_selector("text=You both say Yes.")
        first.go_back()
        until(first, "true")


def test_the_way_back_in_the_browser_shows_the_case_before(chromium: Browser, url: str) -> None:
    world.link(url, "ana")
    with served(url) as address:
        page = opened(chromium, address)
        enter(page, url, "ana")
        page.goto("/judges/tone/review")
        reply = page.inner_text(".bubble.reply")
        answered(page, "y")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Case 2 of 5")
        page.go_back()
        page.wait_for_selector(".foot.back")
        assert page.inner_text(".bubble.reply") == reply
