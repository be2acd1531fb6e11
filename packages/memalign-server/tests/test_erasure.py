"""What is erased is in no table and in no byte, whether it was taught or not; and the receipt says no when it is not so."""

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
from memalign_server.store.tables import jobs, metadata, queue, reviews
from memalign_server.work.jobs import Jobs
from server_support import world
from server_support.reviewing import (
    answer,
    expect,
    job_ended,
    post,
    put_in,
    shows,
    wait,
    words_of,
)
from tests.cli.conftest import invoke
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest
    from memalign.registry import Receipt

MATTERS = [
    "parcel is three weeks late", "card was charged twice", "lamp arrived broken", "invoice names another street",
    "refund never came", "voucher is refused", "password mail is missing", "sofa is the wrong grey",
    "courier left it outside", "warranty has run out", "order shows no date", "chat ended without a word",
]  # fmt: skip
CASES: list[RawRow] = [
    {
        "id": f"okafor-{number}",
        "inputs": f"Chidi Okafor writes that the {matter}.",
        "outputs": f"Noted: the {matter}.",
    }
    for number, matter in enumerate(MATTERS, 1)
]
OTHERS: list[RawRow] = [
    {
        "id": "late",
        "inputs": "My order is three weeks late.",
        "outputs": "It is in transit.",
    },
    {"id": "thanks", "inputs": "Thanks!", "outputs": "Glad to hear it! Any time."},
]


class Site:
    """A server over a registry, and what can be seen of its database from outside."""

    def __init__(self, client: TestClient, url: str) -> None:
        self.client = client
        self.url = url

    def registry(self) -> Registry:
        return world.opened(self.url)

    def tables_with(self, *words: str) -> set[str]:
        return world.tables_with(self.url, *words)

    def nowhere(self, *words: str) -> bool:
        """In no table, and in no file of the database unless it is out of reach on a server of its own."""
        path = Path(self.url.removeprefix("sqlite:///"))
        files = (
            path.parent.glob(f"{path.name}*") if self.url.startswith("sqlite") else ()
        )
        data = b"".join(file.read_bytes() for file in files).lower()
        assert self.tables_with(*words) == set()
        assert [word for word in words if word.lower().encode() in data] == []
        return True

    def erased(self, **form: Any) -> str:
        """The receipt's page after a form of Erase a person."""
        begun = post(self.client, "/judges/tone/erase", **form)
        expect(begun, 303)
        wait(self.client)
        return " ".join(self.client.get(begun.headers["location"]).text.split())

    def jobs(self) -> Jobs:
        """The jobs of another process, which waits."""
        return Jobs(Store(self.url), self.registry())

    def found(self, words: str) -> str:
        return " ".join(
            post(self.client, "/judges/tone/find", matching=words).text.split()
        )

    def judgments(self) -> list[Any]:
        return [
            row.judgment
            for row in world.stored(self.client, select(queue).order_by(queue.c.number))
        ]


@pytest.fixture
def site(local: TestClient, place: str) -> Site:
    return Site(local, place)


def spread(site: Site) -> None:
    """Twelve cases of one customer: three wait, three are answered, three are taught, three are in jobs alone."""
    put_in(site.client, [*CASES[:9], *OTHERS])
    for case in CASES[6:9]:
        answer(
            site.client,
            case["id"],
            value="false",
            rationale=f"Mr Okafor is owed more on {case['id']}.",
        )
    answer(site.client, "late", value="false", rationale="It shows no sympathy.")
    post(site.client, "/judges/tone/teach")
    wait(site.client)
    for case in CASES[3:6]:
        answer(
            site.client,
            case["id"],
            value="true",
            rationale=f"Right towards Okafor, {case['id']}.",
        )
    post(
        site.client,
        "/judges/tone/review/words",
        case="okafor-4",
        words="Okafor has typed this.",
        revision="0",
    )
    answer(site.client, "thanks", value="true", rationale="It is warm.")
    judged = site.jobs().start(
        "align", "tone", {"examples": CASES[9:]}, asked_by="local"
    )
    judgments = [
        {"id": case["id"], "rationale": f"{case['inputs']} It is polite."}
        for case in CASES[9:]
    ]
    site.jobs().end(judged.id, "done", result={"judgments": judgments})


ALL = {case["id"] for case in CASES}


@world.ON_BOTH
@pytest.mark.parametrize(
    "way",
    [{"matching": "OKAFOR"}, {"selectors": sorted(ALL)}],
    ids=["by text", "by ids"],
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
        assert (
            set(paper.cases),
            len(paper.keys),
            "12 cases, 6 comments" in str(paper),
        ) == (
            ALL,
            6,
            True,
        )
    assert "0 feedback" not in str(receipt)
    assert site.nowhere("okafor", "sofa is the wrong grey", "chat ended without a word")
    assert site.tables_with("three weeks late")  # somebody else's
    with pytest.raises(UnknownKey):
        site.registry().erase("tone", **way)


def test_without_the_package_nothing_is_erased(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.registry().align("tone", world.ROWS)
    monkeypatch.setattr(other_tables, "entry_points", lambda **_: ())
    with pytest.raises(RegistryError, match="memalign-server"):
        site.registry().erase("tone", ["t-1"])
    assert site.tables_with("Cold.")


def test_a_case_that_nobody_taught_is_erased_by_command(site: Site) -> None:
    spread(site)
    for number in (0, 3):
        invoke(
            "erase",
            "tone",
            CASES[number]["id"],
            "--yes",
            "--registry",
            site.url,
            code=0,
            says="1 case",
        )
        assert not site.tables_with(f'"{CASES[number]["id"]}"', MATTERS[number])
    invoke("erase", "tone", "okafor-99", "--registry", site.url, code=2)


def test_all_that_one_person_said_leaves_no_name(site: Site) -> None:
    put_in(site.client, OTHERS)
    registry = site.registry()
    others = site.jobs()
    rows = [
        {
            **OTHERS[0],
            "value": False,
            "rationale": "It shows no sympathy.",
            "source": "philippa",
        }
    ]
    registry.align("tone", rows)
    ended = others.start("align", "tone", {}, asked_by="philippa")
    others.end(ended.id, "done", result={"judgments": []})
    wording = {
        "guideline": "g-1",
        "text": "Show sympathy.",
        "checks": [],
        "person": "philippa",
    }
    for kind, arguments in (("try", wording), ("unalign", {"keys": ["late@philippa"]})):
        others.start(kind, "tone", arguments, asked_by="philippa")
    answer(site.client, "thanks", value="true", rationale="It is warm.")
    with others.store.write() as connection:
        connection.execute(
            text("UPDATE memalign_server_reviews SET person = 'philippa'")
        )
        connection.execute(
            text("UPDATE memalign_server_queue SET settled = 'philippa'")
        )
    receipt = registry.erase("tone", source="philippa")
    assert (receipt.left, sorted(map(str, receipt.keys))) == (
        (),
        ["late@philippa", "thanks@philippa"],
    )
    assert site.nowhere("philippa", "no sympathy", "It is warm")
    assert site.tables_with("Any time")  # a case of the queue is nobody's words


def test_a_colleagues_untaught_answer_keeps_its_case(site: Site) -> None:
    put_in(site.client, OTHERS)
    registry = site.registry()
    registry.align(
        "tone",
        [
            {
                **OTHERS[0],
                "value": False,
                "rationale": "It is cold to her.",
                "source": "philippa",
            }
        ],
    )
    answer(site.client, "late", value="true", rationale="It says where it is.")
    receipt = registry.erase("tone", ["late@philippa"])
    assert (receipt.left, receipt.cases) == ((), ())
    assert site.tables_with("It says where it is")
    assert site.tables_with("three weeks late")
    assert site.nowhere("cold to her")


def test_a_verdict_whose_prompt_showed_an_erased_label_goes_and_the_case_stays(
    site: Site,
) -> None:
    put_in(site.client, OTHERS)
    registry = site.registry()
    registry.align(
        "tone",
        [
            {**OTHERS[0], "value": False, "source": source}
            for source in ("ana", "philippa")
        ],
    )
    post(site.client, "/judges/tone/setup/cases", what="judge")
    wait(site.client)
    assert site.judgments()[-1].example_ids == ("late",)
    receipt = registry.erase("tone", ["late@philippa"])
    assert (receipt.complete, receipt.cases, receipt.guidelines) == (True, (), ())
    assert site.judgments()[-1] is None


@world.ON_BOTH
@pytest.mark.parametrize("way", ["command", "page"])
def test_a_word_that_is_left_makes_the_receipt_say_no(site: Site, way: str) -> None:
    spread(site)
    with site.registry()._database.write() as connection:
        connection.execute(text("CREATE TABLE crm_notes (about VARCHAR(200))"))
        connection.execute(
            text("INSERT INTO crm_notes VALUES ('Call Mr. OKAFOR back on Monday')")
        )
    if way == "command":
        done = invoke(
            "erase",
            "tone",
            "--matching",
            "okafor",
            "--yes",
            "--registry",
            site.url,
            code=1,
        )
        receipt = done.out.partition("erased")[2]
    else:
        receipt = site.erased(matching="okafor", whole="true")
        assert "Erased for good" not in receipt
    shows(
        receipt,
        "crm_notes.about",
        "NO" if way == "command" else "Not everything is gone",
    )
    assert "back on Monday" not in receipt
    assert site.tables_with("okafor") == {"crm_notes.about"}


def test_what_an_erasure_does_not_reach_is_named(site: Site) -> None:
    registry = site.registry()
    spread(site)
    registry.create(
        world.judge("named").replace(
            instructions=f"{world.INSTRUCTIONS}\nBe kind to Mr Okafor."
        )
    )
    put_in(site.client, CASES[:1], judge="named")
    assert registry.erase("tone", matching="okafor").elsewhere == ("named",)
    assert registry.erase("named", matching="okafor").left == (
        "memalign_rows.body, the instructions (1 row)",
    )


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
    assert None not in site.judgments(), (
        "those in which an erased sentence had a part are asked again"
    )
    assert "No case, comment or sentence mentions it." in site.found("okafor")


def test_what_has_no_tick_stays(site: Site) -> None:
    spread(site)
    page = site.found("okafor")
    expect(
        post(site.client, "/judges/tone/erase", matching="okafor"),
        422,
        "nothing is ticked",
    )
    chosen = [
        tick for tick in ticks(page) if tick.endswith(("okafor-1", "okafor-7@local"))
    ]
    page = site.erased(matching="okafor", tick=chosen)
    shows(page, "1 case, 1 comment", "16 that mention it and had no tick")
    assert "Erase the" not in page  # it would take what has lost its tick
    assert not site.tables_with(
        "parcel is three weeks late", "okafor-7@", "is owed more on okafor-7"
    )
    assert site.tables_with("card was charged twice")
    assert site.tables_with("password mail is missing"), (
        "a case stays without its only comment"
    )


def test_a_draft_an_experts_name_and_a_learned_sentence_are_found(site: Site) -> None:
    put_in(site.client, OTHERS)
    answer(site.client, "late", value="true")
    post(
        site.client,
        "/judges/tone/review/words",
        case="late",
        words="Ask Ms Lindqvist first.",
        revision="0",
    )
    rows = [
        {**OTHERS[1], "value": False, "rationale": "Too short.", "source": "Philippa"}
    ]
    for name, words in (("Philippa", "No date is given."), ("Ben", "Say sorry first.")):
        rows.append({**OTHERS[0], "value": False, "rationale": words, "source": name})
    site.registry().align("tone", rows)
    site.registry().update(
        "tone",
        lambda judge: write_guideline(judge, "Ms Lindqvist gets a call.", by="local"),
    )
    page = site.found("lindqvist")
    shows(
        page,
        "Found: 1 comment, 1 learned sentence",
        "a comment of yours",
        "learned from local",
    )
    learned = [tick for tick in ticks(page) if tick.startswith("sentence:")]
    assert "1 learned sentence" in site.erased(matching="lindqvist", tick=learned)
    assert not site.tables_with("gets a call")
    assert site.tables_with("Ask Ms Lindqvist")
    page = site.found("philippa")
    shows(
        page,
        "comment, Philippa",
        "Too short.",
        "Cases of which nothing else was said",
        "Glad to hear it",
    )
    shows(
        site.erased(matching="philippa", tick=[*ticks(page), "case:thanks"]),
        "1 case, 2 comments",
        "0 left",
    )
    assert site.nowhere("philippa", "Too short", "Glad to hear it")
    assert site.tables_with("My order is three weeks late", "Say sorry first")


def planned_and_erased(site: Site, matching: str, tick: list[str]) -> tuple[str, str]:
    """What the button says would go, and what the receipt says has gone."""
    button = words_of(
        f"<main>{post(site.client, '/judges/tone/erase/ticks', matching=matching, tick=tick).text}</main>"
    )
    receipt = words_of(site.erased(matching=matching, tick=tick))
    planned = button.partition("Erase for good: ")[2].partition(" It cannot")[0]
    return planned, receipt.partition("Erased ")[2].partition("Erased ")[2].partition(
        " In force now"
    )[0]


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
    rows = [
        {
            **OTHERS[0],
            "value": False,
            "rationale": "Zoltan waits too long.",
            "source": "ben",
        },
        {
            **OTHERS[1],
            "value": True,
            "rationale": "Zoltan would be glad.",
            "source": "ana",
        },
        {
            **OTHERS[0],
            "value": False,
            "rationale": "It shows no sympathy.",
            "source": "eva",
        },
    ]
    site.registry().align("tone", rows)
    assert "case:thanks" not in ticks(site.found("zoltan")), "it does not hold the name"
    every = [*ticks(site.found("zoltan")), "case:thanks"]
    planned, erased = planned_and_erased(
        site, "zoltan", [tick for tick in every if tick.startswith(kinds)]
    )
    assert (planned, erased) == (goes, goes)


@pytest.mark.parametrize("taught", [True, False])
def test_a_case_without_a_tick_stays_though_nobody_speaks_of_it_any_more(
    site: Site, taught: bool
) -> None:
    rows = [
        {
            **OTHERS[1],
            "value": True,
            "rationale": "Zoltan would be glad.",
            "source": "ana",
        }
    ]
    if taught:
        site.registry().align("tone", rows)
    else:
        put_in(site.client, OTHERS)
        answer(site.client, "thanks", value="true", rationale="Zoltan would be glad.")
    page = site.erased(matching="zoltan", tick=ticks(site.found("zoltan")))
    shows(page, "1 comment", "0 left")
    assert site.nowhere("zoltan")
    assert (
        world.case_row(site.client, "thanks").example.outputs
        == "Glad to hear it! Any time."
    )


def test_an_expert_leaves_team_and_memory_in_one_job(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    ana = shared.signed_in("Ana")
    for judge in ("tone", "other"):
        put_in(owner, OTHERS, judge=judge)
        answer(ana, "late", judge=judge, value="false", rationale="It is cold to her.")
        if judge == "tone":
            answer(owner, "thanks", value="true", rationale="It is warm.")
        post(owner, f"/judges/{judge}/teach")
        wait(owner, judge)
    page = post(owner, "/judges/tone/find", matching=" ana").text
    shows(page, "in the team")
    begun = post(owner, "/judges/tone/erase", matching=" ana", tick=ticks(page))
    wait(owner)
    receipt = owner.get(begun.headers["location"]).text
    shows(
        receipt,
        "Erased for good",
        "0 left",
        "1 member of the team",
        "In force now",
        "version 4",
        "2 comments",
    )
    assert world.tables_with(shared.server.registry.url, "ana", "cold to her") == set()
    assert world.tables_with(shared.server.registry.url, "three weeks late"), (
        "her cases are nobody's words"
    )
    expect(ana.get("/account", follow_redirects=False), 303)
    with shared.server.store.read() as connection:
        (job,) = receipts_of(connection, "tone")
    assert (job.result["complete"], job.result["members"], job.result["version"]) == (
        True,
        1,
        4,
    )


def test_nobody_leaves_with_words_that_have_no_tick(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    ana = shared.signed_in("Ana")
    put_in(owner, OTHERS)
    answer(ana, "late", value="false", rationale="It is cold to her.")
    member = [
        tick
        for tick in ticks(post(owner, "/judges/tone/find", matching="ana").text)
        if "member" in tick
    ]
    says = "Ana leaves with all that they said"
    assert (
        says
        in post(owner, "/judges/tone/erase/ticks", matching="ana", tick=member).text
    )
    expect(post(owner, "/judges/tone/erase", matching="ana", tick=member), 422, says)
    assert world.answer_row(owner, "late", "Ana").rationale == "It is cold to her."


def test_a_member_who_said_nothing_leaves_with_a_receipt(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    page = post(owner, "/judges/tone/find", matching="reviewer").text
    begun = post(owner, "/judges/tone/erase", matching="reviewer", tick=ticks(page))
    wait(owner)
    shows(
        owner.get(begun.headers["location"]).text,
        "Erased for good",
        "0 left",
        "1 member of the team",
    )
    assert world.tables_with(shared.server.registry.url, "reviewer") == set()


def test_the_last_owner_does_not_leave_and_nothing_is_erased(
    shared: world.Shared,
) -> None:
    owner = shared.signed_in("owner")
    put_in(owner, OTHERS)
    answer(owner, "thanks", value="true", rationale="It is warm.")
    page = post(owner, "/judges/tone/find", matching="owner").text
    expect(
        post(owner, "/judges/tone/erase", matching="owner", tick=ticks(page)),
        422,
        "the team needs an owner",
    )
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
            answer(site.client, case, value="false", rationale="Mr Okafor waits.")
        return plan

    put_in(site.client, [CASES[0], *OTHERS])
    monkeypatch.setattr(erase_module, "plan_erasure", answered_meanwhile)
    receipt = site.registry().erase("tone", ["okafor-1"])
    assert (receipt.left, receipt.cases, len(planned)) == ((), ("okafor-1",), plans)
    kept = [row.case_id for row in world.stored(site.client, select(reviews))]
    assert kept == ([] if case == "okafor-1" else [case]), (
        "what is said of other cases stays"
    )


def test_receipts_are_listed_the_newest_first(site: Site) -> None:
    put_in(site.client, OTHERS)
    for word in ("thanks", "late"):
        site.erased(matching=word, whole="true")
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
        answer(site.client, "thanks", value="true", rationale="Mr Okafor is kind.")
        return search_again(*arguments)

    put_in(site.client, [CASES[0], *OTHERS])
    monkeypatch.setattr(registry_module, "search_again", late)
    form = {"matching": "okafor", "whole": "true"}
    begun = post(site.client, "/judges/tone/erase", parts=True, **form)
    assert (
        'name="matching" value="okafor"' in begun.text
    )  # it is in no address, and in this page alone
    wait(site.client)
    page = site.client.get(begun.headers["x-address"]).text
    shows(
        page,
        "Not everything is gone",
        "We searched again afterwards: 1 left.",
        "Erase the 1 that is left",
    )
    shows(page, "Comments that were written while you erased: 1.")
    assert "okafor" not in page.lower()
    assert "We searched again afterwards: 0 left." in site.erased(**form)
    assert site.nowhere("okafor")


def test_a_receipt_keeps_its_reference(site: Site) -> None:
    put_in(site.client, [CASES[0], *OTHERS])
    begun = post(
        site.client, "/judges/tone/erase", matching="okafor", whole="true"
    ).headers["location"]
    wait(site.client)
    post(site.client, begun, reference="Chidi Okafor, DSR 118")
    assert 'value="Chidi Okafor, DSR 118"' in site.client.get(begun).text
    receipt = site.client.get(f"{begun}/file").json()
    written = tuple(receipt[name] for name in ("reference", "by", "cases", "complete"))
    assert written == ("Chidi Okafor, DSR 118", "local", 1, True)
    site.erased(matching="okafor", whole="true")
    assert site.nowhere("okafor")
    assert "Erased for good" in site.client.get(begun).text, (
        "it outlives the name in its reference"
    )


def test_a_receipts_own_words_are_no_trace(site: Site) -> None:
    put_in(site.client, OTHERS)
    for word in ("thanks", "late"):  # every receipt says which version is the latest
        assert "0 left" in site.erased(matching=word, whole="true")
    results = world.stored(
        site.client, select(jobs.c.result).where(jobs.c.kind == "erase")
    )
    assert [bool(result) for (result,) in results] == [True] * 2, (
        "the second erasure leaves the receipt of the first"
    )


def test_what_a_judge_says_that_was_erased_from_meanwhile_is_not_kept(
    site: Site,
) -> None:
    receipts: list[Receipt] = []

    async def quoting(request: ChatRequest) -> dict[str, Any]:
        customer = "Okafor" in request.system + request.user
        if customer and not receipts:
            receipts.append(
                await asyncio.to_thread(
                    site.registry().erase, "tone", matching="okafor"
                )
            )
        return {
            "rationale": "Mr Okafor is owed more." if customer else "It is polite.",
            "value": True,
        }

    put_in(site.client, [CASES[0], *OTHERS])
    site.registry().align(
        "tone", [{**CASES[0], "value": False, "rationale": "Mr Okafor is owed more."}]
    )
    judging = Jobs(Store(site.url), world.opened(site.url, script=quoting))
    judging.open()
    done = job_ended(judging, judging.start("refresh", "tone", {}, asked_by="local").id)
    judging.close()
    assert (done.state, receipts[0].complete) == ("failed", True)
    post(site.client, "/judges/tone/setup/cases", what="judge")
    wait(site.client)
    assert site.nowhere("okafor")
    assert sum(judgment is not None for judgment in site.judgments()) == len(OTHERS)


def test_a_deleted_judge_leaves_no_row_and_its_heir_nothing(
    shared: world.Shared,
) -> None:
    owner = shared.signed_in("owner")
    url = shared.server.registry.url
    put_in(owner, CASES[:3], judge="other")
    answer(
        owner,
        "okafor-1",
        judge="other",
        value="false",
        rationale="Mrs Okafor reads no date.",
    )
    post(owner, "/judges/other/teach")
    wait(owner, "other")
    answer(owner, "okafor-2", judge="other", value="true")

    of_judges = [table for table in metadata.sorted_tables if "judge" in table.c]
    assert (
        len([table for table in of_judges if world.stored(owner, select(table))]) == 3
    )
    old = [job.id for job in shared.server.jobs.recent("other")]
    invoke("delete", "other", "--yes", "--registry", url, code=0)
    assert [
        table.name for table in of_judges if world.stored(owner, select(table))
    ] == []
    assert world.tables_with(url, "Okafor") == set()
    nobody_shows(owner, old)
    heir: dict[str, Any] = {
        "name": "other",
        "instructions": world.INSTRUCTIONS,
        "kind": "bool",
    }
    expect(post(owner, "/judges", **heir, model="local:qwen2.5-coder-1.5b"), 303)
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
    site.client.post(
        "/judges/tone/setup/cases",
        files={"file": ("Okafor june.csv", sheet)},
        data={"what": "cases"},
    )
    wait(site.client)
    assert "Okafor june.csv" in site.client.get("/judges/tone/cases").text
    site.erased(matching="Okafor", whole="true")
    assert site.nowhere("okafor")
    assert "late" in {case.id for case in site.judgments()}


def test_an_answer_without_words_is_listed_with_its_case(site: Site) -> None:
    put_in(site.client, OTHERS)
    silent = {**OTHERS[0], "value": False, "source": "Philippa"}
    explained = {
        **OTHERS[1],
        "value": False,
        "rationale": "Cold.",
        "source": "Philippa",
    }
    site.registry().align("tone", [silent, explained])
    page = site.found("philippa")
    shows(page, "“It is in transit.”", "answer without words, Philippa")
    shows(page, "“Cold.”", "comment, Philippa")
    assert "in an earlier state" not in page
