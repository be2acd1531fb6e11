"""What a person chooses and types, in a real Chromium: kept under their name whatever happens, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from memalign_server import Settings, create_app
from memalign_server.store import Store
from memalign_server.store.tables import queue, reviews
from server_support import world
from server_support.reviewing import put_in
from test_browser import answered, chromium, enter, no_script_fails, opened, served, until, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page, Route

__all__ = ["chromium", "no_script_fails", "url"]  # fixtures

WORDS = "Show sympathy first."
REVIEW = "/judges/tone/review"
LATE = f"{REVIEW}?case=late"
FIELD = "textarea[name=words]"
ANSWER = "textarea[name=value]"
NO_CONNECTION = "Not saved yet: no connection. Your words are kept here."
SESSION_OVER = "Your session is over"
NOTHING_UNSAVED = "!Object.keys(localStorage).some((name) => name.startsWith('memalign-unsaved'))"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def sign_in(page: Page, url: str, name: str, *, back: str = REVIEW) -> None:
    enter(page, url, name)
    page.goto(back)


def sign_out(page: Page) -> None:
    page.goto("/account")
    page.click("button:has-text('Sign out')")
    page.wait_for_url("**/sign-in**")


def type_words(page: Page, words: str = WORDS) -> None:
    page.click(FIELD)
    page.keyboard.type(words)


def explain(page: Page, words: str = WORDS) -> None:
    """Answer the case `late` against the judge, and type why."""
    page.goto(LATE)
    answered(page, "n")
    type_words(page, words)


def wait_for(page: Page, happened: Callable[[], bool]) -> None:
    """Wait for something that is not of the page, and let the browser go on meanwhile."""
    for _ in range(400):
        if happened():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it never happened")


def words_saved(page: Page) -> None:
    page.wait_for_selector("#foot :text('Words saved'):visible")


def has_words(page: Page, words: str = WORDS) -> None:
    until(page, f"document.querySelector({FIELD!r})?.value === {words!r}")


def next_case(page: Page) -> None:
    page.wait_for_selector(".foot:not(.back)")


def rows(url: str) -> dict[tuple[str, str], Any]:
    """The answers that the server has, by case and person."""
    with Store(url).read() as connection:
        query = connection.execute(select(reviews).where(reviews.c.state != "undone"))
        return {(row.case_id, row.person): row for row in query}


@pytest.fixture
def people(url: str) -> str:
    """The registry with a team of two."""
    for name in ("ana", "ben"):
        world.link(url, name)
    return url


# -- words are saved as they are typed ---------------------------------------------------------------------------------


def test_words_are_there_again_on_any_machine_and_for_nobody_else(chromium: Browser, people: str) -> None:
    with served(people) as address:
        ana, elsewhere, ben = (opened(chromium, address) for _ in range(3))
        sign_in(ana, people, "ana")
        explain(ana)
        words_saved(ana)
        ana.reload()
        has_words(ana)
        ana.goto("/judges/tone/trust")
        ana.go_back()
        has_words(ana)
        sign_out(ana)
        for page, name in ((ana, "ana"), (elsewhere, "ana")):
            sign_in(page, people, name, back=LATE)
            has_words(page)
        sign_in(ben, people, "ben", back=LATE)
        assert WORDS not in ben.content()
        answered(ben, "n")
        has_words(ben, "")
        assert WORDS not in ben.content()
        assert rows(people)["late", "ben"].rationale is None


def test_words_are_sent_when_the_page_is_left_at_once(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        trust = "nav a:has-text('Trust')"
        ways: tuple[Callable[[], object], ...] = (page.reload, page.go_back, lambda: page.click(trust))
        for place, leave in enumerate(ways):
            page.goto("/judges/tone/trust")
            page.goto(LATE)
            page.fill(FIELD, "")
            type_words(page, words := f"{WORDS} {place}")
            leave()
            wait_for(page, lambda words=words: rows(url)["late", "local"].rationale == words)  # type: ignore[misc]  # no type for a default


def test_next_saves_the_words_with_the_answer(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        explain(page)
        page.keyboard.press("Enter")
        next_case(page)
        assert rows(url)["late", "local"].rationale == WORDS
        page.goto(LATE)
        has_words(page)


def test_an_answer_in_words_waits_in_its_tab_until_it_is_saved(chromium: Browser, url: str) -> None:
    world.opened(url).create(world.judge("free").replace(feedback_value_type=str))
    with TestClient(create_app(Settings(registry=url), models=world.models()), base_url=world.ADDRESS) as client:
        put_in(client, judge="free")
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/free/review")
        page.fill(ANSWER, "Warm")
        page.reload()
        until(page, f"document.querySelector({ANSWER!r}).value === 'Warm'")
        page.click("button:has-text('Skip')")
        until(page, f"document.querySelector({ANSWER!r})?.value === ''")
        page.go_back()
        until(page, f"document.querySelector({ANSWER!r})?.value === 'Warm'")
        assert [row.state for row in rows(url).values()] == ["skipped"], "nothing saves it but the person"
        page.click("button:has-text('Save')")
        page.wait_for_selector(".foot.back")
        until(page, "!Object.keys(sessionStorage).some((name) => name.startsWith('memalign-typed'))")


def test_no_key_in_a_field_saves_a_verdict(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        explain(page, "yes, y 1 2")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("k")
        words_saved(page)
        has_words(page, "yes, y 1 2\nk")
        assert {name: row.value for name, row in rows(url).items()} == {("late", "local"): False}


def test_a_key_that_is_held_down_is_pressed_once(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(REVIEW)
        for key, happened in (("n", ".foot.back"), ("Enter", "#foot:not(.back)")):
            page.keyboard.down(key)
            page.wait_for_selector(happened)
            for _ in range(5):
                page.keyboard.down(key)  # repeats
                page.wait_for_timeout(100)
            page.keyboard.up(key)
        assert [row.state for row in rows(url).values()] == ["answered"]
        assert "Case 2 of 5" in page.inner_text("main")


def test_back_keeps_the_words_and_another_verdict_has_them(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        explain(page)
        page.click("button:has-text('Back')")
        page.wait_for_selector("button[aria-pressed=true]:has-text('No')")
        answered(page, "y")
        has_words(page)
        assert (rows(url)["late", "local"].value, rows(url)["late", "local"].rationale) == (True, WORDS)


def test_longer_words_than_an_answer_holds_stay_and_say_so(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        page.fill(FIELD, "long " * 10_100)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=your words have 50500 characters; keep them under 50000")
        assert len(page.input_value(FIELD)) == 50_500
        assert rows(url)["late", "local"].rationale is None


def test_teaching_leaves_a_colleagues_unfinished_words_alone(chromium: Browser, people: str) -> None:
    with served(people) as address:
        ana, ben = (opened(chromium, address) for _ in range(2))
        for page, name, words in ((ana, "ana", "It sounds like a"), (ben, "ben", WORDS)):
            sign_in(page, people, name)
            explain(page, words)
        words_saved(ana)
        ben.keyboard.press("Enter")
        next_case(ben)
        ben.goto("/judges/tone/teach")
        ben.click("button:has-text('Teach it')")
        ben.wait_for_url("**/learned**")
        assert rows(people)["late", "ana"].rationale is None
        ana.reload()
        has_words(ana, "It sounds like a")


def test_two_windows_lose_no_word_to_each_other(chromium: Browser, url: str) -> None:
    with served(url) as address:
        first = opened(chromium, address)
        first.goto(LATE)
        answered(first, "n")
        second = first.context.new_page()
        second.goto(LATE)
        type_words(first, "One window.")
        words_saved(first)
        type_words(second, "Another window.")
        both = f"/One window.[^]*Another window./.test(document.querySelector({FIELD!r}).value)"
        until(second, both)
        words_saved(second)
        second.reload()
        until(second, both)


SLOW_TIMERS = """for (const timer of ["setTimeout", "setInterval"]) {
  const real = window[timer];
  window[timer] = (what, delay) => real(what, delay + 1500);
}"""


def test_a_slow_window_sends_and_shows_its_own_words(chromium: Browser, url: str) -> None:
    with served(url) as address:
        first = opened(chromium, address)
        first.goto(LATE)
        answered(first, "n")
        type_words(first, "One window.")
        words_saved(first)
        second = first.context.new_page()
        second.add_init_script(SLOW_TIMERS)
        second.goto(LATE)
        type_words(second, " And another.")
        words_saved(second)
        has_words(second, "One window. And another.")
        assert first.input_value(FIELD) == "One window."


# -- when the server cannot be reached, or refuses ---------------------------------------------------------------------


def test_words_outlive_a_dead_server(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
    type_words(page)
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    with served(url, port_of(address)):
        words_saved(page)
        page.wait_for_selector("#line", state="hidden")
        elsewhere = opened(chromium, address)
        elsewhere.goto(LATE)
        has_words(elsewhere)


@pytest.mark.parametrize(("button", "then"), [("Next", "#foot:not(.back)"), ("Back", "button[aria-pressed=true]")])
def test_going_on_without_a_server_waits_until_the_words_are_saved(
    chromium: Browser, url: str, button: str, then: str
) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
    type_words(page)
    page.hover(f"button:has-text('{button}')")
    page.mouse.down()
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")  # it comes while the button is held down
    page.mouse.up()
    wait_for(
        page, lambda: f'"go":"{button.lower()}"' in str(page.evaluate("JSON.stringify(localStorage)")).replace("\\", "")
    )
    has_words(page)
    with served(url, port_of(address)):
        page.wait_for_selector(then)
        until(page, NOTHING_UNSAVED)
    assert rows(url)["late", "local"].rationale == WORDS


def test_an_ended_session_keeps_the_words_and_says_so(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
        answered(page, "n")
        page.context.clear_cookies()
        type_words(page)
        page.wait_for_selector(f"#line:has-text('{SESSION_OVER}')")
        has_words(page)  # the page did not go away under the person's hands
        page.click("#line a")
        page.wait_for_url("**/sign-in**")
        sign_in(page, people, "ana", back=LATE)
        has_words(page)
        page.wait_for_selector("#line", state="hidden")
        until(page, NOTHING_UNSAVED)


@pytest.mark.parametrize(("status", "notice"), [
    (401, SESSION_OVER),
    (403, "Not saved yet: the server refuses it"),
    (413, "Not saved yet: it is too large"),
    (429, "Not saved yet: too many requests"),
    (503, "Not saved yet: the server has a problem"),
])  # fmt: skip
def test_what_is_refused_says_so_and_is_kept(chromium: Browser, url: str, status: int, notice: str) -> None:
    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=status, body="no")
        else:
            route.continue_()

    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        page.route(lambda address: REVIEW in address, refuse)
        page.keyboard.press("n")
        page.wait_for_selector(f"#line:has-text('{notice}')")
        assert page.locator(".foot.back").count() == 0
        page.unroute_all()
        page.reload()
        page.wait_for_selector(".foot.back")
        page.route(lambda address: REVIEW in address, refuse)
        type_words(page)
        page.wait_for_selector(f"#line:has-text('{notice}')")
        has_words(page)
        page.unroute_all()
        page.reload()
        has_words(page)
        until(page, NOTHING_UNSAVED)
        page.keyboard.press("Enter")
        next_case(page)
        assert (rows(url)["late", "local"].value, rows(url)["late", "local"].rationale) == (False, WORDS)


def test_words_on_an_erased_case_go_and_the_page_says_so(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        with Store(url).write() as connection:
            connection.execute(queue.delete().where(queue.c.case_id == "late"))
        type_words(page)
        page.wait_for_selector("#line:has-text('This case was erased or removed')")
        until(page, NOTHING_UNSAVED)


# -- two people, one browser -------------------------------------------------------------------------------------------


def test_answers_are_never_somebody_elses(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        page.clock.install()
        sign_in(page, people, "ana")
        for case in ("late", "twice", "lamp"):
            page.goto(f"{REVIEW}?case={case}")
            answered(page, "n")
            type_words(page, "ANA secret words")
            page.keyboard.press("Enter")
            next_case(page)
        until(page, NOTHING_UNSAVED)
        sign_out(page)
        sign_in(page, people, "ben")
        for _ in range(10):
            page.clock.fast_forward(5_000)
            page.wait_for_timeout(50)
        page.goto(REVIEW)
        assert "Case 1 of 5" in page.inner_text("main")
        assert {person for _, person in rows(people)} == {"ana"}


def test_an_unsent_answer_waits_for_its_owner(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
    page.keyboard.press("n")
    page.wait_for_selector("#line:not([hidden])")
    page.context.clear_cookies()
    with served(people, port_of(address)):
        page.clock.install()
        sign_in(page, people, "ben", back=LATE)
        for _ in range(10):
            page.clock.fast_forward(5_000)
            page.wait_for_timeout(50)
        assert page.locator(".foot.back").count() == 0
        assert rows(people) == {}
        sign_out(page)
        sign_in(page, people, "ana", back=LATE)
        page.wait_for_selector(".foot.back")
        assert rows(people).keys() == {("late", "ana")}


def test_words_that_are_shortened_after_a_look_elsewhere_stay_short(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address)
        explain(page, f"{WORDS} Or rather not.")
        page.evaluate("Object.defineProperty(document, 'visibilityState', { value: 'hidden' })")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        wait_for(page, lambda: rows(url)["late", "local"].rationale == f"{WORDS} Or rather not.")
        until(page, NOTHING_UNSAVED)
        page.fill(FIELD, WORDS)
        words_saved(page)
        has_words(page)
        page.keyboard.press("Enter")
        next_case(page)
        assert rows(url)["late", "local"].rationale == WORDS


def test_the_account_says_what_is_unsent_before_somebody_signs_out(chromium: Browser, people: str) -> None:
    with served(people) as address:
        page = opened(chromium, address)
        sign_in(page, people, "ana")
        page.goto(LATE)
        page.route(
            lambda address: REVIEW in address,
            lambda route: route.abort() if route.request.method == "POST" else route.continue_(),
        )
        page.keyboard.press("n")
        page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
        page.goto("/account")
        page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
        sign_out(page)
        page.unroute_all()
        sign_in(page, people, "ana", back=LATE)
        page.wait_for_selector(".foot.back")
