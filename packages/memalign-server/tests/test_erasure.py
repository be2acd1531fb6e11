"""What is erased is in no table and in no byte, whether it was taught or not; and the
receipt says no when it is not so."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text

from memalign import Registry
from memalign.align import write_guideline
from memalign.errors import RegistryError, UnknownKey
from memalign.registry import erase as erase_module
from memalign.registry import other_tables
from memalign.registry import registry as registry_module
from memalign.registry.erase import plan_erasure
from memalign.registry.erase_check import search_again
from memalign_server.store import Store
from memalign_server.store.jobs import receipts_of
from memalign_server.store.tables import metadata, queue, reviews
from memalign_server.work.jobs import Jobs
from server_support import world
from server_support.reviewing import (
    answer,
    expect,
    job_ended,
    post,
    put_in,
    shows,
    upload,
    wait,
    words_of,
    work,
)
from tests.cli.conftest import invoke
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest
    from memalign.registry import Receipt

MATTERS = [
    "parcel is three weeks late",
    "card was charged twice",
    "lamp arrived broken",
    "invoice names another street",
    "refund never came",
    "voucher is refused",
    "password mail is missing",
    "sofa is the wrong grey",
    "courier left it outside",
    "warranty has run out",
    "order shows no date",
    "chat ended without a word",
]
CASES: list[RawRow] = []
for number, matter in enumerate(MATTERS, 1):
    CASES.append(
        {
            "id": f"okafor-{number}",
            "inputs": f"Chidi Okafor writes that the {matter}.",
            "outputs": f"Noted: the {matter}.",
        }
    )
LATE: RawRow = {
    "id": "late",
    "inputs": "My order is three weeks late.",
    "outputs": "It is in transit.",
}
THANKS: RawRow = {
    "id": "thanks",
    "inputs": "Thanks!",
    "outputs": "Glad to hear it! Any time.",
}
OTHERS = [LATE, THANKS]


def said(case: RawRow, words: str, source: str, *, value: bool = False) -> RawRow:
    """A case with what somebody said of it."""
    return {**case, "value": value, "rationale": words, "source": source}


class Site:
    """A server over a registry, and what can be seen of its database from outside."""

    def __init__(self, client: TestClient, url: str) -> None:
        self.client = client
        self.url = url

    def registry(self) -> Registry:
        return world.opened(self.url)

    def learn(self, *rows: RawRow) -> None:
        self.registry().align("tone", rows)

    def erase(self, *keys: str, **selection: Any) -> Receipt:
        return self.registry().erase("tone", keys, **selection)

    def answer(self, case: str, value: str, words: str) -> None:
        answer(self.client, case, value=value, rationale=words)

    def tables_with(self, *words: str) -> set[str]:
        return world.tables_with(self.url, *words)

    def nowhere(self, *words: str) -> bool:
        """In no table, and in no file of a database that is files."""
        assert self.tables_with(*words) == set()
        path = Path(self.url.removeprefix("sqlite:///"))
        for file in path.parent.glob(f"{path.name}*"):
            for word in words:
                assert word.lower().encode() not in file.read_bytes().lower()
        return True

    def erased(self, **form: Any) -> str:
        """The receipt's page after a form of Erase a person."""
        return " ".join(work(self.client, "erase", **form).split())

    def jobs(self) -> Jobs:
        """The jobs of another process, which waits."""
        return Jobs(Store(self.url), self.registry())

    def found(self, words: str) -> str:
        page = post(self.client, "/judges/tone/find", matching=words)
        return " ".join(page.text.split())

    def judgments(self) -> list[Any]:
        rows = world.stored(self.client, select(queue).order_by(queue.c.number))
        return [row.judgment for row in rows]


@pytest.fixture
def site(local: TestClient, place: str) -> Site:
    return Site(local, place)


def spread(site: Site) -> None:
    """Twelve cases of one customer: three wait, three are answered, three are taught, three
    are in jobs alone."""
    put_in(site.client, [*CASES[:9], *OTHERS])
    for case in CASES[6:9]:
        site.answer(case["id"], "false", f"Mr Okafor is owed more on {case['id']}.")
    site.answer("late", "false", "It shows no sympathy.")
    work(site.client, "teach")
    for case in CASES[3:6]:
        site.answer(case["id"], "true", f"Right towards Okafor, {case['id']}.")
    typed(site, "okafor-4", "Okafor has typed this.")
    site.answer("thanks", "true", "It is warm.")
    examples = {"examples": CASES[9:]}
    job = site.jobs().start("align", "tone", examples, asked_by="local")
    judgments = []
    for case in CASES[9:]:
        reason = f"{case['inputs']} It is polite."
        judgments.append({"id": case["id"], "rationale": reason})
    site.jobs().end(job.id, "done", result={"judgments": judgments})


def typed(site: Site, case: str, words: str) -> None:
    """Words that are in a field, and not an answer yet."""
    path = "/judges/tone/review/words"
    post(site.client, path, case=case, words=words, revision="0")


ALL = {case["id"] for case in CASES}


@world.ON_BOTH
@pytest.mark.parametrize(
    "way", [{"matching": "OKAFOR"}, {"selectors": sorted(ALL)}], ids=str
)
def test_twelve_cases_of_one_customer_are_in_no_table_and_no_byte(
    site: Site, way: dict[str, Any]
) -> None:
    spread(site)
    site.jobs().start("align", "tone", {"examples": CASES}, asked_by="local")
    before = site.tables_with("okafor")
    assert len(before) > 4
    preview = site.registry().erase("tone", **way, dry_run=True)
    assert site.tables_with("okafor") == before
    receipt = site.registry().erase("tone", **way)
    assert receipt.complete, receipt.left
    for paper in (preview, receipt):
        assert set(paper.cases) == ALL
        assert len(paper.keys) == 6
        assert "12 cases, 6 comments" in str(paper)
    assert "0 feedback" not in str(receipt)
    assert site.nowhere("okafor", "sofa is the wrong grey", "chat ended without a word")
    assert site.tables_with("three weeks late")  # somebody else's
    with pytest.raises(UnknownKey):
        site.registry().erase("tone", **way)


def test_without_the_package_nothing_is_erased(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.learn(*world.ROWS)
    monkeypatch.setattr(other_tables, "entry_points", lambda **_: ())
    with pytest.raises(RegistryError, match="memalign-server"):
        site.erase("t-1")
    assert site.tables_with("Cold.")


def test_a_case_that_nobody_taught_is_erased_by_command(site: Site) -> None:
    spread(site)
    for name in ("okafor-1", "okafor-4"):
        erase = f"erase tone {name} --yes --registry"
        invoke(erase, site.url, code=0, says="1 case")
        assert not site.tables_with(f'"{name}"')
    assert not site.tables_with(MATTERS[0], MATTERS[3])
    invoke("erase tone okafor-99 --registry", site.url, code=2)


def test_all_that_one_person_said_leaves_no_name(site: Site) -> None:
    put_in(site.client, OTHERS)
    site.learn(said(LATE, "It shows no sympathy.", "philippa"))
    jobs = site.jobs()
    ended = jobs.start("align", "tone", {}, asked_by="philippa")
    jobs.end(ended.id, "done", result={"judgments": []})
    waiting: dict[str, dict[str, Any]] = {
        "try": {
            "guideline": "g-1",
            "text": "Show sympathy.",
            "checks": [],
            "person": "philippa",
        },
        "unalign": {"keys": ["late@philippa"]},
    }
    for kind, arguments in waiting.items():
        jobs.start(kind, "tone", arguments, asked_by="philippa")
    site.answer("thanks", "true", "It is warm.")
    world.change(site.client, reviews.update().values(person="philippa"))
    world.change(site.client, queue.update().values(settled="philippa"))
    receipt = site.erase(source="philippa")
    assert receipt.left == ()
    assert sorted(map(str, receipt.keys)) == ["late@philippa", "thanks@philippa"]
    assert site.nowhere("philippa", "no sympathy", "It is warm")
    assert site.tables_with("Any time")  # a case of the queue is nobody's words


def test_a_colleagues_untaught_answer_keeps_its_case(site: Site) -> None:
    put_in(site.client, OTHERS)
    site.learn(said(LATE, "It is cold to her.", "philippa"))
    site.answer("late", "true", "It says where it is.")
    receipt = site.erase("late@philippa")
    assert (receipt.left, receipt.cases) == ((), ())
    assert site.tables_with("It says where it is")
    assert site.tables_with("three weeks late")
    assert site.nowhere("cold to her")


def test_a_verdict_whose_prompt_showed_an_erased_label_goes_and_the_case_stays(
    site: Site,
) -> None:
    put_in(site.client, OTHERS)
    site.learn(said(LATE, "", "ana"), said(LATE, "", "philippa"))
    work(site.client, "setup/cases", what="judge")
    assert site.judgments()[-1].example_ids == ("late",)
    receipt = site.erase("late@philippa")
    assert (receipt.complete, receipt.cases, receipt.guidelines) == (True, (), ())
    assert site.judgments()[-1] is None


@world.ON_BOTH
@pytest.mark.parametrize("way", ["command", "page"])
def test_a_word_that_is_left_makes_the_receipt_say_no(site: Site, way: str) -> None:
    spread(site)
    with site.registry()._database.write() as connection:
        connection.execute(text("CREATE TABLE crm_notes (about VARCHAR(200))"))
        note = "INSERT INTO crm_notes VALUES ('Call Mr. OKAFOR back on Monday')"
        connection.execute(text(note))
    if way == "command":
        erase = "erase tone --matching okafor --yes --registry"
        receipt = invoke(erase, site.url, code=1).out.partition("erased")[2]
        shows(receipt, "crm_notes.about", "NO")
    else:
        receipt = site.erased(matching="okafor", whole="true")
        shows(receipt, "crm_notes.about", "Not everything is gone")
        assert "Erased for good" not in receipt
    assert "back on Monday" not in receipt
    assert site.tables_with("okafor") == {"crm_notes.about"}


def test_what_an_erasure_does_not_reach_is_named(site: Site) -> None:
    spread(site)
    registry = site.registry()
    instructions = f"{world.INSTRUCTIONS}\nBe kind to Mr Okafor."
    registry.create(world.judge("named").replace(instructions=instructions))
    put_in(site.client, CASES[:1], judge="named")
    assert site.erase(matching="okafor").elsewhere == ("named",)
    (left,) = registry.erase("named", matching="okafor").left
    assert left == "memalign_rows.body, the instructions (1 row)"


def ticks(page: str) -> list[str]:
    return re.findall(r'name="tick"\s+value="([^"]+)"\s+checked', page)


@world.ON_BOTH
def test_the_page_finds_everything_and_erases_it(site: Site) -> None:
    spread(site)
    page = site.found("okafor")
    shows(
        page,
        "Found: 12 cases, 6 comments",
        MATTERS[0],
        "Erase for good: 12 cases, 6 comments, 4 learned sentences",
    )
    assert (page.count("case, taught"), page.count("case, not taught")) == (3, 9)
    page = site.erased(matching="okafor", tick=ticks(page))
    shows(page, "We searched again afterwards: 0 left.", "12 cases, 6 comments")
    assert "okafor" not in page.lower()
    assert site.nowhere("okafor")
    # Those in which an erased sentence had a part are asked again.
    assert None not in site.judgments()
    assert "No case, comment or sentence mentions it." in site.found("okafor")


def test_what_has_no_tick_stays(site: Site) -> None:
    spread(site)
    unticked = post(site.client, "/judges/tone/erase", matching="okafor")
    expect(unticked, 422, "nothing is ticked")
    chosen = ["case:okafor-1", "comment:okafor-7@local"]
    assert set(chosen) <= set(ticks(site.found("okafor")))
    page = site.erased(matching="okafor", tick=chosen)
    shows(page, "1 case, 1 comment", "16 that mention it and had no tick")
    assert "Erase the" not in page  # it would take what has lost its tick
    assert not site.tables_with(MATTERS[0], "okafor-7@", "is owed more on okafor-7")
    assert site.tables_with("card was charged twice")
    # A case stays without its only comment.
    assert site.tables_with("password mail is missing")


def test_a_draft_an_experts_name_and_a_learned_sentence_are_found(site: Site) -> None:
    put_in(site.client, OTHERS)
    answer(site.client, "late", value="true")
    typed(site, "late", "Ask Ms Lindqvist first.")
    site.learn(
        said(THANKS, "Too short.", "Philippa"),
        said(LATE, "No date is given.", "Philippa"),
        said(LATE, "Say sorry first.", "Ben"),
    )
    site.registry().update(
        "tone",
        lambda judge: write_guideline(judge, "Ms Lindqvist gets a call.", by="local"),
    )
    page = site.found("lindqvist")
    what = ("a comment of yours", "learned from local")
    shows(page, "Found: 1 comment, 1 learned sentence", *what)
    learned = [tick for tick in ticks(page) if tick.startswith("sentence:")]
    page = site.erased(matching="lindqvist", tick=learned)
    assert "1 learned sentence" in page
    assert not site.tables_with("gets a call")
    assert site.tables_with("Ask Ms Lindqvist")
    page = site.found("philippa")
    shows(page, "comment, Philippa", "Too short.")
    shows(page, "Cases of which nothing else was said", "Glad to hear it")
    page = site.erased(matching="philippa", tick=[*ticks(page), "case:thanks"])
    shows(page, "1 case, 2 comments", "0 left")
    assert site.nowhere("philippa", "Too short", "Glad to hear it")
    assert site.tables_with("My order is three weeks late", "Say sorry first")


@pytest.mark.parametrize(
    ("kinds", "goes"),
    [
        (("comment",), "2 comments, 3 learned sentences"),
        (("comment", "case"), "1 case, 2 comments, 3 learned sentences"),
        (("case",), "1 case, 1 comment, 3 learned sentences"),
    ],
)
def test_the_same_counts_stand_before_and_after(
    site: Site, kinds: tuple[str, ...], goes: str
) -> None:
    site.learn(
        said(LATE, "Zoltan waits too long.", "ben"),
        said(THANKS, "Zoltan would be glad.", "ana", value=True),
        said(LATE, "It shows no sympathy.", "eva"),
    )
    every = ticks(site.found("zoltan"))
    assert "case:thanks" not in every, "it does not hold the name"
    chosen = [tick for tick in [*every, "case:thanks"] if tick.startswith(kinds)]
    form: dict[str, Any] = {"matching": "zoltan", "tick": chosen}
    button = post(site.client, "/judges/tone/erase/ticks", **form)
    shows(words_of(button.text), f"Erase for good: {goes} It cannot")
    shows(words_of(site.erased(**form)), f"Erased {goes} In force now")


def test_of_two_ticks_one_that_is_gone_by_then_costs_itself(site: Site) -> None:
    put_in(site.client, OTHERS)
    answer(site.client, "thanks", value="true", rationale="It is warm.")
    ticked = [{"keys": ["thanks@local", "okafor-1"]}]
    jobs = world.server_of(site.client).jobs
    begun = jobs.start("erase", "tone", {"selections": ticked}, asked_by="local")
    assert job_ended(jobs, begun.id).state == "done"
    assert site.nowhere("It is warm")
    typed = {"keys": ["thanks", "okafor-1"]}
    begun = jobs.start("erase", "tone", typed, asked_by="a program")
    assert "okafor-1" in (job_ended(jobs, begun.id).problem or "")
    assert site.tables_with("Any time")


@pytest.mark.parametrize("taught", [True, False])
def test_a_case_without_a_tick_stays_though_nobody_speaks_of_it_any_more(
    site: Site, taught: bool
) -> None:
    if taught:
        site.learn(said(THANKS, "Zoltan would be glad.", "ana", value=True))
    else:
        put_in(site.client, OTHERS)
        site.answer("thanks", "true", "Zoltan would be glad.")
    page = site.erased(matching="zoltan", tick=ticks(site.found("zoltan")))
    shows(page, "1 comment", "0 left")
    assert site.nowhere("zoltan")
    row = world.case_row(site.client, "thanks")
    assert row.example.outputs == THANKS["outputs"]


def test_an_expert_leaves_team_and_memory_in_one_job(
    shared: world.Shared, owner: TestClient
) -> None:
    ana = shared.signed_in("Ana")
    for judge in ("tone", "other"):
        put_in(owner, OTHERS, judge=judge)
        answer(ana, "late", judge=judge, value="false", rationale="It is cold to her.")
        if judge == "tone":
            answer(owner, "thanks", value="true", rationale="It is warm.")
        work(owner, "teach", judge=judge)
    page = post(owner, "/judges/tone/find", matching=" ana").text
    shows(page, "in the team")
    receipt = work(owner, "erase", matching=" ana", tick=ticks(page))
    shows(receipt, "Erased for good", "0 left", "1 member of the team")
    shows(receipt, "In force now", "version 4", "2 comments")
    url = shared.server.registry.url
    assert world.tables_with(url, "ana", "cold to her") == set()
    # Her cases are nobody's words.
    assert world.tables_with(url, "three weeks late")
    expect(ana.get("/account", follow_redirects=False), 303)
    with shared.server.store.read() as connection:
        (job,) = receipts_of(connection, "tone")
    written = {"complete": True, "members": 1, "version": 4}
    assert written.items() <= job.result.items()


def test_what_another_judge_loses_is_no_tick_of_this_one(
    shared: world.Shared, owner: TestClient
) -> None:
    ana = shared.signed_in("Ana")
    put_in(owner, OTHERS, judge="other")
    answer(ana, "late", judge="other", value="false", rationale="It is cold to her.")
    work(owner, "teach", judge="other")
    shared.server.registry.update(
        "tone",
        lambda judge: write_guideline(judge, "Ana gets a call.", by="owner"),
        note="written",
    )
    found = ticks(post(owner, "/judges/tone/find", matching="Ana").text)
    member = [tick for tick in found if "member" in tick]
    work(owner, "erase", matching="Ana", tick=member)
    with shared.server.store.read() as connection:
        (job,) = receipts_of(connection, "tone")
    assert (job.result["numbers"]["guideline"], job.result["kept"]) == (1, 1)


def test_nobody_leaves_with_words_that_have_no_tick(
    shared: world.Shared, owner: TestClient
) -> None:
    ana = shared.signed_in("Ana")
    put_in(owner, OTHERS)
    answer(ana, "late", value="false", rationale="It is cold to her.")
    found = ticks(post(owner, "/judges/tone/find", matching="ana").text)
    member = [tick for tick in found if "member" in tick]
    form: dict[str, Any] = {"matching": "ana", "tick": member}
    says = "Ana leaves with all that they said"
    expect(post(owner, "/judges/tone/erase/ticks", **form), 200, says)
    expect(post(owner, "/judges/tone/erase", **form), 422, says)
    assert world.answer_row(owner, "late", "Ana").rationale == "It is cold to her."


def test_a_member_who_said_nothing_leaves_and_the_last_owner_does_not(
    shared: world.Shared,
    owner: TestClient,
) -> None:
    page = post(owner, "/judges/tone/find", matching="reviewer").text
    receipt = work(owner, "erase", matching="reviewer", tick=ticks(page))
    shows(receipt, "Erased for good", "0 left", "1 member of the team")
    assert world.tables_with(shared.server.registry.url, "reviewer") == set()
    put_in(owner, OTHERS)
    answer(owner, "thanks", value="true", rationale="It is warm.")
    page = post(owner, "/judges/tone/find", matching="owner").text
    refused = post(owner, "/judges/tone/erase", matching="owner", tick=ticks(page))
    expect(refused, 422, "the team needs an owner")
    assert world.answer_row(owner, "thanks", "owner").rationale == "It is warm."


@pytest.mark.parametrize(("case", "plans"), [("late", 1), ("okafor-1", 2)])
def test_an_answer_while_an_erasure_plans_waits_for_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, case: str, plans: int
) -> None:
    planned = list[str]()

    def answered_meanwhile(*arguments: Any) -> Any:
        plan = plan_erasure(*arguments)
        planned.append("plan")
        if len(planned) == 1:
            site.answer(case, "false", "Mr Okafor waits.")
        return plan

    put_in(site.client, [CASES[0], *OTHERS])
    monkeypatch.setattr(erase_module, "plan_erasure", answered_meanwhile)
    receipt = site.erase("okafor-1")
    assert (receipt.left, receipt.cases, len(planned)) == ((), ("okafor-1",), plans)
    # What is said of other cases stays.
    kept = [row.case_id for row in world.stored(site.client, select(reviews))]
    assert kept == ["late"][: case == "late"]


def test_receipts_are_listed_the_newest_first_and_are_no_trace(site: Site) -> None:
    put_in(site.client, OTHERS)
    for word in ("thanks", "late"):  # every receipt says which version is the latest
        assert "0 left" in site.erased(matching=word, whole="true")
    site.jobs().start("erase", "tone", {}, asked_by="local")
    with world.server_of(site.client).store.read() as connection:
        listed = receipts_of(connection, "tone")
    assert [job.result["cases"] for job in listed] == [1, 1]
    assert listed[0].created_at > listed[1].created_at


def test_what_was_written_while_it_was_erased_goes_with_one_button(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        site.answer("thanks", "true", "Mr Okafor is kind.")
        return search_again(*arguments)

    put_in(site.client, [CASES[0], *OTHERS])
    monkeypatch.setattr(registry_module, "search_again", late)
    form = {"matching": "okafor", "whole": "true"}
    begun = post(site.client, "/judges/tone/erase", parts=True, **form)
    # It is in no address, and in this page alone.
    assert 'name="matching" value="okafor"' in begun.text
    wait(site.client)
    page = site.client.get(begun.headers["x-address"]).text
    shows(page, "Not everything is gone", "We searched again afterwards: 1 left.")
    shows(page, "Erase the 1 that is left")
    shows(page, "Comments that were written while you erased: 1.")
    assert "okafor" not in page.lower()
    assert "We searched again afterwards: 0 left." in site.erased(**form)
    assert site.nowhere("okafor")


def test_a_receipt_keeps_its_reference(site: Site) -> None:
    put_in(site.client, [CASES[0], *OTHERS])
    form = {"matching": "okafor", "whole": "true"}
    begun = post(site.client, "/judges/tone/erase", **form).headers["location"]
    wait(site.client)
    post(site.client, begun, reference="Chidi Okafor, DSR 118")
    assert 'value="Chidi Okafor, DSR 118"' in site.client.get(begun).text
    receipt = site.client.get(f"{begun}/file").json()
    written = {"by": "local", "cases": 1, "complete": True}
    assert written.items() <= receipt.items()
    assert receipt["reference"] == "Chidi Okafor, DSR 118"
    site.erased(**form)
    assert site.nowhere("okafor")
    # It outlives the name in its reference.
    assert "Erased for good" in site.client.get(begun).text


def test_what_a_judge_says_that_was_erased_from_meanwhile_is_not_kept(
    site: Site,
) -> None:
    receipts: list[Receipt] = []

    async def quoting(request: ChatRequest) -> dict[str, Any]:
        if "Okafor" not in request.system + request.user:
            return {"rationale": "It is polite.", "value": True}
        if not receipts:
            receipts.append(await asyncio.to_thread(site.erase, matching="okafor"))
        return {"rationale": "Mr Okafor is owed more.", "value": True}

    put_in(site.client, [CASES[0], *OTHERS])
    site.learn(said(CASES[0], "Mr Okafor is owed more.", "ana"))
    judging = Jobs(Store(site.url), world.opened(site.url, script=quoting))
    judging.open()
    done = job_ended(judging, judging.start("refresh", "tone", {}, asked_by="local").id)
    judging.close()
    assert (done.state, receipts[0].complete) == ("failed", True)
    work(site.client, "setup/cases", what="judge")
    assert site.nowhere("okafor")
    assert site.judgments().count(None) == len(site.judgments()) - len(OTHERS)


def test_a_deleted_judge_leaves_no_row_and_its_heir_nothing(
    shared: world.Shared,
    owner: TestClient,
) -> None:
    url = shared.server.registry.url
    put_in(owner, CASES[:3], judge="other")
    words = "Mrs Okafor reads no date."
    answer(owner, "okafor-1", judge="other", value="false", rationale=words)
    work(owner, "teach", judge="other")
    answer(owner, "okafor-2", judge="other", value="true")

    def filled() -> int:
        """How many tables have rows of a judge."""
        tables = 0
        for table in metadata.sorted_tables:
            if "judge" in table.c and world.stored(owner, select(table)):
                tables += 1
        return tables

    assert filled() == 3
    old = [job.id for job in shared.server.jobs.recent("other")]
    invoke("delete other --yes --registry", url, code=0)
    assert filled() == 0
    assert world.tables_with(url, "Okafor") == set()
    nobody_shows(owner, old)
    model = "local:qwen2.5-coder-1.5b"
    heir = {"instructions": world.INSTRUCTIONS, "kind": "bool", "model": model}
    expect(post(owner, "/judges", name="other", **heir), 303)
    nobody_shows(owner, old)
    assert shared.server.jobs.recent("other") == []
    for path in ("review", "trust", "setup", "learned"):
        assert "Okafor" not in owner.get(f"/judges/other/{path}").text, path


def nobody_shows(owner: TestClient, jobs_of_before: list[str]) -> None:
    for job in jobs_of_before:
        assert owner.get(f"/api/v1/judges/other/jobs/{job}").status_code == 404
        for path in (f"jobs/{job}", f"learned?job={job}"):
            assert owner.get(f"/judges/other/{path}").status_code in (404, 422), path


def test_a_file_that_is_named_after_the_person_loses_its_name(site: Site) -> None:
    put_in(site.client, CASES[:1])
    sheet = "id,inputs,outputs\nlate,Where is it?,Soon.\n"
    upload(site.client, sheet, "Okafor june.csv")
    wait(site.client)
    assert "Okafor june.csv" in site.client.get("/judges/tone/cases").text
    site.erased(matching="Okafor", whole="true")
    assert site.nowhere("okafor")
    assert "late" in {case.id for case in site.judgments()}


def test_an_answer_without_words_is_listed_with_its_case(site: Site) -> None:
    put_in(site.client, OTHERS)
    site.learn(said(LATE, "", "Philippa"), said(THANKS, "Cold.", "Philippa"))
    page = site.found("philippa")
    shows(page, "“It is in transit.”", "answer without words, Philippa")
    shows(page, "“Cold.”", "comment, Philippa")
    assert "in an earlier state" not in page
