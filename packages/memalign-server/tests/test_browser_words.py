"""What a person chooses and types, in a real Chromium: kept under their name whatever
happens, and nobody else's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from memalign.types import Example
from memalign_server.store import Store
from memalign_server.store.cases import add_cases
from memalign_server.store.tables import queue
from server_support import browser, world
from server_support.browser import (
    LATE,
    REVIEW,
    answered,
    answers_in,
    enter,
    next_case,
    opened,
    until,
    wait_for,
    words_saved,
)
from server_support.reviewing import CASES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

WORDS = "Show sympathy first."
FIELD = "textarea[name=words]"
ANSWER = "textarea[name=value]"
NO_CONNECTION = "Not saved yet: no connection. Your words are kept here."
SESSION_OVER = "Your session is over"
NOTHING_UNSAVED = (
    "!Object.keys(localStorage).some((name) => name.startsWith('memalign-unsaved'))"
)


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


def has_words(page: Page, words: str = WORDS) -> None:
    until(page, f"document.querySelector({FIELD!r})?.value === {words!r}")


@pytest.fixture
def people(url: str) -> str:
    """The registry with a team of two."""
    for name in ("ana", "ben"):
        world.link(url, name)
    return url


def test_words_are_there_again_on_any_machine_and_for_nobody_else(
    chromium: Browser, people: str, address: str
) -> None:
    ana, elsewhere, ben = (opened(chromium, address) for _ in range(3))
    enter(ana, people, "ana")
    explain(ana)
    words_saved(ana)
    enter(ben, people, "ben")
    explain(ben, "It is cold.")
    assert WORDS not in ben.content()
    next_case(ben)
    ben.goto("/judges/tone/teach")
    ben.click("button:has-text('Teach it')")
    ben.wait_for_url("**/learned**")
    assert answers_in(people)["late", "ana"].rationale is None, (
        "nobody's unfinished words are taught"
    )
    ana.reload()
    has_words(ana)
    sign_out(ana)
    for page in (ana, elsewhere):
        enter(page, people, "ana", LATE)
        has_words(page)


def saved(page: Page, url: str, words: str) -> None:
    """Wait until the server has these words about the case `late`."""
    wait_for(page, lambda: answers_in(url)["late", "local"].rationale == words)


def test_words_are_sent_when_the_page_is_left_at_once(page: Page, url: str) -> None:
    page.goto(LATE)
    answered(page, "n")
    ways: dict[str, Any] = {
        "Loaded again.": page.reload,
        "Gone back.": page.go_back,
        "Gone on.": partial(page.click, "nav a:has-text('Trust')"),
    }
    for written, leave in ways.items():
        page.goto("/judges/tone/trust")
        page.goto(LATE)
        page.fill(FIELD, "")
        type_words(page, written)
        leave()
        saved(page, url, written)
    page.goto(LATE)
    page.evaluate(
        "Object.defineProperty(document, 'visibilityState', { value: 'hidden' })"
    )
    type_words(page, " Or rather not.")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    saved(page, url, "Gone on. Or rather not.")
    until(page, NOTHING_UNSAVED)
    page.fill(FIELD, WORDS)  # what is shortened after a look elsewhere stays short
    words_saved(page)
    has_words(page)
    next_case(page)
    assert answers_in(url)["late", "local"].rationale == WORDS


def test_words_go_with_their_answer_through_next_and_back(page: Page, url: str) -> None:
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    page.goto(LATE)
    hold_down(page, "n", ".foot.back")
    # A key that is held down is pressed once.
    assert methods.count("POST") == 1
    page.fill(FIELD, "")  # where its repeats were typed
    type_words(page, "yes, y 1 2")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("k")
    words_saved(page)
    words = "yes, y 1 2\nk"
    has_words(page, words)
    (answer,) = answers_in(url).values()
    assert answer.value is False, "no key is a verdict"
    page.click("button:has-text('Back')")
    page.wait_for_selector("button[aria-pressed=true]:has-text('No')")
    assert "It answers the question." not in page.content(), "Back turns the foot first"
    answered(page, "y")
    has_words(page, words)
    hold_down(page, "Enter", "#foot:not(.back)")
    (answer,) = answers_in(url).values()
    assert (answer.state, answer.value, answer.rationale) == ("answered", True, words)
    assert "Case 2 of 5" in page.inner_text("main")
    page.go_back()
    has_words(page, words)
    page.fill(FIELD, "long " * 10_100)
    page.keyboard.press("Enter")
    page.wait_for_selector(
        "text=your words have 50500 characters; keep them under 50000"
    )
    assert len(page.input_value(FIELD)) == 50_500
    assert answers_in(url)["late", "local"].rationale == words
    with Store(url).write() as connection:
        connection.execute(queue.delete().where(queue.c.case_id == "late"))
    type_words(page)
    page.fill(FIELD, WORDS)
    page.wait_for_selector("#line:has-text('This case was erased or removed')")
    until(page, NOTHING_UNSAVED)


def hold_down(page: Page, key: str, happened: str) -> None:
    """Hold a key down until something has happened, and some repeats longer."""
    page.keyboard.down(key)
    page.wait_for_selector(happened)
    for _ in range(5):
        page.keyboard.down(key)
    page.keyboard.up(key)


def test_an_answer_in_words_waits_in_its_tab_until_it_is_saved(
    page: Page, url: str
) -> None:
    world.opened(url).create(world.judge("free").replace(feedback_value_type=str))
    with Store(url).write() as connection:
        add_cases(connection, "free", map(Example.from_dict, CASES))
    page.goto("/judges/free/review")
    page.fill(ANSWER, "Warm")
    page.reload()
    until(page, f"document.querySelector({ANSWER!r}).value === 'Warm'")
    page.click("button:has-text('Skip')")
    until(page, f"document.querySelector({ANSWER!r})?.value === ''")
    page.go_back()
    until(page, f"document.querySelector({ANSWER!r})?.value === 'Warm'")
    (answer,) = answers_in(url).values()
    assert answer.state == "skipped", "nothing saves it but the person"
    page.click("button:has-text('Save')")
    page.wait_for_selector(".foot.back")
    until(
        page,
        "!Object.keys(sessionStorage).some((name) => name.startsWith('memalign-typed'))",
    )


def test_two_windows_lose_no_word_to_each_other(page: Page) -> None:
    first = page
    second = page.context.new_page()
    first.goto(LATE)
    second.goto(LATE)
    answered(first, "n")
    second.keyboard.press("y")
    second.wait_for_selector("text=You have answered this case in another window: No.")
    assert "It answers the question." not in second.inner_text("main")
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


def test_a_slow_window_sends_and_shows_its_own_words(page: Page) -> None:
    explain(page, "One window.")
    words_saved(page)
    second = page.context.new_page()
    second.add_init_script(SLOW_TIMERS)
    second.goto(LATE)
    type_words(second, " And another.")
    words_saved(second)
    has_words(second, "One window. And another.")
    assert page.input_value(FIELD) == "One window."


@pytest.mark.parametrize(
    ("button", "then"),
    [
        ("", "#foot :text('Words saved'):visible"),
        ("Next", "#foot:not(.back)"),
        ("Back", "button[aria-pressed=true]"),
    ],
)
def test_words_outlive_a_dead_server(
    chromium: Browser, url: str, button: str, then: str
) -> None:
    with browser.served(url) as address:
        page = opened(chromium, address)
        explain(page, "")
    type_words(page)
    if button:
        page.hover(f"button:has-text('{button}')")
        page.mouse.down()
    # It comes while the button is held down.
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    if button:
        page.mouse.up()
        going_on = f'"go":"{button.lower()}"'
        kept = "JSON.stringify(localStorage).replaceAll('\\\\', '')"
        until(page, f"{kept}.includes({going_on!r})")
    has_words(page)
    with browser.served(url, int(address.rpartition(":")[2])):
        page.wait_for_selector(then)
        page.wait_for_selector("#line", state="hidden")
        until(page, NOTHING_UNSAVED)
        elsewhere = opened(chromium, address)
        elsewhere.goto(LATE)
        has_words(elsewhere)


def test_an_ended_session_keeps_the_words_and_says_so(page: Page, people: str) -> None:
    enter(page, people, "ana", LATE)
    answered(page, "n")
    page.context.clear_cookies()
    type_words(page)
    page.wait_for_selector(f"#line:has-text('{SESSION_OVER}')")
    has_words(page)  # the page did not go away under the person's hands
    page.click("#line a")
    page.wait_for_url("**/sign-in**")
    enter(page, people, "ana", LATE)
    has_words(page)
    page.wait_for_selector("#line", state="hidden")
    until(page, NOTHING_UNSAVED)


def refuse(page: Page, status: int) -> None:
    """Let what is sent from now on get this status; without one the line is down."""

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=status, body="no") if status else route.abort()
        else:
            route.continue_()

    page.route(lambda address: REVIEW in address, answer)


def test_what_is_refused_says_so_and_is_kept(page: Page, url: str) -> None:
    for case, (status, notice) in REFUSALS.items():
        page.goto(f"{REVIEW}?case={case}")
        refuse(page, status)
        page.keyboard.press("n")
        page.wait_for_selector(f"#line:has-text('{notice}')")
        page.wait_for_selector("text=saving…")
        assert page.locator(".foot.back").count() == 0
        page.unroute_all()
        page.reload()
        page.wait_for_selector(".foot.back")
        page.wait_for_selector("text=✓ saved")
        refuse(page, status)
        type_words(page)
        page.wait_for_selector(f"#line:has-text('{notice}')")
        has_words(page)
        page.unroute_all()
        page.reload()
        has_words(page)
        until(page, NOTHING_UNSAVED)
    for row in answers_in(url).values():
        assert (row.rationale or row.draft) == WORDS
        assert row.value is False


REFUSALS = {
    "late": (0, NO_CONNECTION),
    "twice": (403, "Not saved yet: the server refuses it"),
    "lamp": (413, "Not saved yet: it is too large"),
    "thanks": (429, "Not saved yet: too many requests"),
    "shop": (503, "Not saved yet: the server has a problem"),
}


def test_answers_are_never_somebody_elses(page: Page, people: str) -> None:
    page.clock.install()
    enter(page, people, "ana")
    for case in ("late", "twice"):
        page.goto(f"{REVIEW}?case={case}")
        answered(page, "n")
        type_words(page, "ANA secret words")
        next_case(page)
    page.goto(f"{REVIEW}?case=lamp")
    until(page, NOTHING_UNSAVED)
    refuse(page, 0)
    page.keyboard.press("n")
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    page.goto("/account")
    # It is told before somebody signs out.
    page.wait_for_selector(f"#line:has-text('{NO_CONNECTION}')")
    sign_out(page)
    page.unroute_all()
    enter(page, people, "ben", REVIEW)
    for _ in range(5):
        page.clock.fast_forward(5_000)
        page.wait_for_timeout(50)
    page.goto(REVIEW)
    assert "Case 1 of " in page.inner_text("main")
    assert answers_in(people).keys() == {("late", "ana"), ("twice", "ana")}
    sign_out(page)
    enter(page, people, "ana", f"{REVIEW}?case=lamp")
    page.wait_for_selector(".foot.back")
    three = {("late", "ana"), ("twice", "ana"), ("lamp", "ana")}
    assert answers_in(people).keys() == three
