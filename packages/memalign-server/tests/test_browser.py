"""The pages in a real Chromium: a new expert's first day, times, and Set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memalign_server.people.service import Role
from server_support import world
from server_support.browser import (
    REVIEW,
    SETUP,
    answered,
    enter,
    hold_back,
    opened,
    until,
    wait_for,
)
from server_support.reviewing import shows

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

RULE = "A reply must show sympathy before facts"


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("light", 1280), pytest.param("dark", 390, marks=pytest.mark.slow)],
)
def test_an_experts_first_day(
    chromium: Browser, url: str, address: str, scheme: Any, width: int
) -> None:
    world.link(url, "olga")
    world.link(url, "ana", Role.REVIEWER)
    size: Any = {"width": width, "height": 800}
    page = opened(
        chromium, address, color_scheme=scheme, viewport=size, reduced_motion="reduce"
    )
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    enter(page, url, "ana")
    # The one judge's next case.
    page.wait_for_selector("h1:has-text('Is the reply warm and helpful?')")
    assert page.locator("nav a").all_inner_texts() == ["Review", "Learned", "Trust"]
    assert "Case 1 of 5" in page.inner_text("main")
    assert "It answers the question." not in page.content()

    words = [f"Show sympathy first, {number}." for number in (1, 2, 3)]
    she_explains_three(page, words)
    she_sees_what_became_of_her_words(page, words)
    she_has_the_last_word(page, words)
    page.click("summary:has-text('Everything it knows')")
    page.fill("input[name=find]", "three weeks")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 case holds it.")
    page.click("nav a:has-text('Review')")
    page.wait_for_selector("text=You are through. 4 answers, 2 explained.")
    page.click("text=Back")
    page.wait_for_selector(".foot.back")
    assert [place for place in requested if not place.startswith(address)] == []


def she_explains_three(page: Page, words: list[str]) -> None:
    """Put off the question whether to teach; be not sure of one of the last two, and skip the
    other."""
    page.goto(REVIEW)
    for comment in words:
        answered(page, "n")
        page.wait_for_selector("label:has-text('What did it miss?')")
        page.keyboard.type(comment)  # the field has the focus
        page.keyboard.press("Enter")
        page.wait_for_selector(
            "text=Teach the judge?" if comment == words[2] else "#foot:not(.back)"
        )
    assert page.locator(".sentences li").all_inner_texts() == words
    page.click("text=Later")
    page.wait_for_selector("text=Case 4 of 5")
    page.reload()
    page.keyboard.press("?")  # not sure
    page.wait_for_selector("text=Case 5 of 5")
    page.keyboard.press("ArrowRight")  # skipped
    page.wait_for_selector("text=You are through. 3 answers, 3 explained.")
    page.click("text=See the 2 that you skipped or were not sure of")
    page.wait_for_selector("#foot:not(.back)")
    page.goto(f"{REVIEW}?case=shop")
    answered(page, "y")


def she_sees_what_became_of_her_words(page: Page, words: list[str]) -> None:
    page.goto("/judges/tone/learned")
    page.click("text=Teach it")
    page.wait_for_selector("text=You explained 3 things. Teach the judge?")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('What the judge learned from you')")
    rows = page.locator("article")
    assert rows.count() == 3
    shows(rows.first.inner_text(), words[2], RULE, "1 of 1")
    # That of the first sentence which she has not confirmed.
    assert page.locator(".main-button").count() == 1


def she_has_the_last_word(page: Page, words: list[str]) -> None:
    """Confirm, say better and take back."""
    rows = page.locator("article")
    rows.first.get_by_role("button", name="That is what I meant").click()
    page.wait_for_selector("text=You confirmed it")
    assert page.locator(".main-button").count() == 1
    rows.nth(1).get_by_role("link", name="Say it better").click()
    page.fill("textarea", "Say sorry, and mean it.")
    page.click("text=Try my wording")
    assert page.input_value("textarea") == "Say sorry, and mean it."
    page.wait_for_selector("text=/Tried on . cases you answered/")
    page.click("text=Keep my wording")
    page.wait_for_selector("text=The sentence is yours")
    # Loaded again once it is judged again.
    page.wait_for_selector("[data-poll*='/jobs/']", state="detached")
    rows.nth(2).get_by_role("link", name="Take back my words").click()
    going = "text=1 sentence goes, or is written again from what remains:"
    page.wait_for_selector(going)
    page.get_by_role("button", name="Take back", exact=True).click()
    page.wait_for_selector("text=Taken back.")
    assert words[0] not in page.inner_text("main")
    assert "Say sorry, and mean it." in page.inner_text("main")


def test_a_time_is_in_the_readers_zone_and_language(
    chromium: Browser, address: str
) -> None:
    page = opened(chromium, address, locale="pt-PT", timezone_id="Asia/Tokyo")
    page.goto(REVIEW)
    answered(page, "s")  # Sim
    page.goto(f"{SETUP}experts")
    until(page, "document.querySelector('time').textContent.includes('GMT+9')")
    assert str(page.get_attribute("time", "datetime")).endswith("+00:00")
    assert " de " in page.inner_text("time")


def test_taking_a_batch_out_leaves_its_time_on_one_line(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/judges/tone/cases")
    page.click("summary:has-text('What was added when')")
    row = page.locator("li.row:has(form)").first
    height = row.locator("a").bounding_box()
    row.locator("summary").click()
    row.locator("text=Take them out").wait_for()
    opened_height = row.locator("a").bounding_box()
    assert height is not None
    assert opened_height is not None
    assert opened_height["height"] == height["height"]


def test_a_button_pressed_while_an_answer_is_on_its_way_is_marked_and_pressed_then(
    page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "june.csv"
    file.write_text("question,answer\nWhere is it?,On its way.\n")
    page.goto(f"{SETUP}cases")
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector("text=Add 1 case")
    held = hold_back(page, "**/setup/cases")
    page.select_option("select >> nth=0", "answer")
    page.select_option("select >> nth=0", "question")
    page.click("text=Add 1 case")
    page.wait_for_selector("button[name=what][aria-busy=true]")
    held[0].continue_()
    page.wait_for_selector("text=1 new")


def test_a_plain_sentence_of_the_server_is_shown(page: Page) -> None:
    page.goto(f"{SETUP}cases")
    sentence = "an address holds no null character"
    page.route(
        "**/setup/name",
        lambda route: route.fulfill(
            status=400, content_type="text/plain", body=sentence
        ),
    )
    page.click("summary:has-text('Rename or delete this judge')")
    page.click("button:has-text('Rename it')")
    page.wait_for_selector(f".fault:has-text('{sentence}')")


SHEET = """who;what;answer
Ana;Where is it?;On its way.
Ben;Why so late?;We are sorry.
"""


def test_a_column_chosen_while_another_is_on_its_way_is_taken_and_the_file_is_added(
    page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "june.csv"
    file.write_text(SHEET)
    page.goto(f"{SETUP}cases")
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector("select >> nth=1")
    held = hold_back(page, "**/setup/cases")
    page.select_option("select >> nth=1", "answer")
    wait_for(page, lambda: bool(held))
    page.select_option("select >> nth=0", "what")
    held[0].continue_()
    page.wait_for_selector("td:has-text('Where is it?')")
    page.wait_for_selector("td:has-text('On its way.')")
    page.click("text=Add 2 cases")
    page.wait_for_selector("text=2 new")


WITHOUT_CLIPBOARD = """{
    const own = navigator.clipboard;
    window.pasted = () => own.readText();
    Object.defineProperty(navigator, 'clipboard', { value: undefined });
}"""


@pytest.mark.parametrize("tls", [True, False])
def test_an_invitation_is_copied_with_tls_and_without(
    chromium: Browser, url: str, address: str, tls: bool
) -> None:
    page = opened(chromium, address, permissions=["clipboard-read", "clipboard-write"])
    if not tls:  # a page without it has no clipboard of its own
        page.add_init_script(WITHOUT_CLIPBOARD)
    enter(page, url, "olga", f"{SETUP}experts")
    page.fill("input[name=name]", "Carla")
    page.click("text=Make a link")
    link = page.inner_text("[role=status] code")
    page.click("[data-copy]")
    page.wait_for_selector("[data-copy]:has-text('Copied')")
    assert (
        page.evaluate("window.pasted ? pasted() : navigator.clipboard.readText()")
        == link
    )
