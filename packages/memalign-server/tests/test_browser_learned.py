"""Learned in a real Chromium: what a first expert explains, teaches, confirms, says better and takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from test_browser import chromium, no_script_fails, opened, served, url

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "no_script_fails", "url"]  # fixtures

pytestmark = pytest.mark.slow


def explain_three(page: Page) -> None:
    """Three answers with words, one after the other, until the page asks whether to teach."""
    page.goto("/judges/tone/review")
    for number in range(1, 4):
        page.keyboard.press("n")
        page.wait_for_selector(".foot.back")
        page.keyboard.type(f"Show sympathy first, {number}.")
        page.keyboard.press("Enter")
        page.wait_for_selector("#foot:not(.back)" if number < 3 else "text=You explained 3 things. Teach the judge?")


def faults(page: Page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    too_wide = [] if page.evaluate("document.documentElement.scrollWidth <= innerWidth") else ["too wide"]
    return [*too_wide, *(fault["id"] for fault in Axe().run(page).response["violations"])]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_an_expert_sees_her_words_become_rules_and_has_the_last_word(
    chromium: Browser, url: str, scheme: Any, width: int
) -> None:
    with served(url) as address:
        size: Any = {"width": width, "height": 800}
        page = opened(chromium, address, color_scheme=scheme, viewport=size, reduced_motion="reduce")
        explain_three(page)
        assert page.locator(".sentences li").all_inner_texts() == [f"Show sympathy first, {n}." for n in (1, 2, 3)]
        assert faults(page) == []
        page.keyboard.press("Enter")  # Teach it
        page.wait_for_selector("h1:has-text('What the judge learned from you')")
        rows = page.locator("article")
        assert rows.count() == 3
        assert "Show sympathy first, 3." in rows.first.inner_text()
        assert "A reply must show sympathy before facts" in rows.first.inner_text()
        assert "1 of 1" in rows.first.inner_text()
        assert page.locator(".main-button").count() == 1, "that of the first sentence which she has not confirmed"
        assert faults(page) == []

        rows.first.get_by_role("button", name="That is what I meant").click()
        page.wait_for_selector("text=You confirmed it")
        assert page.locator(".main-button").count() == 1

        rows.nth(1).get_by_role("link", name="Say it better").click()
        page.fill("textarea", "Say sorry, and mean it.")
        page.click("text=Try my wording")
        assert page.input_value("textarea") == "Say sorry, and mean it."
        page.wait_for_selector("text=Tried on 3 cases you answered")
        assert faults(page) == []
        page.click("text=Keep my wording")
        page.wait_for_selector("text=Say sorry, and mean it.")
        page.wait_for_selector("text=The sentence is yours")

        rows.nth(2).get_by_role("link", name="Take back my words").click()
        page.wait_for_selector("text=This changes 1 of 3 things it learned; your wording stays.")
        assert faults(page) == []
        page.get_by_role("button", name="Take back", exact=True).click()
        page.wait_for_selector("text=Taken back.")
        assert "Show sympathy first, 1." not in page.inner_text("main")
        assert "Say sorry, and mean it." in page.inner_text("main")

        page.click("summary:has-text('Everything it knows')")
        page.fill("input[name=find]", "three weeks")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=1 case holds it.")
        assert faults(page) == []


def test_later_asks_again_after_three_more(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        explain_three(page)
        page.click("text=Later")
        page.wait_for_selector("text=Case 4 of 5")
        page.goto("/judges/tone/review")
        page.wait_for_selector("text=Case 4 of 5")
        page.goto("/judges/tone/learned")
        page.click("text=Teach it")
        page.wait_for_selector("text=You explained 3 things. Teach the judge?")
