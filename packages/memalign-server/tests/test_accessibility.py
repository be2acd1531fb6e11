"""Every page for everybody: axe in light and dark, wide and narrow; review by keyboard alone;
nothing moves for who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memalign import Example
from memalign_server.store import Store
from memalign_server.store.cases import add_cases
from server_support import world
from server_support.browser import (
    LATE,
    REVIEW,
    answered,
    enter,
    faults_of,
    opened,
    served,
    until,
    words_saved,
)
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow

SHAPES = [(scheme, width, 800) for scheme in ("light", "dark") for width in (390, 1280)]
SHAPES.append(("dark", 320, 256))  # 1280 by 1024 at 400 percent
SHEET = b"customer,reply\nWhere?,Soon.\nWhen?,Today.,x\n"
PATHS = [
    "/",
    "/judges",
    "/account",
    "/nowhere",
    "/judges/none/review",
    f"{REVIEW}?case=none",
    "/join/none",
    REVIEW,
    LATE,
    f"{LATE}&front=true",
    "/judges/tone/teach",
    "/judges/tone/learned",
    "/judges/tone/learned?find=late",
    "/judges/tone/learned?take=G1",
    "/judges/tone/learned?better=G1",
    "/judges/tone/trust",
    "/judges/tone/cases",
    "/judges/tone/setup?open=",
    "/judges/tone/setup?open=question",
    "/judges/tone/setup?open=cases",
    "/judges/tone/setup?open=experts",
    "/judges/tone/setup?open=erase",
]
CALL = {"id": "1", "function": {"name": "cancel", "arguments": "{}"}}
FAILED = {"error": "already with the carrier"}
TALK = [
    {"role": "user", "content": "Cancel it."},
    {"role": "assistant", "content": "Wait.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": FAILED},
]
CODE = "SELECT count(*) FROM orders WHERE month = 6 -- June"
JSON = '{"order": {"id": 3, "parts": [1, 2]}}'
LONG = f"**Because.**\n\n{'It is so. ' * 600}\n\n| a | b |\n|---|---|\n| 1 | 2 |"
CASES: list[RawRow] = [
    {"id": "talk", "inputs": "Hi.", "outputs": "Hello.", "conversation": TALK},
    {"id": "code", "inputs": "How many?", "outputs": CODE},
    {"id": "json", "inputs": "Where?", "outputs": JSON},
    {"id": "long", "inputs": "Why?", "outputs": LONG},
]


@pytest.fixture
def every_kind(url: str) -> str:
    """The registry with cases of every kind, and an owner."""
    world.link(url, "olga")
    with Store(url).write() as connection:
        add_cases(connection, "tone", map(Example.from_dict, CASES))
    return url


@pytest.mark.parametrize(("scheme", "width", "height"), SHAPES)
def test_axe_finds_no_fault_on_any_page(
    chromium: Browser,
    every_kind: str,
    address: str,
    scheme: Any,
    width: int,
    height: int,
) -> None:
    viewport: Any = {"width": width, "height": height}
    shape: Any = {"color_scheme": scheme, "viewport": viewport}
    page = opened(chromium, address, **shape)
    page.goto("/sign-in")
    faults = faults_of(page)
    enter(page, every_kind, "olga", "/judges/tone/setup?open=experts")
    page.fill("input[name=name]", "ana")
    page.click("button:has-text('Make a link')")
    link = page.inner_text("[role=status] code")
    faults += faults_of(page)
    for case in ("late", *(str(case["id"]) for case in CASES)):
        page.goto(f"{REVIEW}?case={case}")
        faults += faults_of(page)
        answered(page, "n")
        page.wait_for_selector("label:has-text('What did it miss?')")
        page.keyboard.type("Show sympathy first.")
        words_saved(page)
        faults += faults_of(page)
    page.goto("/judges/tone/teach")
    faults += faults_of(page)
    page.click("button:has-text('Teach it')")
    page.wait_for_url("**/learned**")
    for path in PATHS:
        page.goto(path)
        faults += faults_of(page)
        page.evaluate(
            "document.querySelectorAll('details').forEach(fold => { fold.open = true; })"
        )
        faults += faults_of(page)
    page.goto("/judges/tone/setup?open=cases")
    file: Any = {"name": "june.csv", "mimeType": "text/csv", "buffer": SHEET}
    page.set_input_files("input[name=file]", file)
    page.wait_for_selector("#upload table")
    faults += faults_of(page)
    page.goto("/judges/tone/setup?open=erase")
    page.fill("input[name=matching]", "weeks late")
    page.click("button:has-text('Find everywhere')")
    page.wait_for_selector("input[name=tick]")
    faults += faults_of(page)
    page.click("summary:has-text('Erase for good')")
    page.click("button:has-text('Yes, erase it for good')")
    page.wait_for_selector("text=Erased for good")
    faults += faults_of(page)
    stranger = opened(chromium, address, **shape)
    stranger.goto(link)
    assert faults + faults_of(stranger) == []


def tabbed_to(page: Page, wanted: str) -> None:
    """Press Tab until this has the focus; wherever it stops on the way, the focus can be seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", page.evaluate("document.activeElement.outerHTML")
        if page.evaluate(f"document.activeElement.matches({wanted!r})"):
            return
    raise AssertionError(f"Tab never comes to {wanted}")


def test_review_needs_no_mouse(page: Page) -> None:
    page.goto(REVIEW)
    assert page.title().startswith("Case 1 of 5. Is the reply warm and helpful?")
    assert page.evaluate("document.activeElement.matches('h1')")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('button.verdict[value=true]')")
    tabbed_to(page, "button.verdict[value=false]")
    page.keyboard.press("Space")
    page.wait_for_selector(".foot.back")
    until(
        page, "document.activeElement.id === 'words'"
    )  # the focus is not lost with the button that was pressed
    until(
        page,
        "document.getElementById('live').textContent.includes('You say No. The judge said Yes')",
    )
    page.keyboard.type("Show sympathy first.")
    tabbed_to(page, "button[value=next]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Case 2 of 5")
    until(page, "document.activeElement.matches('h1')")
    tabbed_to(page, "button.verdict[value=true]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=You both say Yes.")
    until(page, "document.activeElement.matches('button[value=next]')")
    page.click("text=Add a word")
    until(page, "document.activeElement.id === 'words'")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Case 3 of 5")
    tabbed_to(page, "button[value=skipped]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Case 4 of 5")
    tabbed_to(page, "#foot a[href*=review]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Case 3 of 5")


def test_nothing_moves_for_who_asks(chromium: Browser, address: str) -> None:
    moving = """[...document.querySelectorAll('*:not(.read)')].filter(e => {
        const s = getComputedStyle(e);
        return s.animationName !== 'none' || s.scrollBehavior === 'smooth'
            || s.transitionDuration.split(',').some(t => parseFloat(t) > 0); }).length"""
    page = opened(chromium, address, reduced_motion="reduce")
    for path in (REVIEW, "/judges/tone/learned", "/judges/tone/trust"):
        page.goto(path)
        if path == REVIEW:
            answered(page, "n")
        assert page.evaluate(moving) == 0, path


def top_of(element: Locator) -> float:
    """How far below the window's upper edge an element begins; it is visible."""
    box = element.bounding_box()
    assert box is not None
    return box["y"]


def test_how_far_a_long_case_is_read_shows_at_the_foot(
    chromium: Browser, every_kind: str, address: str
) -> None:
    page = opened(chromium, address, viewport={"width": 390, "height": 800})
    width = "document.querySelector('.read').getBoundingClientRect().width"
    enter(page, every_kind, "olga", LATE)
    assert page.evaluate(width) == 0
    page.goto(f"{REVIEW}?case=long")
    assert page.evaluate(width) == 0
    page.mouse.wheel(0, 1000)
    until(page, f"{width} > 10 && {width} < 390")
    assert top_of(page.locator("button.verdict").first) > 600
    assert top_of(page.locator("h1")) >= 0, "the question stays too"
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    until(page, f"{width} === 390")


def test_the_first_page_of_a_new_server_has_no_fault(
    chromium: Browser, place: str
) -> None:
    with served(place) as address:
        page = opened(chromium, address)
        page.goto("/")
        assert faults_of(page) == []
