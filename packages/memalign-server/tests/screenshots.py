"""Pictures of every page: light and dark, wide and narrow, of an invented shop whose replies to complaints are judged.

    python packages/memalign-server/tests/screenshots.py FOLDER     every page, to be looked at
    python packages/memalign-server/tests/screenshots.py --docs     those of the documentation, into docs/images/server

It needs Chromium and Pillow, and the folders of `pythonpath` in pyproject.toml on PYTHONPATH. A scripted model answers.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.testclient import TestClient
from PIL import Image
from sqlalchemy import delete, insert

from memalign import Judge
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding
from memalign_server.people.people import Role
from memalign_server.store import Store
from memalign_server.store.columns import now
from memalign_server.store.tables import jobs
from server_support import reviewing, world
from test_browser import CHROMIUM, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).resolve().parents[3] / "docs" / "images" / "server"
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
SORRY = ("sorry", "apologise", "regret")
RULES = {
    "sorry": ("A reply to a complaint says sorry before it gives facts.", "Does the reply say that it is sorry?"),
    "step": ("A reply to a complaint names the next step and who takes it.", "Does the reply name a next step?"),
    "date": ("A reply promises no date that depends on a carrier.", "Does the reply leave out a firm date?"),
}
CASES: list[tuple[str, str, str, bool, str]] = [
    ("parcel-late", "My parcel is three weeks late.", "It is in transit. The carrier will bring it.", False, "Say sorry before the facts."),
    ("charged-twice", "I was charged twice for one order!", "One charge will be reversed within five days.", False, "No word of regret: say sorry."),
    ("broken-lamp", "The lamp arrived broken.", "I am sorry about the lamp. I send you a new one today.", True, ""),
    ("shop-hours", "When is the shop in Porto open?", "Monday to Saturday, from ten to seven.", True, ""),
    ("wrong-size", "You sent the wrong size, again.", "Please return it with the form.", False, "Name the next step and take it yourself."),
    ("refund-gone", "Where is my refund? It has been a month.", "I am sorry that it took so long. I have asked the bank today and write to you tomorrow.", True, ""),
    ("gift-wrap", "Can you wrap it as a gift?", "Yes, for two euros. Tick the box at the till.", True, ""),
    ("rude-call", "Your colleague on the phone was rude.", "Calls are recorded for training.", False, "Say sorry, and who will call back."),
    ("missing-part", "The shelf has no screws.", "The manual lists every part on page 2.", False, "Name the next step."),
    ("by-friday", "Will it be here by Friday?", "It will certainly be there on Friday.", False, "Promise no date that depends on a carrier."),
    ("vat-number", "Can I have an invoice with my VAT number?", "Yes. Answer with the number and I send it today.", True, ""),
    ("cracked-mug", "One of the six mugs is cracked.", "We regret this. A new mug leaves our house this afternoon.", True, ""),
    ("no-answer", "Third mail, no answer!", "Your ticket has a number.", False, ""),
    ("return-fee", "Why do I pay for a return of your mistake?", "The fee is in our terms.", False, ""),
    ("thank-you", "Thanks, it came a day early.", "Glad to hear it! Enjoy the book.", True, ""),
    ("lost-code", "The voucher code does not work.", "I am sorry. Here is a new one: it works until May.", True, ""),
    ("late-again", "Late for the second time this month.", "Delays happen in autumn.", False, ""),
    ("colour-faded", "The blue faded after one wash.", "Please wash at thirty degrees.", False, ""),
]  # fmt: skip
PAGES = [
    ("judges", "/"), ("review", "/judges/replies/review"), ("verdict", "/judges/replies/review?case=rude-call"),
    ("changed", "/judges/replies/changed"), ("memory", "/judges/replies/memory"),
    ("found", "/judges/replies/memory?find=sorry"), ("trust", "/judges/replies/trust"), ("data", "/judges/replies/setup?open=cases"),
    ("erase", "/judges/replies/erase?key=wrong-size"), ("what-to-erase", "/judges/replies/erase"),
    ("settle", "/judges/replies/settle"), ("account", "/account"),
    ("empty-review", "/judges/greetings/review"), ("empty-changed", "/judges/greetings/changed"),
    ("empty-memory", "/judges/greetings/memory"), ("empty-trust", "/judges/greetings/trust"),
    ("not-here", "/nowhere"), ("no-case", "/judges/replies/review?case=gone"),
]  # fmt: skip


def model(request: ChatRequest) -> dict[str, Any]:
    """Passes every reply until a rule says otherwise; makes rules of words that it knows."""
    properties = request.schema["properties"]
    if "changes" in properties:
        new = request.user.partition("New feedback:")[2].lower()
        labels = properties["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
        found = [(text, question) for word, (text, question) in RULES.items() if word in new]
        check = [{"text": t, "checks": [{"question": q, "answer": "no"}]} for t, q in found]
        return {"changes": [{"action": "ADD", "feedback": labels, "guideline": "", **each} for each in check]}
    asked, item = request.system, request.user.rpartition("Now judge this item:")[2].lower()
    complaint = not any(word in item for word in ("thank", "open?", "wrap", "vat", "by friday"))
    says = {
        "sorry": any(word in item for word in SORRY),
        "step": " i " in item or "new" in item,
        "date": "certainly" not in item,
    }
    wrong = [
        RULES[name][0] for name in RULES if RULES[name][0] in asked and not says[name] and (complaint or name == "date")
    ]
    reply: dict[str, Any] = {}
    if "checks" in properties:
        questions = {question: name for name, (_, question) in RULES.items()}
        names = properties["checks"]["properties"]
        given = [next((says[name] for question, name in questions.items() if question in line), True)
                 for line in asked.splitlines() + request.user.splitlines() if line.strip().startswith(tuple(names))]  # fmt: skip
        reply["checks"] = {
            name: "yes" if yes else "no" for name, yes in zip(names, [*given, *[True] * 9], strict=False)
        }
    reason = f"It breaks a rule: {wrong[0]}" if wrong else "It answers the question with the facts."
    return {**reply, "rationale": reason, "value": not wrong}


def told(client: TestClient, cases: list[tuple[str, str, str, bool, str]], *, agree: bool = True) -> None:
    for name, _, _, value, words in cases:
        said = value if agree or name != "rude-call" else not value
        reviewing.answer(client, name, judge="replies", value=str(said).lower(), rationale=words if agree else "")


@contextmanager
def shop(*, team: bool, answered: bool = True) -> Iterator[tuple[str, Path]]:
    """The shop's server, on which fourteen cases were `answered` and taught twice, or none; its address and folder."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        registry = world.registry(folder, script=model, judges=())
        question = "Is the reply to the customer good?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
        for name in ("replies", "greetings"):
            registry.create(
                Judge(name=name, instructions=question, feedback_value_type=bool, model="scripted", embedding_model=HashEmbedding().name)
            )  # fmt: skip
        links = {}
        if team:
            links = {"rita": world.link(registry.url, "rita"), "ana": world.link(registry.url, "ana", Role.REVIEWER)}
        app = world.server(folder, script=model, title="Casa Verde" if team else "memalign")
        with TestClient(app, base_url=world.ADDRESS) as nobody:
            nobody.close()
            expert = person(app, links.get("ana"))
            owner = person(app, links["rita"]) if team else expert
            rows = [{"id": name, "inputs": asked, "outputs": answer} for name, asked, answer, _, _ in CASES]
            reviewing.put_in(owner, rows, judge="replies")
            for part in (CASES[:5], CASES[5:12]) if answered else ():
                told(expert, part)
                reviewing.post(expert, "/judges/replies/teach")
                reviewing.wait(expert, "replies")
            told(expert, CASES[12:14] if answered else [])
            if team:
                told(owner, CASES[:9], agree=False)
        with world.listening(app) as address:
            yield address, folder


def person(app: Any, link: str | None) -> TestClient:
    browser = TestClient(app, base_url=world.ADDRESS, headers={"accept": "text/html, */*"})
    if link is not None:
        assert browser.post(link, follow_redirects=False).status_code == 303
    return browser


def opened(chromium: Browser, address: str, scheme: Any, size: Any) -> Page:
    return chromium.new_context(base_url=address, color_scheme=scheme, viewport=size, locale="en-GB").new_page()


def registry_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'memalign.db'}"


def enter(page: Page, url: str, name: str) -> None:
    page.goto(world.link(url, name))
    page.click("main form button")
    page.wait_for_selector("h1:has-text('Judges')")


def few_colours(pictures: list[Image.Image]) -> list[Image.Image]:
    """The pictures in their commonest colours: what they share stays exactly as it is, and each is small."""
    wide, high = pictures[0].size
    both = Image.new("RGB", (wide, high * len(pictures)))
    for place, each in enumerate(pictures):
        both.paste(each, (0, place * high))
    found: Any = both.getcolors(1 << 24)  # pairs of how often and red, green, blue
    common = sorted(found, reverse=True)[:160]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in common for part in colour])
    return [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]


def taken(page: Page, to: Path, *, whole: bool) -> None:
    """A picture of at most 60 kB."""
    page.wait_for_load_state("load")
    with Image.open(io.BytesIO(page.screenshot(full_page=whole))) as picture:
        few_colours([picture.convert("RGB")])[0].save(to, optimize=True)


def every_page(chromium: Browser, to: Path) -> None:
    """Every page in four shapes, with an owner signed in."""
    with shop(team=True) as (address, folder):
        for scheme in ("light", "dark"):
            for shape, size in (("wide", WIDE), ("narrow", NARROW)):
                page = opened(chromium, address, scheme, size)

                def take(name: str, page: Page = page, tail: str = f"{scheme}-{shape}") -> None:
                    taken(page, to / f"{name}-{tail}.png", whole=True)

                page.goto("/sign-in")
                take("sign-in")
                enter(page, registry_of(folder), "rita")
                for name, path in PAGES:
                    page.goto(path)
                    take(name)
                page.goto("/account")
                page.fill("input[name=name]", f"guest {scheme} {shape}")
                page.click("button:has-text('Make a link')")
                page.wait_for_selector("[role=status] code")
                take("invited")
                joining = opened(chromium, address, scheme, size)
                joining.goto(page.inner_text("[role=status] code").replace("http://127.0.0.1:8321", address))
                take("join", joining)
                page.goto(f"/judges/replies/changed?job={under_way(folder)}")
                page.screenshot(path=to / f"learning-{scheme}-{shape}.png")
                nothing_under_way(folder)


def under_way(folder: Path) -> str:
    """The id of a job that looks as if it were running."""
    row = {
        "id": "under-way",
        "kind": "teach",
        "judge": "replies",
        "state": "running",
        "asked_by": "ana",
        "phase": "distil",
    }
    with Store(f"sqlite:///{folder / 'memalign.db'}").write() as connection:
        connection.execute(insert(jobs).values(**row, done=3, total=8, created_at=now()))
    return row["id"]


def nothing_under_way(folder: Path) -> None:
    with Store(f"sqlite:///{folder / 'memalign.db'}").write() as connection:
        connection.execute(delete(jobs))


def of_docs(chromium: Browser, to: Path) -> None:
    """The pictures of the tutorial, on a server of one's own, and of the page on what the pages look like."""
    pages = dict(PAGES)
    desk = {"width": 1120, "height": 760}
    with shop(team=False, answered=False) as (address, _):
        loop(chromium, address, to / "loop.gif")
        for scheme, shape, size in (("light", "wide", desk), ("dark", "narrow", NARROW)):
            page = opened(chromium, address, scheme, size)
            page.goto(pages["changed"])
            taken(page, to / f"changed-{scheme}-{shape}.png", whole=False)
    with shop(team=False) as (address, _):
        shapes: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
            ("light", "wide", desk, ("review", "verdict", "memory", "trust", "data")),
            ("dark", "narrow", NARROW, ("review",)),
        )
        for scheme, shape, size, names in shapes:
            page = opened(chromium, address, scheme, size)
            for name in names:
                page.goto(pages[name])
                taken(page, to / f"{name}-{scheme}-{shape}.png", whole=False)
    with shop(team=True) as (address, folder):
        shapes = (
            ("light", "wide", desk, ("settle", "account", "erase")),
            ("dark", "wide", desk, ("memory",)),
            ("dark", "narrow", NARROW, ("trust",)),
        )
        for scheme, shape, size, names in shapes:
            page = opened(chromium, address, scheme, size)
            enter(page, registry_of(folder), "rita")
            for name in names:
                page.goto(pages[name])
                taken(page, to / f"{name}-{scheme}-{shape}.png", whole=False)


def loop(chromium: Browser, address: str, to: Path) -> None:
    """The animated picture: five cases are answered, the judge is taught, and says what it learned and what turned."""
    frames: list[Image.Image] = []
    times: list[int] = []
    size: Any = {"width": 1000, "height": 645}
    page = chromium.new_context(base_url=address, viewport=size, device_scale_factor=0.8, locale="en-GB").new_page()

    def frame(seconds: float) -> None:
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        times.append(round(1000 * seconds))

    page.goto("/judges/replies/review")
    said = {name: (value, words) for name, _, _, value, words in CASES}
    for number in range(6):
        frame(1.8 if number == 0 else 0.7)
        value, words = said[page.inner_text("#case-name").split()[-1]]
        page.keyboard.press("y" if value else "n")
        page.wait_for_selector("#card.done")
        frame(1.6 if number == 0 else 0.7)
        if words:
            page.keyboard.press("w")
            for part in words.split(": ") if number == 0 else [words]:
                page.keyboard.type(part)
                frame(0.7)
            page.keyboard.press("Control+Enter")
            until(page, f"document.querySelector('#card.done textarea').value === {words!r}")
        page.locator("main").focus()
        if number < 5:
            until(page, "document.querySelector('template#ahead').content.querySelector('#card')")
            page.keyboard.press("Enter")
            page.wait_for_selector("#card:not(.done)")
    page.keyboard.press("t")
    page.wait_for_selector("h1:has-text('What changed')")
    frame(3.2)
    page.locator("#turned").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('turned').scrollIntoView()")
    frame(2.5)
    frame(2.2)
    pictures = few_colours(frames)
    pictures[0].save(to, save_all=True, append_images=pictures[1:], duration=times, loop=0)


def main() -> None:
    from playwright.sync_api import sync_playwright

    docs = sys.argv[1:] == ["--docs"]
    to = DOCS if docs else Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        (of_docs if docs else every_page)(chromium, to)
        chromium.close()


if __name__ == "__main__":
    main()
