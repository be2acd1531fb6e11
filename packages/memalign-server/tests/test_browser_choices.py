"""Choices of several people in a real Chromium: nothing happens that nobody chose, and
nobody's words are lost."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign.align import write_guideline
from memalign_server.people.service import Role
from memalign_server.store import Store
from memalign_server.store.tables import jobs
from server_support import world
from server_support.browser import (
    LATE,
    REVIEW,
    SETUP,
    answered,
    answers_in,
    enter,
    hold_back,
    next_case,
    opened,
    served,
    until,
    wait_for,
    words_saved,
)
from server_support.reviewing import hold_out, put_in
from tests.support.learning import changes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from memalign.models.base import ChatRequest


def quarrelling(request: ChatRequest) -> dict[str, Any]:
    """A model that finds two comments to contradict each other."""
    if "changes" not in request.schema["properties"]:
        return {"rationale": "It answers the question.", "value": True}
    return world.with_conflict(changes_of(request.user, "Rule: {1}".format))


class Team:
    """A served registry with an owner, Olga, and reviewers, Nina, Ben and Yara."""

    def __init__(self, chromium: Browser, address: str, url: str) -> None:
        self.chromium = chromium
        self.address = address
        self.url = url

    def page(self, name: str, back: str = REVIEW) -> Page:
        """A page of somebody who is signed in."""
        page = opened(self.chromium, self.address)
        enter(page, self.url, name, back)
        return page

    def answer(self, case: str, name: str) -> Any:
        """What somebody said of a case."""
        return answers_in(self.url)[case, name]

    def explained_by(self) -> list[str]:
        """The people whose words the judge remembers."""
        memory = world.opened(self.url).load("tone").memory
        return [note.source for note in memory.annotations() if note.rationale]

    def jobs(self) -> list[Any]:
        with Store(self.url).read() as connection:
            return list(connection.execute(select(jobs.c.kind, jobs.c.state)))

    def is_idle(self) -> bool:
        return {job.state for job in self.jobs()} <= {"done", "failed"}


@pytest.fixture
def team(chromium: Browser, tmp_path: Path) -> Iterator[Team]:
    registry = world.opened(tmp_path, script=quarrelling)
    registry.create(world.judge("tone"))
    world.link(registry.url, "Olga")
    for name in ("Nina", "Ben", "Yara"):
        world.link(registry.url, name, Role.REVIEWER)
    app = world.server(tmp_path, script=quarrelling)
    with world.listening(app) as address:
        olga = world.Shared(app).signed_in("Olga")
        put_in(olga)
        hold_out(olga)
        yield Team(chromium, address, registry.url)


def explain(page: Page, words: str) -> None:
    """Turn the case on the page down, say why, and go on."""
    answered(page, "n")
    # Before the field has the focus a letter is a key of the page.
    until(page, "document.activeElement.name === 'words'")
    page.keyboard.type(words)
    words_saved(page)
    next_case(page)


def test_no_letter_of_a_name_is_a_key_and_a_choice_is_undone(team: Team) -> None:
    nina = team.page("Nina", LATE)
    yara = team.page("Yara", LATE)
    explain(nina, "It is cold.")
    answered(yara, "y")
    yara.goto(REVIEW)
    yara.wait_for_selector("h2:has-text('You and Nina differ')")
    for key in ("y", "n", "Enter", "1"):
        yara.keyboard.press(key)
    yara.wait_for_timeout(300)
    # No key takes a colleague's answer.
    assert team.answer("late", "Yara").value is True
    assert yara.locator("h2:has-text('You and Nina differ')").count() == 1
    yara.click("a:has-text('Later')")
    yara.wait_for_selector("text=Case 2 of 5")
    yara.goto("/judges/tone/review/later")
    yara.wait_for_selector("h2:has-text('You and Nina differ')")
    yara.click("button:has-text('Nina is right')")
    yara.wait_for_selector("text=You took Nina")
    assert team.answer("late", "Yara").value is False
    yara.click("button:has-text('Undo')")
    yara.wait_for_selector("h2:has-text('You and Nina differ')")
    assert team.answer("late", "Yara").value is True
    yara.keyboard.press("k")
    yara.wait_for_selector("text=You kept your answer.")

    # Nina keeps hers, and the owner settles: later, then Nina's, undone, then Nina's for good.
    nina.goto(REVIEW)
    nina.keyboard.press("k")
    nina.wait_for_selector("text=You kept your answer.")
    olga = team.page("Olga")
    olga.wait_for_selector("text=differ. Which holds?")
    olga.click("a:has-text('Later')")
    olga.wait_for_selector("text=Case 1 of")
    olga.goto("/judges/tone/review/later")
    for name in ("Yara", "Nina"):
        olga.wait_for_selector("text=differ. Which holds?")
        olga.click(f"button:has-text('{name}')")
        olga.wait_for_selector(f".undo:has-text('{name}')")
        if name == "Yara":
            olga.click("button:has-text('Undo')")
    yara.goto("/judges/tone/learned")
    assert team.answer("late", "Nina").rationale == "It is cold."


def test_a_stale_card_or_page_does_nothing_and_says_so(team: Team) -> None:
    nina = team.page("Nina", LATE)
    yara = team.page("Yara", LATE)
    answered(nina, "n")
    answered(yara, "y")
    yara.goto(REVIEW)
    yara.wait_for_selector("#differ")
    for key in ("y", "n"):  # Nina thinks again, twice
        nina.goto(f"{LATE}&front=true")
        answered(nina, key)
    yara.click("button:has-text('Nina is right')")
    yara.wait_for_load_state("networkidle")
    yara.wait_for_selector("#differ")
    assert yara.locator(".undo").count() == 0
    assert team.answer("late", "Yara").value is True

    olga = team.page("Olga", f"{SETUP}erase")
    olga.fill("input[name=matching]", "lamp")
    olga.click("button:has-text('Find everywhere')")
    olga.click("summary:has-text('Erase for good')")
    elsewhere = olga.context.new_page()
    elsewhere.goto("/account")
    elsewhere.click("button:has-text('Sign out')")
    elsewhere.wait_for_url("**/sign-in**")
    olga.click("button:has-text('Yes, erase')")
    olga.wait_for_selector(".fault:has-text('Your session is over')")
    enter(elsewhere, team.url, "Olga")
    olga.click("button:has-text('Yes, erase')")
    olga.wait_for_selector(".fault:has-text('load that page again')")
    assert "erase" not in [job.kind for job in team.jobs()]


def test_an_owners_choice_leaves_a_reviewers_words_with_whose_choice_it_was(
    team: Team,
) -> None:
    nina = team.page("Nina", LATE)
    explain(nina, "Never promise a day.")
    ben = team.page("Ben", f"{REVIEW}?case=twice")
    explain(ben, "You must name the day.")
    olga = team.page("Olga", LATE)
    olga.request.post("/judges/tone/teach")
    until(olga, "true")
    olga.goto("/judges/tone/learned")
    for _ in range(60):
        if olga.locator("text=These two say different things").count():
            break
        olga.wait_for_timeout(500)
        olga.reload()
    assert "whose choice it was" in olga.inner_text(".conflict")
    side = olga.locator(".conflict .sides > div", has_text="Never promise")
    side.get_by_role("button").click()
    olga.wait_for_selector("text=The judge does not follow the other words any more.")
    ben.goto("/judges/tone/learned")
    row = ben.locator("article", has_text="You must name the day.").inner_text()
    assert "Olga chose that what Nina said holds. Your words stay here." in row
    kept = team.answer("twice", "Ben")
    assert (kept.rationale, kept.value) == ("You must name the day.", False)
    assert (kept.overruled_by, kept.overruled_for) == ("Olga", "Nina")
    assert team.explained_by() == ["Nina"]
    olga.request.post("/judges/tone/teach")
    wait_for(olga, team.is_idle)
    assert team.explained_by() == ["Nina"], "it is not taught again"


def test_words_belong_to_the_answer_over_which_they_were_typed(team: Team) -> None:
    first = team.page("Nina", LATE)
    second = first.context.new_page()
    second.goto(LATE)
    answered(first, "n")
    second.reload()
    second.click("button:has-text('Back')")
    second.wait_for_selector("button[aria-pressed=true]:has-text('No')")
    answered(second, "y")
    first.focus("textarea[name=words]")
    first.keyboard.type("It is cold.")
    first.wait_for_selector("text=You wrote this about another answer of yours.")
    assert team.answer("late", "Nina").rationale is None
    assert first.input_value("textarea[name=words]") == "It is cold."
    first.goto("/judges/tone/teach")
    # It is not taught with the other verdict.
    assert "explained" not in first.inner_text("main")
    first.goto(f"{LATE}&word=true")
    first.wait_for_selector("text=You wrote this about another answer of yours.")
    first.press("textarea[name=words]", "Enter")  # it still holds
    first.wait_for_selector("#foot:not(.back)")
    row = team.answer("late", "Nina")
    assert (row.value, row.rationale) == (True, "It is cold.")

    # Back, and the other verdict: the reason of before is asked about again.
    first.goto(f"{LATE}&front=true")
    answered(first, "n")
    first.wait_for_selector("text=You wrote this about another answer of yours.")
    assert team.answer("late", "Nina").rationale is None


@pytest.mark.parametrize(
    ("address", "field", "typed"),
    [
        ("/judges", "instructions", "No field in braces, but a long prompt."),
        (f"{SETUP}question", "instructions", "No field in braces, but a long prompt."),
        (f"{SETUP}experts", "name", "  bEN "),
    ],
)
def test_a_rejected_form_keeps_what_was_typed_and_says_why_beside_it(
    team: Team, address: str, field: str, typed: str
) -> None:
    page = team.page("Olga", address)
    if field == "name":
        page.fill("input[name=name]", typed)
        page.click("text=Make a link")
    else:
        if address == "/judges":
            page.click("summary:has-text('A new question')")
            page.fill("input[name=question]", "Is it good?")
        page.click("summary:has-text('All that the model is told')")
        page.fill("textarea[name=instructions]", typed)
        page.click("text=Save the question")
    fault = page.wait_for_selector(f".field:has([name={field}]) .fault")
    assert fault is not None
    assert page.get_attribute(f"[name={field}]", "aria-invalid") == "true"
    assert page.input_value(f"[name={field}]") == typed
    page.wait_for_timeout(200)
    assert page.url.endswith(address)


def test_a_personal_link_is_shown_once_and_its_page_can_be_loaded_again(
    team: Team,
) -> None:
    page = team.page("Olga", f"{SETUP}experts")
    page.fill("input[name=name]", "Dora")
    page.click("text=Make a link")
    page.wait_for_selector("[role=status] code")
    page.reload()
    page.wait_for_selector("b:has-text('Dora')")
    assert page.locator("[role=status] code").count() == 0
    assert "taken" not in page.inner_text("main")
    forms = ("experts", "find", "erase", "setup/question", "setup/cases")
    for path in (*forms, "review/differ", "learned/better"):
        answer = page.goto(f"/judges/tone/{path}")
        assert answer is not None
        assert answer.status == 200, path
    page.goto(f"{SETUP}experts")
    dora = page.locator("li", has_text="Dora")
    dora.locator("summary:has-text('Remove')").click()
    assert dora.count() == 1, "it asks once"
    dora.get_by_role("button", name="Remove Dora").click()
    page.wait_for_selector("b:has-text('Dora')", state="detached")


def test_an_erasure_asks_once_marks_what_it_found_and_its_receipt_is_listed(
    team: Team,
) -> None:
    registry = world.opened(team.url, script=quarrelling)
    registry.update(
        "tone",
        lambda judge: write_guideline(judge, "Portobello is a mushroom.", by="Olga"),
    )
    page = team.page("Olga", f"{SETUP}erase")
    page.fill("input[name=matching]", "PORTO")
    page.click("button:has-text('Find everywhere')")
    page.wait_for_selector("text=Found: 1 case")
    assert page.url.endswith("open=erase"), "no address has the word"
    assert page.locator("mark").all_inner_texts() == ["Porto", "Porto"]
    # A longer word is listed and has no tick.
    assert page.locator("[name=tick]:checked").count() == 1
    page.uncheck("input[name=tick]:checked")
    page.wait_for_selector("#ticks button:disabled")
    page.check("input[name=tick] >> nth=0")
    page.click("summary:has-text('Erase for good: 1 case')")
    page.wait_for_timeout(200)
    assert "/receipts/" not in page.url
    page.click("button:has-text('Yes, erase it for good')")
    page.wait_for_selector("dt:has-text('Erased')")
    assert "1 case" in page.inner_text("main")
    a_receipt_keeps_its_reference_and_is_printed_alone(page)
    assert "mushroom" in str(registry.load("tone").memory.guidelines)


def a_receipt_keeps_its_reference_and_is_printed_alone(page: Page) -> None:
    page.fill("#reference", "DSR 118")
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        page.press("#reference", "Tab")
    page.goto(f"{SETUP}erase")
    page.click("summary:has-text('Earlier erasures')")
    page.click("a[href*='/receipts/']")
    page.wait_for_selector("#reference")
    assert page.input_value("#reference") == "DSR 118"
    page.emulate_media(media="print")
    assert page.is_hidden("nav")
    assert page.is_hidden("text=Save as PDF")


class Refusing(BaseHTTPRequestHandler):
    """A model's server that has no room."""

    def do_POST(self) -> None:
        body = json.dumps({"error": {"message": "Rate limit reached"}}).encode()
        self.send_response(429)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def test_a_trial_says_at_once_that_nothing_answers_or_that_there_is_no_room(
    chromium: Browser, tmp_path: Path
) -> None:
    refusing = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=refusing.serve_forever, daemon=True).start()
    world.registry(tmp_path)
    with served(f"sqlite:///{tmp_path / 'memalign.db'}") as address:
        page = opened(chromium, address)
        page.goto(f"{SETUP}question")
        port = refusing.server_address[1]
        words_by_port = {port: "takes no more requests now", 9: "nothing answers there"}
        for port, words in words_by_port.items():
            page.fill("#model", f"openai:m@http://127.0.0.1:{port}/v1")
            page.click("button:has-text('Try it')")
            page.wait_for_selector(f"#tried:has-text('{words}')")
    refusing.shutdown()
    refusing.server_close()


def test_an_upload_that_cannot_arrive_says_so(
    chromium: Browser, tmp_path: Path
) -> None:
    world.registry(tmp_path)
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.write(b"inputs,outputs\n")
        file.truncate(70 << 20)
    small = tmp_path / "small.csv"
    small.write_text("inputs,outputs\nWhere is it?,On its way.\n")
    with served(f"sqlite:///{tmp_path / 'memalign.db'}") as address:
        page = opened(chromium, address)
        page.goto(f"{SETUP}cases")
        page.set_input_files("input[type=file]", large)
        page.wait_for_selector(".fault:has-text('too large')")
        stalled = hold_back(page, "**/setup/cases")
        page.set_input_files("input[type=file]", small)
        page.wait_for_selector("text=The file is on its way")
        page.wait_for_selector("text=The server does not answer yet.")
        stalled[0].abort()
        page.wait_for_selector(".fault:has-text('No connection: nothing was sent.')")
        box = page.locator(".drop span")
        transfer = page.evaluate_handle(
            """() => {
                const data = new DataTransfer();
                data.items.add(new File(["inputs,outputs\\nWhere?,Here.\\n"], "d.csv"));
                return data;
            }"""
        )
        box.dispatch_event("drop", {"dataTransfer": transfer})
        page.wait_for_selector("td:has-text('Where?')")
    page.click("text=Add 1 case")
    page.wait_for_selector(".fault:has-text('No connection')")


def test_an_outage_is_said_for_a_verdict_and_for_a_teaching_and_covers_nothing(
    chromium: Browser, tmp_path: Path
) -> None:
    world.registry(tmp_path)
    url = f"sqlite:///{tmp_path / 'memalign.db'}"
    with world.client(url, script=world.turning) as client:
        put_in(client)
        hold_out(client)
    with served(url) as address:
        port = int(address.rpartition(":")[2])
        page = opened(chromium, address)
        page.goto(LATE)
        answered(page, "n")
        page.keyboard.type("Cold.")
        words_saved(page)
        page.goto("/judges/tone/review?case=twice")
        teaching = page.context.new_page()
        teaching.goto("/judges/tone/teach")
        teaching.route("**/jobs/*", lambda route: route.abort())
        teaching.click("button:has-text('Teach it')")
        teaching.wait_for_selector("#line:has-text('No answer just now.')")
        teaching.unroute("**/jobs/*")
        teaching.wait_for_url("**/learned**")
    page.keyboard.press("n")
    page.wait_for_selector("#line:has-text('Not saved yet: no connection.')")
    assert page.get_attribute("button.verdict:has-text('No')", "aria-pressed") == "true"
    assert page.is_visible("text=Kept here until the server answers")
    line = page.locator("#line").bounding_box()
    tabs = page.locator(".bar").bounding_box()
    head = page.locator("h1").bounding_box()
    # Tabs, note and question, one below the other.
    edges = list[float]()
    for box in (tabs, line, head):
        assert box is not None
        edges += [box["y"], box["y"] + box["height"]]
    assert edges == sorted(edges)
    with served(url, port):
        page.wait_for_selector(".foot.back")
        assert page.is_hidden("#line")
