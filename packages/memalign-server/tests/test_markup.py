"""Words are never markup: whoever typed, pasted, sent, imported or answered them, nothing is
requested or replaced."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign_server.pages.languages import language
from memalign_server.pages.texts import prose, visible
from memalign_server.people.access import Json, inert
from memalign_server.people.service import Role
from server_support import world
from server_support.browser import enter, opened, until
from server_support.reviewing import post, put_in, wait
from server_support.tags import Tags
from tests.support.learning import changes_of
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi.testclient import TestClient
    from playwright.sync_api import Browser, Page, Request

    from memalign.models.base import ChatRequest

MARK = "pwned"
"""The name of an attribute that each hostile tag has, and a part of each address that it
would ask for."""
PIECES = (
    "<form id=foot pwned hx-post=/judges/tone/erase?pwned hx-trigger=load>"
    "<input name=matching value=e><input name=whole value=true></form>",
    "<section id=foot pwned data-poll=/judges?pwned data-here=/pwned>You are signed out."
    "</section>",
    "<div pwned data-hx-get=/judges?pwned data-hx-trigger=load data-hx-target=body></div>",
    "<form pwned data-part=#main data-send=changed action=/judges/tone/erase?pwned>"
    "<input name=whole></form>",
    "<form pwned data-kept action=/judges/tone/teach?pwned><textarea name=words>x"
    "</textarea></form>",
    "<input pwned form=again name=matching value=e autofocus accesskey=n>"
    "<button pwned formaction=/sign-out?pwned>",
    "<template pwned><p id=line></p></template><base pwned href=/pwned/>"
    "<meta pwned http-equiv=refresh content=0>",
    "<a pwned href=/account?pwned data-key=n data-to=/judges?pwned data-part=#main>Next</a>"
    "<img pwned src=/pwned.png>",
    "</textarea></form></article><iframe pwned src=/pwned></iframe>"
    "<svg pwned onload=alert(1)></svg>",
    "\" pwned onfocus=alert(1) autofocus x=\"' pwned x='",
    "```html\n<script pwned src=/pwned.js></script>\n```",
)
HOSTILE = "It quotes: " + " ".join(PIECES)
LINE = HOSTILE.replace("\n", " ")
INSTRUCTIONS = (
    f"{LINE} Is the reply warm?\nQuestion: {{{{ inputs }}}}\nReply: {{{{ outputs }}}}"
)
CASES: list[RawRow] = [
    {
        "id": "talk",
        "inputs": [{"role": "user", "content": HOSTILE}],
        "outputs": json.dumps({HOSTILE: [HOSTILE]}),
    }
]
for number in range(4):
    text = f"{number} {HOSTILE}"
    CASES.append({"id": f"c-{number} {PIECES[0]}", "inputs": text, "outputs": text})


def answer(request: ChatRequest) -> dict[str, Any]:
    """A model that writes markup wherever it may write."""
    if "changes" not in request.schema["properties"]:
        return {"rationale": HOSTILE, "value": True}
    conflicts = [{"feedback": ["F1", "F2"], "about": HOSTILE}]
    return {**changes_of(request.user, lambda *_: PIECES[7]), "conflicts": conflicts}


class Watch:
    """A page, what it asks for that it should not, and the marked elements that it holds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked = list[str]()
        page.on("request", self.note)

    def note(self, request: Request) -> None:
        if re.search(f"[?/]{MARK}|/(?:erase|sign-out)$", request.url):
            self.asked.append(f"{request.method} {request.url}")

    def is_inert(self) -> None:
        """Nothing was made of the words, in the document or in a part that a form could bring
        in."""
        self.page.wait_for_timeout(100)
        made = self.page.evaluate(
            f"document.querySelectorAll('[{MARK}], base, template, iframe').length"
        )
        assert (self.asked, made) == ([], 0), self.page.url

    def sees(self, path: str) -> None:
        self.page.goto(path)
        self.is_inert()


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A served registry in which every text is markup; its address and URL."""
    registry = world.opened(tmp_path, script=answer)
    registry.create(world.judge("tone").replace(instructions=INSTRUCTIONS))
    world.link(registry.url, "olga")
    world.link(registry.url, "ana", Role.REVIEWER)
    app = world.server(tmp_path, script=answer, api_token=world.TOKEN)
    with world.listening(app) as address:
        yield address, registry.url


@pytest.mark.parametrize("role", ["reviewer", "owner"])
def test_what_is_typed_pasted_sent_imported_or_answered_does_nothing(
    chromium: Browser, hostile: tuple[str, str], role: str
) -> None:
    address, url = hostile
    name = "olga" if role == "owner" else "ana"
    cases_are_sent(address)
    page = opened(chromium, address, permissions=["clipboard-read", "clipboard-write"])
    watch = Watch(page)
    enter(page, url, name, "/judges/tone/review")
    until(page, "!!document.querySelector('#foot')")
    for number in range(3):
        a_case_is_judged_and_taught(address, name, number)
    for way in ("typed", "pasted", "filled"):
        a_case_is_explained(watch, way)
    watch.sees("/judges/tone/teach")
    page.click("button:has-text('Teach it')")
    page.wait_for_url("**/learned**")
    watch.is_inert()
    links = page.locator("a:has-text('Say it better'), a:has-text('Take back')").all()
    for path in [str(link.get_attribute("href")) for link in links[:2]]:
        watch.sees(path)
    if page.query_selector("textarea[name=text]"):
        page.fill("textarea[name=text]", PIECES[7])
    paths = ["learned", "learned?find=form", "trust", "review?again=true"]
    for path in paths:
        watch.sees(f"/judges/tone/{path}")
    watch.sees("/judges")
    watch.sees("/account")
    if role == "owner":
        watch.sees("/judges/tone/setup?open=")
        fill_set_up(watch)


def program(address: str) -> httpx2.Client:
    """A program with the API token, which closes after its work."""
    headers = {"authorization": f"Bearer {world.TOKEN}"}
    return httpx2.Client(
        base_url=f"{address}/api/v1/judges/tone", headers=headers, timeout=60
    )


def cases_are_sent(address: str) -> None:
    with program(address) as client:
        assert client.post("/cases", json={"cases": CASES}).status_code == 202


def a_case_is_judged_and_taught(address: str, person: str, number: int) -> None:
    name = f"kept-{number}"
    case = {"id": name, "inputs": f"kept {number} {HOSTILE}", "outputs": HOSTILE}
    row = {"id": name, "value": False, "source": person, "rationale": HOSTILE}
    with program(address) as client:
        assert client.post("/judge?keep=true", json=case).status_code == 200
        sent = client.post("/align", json={"feedback": [row]})
        # 409: it was drawn to measure the judge
        assert sent.status_code in (202, 409), sent.text


def a_case_is_explained(watch: Watch, way: str) -> None:
    """Reject the next case, and give HOSTILE as the reason."""
    page = watch.page
    page.goto("/judges/tone/review")
    watch.is_inert()
    if page.query_selector("button:has-text('Teach it')"):
        page.click("button:has-text('Later')")
    page.wait_for_selector("#foot:not(.back)")
    page.keyboard.press("n")
    page.wait_for_selector(".foot.back textarea[name=words]")
    page.focus("textarea[name=words]")
    if way == "typed":
        page.keyboard.type(PIECES[0] + PIECES[1])
    elif way == "pasted":
        page.evaluate("text => navigator.clipboard.writeText(text)", HOSTILE)
        page.keyboard.press("Control+V")
    else:
        page.fill("textarea[name=words]", HOSTILE)
    page.wait_for_selector("#foot :text('Words saved'):visible")
    watch.is_inert()
    page.reload()
    watch.is_inert()
    page.press("textarea[name=words]", "Enter")
    page.wait_for_url(lambda address: "case=" not in address)


def fill_set_up(watch: Watch) -> None:
    """What an owner may write and import in Set up."""
    page = watch.page
    setup = "/judges/tone/setup?open="
    watch.sees(f"{setup}cases")
    quoted = LINE.replace('"', '""')
    rows = f'inputs,outputs\n"{quoted}","a {quoted}"\n'
    file: Any = {
        "name": "<img pwned src=/pwned.png>.csv",
        "mimeType": "text/csv",
        "buffer": rows.encode(),
    }
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector("#upload table")
    watch.is_inert()
    watch.sees(f"{setup}experts")
    page.fill("input[name=name]", PIECES[3][:150])
    page.click("text=Make a link")
    page.wait_for_selector("[role=status] code")
    watch.is_inert()
    watch.sees(f"{setup}question")
    page.click("summary:has-text('All that the model is told')")
    page.fill("textarea[name=instructions]", HOSTILE)  # it names no field
    page.click("text=Save the question")
    page.wait_for_selector(".fault")
    watch.is_inert()
    watch.sees(f"{setup}erase")
    page.fill("input[name=matching]", PIECES[1])
    page.click("button:has-text('Find everywhere')")
    page.wait_for_selector("text=Found:")
    watch.is_inert()


def test_an_answer_in_json_begins_no_tag_and_a_form_forges_no_hand(
    shared: world.Shared,
    owner: TestClient,
) -> None:
    put_in(owner)
    kept = post(
        owner, "/judges/tone/review/words", parts=True, case="late", words=HOSTILE
    )
    assert "<" not in kept.text.partition("{")[2] or kept.status_code == 422
    assert json.loads(bytes(Json({"<b>": "<form>"}).body)) == {"<b>": "<form>"}
    assert b"<" not in bytes(Json({"<b>": "<form>"}).body)
    page = owner.get("/judges/tone/setup?open=experts").text
    of_another = page.partition('data-hand="')[2].partition('"')[0]
    for path in ("erase", "experts", "experts/none/link", "experts/none/remove"):
        for hand in ("", "1", of_another if path != "experts" else "0" * 64):
            headers = {"x-by-hand": hand}
            form = {"matching": "e"}
            refused = owner.post(f"/judges/tone/{path}", data=form, headers=headers)
            assert refused.status_code == 403, path
    wait(owner)
    assert "erase" not in [job.kind for job in shared.server.jobs.recent("tone")]


ALLOWED = """
    p div span pre code em strong ul ol li blockquote h1 h2 h3 h4 h5 h6 hr br small
    table thead tbody tr th td
"""


MARKS = """
    < > </ /> <b <form <!-- --> <![CDATA[ & &lt; &#60; " ' ` | ]( [ ![ javascript: = \\
    hx-get data-part form script
"""
LINES = ["\n", "```html\n", "```\n", "| a |\n|---|\n", "SELECT a FROM ", "def f("]
SIGNS = ["# ", "> ", " ", "\u2028", "\x00", "\u202e"]
BITS = st.sampled_from([*MARKS.split(), *LINES, *SIGNS, *PIECES])
TEXTS = st.one_of(
    st.text(), st.lists(BITS | st.text(max_size=8), max_size=20).map("".join)
)


AT = "2026-11-05T22:04:00+00:00"


@given(TEXTS)
def test_no_text_becomes_a_tag_beyond_the_allowed(text: str) -> None:
    made = Tags(str(prose(text)))
    assert set(made.tags) <= set(ALLOWED.split())
    assert made.attributes <= {"class", "tabindex", "start", "style"}
    at = language("pt").time(AT)
    said = language("pt").say("{name} {time}", name=text, time=at)
    assert Tags(str(visible(text))).tags == []
    assert Tags(str(said)).tags == ["time"]
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in str(prose(text)) + str(visible(text))
    assert "202E" in visible(text) or "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "<" not in inert(json.dumps(text))
    assert json.loads(inert(json.dumps(text))) == text
