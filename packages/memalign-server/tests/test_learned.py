"""Learned: what a person's words became, what that changed, and the person's say over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from memalign import Example, Judge
from memalign.errors import ModelUnavailable
from memalign_server.review.service import NewAnswer, save
from memalign_server.store.answers import answer_of
from memalign_server.store.cases import add_cases, next_cases, turned_unanswered
from memalign_server.store.tables import jobs, new_id, queue, reviews
from server_support import world
from server_support.reviewing import (
    expect,
    hold_out,
    numbered,
    post,
    put_in,
    shows,
    wait,
    words_of,
    work,
)

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign.models.base import ChatRequest

HELD_OUT = ("c1", "c2", "c3")
CASES = []
for n in range(1, 25):
    sorry = " Sorry!" if n % 4 == 0 else ""
    reply = f"Reply {n}.{sorry}\nBye."
    CASES.append({"id": f"c{n}", "inputs": f"Question {n}?", "outputs": reply})
"""Of every four one says sorry; the first three are held out."""
RULE = "A reply must show sympathy before facts"


def strict(request: ChatRequest) -> dict[str, Any]:
    """A judge that passes everything until it knows a sentence, then only what says sorry;
    that bears on every case."""
    schema = request.schema["properties"]
    if "findings" not in schema:
        return world.answer(request)
    # The item is the last thing that it is shown.
    value = "Sorry" in request.user.rpartition("Reply ")[2]
    name = schema["findings"]["items"]["properties"]["guideline"]["enum"][0]
    return {
        "findings": [{"guideline": name, "evidence": "", "value": value}],
        "rationale": "Said so.",
        "value": value,
    }


def down(_request: ChatRequest) -> Any:
    return ModelUnavailable("no server answers")


class Site:
    """A server with twenty-four judged cases, and what people do and see there."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.server = world.server_of(client)

    def answer(
        self, case: str, value: bool, words: str = "", *, person: str = "local"
    ) -> None:
        """What a person says of a case, in a form of its own."""
        with self.server.store.write() as connection:
            before = answer_of(connection, "tone", person, case)
            form = NewAnswer(
                state="answered",
                value=value,
                rationale=words,
                form=new_id(),
                revision=before.revision if before else 0,
            )
            save(connection, "tone", person, case, form, kind=self.judge.value_type)

    def review(self, case: str, person: str = "local") -> Any:
        return world.answer_row(self.client, case, person)

    def case(self, case: str) -> Any:
        return world.case_row(self.client, case)

    @property
    def judge(self) -> Judge:
        return self.server.judges.latest("tone").judge

    @property
    def version(self) -> int:
        return self.server.judges.latest("tone").version

    def do(self, page: str, **fields: Any) -> str:
        """Press a button; then the page to which it leads once the work is done."""
        return words_of(work(self.client, page, **fields))

    def teach(self) -> str:
        return self.do("teach")

    def better(
        self, guideline: str, text: str, action: str = "try", **form: str
    ) -> Any:
        path = "/judges/tone/learned/better"
        form |= {"guideline": guideline, "text": text, "action": action}
        return post(self.client, path, parts=True, **form)

    def keep_wording(self, guideline: str, text: str) -> str:
        form = {"guideline": guideline, "text": text, "tried": text}
        return self.do("learned/better", **form, action="keep")

    def try_wording(self, guideline: str, text: str) -> str:
        """Try a wording; what is typed stays in its field meanwhile. Then the page of what
        came out."""
        page = self.better(guideline, text)
        expect(page, 200, f">{text}</textarea>", "Trying your wording")
        wait(self.client)
        trial, *_ = (
            job for job in self.server.jobs.recent("tone") if job.kind == "try"
        )
        return self.page(job=trial.id)

    def change(self, *cases: str, **values: Any) -> None:
        """Change the queue's rows of cases."""
        rows = queue.update().where(queue.c.case_id.in_(cases))
        world.change(self.client, rows.values(**values))

    def unasked(self) -> int:
        query = select(queue.c.case_id).where(queue.c.judgment.is_(None))
        return len(world.stored(self.client, query))

    def page(self, path: str = "/judges/tone/learned", **query: str) -> str:
        return words_of(expect(self.client.get(path, params=query or None), 200))


@contextmanager
def reopened(site: Site, script: Any) -> Iterator[Site]:
    """The same with another model, once that server has stopped."""
    site.client.__exit__()
    with world.client(site.server.registry.url, script=script) as client:
        yield Site(client)


@pytest.fixture
def site(request: pytest.FixtureRequest, place: str) -> Iterator[Site]:
    with world.site(place, script=getattr(request, "param", strict)) as client:
        put_in(client, CASES)
        hold_out(client, *HELD_OUT)
        yield Site(client)


def explain_three(site: Site) -> None:
    """Three answers that correct the judge, two that agree with it, and one on a case that is
    held out."""
    site.answer("c5", False, "No sympathy at all.")
    site.answer("c6", False, "It is “cold”.")
    site.answer("c7", False, "Where is the sorry?")
    site.answer("c8", True)
    site.answer("c9", True)
    site.answer("c1", False, "Cold too.")


@pytest.fixture
def taught(site: Site) -> Site:
    explain_three(site)
    site.teach()
    return site


def test_words_become_a_sentence_and_a_number(site: Site) -> None:
    empty = "It knows nothing yet. Explain 3 answers and it learns. Review"
    assert empty in site.page()
    site.answer("c1", False, "Cold too.")
    # What is held out never teaches.
    assert "There was nothing new to learn." in site.teach()
    assert site.version == 1
    explain_three(site)
    page = site.teach()
    _, _, older = page.partition("Where is the sorry?")
    assert "No sympathy at all." in older, "the latest first"
    shows(
        page,
        "Today: 6 answers, 4 of them explained.",
        f"“No sympathy at all.” → It understood {RULE}",
        "“Cold too.” → It understood Nothing: this case measures the judge",
        "3 of 3 you corrected are now right",
        "1 you agreed on is now wrong",
        "“Reply 9.” was Yes, now No, you said Yes Tell it why",
        "3 now right",
        "Everything it knows 3 sentences, yours",
    )
    taught = {case.id for case in site.judge.memory.cases}
    assert taught == {"c5", "c6", "c7", "c8", "c9"}


def test_whoever_reviews_on_always_has_the_new_versions_verdict(taught: Site) -> None:
    with taught.server.store.read() as connection:
        ahead = next_cases(connection, "tone", "local", n=12)
        for coming in (ahead, next_cases(connection, "tone", "ben", n=12)):
            assert [case.version for case in coming] == [2] * 12
            assert any(case.held_out for case in coming)
        turned = turned_unanswered(connection, "tone", "local", most=200)
    assert turned
    # None that measures is asked for because its verdict turned; and answered ones that
    # measure it have the new version's, too.
    assert set(HELD_OUT).isdisjoint(turned)
    assert taught.case("c1").version == 2
    # A taught case is judged with itself hidden.
    judgment = taught.case("c9").judgment
    assert (judgment.value, judgment.decided_by) == (False, "model")
    what_waits_is_judged_once(taught, [case.case_id for case in ahead[1:]])


def what_waits_is_judged_once(taught: Site, waiting: list[str]) -> None:
    taught.change(*waiting, version=1)
    before = len(taught.server.jobs.recent("tone"))
    for _ in range(2):
        taught.client.get("/judges/tone/review")
        wait(taught.client)
    assert len(taught.server.jobs.recent("tone")) == before + 1
    with taught.server.store.read() as connection:
        for case in next_cases(connection, "tone", "local", n=10):
            assert case.version == 2


@pytest.mark.parametrize("noted", [True, False])
def test_a_teaching_that_was_killed_once_it_had_learned_judges_again(
    noted: bool, taught: Site
) -> None:
    taught.change("c1", "c5", version=1)
    if not noted:
        world.change(taught.client, reviews.update().values(taught=0))
    taught.teach()
    assert taught.version == 2
    assert taught.case("c1").version == taught.case("c5").version == 2


def test_people_who_differ_teach_nothing_until_it_is_settled(site: Site) -> None:
    site.answer("c5", False, "Cold.")
    site.answer("c5", True, "Warm enough.", person="ben")
    assert "There was nothing new to learn." in site.teach()
    differ = (
        "you and a colleague differ on this case. Until you agree it teaches nothing."
    )
    assert differ in site.page()
    for holder, words in (("ben", "Warm enough."), ("local", "Cold.")):
        site.change("c5", settled=holder, disputed=0)
        site.teach()
        # What another had taught there is forgotten.
        (annotation,) = site.judge.memory.annotations()
        assert annotation.rationale == words
    site.change("c5", settled="", disputed=0)
    site.teach()
    assert not site.judge.memory.cases, "left out"


def test_a_model_that_is_down_says_one_thing_and_loses_nothing(site: Site) -> None:
    explain_three(site)
    with reopened(site, down) as later:
        told = "The judge could not be taught just now. Your 3 sentences are kept."
        error, _, rest = later.teach().partition(told)
        assert "“" not in error
        shows(rest, "No sympathy at all.", "Try again")
        kept = "Nothing yet: the model did not answer. Your words are kept."
        assert kept in later.page()
        put_in(later.client, [{"id": "late", "inputs": "Late?", "outputs": "Soon."}])
        job = later.server.jobs.recent("tone")[0].id
        page = later.page("/judges/tone/setup", open="cases", job=job)
        # Those that keep an older verdict are not counted.
        assert "1 could not be judged: no server answers" in page
    with reopened(later, strict) as again:
        page = again.teach()
        assert "3 of 3 you corrected are now right" in page
        assert "nothing new to learn" not in page


def test_while_the_model_is_down_a_wording_stays_and_an_erasure_is_told(
    taught: Site,
) -> None:
    rule = taught.judge.memory.semantic[0]
    with reopened(taught, down) as later:
        page = later.try_wording(rule.id, "Say sorry.")
        failed = "Your wording could not be tried just now."
        shows(page, "Say sorry.", failed, "Keep my wording")
        page = later.do("erase", matching="No sympathy", whole="true")
        assert "We searched again afterwards: 0 left." in page
        waiting = (
            r"Asked again None\. \d answers? waits? to be learned again\. Out of reach"
        )
        assert re.search(waiting, page), page
        assert "In technical words" in page.partition("no server answers")[0]


def test_the_card_comes_at_three_and_again_after_three_more(site: Site) -> None:
    explain_three(site)
    page = site.page("/judges/tone/teach")
    shows(page, "You explained 3 things. Teach the judge? About 10 seconds.")
    shows(page, "Then you see what it understood.")
    _, _, later = page.partition("No sympathy at all.")
    assert "Where is the sorry?" in later
    post(site.client, "/judges/tone/teach/later")
    for case in ("c10", "c11", "c12"):
        assert "Teach the judge?" not in site.page("/judges/tone/review")
        site.answer(case, False, f"Cold, {case}.")
    page = site.page("/judges/tone/review")
    assert "You explained 6 things. Teach the judge?" in page
    site.teach()
    assert "memalign_later" not in site.client.cookies


def test_a_sentence_is_confirmed_or_said_better(taught: Site) -> None:
    rule, confirmed, _ = taught.judge.memory.semantic
    page = taught.do("learned/confirm", guideline=confirmed.id)
    assert page.count("✓ You confirmed it") == 1
    assert taught.judge.memory.guideline(confirmed.id).people == {"local"}
    assert f"It had understood: “{rule.text}”" in taught.page(better=rule.id)
    own = "You wrote “It is \u2018cold\u2019.”"
    pages = [taught.page(better=each.id) for each in taught.judge.memory.semantic]
    assert [own in page for page in pages].count(True) == 1
    long = taught.better(rule.id, "so " * 70)
    expect(long, 422, "at most 60 are allowed", "so so so")


def test_a_wording_is_tried_before_it_is_kept(taught: Site) -> None:
    rule = taught.judge.memory.semantic[0]
    words = "Say sorry first, unless all is well."
    page = taught.try_wording(rule.id, words)
    shows(page, "Tried on 5 cases you answered As it was 4 right of 5")
    shows(page, "Your wording 4 right of 5", "Still wrong “Question 9?” → “Reply 9.”")
    # Nothing is changed by a trial.
    assert taught.judge.memory.guideline(rule.id).text == rule.text
    # Other words than those that were tried are tried first.
    other = taught.better(rule.id, "Be brief.", "keep", tried=words)
    expect(other, 200, "Trying your wording")
    wait(taught.client)
    assert words in taught.keep_wording(rule.id, words)
    assert taught.judge.memory.guideline(rule.id).people == {"local"}
    assert taught.case("c9").version == taught.version, "judged again at once"
    # An erased case is in no report of a trial.
    assert taught.server.registry.erase("tone", ["c5"]).complete
    trials = select(jobs.c.result).where(jobs.c.kind == "try")
    assert {row.result for row in world.stored(taught.client, trials)} == {None}


def test_taking_words_back_leaves_what_the_person_made_theirs(taught: Site) -> None:
    theirs, taken, _ = taught.judge.memory.semantic
    (source,) = taken.supported_by
    words = taught.review(source.id).rationale
    taught.do("learned/confirm", guideline=theirs.id)
    rules = [rule.text for rule in taught.judge.memory.semantic]
    rules.remove(theirs.text)
    page = taught.page(take=taken.id)
    shows(page, "2 sentences go, or are written again from what remains: Your own")
    shows(page, f"wording stays. “{'” “'.join(rules)}” Take back")
    page = taught.do("learned/take-back", row=taken.id)
    shows(page, "Taken back. The judge does not follow these words any more.")
    shows(page, "✓ You confirmed it")
    assert words not in page
    # The verdict stays an answer, and what the withdrawal removed was asked again.
    answer = taught.review(source.id)
    assert (answer.value, answer.rationale, answer.taught) == (False, None, 0)
    assert taught.unasked() == 0


@pytest.mark.parametrize("keep", [True, False])
def test_a_persons_own_sentence_goes_only_when_they_let_it_go(
    site: Site, keep: bool
) -> None:
    site.answer("c5", False, "No sympathy at all.")
    site.teach()
    (rule,) = site.judge.memory.semantic
    site.keep_wording(rule.id, "Say sorry first.")
    page = site.page(take=rule.id)
    shows(page, "1 sentence goes, or is written again from what remains: The sentence")
    shows(
        page, "is yours: keep it? “Say sorry first.” Keep the sentence Take back both"
    )
    form = {"keep": "true"} if keep else {}
    site.do("learned/take-back", row=rule.id, **form)
    texts = [rule.text for rule in site.judge.memory.semantic]
    assert texts == ["Say sorry first."][: int(keep)]


def test_newer_words_stay_when_those_that_were_taught_are_taken_back(
    site: Site,
) -> None:
    site.answer("c5", False, "No sympathy at all.")
    site.teach()
    site.answer("c5", False, "What I found out since.")
    site.do("learned/take-back", row=site.judge.memory.semantic[0].id)
    assert site.judge.memory.semantic == ()
    answer = site.review("c5")
    assert answer.rationale == "What I found out since."
    assert answer.taught != answer.revision


def test_a_reviewer_changes_no_sentence_of_somebody_else(place: str) -> None:
    with world.shared_server(place, script=strict) as shared:
        site = Site(shared.signed_in("reviewer"))
        with site.server.store.write() as connection:
            add_cases(connection, "tone", map(Example.from_dict, CASES))
        site.answer("c5", False, "No sympathy at all.", person="owner")
        site.answer("c6", False, "It is cold.", person="reviewer")
        site.teach()
        theirs, own = site.judge.memory.semantic
        # In their own row, and in the list of all.
        assert site.page().count("Say it better") == 2
        expect(site.better(theirs.id, "Be brief.", "keep"), 403)
        path = "/judges/tone/learned"
        expect(post(site.client, f"{path}/confirm", guideline=theirs.id), 422)
        expect(post(site.client, f"{path}/take-back", row=theirs.id), 422)
        site.do("learned/confirm", guideline=own.id)
        owner = Site(shared.signed_in("owner"))
        owner.keep_wording(own.id, "Be brief.")
        # It is still the reviewer's too.
        assert owner.judge.memory.guideline(own.id).people == {"owner", "reviewer"}


def quarrelling(request: ChatRequest) -> dict[str, Any]:
    """A model that finds every two comments to contradict each other."""
    return world.with_conflict(strict(request))


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        # Somebody else's stay.
        ("c5@local", ["Say sorry, always.", "Never say sorry."]),
        ("c6@ben", [None, "Never say sorry."]),
        ("", ["Say sorry, always.", "Never say sorry."]),
    ],
)
@pytest.mark.parametrize("site", [quarrelling], indirect=True)
def test_a_conflict_is_shown_and_settled_once(
    site: Site, holds: str, words: list[str | None]
) -> None:
    site.answer("c5", False, "Say sorry, always.")
    site.answer("c6", False, "Never say sorry.", person="ben")
    page = site.teach()
    shows(page, "These two say different things “Say sorry, always.” You,")
    shows(page, "of “Question 5?” → “Reply 5.” This holds “Never say sorry.” ben,")
    shows(page, "of “Question 6?” → “Reply 6.” This holds", "Both hold")
    (conflict,) = site.judge.memory.open_conflicts
    waits = "two comments wait for your choice"
    assert waits in site.client.get("/judges/tone/trust").text, "every page says so"
    form: dict[str, Any] = {"key": [*map(str, conflict.feedback)]}
    if holds:
        form["holds"] = holds
    page = site.do("learned/conflict", **form)
    assert "different things" not in page
    assert waits not in site.client.get("/judges/tone/trust").text
    assert [site.review("c5").rationale, site.review("c6", "ben").rationale] == words
    site.answer("c7", False, "Be quick.")
    assert "different things" not in site.teach(), "and it does not come back"


def demanding(request: ChatRequest) -> dict[str, Any]:
    """A model whose one sentence has a test: the replies that were turned down do not say sorry."""
    reply = strict(request)
    if "changes" not in reply:
        return reply | {"value": True}
    named = list[str]()
    for change in reply["changes"]:
        named += change["feedback"]
    test = {"kind": "contains", "field": "outputs", "text": "Sorry", "holds": False}
    rule = {
        "text": "A reply says “Sorry”.",
        "feedback": named,
        "tests": [test | {"low": None, "high": None}],
    }
    return reply | {"changes": [reply["changes"][0] | rule]}


@pytest.mark.parametrize("site", [demanding], indirect=True)
def test_what_is_demanded_decides_once_a_person_says_that_is_what_i_meant(
    site: Site,
) -> None:
    for n in range(4, 20):
        sorry = n % 4 == 0
        site.answer(f"c{n}", sorry, "" if sorry else "Always say sorry.")
    site.teach()
    (rule,) = [rule for rule in site.judge.memory.semantic if rule.tests]
    unseen = {"inputs": "Why?", "outputs": "It is late."}
    assert site.judge(**unseen).decided_by == "model"
    shows(site.page(), "nobody confirmed it", "That is what I meant")
    page = site.do("learned/confirm", guideline=rule.id)
    shows(page, "✓ You confirmed it")
    assert "nobody confirmed it" not in page
    ruled = site.judge(**unseen)
    assert (ruled.value, ruled.decided_by) == (False, "rule")
    unseen["outputs"] = "Sorry, it is late."
    assert site.judge(**unseen).decided_by == "model"


@pytest.mark.parametrize("spelling", ["reviewer", "REVIEWER", "Reviewer\u200b"])
def test_a_conflict_is_shown_to_its_author_however_the_name_is_spelled(
    place: str, spelling: str
) -> None:
    with world.shared_server(place, script=quarrelling) as shared:
        site = Site(shared.signed_in("reviewer"))
        case = {"inputs": "Late!", "value": False}
        ours = {"id": "a", "outputs": "Fine.", "rationale": "Say sorry."}
        theirs = {"id": "b", "outputs": "No.", "rationale": "Never say sorry."}
        rows = [case | ours | {"source": spelling}, case | theirs | {"source": "ben"}]
        site.server.registry.align("tone", rows)
        assert "These two say different things" in site.page()


def test_cases_are_found_taught_or_not_and_stay_blind(taught: Site) -> None:
    case = "“Question 9?” → “Reply 9.”"
    for text in ("reply 9", "REPLY  9", "reply 9. bye", "réply 9"):
        assert f"1 case holds it. {case} Look at it" in taught.page(find=text)
    assert "“Reply 10.” Look at it" in taught.page(find="REPLY 10")
    assert "No case holds it." in taught.page(find="reply 99")
    row = {"id": "old", "inputs": "Hm?", "outputs": "From the archive.", "value": True}
    taught.server.registry.align("tone", [row])
    # It leads nowhere.
    found = "1 case holds it. “Hm?” → “From the archive.”"
    assert taught.page(find="the archive").endswith(found)


def test_a_teaching_judges_nothing_that_waits_for_its_first_verdict(site: Site) -> None:
    explain_three(site)
    new = numbered(60)
    with site.server.store.write() as connection:
        add_cases(connection, "tone", map(Example.from_dict, new))
    site.change(*[case["id"] for case in new], rank=0)
    site.teach()
    assert site.unasked() >= 40, "an upload is judged by its own job, and once"
