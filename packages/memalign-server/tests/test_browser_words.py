"""What a person types and chooses, in a real Chromium: kept under their name whatever happens, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign_server.store import Store
from memalign_server.store.tables import reviews
from server_support import world
from test_browser import answered, chromium, enter, no_script_fails, opened, served, until, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page, Route

__all__ = ["chromium", "no_script_fails", "url"]  # fixtures

WORDS = "Show sympathy first."
LATE = "/judges/tone/review?case=late"
FIELD = "#card textarea[name=rationale]"
NO_CONNECTION = "Not saved yet: no connection. Your words are kept here."
SESSION_OVER = "Your session is over"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def sign_in(page: Page, url: str, name: str, *, back: str = "/judges/tone/review") -> None:
    enter(page, url, name)
    page.goto(back)


def sign_out(page: Page) -> None:
    page.click("button:has-text('Sign out')")
    page.wait_for_url("**/sign-in**")


def type_words(page: Page, words: str = WORDS) -> None:
    page.click(FIELD)
    page.keyboard.type(words)


def wait_for(page: Page, happened: Callable[[], bool]) -> None:
    """Wait for something that is not of the page, and let the browser go on meanwhile."""
    for _ in range(400):
        if happened():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it never happened")


def words_saved(page: Page) -> None:
    page.wait_for_selector("#card [data-saved]:has-text('Words saved')")


def has_words(page: Page, words: str = WORDS) -> None:
    until(page, f"document.querySelector({FIELD!r})?.value === {words!r}")


def rows(url: str) -> dict[tuple[str, str], Any]:
    """The answers that the server has, by case and person."""
    with Store(url).read() as connection:
        found = connection.execute(select(reviews).where(reviews.c.state != "undone")).all()
    return {(row.case_id, row.person): row for row in found}


@pytest.fixture
def people(url: str) -> str:
    """The registry with a team of two."""
    for name in ("ana", "ben"):
        world.link(url, name)
    return url


# -- words without a verdict -----------------------------------------------------------------------------------------


def test_words_are_there_again_on_any_machine_and_for_nobody_else(chromium: Browser, people: str) -> None:
    with served(people) as address:
        ana = opened(chromium, address)
        sign_in(ana, people, "ana")
        ana.goto(LATE)
        type_words(ana)
        words_saved(ana)
        ana.reload()
        has_words(ana)
        ana.goto("/judges/tone/trust")
        ana.go_back()
        has_words(ana)
        sign_out(ana)
        sign_in(ana, people, "ana")
        ana.goto(LATE)
        has_words(ana)
        elsewhere = opened(chromium, address)
        sign_in(elsewhere, people, "ana")
        elsewhere.goto(LATE)
        has_words(elsewhere)
        ben = opened(chromium, address)
        sign_in(ben, people, "ben")
        ben.goto(LATE)
        has_words(ben, "")
        answered(ben, "n")
        assert WORDS not in ben.content()
        assert rows(people).keys() == {("late", "ben")}


def test_words_are_sent_when_the_page_is_left_at_once(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        trust = "nav a:has-text('Trust')"
        ways: tuple[Callable[[], object], ...] = (page.reload, page.go_back, lambda: page.click(trust))
        for place, leave in enumerate(ways):
            page.goto("/judges/tone/trust")
            page.goto(LATE)
            page.fill(FIELD, "")
            words = f"{WORDS} {place}"
            type_words(page, words)
            leave()
            other = opened(chromium, address)
            for _ in range(20):
                other.goto(LATE)
                if other.input_value(FIELD) == words:
                    break
            has_words(other, words)


def test_longer_words_than_an_answer_holds_are_told_and_stay(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        page.fill(FIELD, "long " * 2100)
        page.locator("main").focus()
        page.keyboard.press("n")
        page.wait_for_selector("text=your words have 10499 characters; keep them under 10000")
        assert len(page.input_value(FIELD)) == 10500
        page.reload()
        assert len(page.input_value(FIELD)) == 10500
        assert rows(url) == {}


def test_ctrl_enter_before_a_verdict_saves_the_words_and_no_verdict(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        type_words(page, "this is not acceptable")
        page.keyboard.press("Control+Enter")
        words_saved(page)
        page.wait_for_timeout(500)
        assert page.locator("#card.done").count() == 0
        assert rows(url) == {}
        page.reload()
        has_words(page, "this is not acceptable")
        page.locator("main").focus()
        answered(page, "n")
        assert rows(url)["late", "local"].value == "false"
        assert rows(url)["late", "local"].rationale == "this is not acceptable"


def test_a_key_that_is_held_down_answers_one_case(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        page.locator("main").focus()
        first = page.inner_text("#case-name")
        for key, happened in (
            ("k", f"document.querySelector('#case-name')?.innerText !== {first!r}"),
            ("y", "document.querySelector('#card.done')"),
        ):
            page.keyboard.down(key)
            until(page, happened)
            for _ in range(5):
                page.keyboard.down(key)  # repeats
                page.wait_for_timeout(100)
            page.keyboard.up(key)
        assert sorted(row.state for row in rows(url).values()) == ["answered", "skipped"]


# -- words beside a verdict ------------------------------------------------------------------------------------------


def test_next_saves_the_words_with_the_answer(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        type_words(page)
        page.click("text=Next case")
        page.wait_for_selector("#card:not(.done)")
        page.goto(LATE)
        has_words(page)
        assert rows(url)["late", "local"].rationale == WORDS


def test_teach_teaches_the_words(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        type_words(page)
        page.click("#teach")
        page.wait_for_selector("text=You taught it this")
        assert "late@local" in page.inner_text("main")
        assert rows(url)["late", "local"].rationale == WORDS
        assert rows(url)["late", "local"].taught == rows(url)["late", "local"].revision


def test_teach_leaves_a_colleagues_unfinished_words_alone(chromium: Browser, people: str) -> None:
    with served(people) as address:
        ana, ben = (opened(chromium, address) for _ in range(2))
        for page, name in ((ana, "ana"), (ben, "ben")):
            sign_in(page, people, name)
            page.goto(LATE)
            answered(page, "n")
        type_words(ana, "It sounds like a")
        words_saved(ana)
        ben.click("#teach")
        ben.wait_for_selector("h1:has-text('What changed')")
        assert rows(people)["late", "ana"].rationale is None
        ana.reload()
        has_words(ana, "It sounds like a")


def test_words_typed_after_a_verdict_outlive_undo(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        type_words(page)
        page.keyboard.press("Control+Enter")
        wait_for(page, lambda: rows(url)["late", "local"].rationale == WORDS)
        page.locator("main").focus()
        until(page, "!document.querySelector('#card button:disabled')")  # the answer is here, and the card with it
        page.keyboard.press("z")
        page.wait_for_selector("#card:not(.done)")
        has_words(page)
        page.reload()
        has_words(page)


def test_undo_pressed_while_the_words_are_on_their_way_waits(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        on_their_way: list[Route] = []
        undone: list[str] = []

        def hold_words(route: Route) -> None:
            if "rationale=Show" in (route.request.post_data or ""):
                on_their_way.append(route)
            else:
                route.continue_()

        page.route("**/review", hold_words)
        page.on("request", lambda request: undone.append(request.url) if request.url.endswith("/undo") else None)
        page.goto(LATE)
        answered(page, "n")
        type_words(page)
        page.keyboard.press("Control+Enter")
        page.locator("main").focus()
        wait_for(page, lambda: bool(on_their_way))
        page.wait_for_selector("#card button[data-key=z]:disabled")
        page.keyboard.press("z")
        page.wait_for_selector("#card button[data-key=z]:disabled")
        assert undone == []
        on_their_way[0].continue_()
        until(page, "!document.querySelector('.htmx-request, #card button:disabled')")
        page.wait_for_selector("#card.done")
        assert rows(url)["late", "local"].state == "answered"
        assert rows(url)["late", "local"].rationale == WORDS
        assert undone == []


def test_two_windows_lose_no_word_to_each_other(chromium: Browser, url: str) -> None:
    with served(url) as address:
        first = opened(chromium, address)
        second = first.context.new_page()
        for page in (first, second):
            page.goto(LATE)
        type_words(first, "One window.")
        words_saved(first)
        type_words(second, "Another window.")
        until(second, f"/One window.[^]*Another window./.test(document.querySelector({FIELD!r}).value)")
        words_saved(second)
        second.reload()
        until(second, f"/One window.[^]*Another window./.test(document.querySelector({FIELD!r}).value)")


# -- when the server cannot be reached, or refuses -------------------------------------------------------------------


def test_words_outlive_a_dead_server(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
    type_words(page)
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    with served(url, port_of(address)):
        words_saved(page)
        page.wait_for_selector("#line", state="hidden")
        elsewhere = opened(chromium, address)
        elsewhere.goto(LATE)
        has_words(elsewhere)


def test_next_with_a_dead_server_saves_the_words_with_the_answer_later(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        until(page, "document.querySelector('template#ahead').content.querySelector('#card')")
    type_words(page)
    page.hover("text=Next case")
    page.mouse.down()
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")  # it comes while the button is held down
    page.mouse.up()
    page.wait_for_selector("#card:not(.done)")
    with served(url, port_of(address)):
        page.reload()
        page.wait_for_selector("#line", state="hidden")
        until(page, "!localStorage.getItem('memalign-unsaved:local')")
    assert rows(url)["late", "local"].rationale == WORDS


def test_teach_with_a_dead_server_keeps_the_page_and_the_words(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
    type_words(page)
    page.click("#teach")
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    has_words(page)
    with served(url, port_of(address)):
        words_saved(page)
        page.click("#teach")
        page.wait_for_selector("text=You taught it this")


def test_an_ended_session_keeps_the_words_and_says_so(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
        page.context.clear_cookies()
        type_words(page)
        page.wait_for_selector(f"#line:has-text('{SESSION_OVER}')")
        has_words(page)  # the page did not go away under the person's hands
        page.locator("main").focus()
        page.keyboard.press("n")
        page.wait_for_timeout(500)
        has_words(page)
        page.click("#line a")
        page.wait_for_url("**/sign-in**")
        sign_in(page, people, "ana", back=LATE)
        page.wait_for_selector("#card.done")  # the verdict that was chosen is saved now
        has_words(page)
        page.wait_for_selector("#line", state="hidden")
        assert rows(people)["late", "ana"].rationale == WORDS


@pytest.mark.parametrize(("status", "told"), [
    (401, SESSION_OVER),
    (403, "Not saved yet: the server refuses it"),
    (413, "Not saved yet: it is too large"),
    (429, "Not saved yet: too many requests"),
    (503, "Not saved yet: the server has a problem"),
])  # fmt: skip
def test_what_is_refused_is_told_and_kept(chromium: Browser, url: str, status: int, told: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        page.route(
            lambda asked: "/judges/tone/review" in asked,
            lambda route: (
                route.fulfill(status=status, body="no") if route.request.method == "POST" else route.continue_()
            ),
        )
        type_words(page)
        page.wait_for_selector(f"#line:has-text('{told}')")
        page.locator("main").focus()
        page.keyboard.press("n")
        page.wait_for_timeout(500)
        assert page.locator("#card.done").count() == 0
        assert page.is_visible(f"#line:has-text('{told}')")
        has_words(page)
        page.unroute_all()
        page.reload()
        page.wait_for_selector("#card.done")
        has_words(page)
        until(page, "!localStorage.getItem('memalign-unsaved:local')")
        assert rows(url)["late", "local"].value == "false"
        assert rows(url)["late", "local"].rationale == WORDS


def test_words_on_a_case_that_was_erased_go_and_are_told(chromium: Browser, url: str) -> None:
    from memalign_server.store.tables import queue

    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        with Store(url).write() as connection:
            connection.execute(queue.delete().where(queue.c.case_id == "late"))
        type_words(page)
        page.wait_for_selector("#line:has-text('This case was erased or removed')")
        until(page, "!localStorage.getItem('memalign-unsaved:local')")


# -- two people, one browser -----------------------------------------------------------------------------------------


def test_answers_are_never_somebody_elses(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        page.clock.install()
        sign_in(page, people, "ana")
        for case in ("late", "twice", "lamp"):
            page.goto(f"/judges/tone/review?case={case}")
            type_words(page, "ANA secret words")
            page.locator("main").focus()
            answered(page, "n")
        until(page, "Object.keys(localStorage).filter((name) => name.startsWith('memalign-unsaved')).length === 0")
        sign_out(page)
        sign_in(page, people, "ben")
        for _ in range(10):
            page.clock.fast_forward(5_000)
            page.wait_for_timeout(50)
        page.goto("/judges/tone/review")
        assert "0 answered" in page.inner_text("#status")
        assert {person for _, person in rows(people)} == {"ana"}


def test_an_unsent_answer_waits_for_its_owner(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
        type_words(page, "ANA secret words")
        words_saved(page)
    page.locator("main").focus()
    page.keyboard.press("n")
    page.wait_for_selector("#line:not([hidden])")
    page.context.clear_cookies()
    with served(people, port_of(address)):
        page.clock.install()
        sign_in(page, people, "ben", back=LATE)
        for _ in range(10):
            page.clock.fast_forward(5_000)
            page.wait_for_timeout(50)
        has_words(page, "")
        assert "ANA" not in page.content()
        assert rows(people) == {}
        sign_out(page)
        sign_in(page, people, "ana", back=LATE)
        page.wait_for_selector("#card.done")
        assert rows(people)["late", "ana"].rationale == "ANA secret words"
        assert rows(people).keys() == {("late", "ana")}


def test_signing_out_tells_what_is_unsent(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
        page.route(
            lambda asked: "/judges/tone/review" in asked,
            lambda route: route.abort() if route.request.method == "POST" else route.continue_(),
        )
        type_words(page)
        page.locator("main").focus()
        page.keyboard.press("n")
        page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
        asked: list[str] = []

        def stay(dialog: Any) -> None:
            asked.append(dialog.message)
            dialog.dismiss()

        page.once("dialog", stay)
        page.click("button:has-text('Sign out')")
        wait_for(page, lambda: bool(asked))
        assert ["not saved yet" in each for each in asked] == [True]
        assert "/judges/tone/review" in page.url
        page.once("dialog", lambda dialog: dialog.accept())
        sign_out(page)
        page.unroute_all()
        sign_in(page, people, "ana", back=LATE)
        page.wait_for_selector("#card.done")
        has_words(page)
