"""What is erased is in no table and in no byte, whether it was taught or not; and the receipt says no when it is not so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text
from typer.testing import CliRunner

from memalign import Registry
from memalign.align import write_guideline
from memalign.errors import UnknownKey
from memalign_server import Settings, create_app
from memalign_server.store import Store
from memalign_server.store.tables import queue
from memalign_server.work.jobs import Jobs
from server_support import world
from server_support.reviewing import answer, post, put_in, wait
from test_jobs import job_ended
from tests.support import postgres

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest
    from memalign.registry import Receipt

KINDS = ("sqlite", "postgresql") if postgres.AVAILABLE else ("sqlite",)
MATTERS = [
    "parcel is three weeks late", "card was charged twice", "lamp arrived broken", "invoice names another street",
    "refund never came", "voucher is refused", "password mail is missing", "sofa is the wrong grey",
    "courier left it outside", "warranty has run out", "order shows no date", "chat ended without a word",
]  # fmt: skip
CASES: list[dict[str, Any]] = [
    {"id": f"okafor-{number}", "inputs": f"Chidi Okafor writes that the {matter}.", "outputs": f"Noted: the {matter}."}
    for number, matter in enumerate(MATTERS, 1)
]
OTHERS: list[dict[str, Any]] = [
    {"id": "late", "inputs": "My order is three weeks late.", "outputs": "It is in transit."},
    {"id": "thanks", "inputs": "Thanks!", "outputs": "Glad to hear it! Any time."},
]

WORDS_OF_LATE = {"Philippa": "No date is given.", "Ben": "Say sorry first."}


@dataclass(frozen=True)
class Site:
    """A server over a registry, and what can be seen of its database from outside."""

    client: TestClient
    url: str
    files: Path | None

    def registry(self) -> Registry:
        return world.opened(self.url)

    def tables_with(self, *words: str) -> set[str]:
        return world.tables_with(self.url, *words)

    def files_with(self, *words: str) -> set[str]:
        """The files of the database that hold one of the words; none on a server, whose files are out of reach."""
        if self.files is None:
            return set()
        beside = self.files.parent.glob(f"{self.files.name}*")
        data = {path.name: path.read_bytes().lower() for path in beside}
        return {name for name, held in data.items() if any(word.lower().encode() in held for word in words)}

    def nowhere(self, *words: str) -> bool:
        assert self.tables_with(*words) == set()
        assert self.files_with(*words) == set()
        return True


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    from fastapi.testclient import TestClient

    with contextlib.ExitStack() as stack:
        files = tmp_path / "memalign.db" if getattr(request, "param", "sqlite") == "sqlite" else None
        url = f"sqlite:///{files}"
        if files is None:
            server = postgres.shared()
            name = server.create()
            stack.callback(server.drop, name)
            url = server.url(name)
        world.opened(url).create(world.judge("tone"))
        app = create_app(Settings(registry=url), models=world.models())
        client = stack.enter_context(TestClient(app, base_url=world.ADDRESS))
        yield Site(client, url, files)


def spread(site: Site) -> None:
    """Twelve cases of one customer: three wait, three are answered, three are taught, three are in jobs alone."""
    put_in(site.client, [*CASES[:9], *OTHERS])
    for case in CASES[6:9]:
        answer(site.client, case["id"], value="false", rationale=f"Mr Okafor is owed more on {case['id']}.")
    answer(site.client, "late", value="false", rationale="It shows no sympathy.")
    post(site.client, "/judges/tone/teach")
    wait(site.client)
    for case in CASES[3:6]:
        answer(site.client, case["id"], value="true", rationale=f"Right towards Okafor, {case['id']}.")
    answer(site.client, "thanks", value="true", rationale="It is warm.")
    jobs = Jobs(Store(site.url), site.registry())
    judged = jobs.start("align", "tone", {"examples": CASES[9:]}, asked_by="local")
    said = [{"id": each["id"], "rationale": f"{each['inputs']} It is polite."} for each in CASES[9:]]
    jobs.end(judged.id, "done", result={"judgments": said})


ALL = {each["id"] for each in CASES}


ON_BOTH = pytest.mark.parametrize("site", KINDS, indirect=True)


@ON_BOTH
def test_twelve_cases_of_one_customer_are_in_no_table_and_no_byte(site: Site) -> None:
    spread(site)
    assert len(site.tables_with("okafor")) > 4
    preview = site.registry().erase("tone", matching="OKAFOR", dry_run=True)
    assert set(preview.cases) == ALL
    assert len(preview.keys) == 6
    assert "12 cases, 6 comments" in str(preview)
    receipt = site.registry().erase("tone", matching="OKAFOR")
    assert (set(receipt.cases), receipt.keys) == (ALL, preview.keys)
    assert receipt.complete, receipt.left
    assert "12 cases, 6 comments" in str(receipt)
    assert "0 feedback" not in str(receipt)
    assert site.nowhere("okafor", "sofa is the wrong grey", "chat ended without a word")
    assert site.tables_with("three weeks late")  # somebody else's
    with pytest.raises(UnknownKey):
        site.registry().erase("tone", matching="OKAFOR")


def test_a_case_that_nobody_taught_is_erased_by_command(site: Site) -> None:
    from memalign.cli.app import app

    spread(site)
    for case in (CASES[0], CASES[3]):
        done = CliRunner().invoke(app, ["erase", "tone", case["id"], "--registry", site.url])
        assert done.exit_code == 0, done.output
        assert "1 case" in done.output
        assert not site.tables_with(f'"{case["id"]}"', MATTERS[CASES.index(case)])
    lost = CliRunner().invoke(app, ["erase", "tone", "okafor-99", "--registry", site.url])
    assert lost.exit_code == 2


def test_all_that_one_person_said_leaves_no_name(site: Site) -> None:
    put_in(site.client, OTHERS)
    store, registry = Store(site.url), site.registry()
    rows = [{**OTHERS[0], "value": False, "rationale": "It shows no sympathy.", "source": "philippa"}]
    registry.align("tone", rows)
    jobs = Jobs(store, registry)
    asked = jobs.start("align", "tone", {}, asked_by="philippa")
    jobs.end(asked.id, "done", result={"judgments": []})
    wording = {"guideline": "g-1", "text": "Show sympathy.", "checks": [], "person": "philippa"}
    for kind, arguments in (("try", wording), ("unalign", {"keys": ["late@philippa"]})):
        jobs.start(kind, "tone", arguments, asked_by="philippa")  # which waits
    answer(site.client, "thanks", value="true", rationale="It is warm.")
    with store.write() as connection:
        connection.execute(text("UPDATE memalign_server_reviews SET person = 'philippa'"))
    receipt = registry.erase("tone", source="philippa")
    assert receipt.complete, receipt.left
    assert {str(key) for key in receipt.keys} == {"late@philippa", "thanks@philippa"}
    assert site.nowhere("philippa", "no sympathy", "It is warm")
    assert site.tables_with("Any time")  # a case of the queue is nobody's words


def test_a_colleagues_untaught_answer_keeps_its_case(site: Site) -> None:
    put_in(site.client, OTHERS)
    registry = site.registry()
    registry.align("tone", [{**OTHERS[0], "value": False, "rationale": "It is cold to her.", "source": "philippa"}])
    answer(site.client, "late", value="true", rationale="It says where it is.")
    receipt = registry.erase("tone", ["late@philippa"])
    assert receipt.complete, receipt.left
    assert receipt.cases == ()
    assert site.tables_with("It says where it is")
    assert site.tables_with("three weeks late")
    assert site.nowhere("cold to her")


@ON_BOTH
@pytest.mark.parametrize("way", ["command", "page"])
def test_a_word_that_is_left_makes_the_receipt_say_no(site: Site, way: str) -> None:
    from memalign.cli.app import app

    spread(site)
    with site.registry()._database.write() as connection:
        connection.execute(text("CREATE TABLE crm_notes (about VARCHAR(200))"))
        connection.execute(text("INSERT INTO crm_notes VALUES ('Call Mr. OKAFOR back on Monday')"))
    if way == "command":
        done = CliRunner().invoke(app, ["erase", "tone", "--matching", "okafor", "--yes", "--registry", site.url])
        assert done.exit_code == 1, done.output
        said = done.output.partition("erased")[2]
    else:
        job = post(site.client, "/judges/tone/erase", matching="okafor", whole="true").headers["location"]
        wait(site.client)
        said = site.client.get(job).text
        assert "Erased for good" not in said
    assert "crm_notes.about" in said
    assert ("NO" if way == "command" else "Not everything is gone") in said
    assert "back on Monday" not in said
    assert site.tables_with("okafor") == {"crm_notes.about"}


def test_a_text_in_the_instructions_is_named(site: Site) -> None:
    registry = site.registry()
    named = world.judge("named").replace(instructions=f"{world.INSTRUCTIONS}\nBe kind to Mr Okafor.")
    registry.create(named)
    registry.align("named", [{**CASES[0], "value": True, "rationale": "Fine.", "source": "ana"}])
    receipt = registry.erase("named", matching="okafor")
    assert not receipt.complete
    assert any("instructions" in each for each in receipt.left)
    assert "okafor" not in " ".join(receipt.left).lower()


def test_another_judge_with_the_text_is_named(site: Site) -> None:
    spread(site)
    site.registry().create(world.judge("second"))
    put_in(site.client, CASES[:1], judge="second")
    receipt = site.registry().erase("tone", matching="okafor")
    assert receipt.elsewhere == ("second",)
    assert not receipt.complete
    assert site.registry().erase("second", matching="okafor").complete
    assert site.nowhere("okafor")


def judgments(site: Site) -> list[Any]:
    with Store(site.url).read() as connection:
        return list(connection.execute(select(queue.c.judgment).order_by(queue.c.number)).scalars())


def ticks(page: str) -> list[str]:
    return re.findall(r'name="tick" value="([^"]+)" checked', page)


def erased(site: Site, **form: Any) -> str:
    """The receipt's page after a form of Erase a person."""
    begun = post(site.client, "/judges/tone/erase", **form)
    assert begun.status_code == 303, begun.text
    wait(site.client)
    return str(site.client.get(begun.headers["location"]).text)


@ON_BOTH
def test_the_page_finds_everything_and_erases_it(site: Site) -> None:
    spread(site)
    page = post(site.client, "/judges/tone/find", matching="okafor").text
    assert "Found: 12 cases, 6 comments" in " ".join(page.split())
    assert page.count("case, taught") == 3
    assert page.count("case, not taught") == 9
    assert MATTERS[0] in page
    assert "Erase 12 cases for good" in page
    page = erased(site, matching="okafor", tick=ticks(page))
    assert "We searched again afterwards: 0 left." in page
    assert "12 cases, 6 comments" in page
    assert "okafor" not in page.lower()
    assert site.nowhere("okafor")
    assert "No case, comment or sentence mentions it." in post(site.client, "/judges/tone/find", matching="okafor").text


def test_what_has_no_tick_stays(site: Site) -> None:
    spread(site)
    page = post(site.client, "/judges/tone/find", matching="okafor").text
    untouched = post(site.client, "/judges/tone/erase", matching="okafor")
    assert (untouched.status_code, "nothing is ticked" in untouched.text) == (422, True)
    chosen = [tick for tick in ticks(page) if tick.endswith(("okafor-1", "okafor-7@local"))]
    assert "Erase 1 case for good" in post(site.client, "/judges/tone/erase/ticks", tick=chosen).text
    page = erased(site, matching="okafor", tick=chosen)
    assert "2 cases, 1 comment" in page, "the only comment on a case takes the case along"
    assert "15 that mention it and had no tick" in page
    assert "Erase the" not in page  # it would take what has lost its tick
    assert not site.tables_with("parcel is three weeks late", "okafor-7@", "is owed more on okafor-7")
    assert site.tables_with("card was charged twice")


def test_a_draft_an_experts_name_and_a_learned_sentence_are_found(site: Site) -> None:
    put_in(site.client, OTHERS)
    answer(site.client, "late", value="true")
    post(site.client, "/judges/tone/review/words", case="late", words="Ask Ms Lindqvist first.", revision="0")
    rows = [{**OTHERS[1], "value": False, "rationale": "Too short.", "source": "Philippa"}]
    site.registry().align("tone", rows)
    site.registry().update("tone", lambda judge: write_guideline(judge, "Ms Lindqvist gets a call.", by="local"))
    page = " ".join(post(site.client, "/judges/tone/find", matching="lindqvist").text.split())
    assert "Found: 1 comment, 1 learned sentence" in page
    assert "comment, yours" in page
    assert "learned, yours" in page
    learned = [tick for tick in ticks(page) if tick.startswith("sentence:")]
    assert "1 learned sentence" in erased(site, matching="lindqvist", tick=learned)
    assert not site.tables_with("gets a call")
    assert site.tables_with("Ask Ms Lindqvist")
    page = post(site.client, "/judges/tone/find", matching="philippa").text
    assert ("comment, Philippa" in page, "Too short." in page) == (True, True)
    page = erased(site, matching="philippa", tick=ticks(page))
    assert "0 left" in page, re.findall("<h1>.*?<dl>", page, re.DOTALL)
    assert site.nowhere("philippa", "Too short")


def test_a_case_goes_with_its_only_comment(site: Site) -> None:
    put_in(site.client, OTHERS)
    rows = [{**OTHERS[1], "value": False, "rationale": "Too short.", "source": "Philippa"}]
    rows += [{**OTHERS[0], "value": False, "rationale": words, "source": of} for of, words in WORDS_OF_LATE.items()]
    site.registry().align("tone", rows)
    page = " ".join(post(site.client, "/judges/tone/find", matching="philippa").text.split())
    assert "A case of which nothing else was said goes too." in page
    page = " ".join(erased(site, matching="philippa", tick=ticks(page)).split())
    assert "1 case, 2 comments" in page
    assert not site.tables_with("philippa", "Glad to hear it")
    assert site.tables_with("My order is three weeks late", "Say sorry first")


def test_what_was_written_while_it_was_erased_goes_with_one_button(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from memalign.registry import registry as module
    from memalign.registry.erase_check import search_again

    def late(*arguments: Any, search: Any = search_again) -> Any:
        monkeypatch.undo()
        answer(site.client, "thanks", value="true", rationale="Mr Okafor is kind.")
        return search(*arguments)

    put_in(site.client, [CASES[0], *OTHERS])
    monkeypatch.setattr(module, "search_again", late)
    form = {"matching": "okafor", "whole": "true"}
    begun = post(site.client, "/judges/tone/erase", parts=True, **form)
    assert 'name="matching" value="okafor"' in begun.text  # it is in no address, and in this page alone
    wait(site.client)
    page = site.client.get(begun.headers["hx-push-url"]).text
    assert "Not everything is gone" in page
    assert "We searched again afterwards: 1 left." in page
    assert "Comments that were written while you erased: 1." in page
    assert "Erase the 1 that is left" in page
    assert "okafor" not in page.lower()
    assert "We searched again afterwards: 0 left." in erased(site, **form)
    assert site.nowhere("okafor")


def test_a_receipt_keeps_its_reference_and_shows_a_change(site: Site) -> None:
    put_in(site.client, [CASES[0], *OTHERS])
    begun = post(site.client, "/judges/tone/erase", matching="okafor", whole="true").headers["location"]
    wait(site.client)
    post(site.client, begun, reference="DSR 118")
    assert 'value="DSR 118"' in site.client.get(begun).text
    receipt = site.client.get(f"{begun}/file").json()
    assert (receipt["reference"], receipt["by"], receipt["cases"], receipt["complete"]) == ("DSR 118", "local", 1, True)
    for facts, words in (
        (receipt, "as this server wrote it"),
        ({**receipt, "cases": 2}, "it was changed"),
        ([], "changed"),
    ):
        files = {"file": ("receipt.json", json.dumps(facts))}
        assert words in site.client.post("/judges/tone/receipts", files=files).text


def test_a_receipt_outlives_the_name_in_its_reference(site: Site) -> None:
    put_in(site.client, [CASES[0], *OTHERS])
    begun = post(site.client, "/judges/tone/erase", matching="okafor", whole="true").headers["location"]
    wait(site.client)
    post(site.client, begun, reference="Chidi Okafor, DSR 118")
    post(site.client, "/judges/tone/erase", matching="okafor", whole="true")
    wait(site.client)
    assert site.nowhere("okafor")
    assert "Erased for good" in site.client.get(begun).text


def test_a_receipts_own_words_are_no_trace(site: Site) -> None:
    put_in(site.client, OTHERS)
    for word in ("thanks", "late"):  # every receipt says which version is the latest
        page = erased(site, matching=word, whole="true")
        assert "0 left" in page, " ".join(re.sub("<[^>]+>", " ", page).split())
    jobs = Jobs(Store(site.url), site.registry())
    receipts = [job.result for erasure in jobs.recent("tone") if (job := jobs.find(erasure.id)) and job.kind == "erase"]
    assert len(receipts) == 2
    assert all(receipts), "the second erasure leaves the receipt of the first"


def test_verdicts_in_which_an_erased_sentence_had_a_part_are_asked_again(site: Site) -> None:
    put_in(site.client, [CASES[0], *OTHERS])
    answer(site.client, "okafor-1", value="false", rationale="Mr Okafor is owed more.")
    post(site.client, "/judges/tone/teach")
    wait(site.client)
    page = erased(site, matching="okafor", whole="true")
    assert "0 left" in page
    assert all(judgments(site))


def test_what_a_judge_says_that_was_erased_from_meanwhile_is_not_kept(site: Site) -> None:
    receipts: list[Receipt] = []

    async def quoting(request: ChatRequest) -> dict[str, Any]:
        customer = "Okafor" in request.system + request.user
        if customer and not receipts:
            receipts.append(await asyncio.to_thread(site.registry().erase, "tone", matching="okafor"))
        return {"rationale": "Mr Okafor is owed more." if customer else "It is polite.", "value": True}

    put_in(site.client, [CASES[0], *OTHERS])
    site.registry().align("tone", [{**CASES[0], "value": False, "rationale": "Mr Okafor is owed more."}])
    jobs = Jobs(Store(site.url), world.opened(site.url, script=quoting))
    jobs.open()
    try:
        done = job_ended(jobs, jobs.start("refresh", "tone", {}, asked_by="local").id)
    finally:
        jobs.close()
    assert (done.state, receipts[0].complete) == ("failed", True)
    post(site.client, "/judges/tone/setup/cases", what="judge")
    wait(site.client)
    assert site.nowhere("okafor")
    assert len(list(filter(None, judgments(site)))) == len(OTHERS)


def test_cases_are_erased_by_id_wherever_they_are(site: Site) -> None:
    spread(site)
    ids = sorted(ALL)
    preview = site.registry().erase("tone", ids, dry_run=True)
    assert set(preview.cases) == ALL
    receipt = site.registry().erase("tone", ids)
    assert receipt.complete, receipt.left
    assert len(receipt.keys) == 6
    assert site.nowhere("okafor")
