"""The documentation's pictures of the screens, of an invented bicycle shop whose replies are
judged.

    python packages/memalign-server/tests/screenshots.py [FOLDER]

They go into docs/images/server, or into a folder to be looked at first. It needs Chromium and
Pillow, and the folders of `pythonpath` in pyproject.toml on PYTHONPATH. A scripted model
answers.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.testclient import TestClient
from PIL import Image

from memalign.models.base import ChatRequest
from server_support import reviewing, world
from server_support.browser import answered, enter, launched, words_saved
from tests.support.learning import changes_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).resolve().parents[3] / "docs" / "images" / "server"
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
QUESTION = (
    "Is this support reply good enough to send?\n\n"
    "Customer: {{ inputs }}\nReply: {{ outputs }}"
)
ANSWERED = 49
"""Of the cases Ana has answered so many."""
RULES = {
    "needs a day": "A reply about a refund names the day the money arrives.",
    "free repair": "A reply never says that a repair is free or covered.",
    "working days": "A delivery time is given in working days.",
}
FAULTS = (
    "a deep scratch on the frame",
    "a brake that rubs",
    "a bent rear wheel",
    "a motor that cuts out on hills",
    "a torn saddle",
    "a dead battery",
    "a loose crank",
    "a stuck gear",
)
# What is asked, a reply that may go out, one that may not, and why.
REPLIES = [
    (
        "My Halden arrived on Monday with {fault}. I would rather send it back. "
        "When do I get my 1,890 back?",
        "I am sorry about {fault}.\n\nWe collect your Halden tomorrow, and the full 1,890 is "
        "on your card by Wednesday 11 June.\n\nJonas, Halden support",
        "Thank you for writing, and I am very sorry about {fault}.\n\nI have arranged a "
        "collection for your Halden. As soon as our workshop has looked at the bike, we will "
        "refund the full amount to your card. This should not take long.\n\nHave a good "
        "holiday. Jonas, Halden support",
        "It says “not long”. Someone waiting for a refund needs a day.",
    ),
    (
        "After eleven months my Halden has {fault}. What does a repair cost me?",
        "I am sorry about {fault}.\n\nWhether the guarantee covers it, the workshop decides "
        "once it has seen the bike. You hear from it by Friday 20 June.",
        "I am sorry about {fault}. Eleven months is within the guarantee, so the repair is "
        "free.\n\nPlease bring your Halden to any of our shops.",
        "We cannot promise a free repair. The workshop decides that.",
    ),
    (
        "You promised a spare part because of {fault}. When does it come?",
        "It left us this morning and is with you within three working days.",
        "It left us this morning and is with you in three days.",
        "“Three days” means Saturday to a customer. Say working days.",
    ),
    (
        "Can I ride my Halden to the shop with {fault}?",
        "Please do not ride it. We collect it tomorrow, Tuesday 10 June, between 8 and 12.",
        "",
        "",
    ),
]


JUNE = """customer_message,agent_reply
When do I get my 1890 back?,By Wednesday 11 June.
Is the repair free?,The workshop decides.
Which day does my Halden come?,On Thursday 12 June.
"""


def model(request: ChatRequest) -> dict[str, Any]:
    """Passes every reply until a rule says otherwise; makes rules of the words that it knows."""
    if "changes" in request.schema["properties"]:
        rules = changes_of(request.user, rule_in)
        for rule in rules["changes"]:
            rule["action"] = "ADD" if rule["text"] else "NOOP"
        return {"changes": rules["changes"]}
    prompt = request.system + request.user
    item = request.user.rpartition("Now judge this item:")[2]
    breaks = {
        "needs a day": "refund" in item and "by Wednesday" not in item,
        "free repair": "repair is free" in item,
        "working days": "in three days" in item,
    }
    for name, rule in RULES.items():
        if breaks[name] and rule in prompt:
            return {"rationale": f"It breaks a rule: {rule}", "value": False}
    reason = "It is polite, says sorry and explains every step."
    return {"rationale": reason, "value": True}


def rule_in(_: str, words: str) -> str:
    """The rule that a comment is about, or nothing."""
    for name, rule in RULES.items():
        if name in words:
            return rule
    return ""


def cases(faults: Sequence[str]) -> dict[str, tuple[dict[str, str], bool, str]]:
    """The shop's cases by their ids: each with its verdict, and the words of whoever turns it
    down."""
    made = {}
    for fault in faults:
        for number, (request, good, bad, why) in enumerate(REPLIES):
            for reply, verdict in ((bad, False), (good, True)):
                name = f"{number}-{fault[:9]}-{verdict}"
                case = {
                    "id": name,
                    "inputs": request.format(fault=fault),
                    "outputs": reply.format(fault=fault),
                }
                if reply:
                    made[name] = (case, verdict, "" if verdict else why)
    return made


@contextmanager
def shop(*, taught: bool) -> Iterator[tuple[str, str]]:
    """The shop's server with Mira its owner, Ana and Ben; its address and its registry.
    Untaught, it has three cases."""
    with tempfile.TemporaryDirectory() as folder:
        registry = world.opened(Path(folder), script=model)
        registry.create(world.judge("replies").replace(instructions=QUESTION))
        app = world.server(Path(folder), script=model)
        with TestClient(app) as nobody:
            world.link(registry.url, "Mira")
            mira, ana, ben = map(world.Shared(app).signed_in, ("Mira", "Ana", "Ben"))
            answers = cases(FAULTS if taught else FAULTS[:1])
            rows = []
            for case, verdict, _ in answers.values():
                if taught or not verdict:
                    rows.append(case)
            reviewing.put_in(mira, rows, judge="replies")
            if taught:
                teach(ana, ben, answers)
            else:
                reviewing.hold_out(nobody)
        with world.listening(world.server(Path(folder), script=model)) as address:
            yield address, registry.url


def teach(
    ana: TestClient,
    ben: TestClient,
    answers: dict[str, tuple[dict[str, str], bool, str]],
) -> None:
    """Ana answers in three sittings, after each of which she teaches; Ben differs about the
    repair."""
    explained = set[str]()
    for start, end in ((0, 16), (16, 32), (32, ANSWERED)):
        for name, (_, verdict, why) in [*answers.items()][start:end]:
            if say(ana, name, verdict, "" if why in explained else why):
                explained.add(why)
        reviewing.work(ana, "teach", judge="replies")
    for name, (case, verdict, _) in [*answers.items()][:12]:
        differs = "repair is free" in case["outputs"]
        words = "She is safe, and she knows the day." * differs
        say(ben, name, verdict or differs, words)


def say(client: TestClient, case: str, verdict: bool, words: str) -> bool:
    """Answer a case; say why where there are words and a field for them. Returns whether
    there were."""
    value = str(verdict).lower()
    turned = reviewing.answer(client, case, judge="replies", value=value).text
    if not words or "<textarea" not in turned:
        return False
    form = reviewing.card(turned) | {"words": words, "go": "next"}
    reviewing.post(client, "/judges/replies/review/words", **form)
    return True


def entered(
    chromium: Browser,
    address: str,
    url: str,
    name: str,
    scheme: Any,
    size: Any,
    **options: Any,
) -> Page:
    """A page of somebody who is signed in."""
    context = chromium.new_context(
        base_url=address, color_scheme=scheme, viewport=size, locale="en-GB", **options
    )
    page = context.new_page()
    enter(page, url, name, "/judges/replies/review")
    return page


def shot(page: Page) -> Image.Image:
    """A picture once nothing on the page moves."""
    page.wait_for_load_state("load")
    page.evaluate(
        """Promise.all(document.getAnimations()
            .filter(a => !(a.timeline instanceof ScrollTimeline)).map(a => a.finished))"""
    )
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def pictures(chromium: Browser, to: Path) -> None:
    """Every picture of the documentation; the loop is one that moves."""

    def take(page: Page, name: str) -> None:
        picture = shot(page).quantize(160, dither=Image.Dither.NONE)
        picture.save(to / f"{name}.png", optimize=True)

    with shop(taught=False) as (address, url):
        page = entered(chromium, address, url, "Ben", "light", WIDE)
        answered(page, "n")
        page.keyboard.type("It is polite, but it helps nobody.")
        words_saved(page)
        take(page, "difference-light-wide")
    # Of its own: a case that Ben answered is Ana's no more.
    with shop(taught=False) as (address, url):
        loop(chromium, address, url, to / "loop.gif")
    with shop(taught=True) as (address, url):
        page = entered(chromium, address, url, "Ana", "light", WIDE)
        take(page, "colleague-light-wide")
        phone = entered(chromium, address, url, "Ana", "dark", NARROW)
        waiting = [*cases(FAULTS)][ANSWERED]
        pages = {"review": f"review?case={waiting}", "learned": "learned"}
        pages["trust"] = "trust"
        for name, path in pages.items():
            page.goto(f"/judges/replies/{path}")
            take(page, f"{name}-light-wide")
            if name != "trust":
                phone.goto(f"/judges/replies/{path}")
                take(phone, f"{name}-dark-narrow")
        owner = entered(chromium, address, url, "Mira", "light", WIDE)
        owner.goto("/judges/replies/setup?open=cases")
        file: Any = {
            "name": "replies-june.csv",
            "mimeType": "text/csv",
            "buffer": JUNE.encode(),
        }
        owner.set_input_files("input[name=file]", file)
        owner.wait_for_selector("#upload table")
        take(owner, "setup-cases-light-wide")
        owner.goto("/judges/replies/setup?open=experts")
        take(owner, "setup-experts-light-wide")
        owner.goto("/judges/replies/setup?open=erase")
        owner.fill("input[name=matching]", "torn saddle")
        owner.click("button:has-text('Find everywhere')")
        owner.wait_for_selector(".sure .erase")
        take(owner, "erase-light-wide")
        owner.click("summary:has-text('for good')")
        owner.click("button.erase:has-text('Yes')")
        owner.wait_for_selector("text=We searched again afterwards")
        take(owner, "receipt-light-wide")


def loop(chromium: Browser, address: str, url: str, to: Path) -> None:
    """The animated picture: three replies are turned down and explained, the judge is taught,
    and says what it learned."""
    frames: list[Image.Image] = []
    times: list[int] = []
    size = {"width": 1000, "height": 680}
    page = entered(
        chromium,
        address,
        url,
        "Ana",
        "light",
        size,
        device_scale_factor=0.8,
        reduced_motion="reduce",
    )

    def frame(seconds: float) -> None:
        frames.append(shot(page))
        times.append(round(1000 * seconds))

    words_of = {}
    for case, _, why in cases(FAULTS[:1]).values():
        words_of[case["outputs"].split("\n")[0]] = why
    for number in range(3):
        frame(2.2 if number == 0 else 1)
        why = words_of[page.inner_text(".bubble.reply p")]
        answered(page, "n")
        frame(1.6 if number == 0 else 0.7)
        for part in (why[: len(why) // 2], why[len(why) // 2 :]):
            page.keyboard.type(part)
            frame(0.6)
        words_saved(page)
        frame(0.8)
        page.keyboard.press("Enter")
        page.wait_for_selector(
            "#foot:not(.back)" if number < 2 else "text=You explained 3 things."
        )
    frame(2.2)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Teaching…")
    frame(1)
    page.wait_for_url("**/learned**")
    page.wait_for_selector(f"text={RULES['free repair']}")
    frame(4)
    palette = frames[-2].quantize(160)
    options: Any = {"palette": palette, "dither": Image.Dither.NONE}
    first, *others = (picture.quantize(**options) for picture in frames)
    first.save(to, save_all=True, append_images=others, duration=times, loop=0)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    with launched() as chromium:
        pictures(chromium, folder)
