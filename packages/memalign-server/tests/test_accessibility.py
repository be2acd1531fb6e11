"""Every page for everybody: axe in light and dark, wide and narrow; review by keyboard alone; nothing moves for who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from server_support import world
from test_browser import answered, chromium, enter, opened, served, until, url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "url"]  # fixtures

pytestmark = pytest.mark.slow

SHAPES = [(scheme, width) for scheme in ("light", "dark") for width in (390, 1280)]
OF_JUDGES = [
    "/", "/judges/tone/review", "/judges/tone/review?case=late", "/judges/tone/changed", "/judges/tone/memory",
    "/judges/tone/memory?find=late", "/judges/tone/trust", "/judges/tone/settle", "/judges",
    *(f"/judges/tone/setup?open={block}" for block in ("question", "cases", "experts", "erase", "")),
]  # fmt: skip
OF_PEOPLE = ["/account"]
FAULTY = ["/nowhere", "/judges/none/review", "/judges/tone/review?case=none", "/join/none"]


@pytest.fixture
def address(url: str) -> Iterator[str]:
    world.link(url, "olga")
    with served(url) as there:
        yield there


def faults_of(page: Page, path: str) -> dict[str, list[str]]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    told = {f"{path} {each['id']}": [node["html"][:200] for node in each["nodes"][:3]] for each in found}
    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        told[f"{path} is too wide"] = []
    return told


@pytest.mark.parametrize(("scheme", "width"), SHAPES)
def test_axe_finds_no_fault_on_any_page(chromium: Browser, url: str, address: str, scheme: Any, width: int) -> None:
    page = opened(chromium, address, color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto("/sign-in")
    found = faults_of(page, "/sign-in")
    enter(page, url, "olga")
    page.goto("/judges/tone/setup?open=experts")
    page.fill("input[name=name]", "ana")
    page.click("button:has-text('Copy invitation')")
    link = page.inner_text("[role=status] code")
    found |= faults_of(page, "invited")
    page.goto("/account")
    page.click("button:has-text('Make a token')")
    page.wait_for_selector("[role=status] code:has-text('memalign_')")
    found |= faults_of(page, "token")
    page.goto("/judges/tone/review?case=late")
    found |= faults_of(page, "asked")
    page.fill("textarea[name=rationale]", "Show sympathy first.")
    page.locator("main").focus()
    answered(page, "n")
    found |= faults_of(page, "revealed")
    page.keyboard.press("t")
    page.wait_for_selector("h1:has-text('What changed')")
    for path in (*OF_JUDGES, *OF_PEOPLE, *FAULTY):
        page.goto(path)
        found |= faults_of(page, path)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        found |= faults_of(page, f"{path} unfolded")
    stranger = opened(chromium, address, color_scheme=scheme, viewport={"width": width, "height": 800})
    stranger.goto(link)
    found |= faults_of(stranger, "join")
    assert found == {}


def focused(page: Page) -> str:
    """The name and value of what has the focus."""
    return str(
        page.evaluate("(e => `${e.tagName} ${e.id || e.name || ''} ${e.value || ''}`.trim())(document.activeElement)")
    )


def tabbed_to(page: Page, wanted: str) -> None:
    """Press Tab until this has the focus; wherever it stops on the way, the focus can be seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", focused(page)
        if page.evaluate(f"document.activeElement.matches({wanted!r})"):
            return
    raise AssertionError(f"Tab never comes to {wanted}")


def test_review_needs_no_mouse(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        page.keyboard.press("Tab")
        assert "skip" in str(page.evaluate("document.activeElement.className"))
        page.keyboard.press("Enter")
        first = page.inner_text("#case-name")
        tabbed_to(page, "#rationale")
        page.keyboard.type("Show sympathy first.")
        tabbed_to(page, "button.verdict[value=false]")
        page.keyboard.press("Space")
        page.wait_for_selector("#card.done")
        until(page, "document.activeElement.id === 'card'")  # not lost with the button that was pressed
        until(page, "document.getElementById('live').textContent.includes('The judge: Yes')")
        tabbed_to(page, "[data-go-on]")
        until(page, "document.querySelector('template#ahead').content.querySelector('#card')")
        page.keyboard.press("Enter")
        page.wait_for_selector("#card:not(.done)")
        assert page.inner_text("#case-name") != first
        assert focused(page) == "ARTICLE card"
        tabbed_to(page, "button[value=skipped]")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#status').textContent.includes('1 skipped')")
        until(page, "document.activeElement.id === 'card'")
        page.goto(f"/judges/tone/review?case={first.split()[-1]}")
        tabbed_to(page, "[data-key=z]")
        page.keyboard.press("Enter")
        page.wait_for_selector("#card:not(.done)")
        until(page, "document.activeElement.id === 'card'")


def test_nothing_moves_for_who_asks(chromium: Browser, url: str) -> None:
    moving = """[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e); return s.animationName !== 'none'
        || s.scrollBehavior === 'smooth' || s.transitionDuration.split(',').some(t => parseFloat(t) > 0); }).length"""
    with served(url) as address:
        page = opened(chromium, address, reduced_motion="reduce")
        for path in ("/judges/tone/review", "/judges/tone/memory"):
            page.goto(path)
            assert page.evaluate(moving) == 0
