"""A report: what it says, on which cases, and that its page is one safe file."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from memalign import Judge, MemAlign
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import Report, as_html, as_markdown, evaluate
from memalign.evaluation import report as gather
from memalign.evaluation.intervals import share_interval
from memalign.judge.spec import without_memory
from memalign.models.base import ChatRequest, Question
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel, ScriptedDecisionModel
from memalign.types import Feedback

ITEM = re.compile(r"item (\d+)")
NASTY = "<script>alert(1)</script> | **bold** 'quote' \"double\" </dd>"


def answer(request: ChatRequest) -> Answer:
    """Right about even numbers, and once it has guidelines about all but every tenth."""
    if "changes" in request.schema["properties"]:
        labels = request.schema["properties"]["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
        check = {"question": "Is the number even?", "answer": "yes"}
        rule = {"action": "ADD", "text": "When the number is even, it passes.", "guideline": "", "checks": [check]}
        return {"changes": [{**rule, "feedback": labels}]}
    number = int(ITEM.findall(request.user)[-1])
    right = number % 10 != 3 if "# Guidelines" in request.system else number % 2 == 0
    return {"findings": [], "rationale": NASTY, "value": (number % 2 == 0) == right}


def even(state: str, _: Question) -> float:
    """Whether the number is even, to a model that answers checks."""
    return 0.95 if int(ITEM.findall(state)[-1]) % 2 == 0 else 0.05


def judge(**changes: Any) -> Judge:
    settings: dict[str, Any] = {"instructions": "Even? {{ outputs }}", "feedback_value_type": bool} | changes
    models: dict[str, Any] = {"model": ScriptedChatModel(answer), "check_model": ScriptedDecisionModel(even)}
    return Judge(name="even", embedding_model=HashEmbedding(), **models, **settings)


def rows(first: int, last: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % 2 == 0, source="ana", rationale=f"Said of {n}.", **more)
        for n in range(first, last)
    ]


def report(one: Judge, labelled: list[Feedback], against: Judge | None = None) -> Report:
    """The report on the cases that neither judge has met."""
    evaluation = evaluate(one, labelled, against=against, unseen=True)
    return gather(one, evaluation, against="zero-shot")


@pytest.fixture(scope="module")
def aligned() -> Judge:
    return judge().align(rows(0, 30)).judge


@pytest.fixture(scope="module")
def found(aligned: Judge) -> Report:
    others = [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % of == 0, source=source)
        for n in range(100, 120)
        for source, of in (("ben", 4), ("eva", 2))
    ]
    return report(aligned, [*rows(20, 130), *others], without_memory(aligned))


class TestWhatItSays:
    def test_only_unseen_cases_count(self, found: Report) -> None:
        assert found.evaluation.taught == 10
        assert found.evaluation.n == 100
        assert found.evaluation.seen == 0
        assert found.evaluation.metrics["accuracy"].value == pytest.approx(0.9)

    def test_the_judge_stands_beside_zero_shot_and_majority(self, found: Report) -> None:
        names = [side.name for side in found.sides]
        assert names[:2] == ["even", "zero-shot"]
        assert names[2].startswith("always ")
        zero_shot, constant = found.sides[1:3]
        assert zero_shot.ahead is not None
        assert zero_shot.ahead.value == pytest.approx(0.4, abs=0.05)
        assert zero_shot.verdict == "ahead"
        assert constant.ahead is not None
        assert constant.ahead.value == pytest.approx(0.4)

    def test_people_are_the_ceiling(self, found: Report) -> None:
        assert found.people is not None
        assert (found.people.cases, found.people.pairs) == (20, 60)
        assert found.people.same.value == pytest.approx(50 / 60)

    def test_a_guideline_says_what_it_did(self, found: Report) -> None:
        used = {each.id: each for each in found.guidelines}
        assert sum(each.cases for each in used.values()) == sum(n % 2 == 0 for n in range(30, 130))
        assert all(each.taught_by for each in used.values())

    def test_a_pull_nearer_to_the_score_is_right(self) -> None:
        def decide(state: str, question: Question) -> Any:
            return {"5": 1.0} if question.key == "value" else even(state, question)

        def scored(first: int, last: int) -> list[Feedback]:
            return [
                Feedback(
                    id=f"s-{n}",
                    outputs=f"item {n}",
                    value=8.9 - n % 3 / 10 if n % 2 == 0 else 1.0 + n % 3 / 10,
                    rationale=f"Said of {n}.",
                )
                for n in range(first, last)
            ]

        one = judge(feedback_value_type="float:0..10").replace(model=ScriptedDecisionModel(decide), check_model=None)
        # One record a call: a check is weighed on the cases that its guideline is not exposed to.
        result = one.align(
            scored(100, 130), optimizer=MemAlign(shard_size=1, reflection_model=ScriptedChatModel(answer))
        )
        taught = result.judge
        found = report(taught, scored(200, 240))
        assert (sum(each.right for each in found.guidelines), sum(each.wrong for each in found.guidelines)) == (40, 0)

    def test_parts_add_up(self, found: Report) -> None:
        labels = [part for part in found.slices if part.of == "label"]
        assert sum(part.n for part in labels) == 100
        assert {part.name for part in found.slices if part.of == "source"} == {"ana", "ben", "eva"}

    def test_pairs_of_one_case_count_as_one_case(self) -> None:
        """Six people on a case are fifteen pairs, and no fifteen cases."""
        labelled = [
            Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % 3 > 0 or who % 2 == 0, source=f"p{who}")
            for n in range(24)
            for who in range(6)
        ]
        people = report(judge(), labelled).people
        assert people is not None
        assert (people.cases, people.pairs) == (24, 360)
        low, high = share_interval([n % 5 > 1 for n in range(360)]) or (0.0, 0.0)
        assert people.same.low is not None
        assert people.same.high is not None
        assert people.same.high - people.same.low > 2 * (high - low)

    def test_one_content_under_two_ids_is_one_case(self) -> None:
        labelled = [*rows(0, 20), *(Feedback(id=f"again-{n}", outputs=f"item {n}", value=True, rationale="So.", source="ben")
                                    for n in range(0, 20))]  # fmt: skip
        found = report(judge(), labelled)
        assert found.evaluation.n + found.evaluation.unlabelled == 20
        assert found.people is not None
        assert (found.people.cases, found.people.pairs) == (20, 20)
        assert {part.name for part in found.slices if part.of == "source"} == {"ana", "ben"}
        words = [(case.people["ana"], case.people["ben"]) for case in found.cases]
        assert words == [(f"Said of {case.id.removeprefix('h-')}.", "So.") for case in found.cases]

    def test_where_it_errs_has_three_cases_of_each_error(self, found: Report) -> None:
        text = as_markdown(found)
        assert "People say false, the judge says true: 10" in text
        assert sum(line.startswith("- h-") for line in text.splitlines()) == 3

    def test_a_part_honours_groups_as_the_headline_does(self) -> None:
        grouped = [row for n in range(0, 60) for row in rows(n, n + 1, meta={"group": f"g{n % 3}"})]
        found = report(judge(), grouped)
        assert found.evaluation.metrics["accuracy"].low is None, "three groups give no interval"
        assert {part.figure.low for part in found.slices} == {None}
        many = [row for n in range(0, 60) for row in rows(n, n + 1, meta={"group": f"g{n % 30}"})]
        assert all(part.figure.low is not None for part in report(judge(), many).slices if part.of == "label")

    def test_a_source_is_compared_with_its_own_labels(self) -> None:
        said = [
            Feedback(id=f"h-{n}", outputs=f"item {n}", value=(n % 2 == 0) == (source != "ben"), source=source)
            for n in range(0, 40, 2)
            for source in ("ana", "ben", "eva")
        ]
        parts = {part.name: part for part in report(judge(), said).slices if part.of == "source"}
        assert parts["ana"].figure.value == parts["eva"].figure.value == 1.0
        assert parts["ben"].figure.value == 0.0, "ben said the opposite of the verdicts every time"

    def test_the_report_says_how_many_labels_are_missing(self, aligned: Judge) -> None:
        few, many = report(aligned, rows(30, 60)), report(aligned, rows(30, 530))
        assert few.more is not None
        assert few.more > 50
        assert many.more == 0

    def test_a_case_without_a_verdict_is_counted(self) -> None:
        def shaky(request: ChatRequest) -> Answer:
            if "item 31" in request.user:
                raise ModelUnavailable("HTTP 503")
            return answer(request)

        assert report(judge().replace(model=ScriptedChatModel(shaky)), rows(30, 60)).evaluation.unscored == 1
        with pytest.raises(InputError, match=r"no case has a verdict: ModelUnavailable: HTTP 503"):
            report(judge().replace(model=ScriptedChatModel(shaky)), rows(31, 32))

    @pytest.mark.parametrize(
        ("kind", "headline", "sentence"),
        [("float:0..10", "ccc", "CCC, 1 is perfect"), ("int:0..9", "accuracy", "It gives the people's label to")],
    )
    def test_of_numbers_ahead_is_told_on_ccc(self, kind: str, headline: str, sentence: str) -> None:
        model = ScriptedChatModel(lambda request: {"rationale": "", "value": int(ITEM.findall(request.user)[-1]) % 10})
        ranks = Judge(name="rank", instructions="Rank {{ outputs }}", feedback_value_type=kind, model=model)
        values = [min(n % 10 + n % 2, 9) for n in range(40)]
        found = report(ranks, [Feedback(id=f"h-{n}", outputs=f"item {n}", value=v) for n, v in enumerate(values)])
        assert (found.headline, found.sides[-1].metric) == (headline, "ccc")
        pages = (as_markdown(found), unescape(as_html(found)))
        for part in (
            sentence,
            "(CCC).",
            "“Ahead” is the judge's CCC less the other's.",
            "Where judge and people differ",
        ):
            assert all(part in page for page in pages), part


def test_another_versions_taught_cases_are_left_out(aligned: Judge) -> None:
    taught = [row for row in rows(30, 60) if row.id not in {case.id for case in aligned.memory.cases}]
    assert taught
    other = aligned.align(taught[:3]).judge
    found = report(aligned, rows(30, 130), other)
    assert not {row.id for row in taught[:3]} & {case.id for case in found.evaluation.cases}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href"):
                self.links.append(value or "")


class TestPage:
    def test_a_page_is_one_safe_file(self, found: Report) -> None:
        text = as_html(found)
        page = _Page()
        page.feed(text)
        assert page.tags.isdisjoint({"script", "link", "img", "iframe"})
        assert not page.links
        assert "url(" not in text
        assert "<script>" not in text
        assert "&lt;script&gt;" in text

    def test_it_prints_dark_on_white(self, found: Report) -> None:
        styles = re.findall(r"@media ([^{]*prefers-color-scheme: dark[^{]*)", as_html(found))
        assert styles == ["screen and (prefers-color-scheme: dark) "]

    def test_markdown_and_json_say_the_same(self, found: Report) -> None:
        assert "It gives the people's label to 90%" in as_markdown(found)
        assert "It gives the people&#39;s label to 90%" in as_html(found)
        plain = json.loads(json.dumps(found.to_dict()))
        assert plain["evaluation"]["metrics"]["accuracy"]["value"] == pytest.approx(0.9)
        assert len(plain["cases"]) == 100
