"""A report: what it says, on which cases, and that its page is one safe file."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import Report, as_html, as_markdown, evaluate, report
from memalign.evaluation.intervals import share_interval
from memalign.memory import Memory
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedAnswer, ScriptedChatModel
from memalign.types import Feedback
from tests.support.scripted import change, records_in, scripted

ITEM = re.compile(r"item (\d+)")
NASTY = "<script>alert(1)</script> | **bold** 'quote' \"double\" </dd>"


def answer(request: ChatRequest) -> ScriptedAnswer:
    """Right about even numbers, and once it has guidelines about all but every tenth."""
    if request.schema_name == "changes":
        rule = change(
            "ADD", *records_in(request), text="When the number is even, it passes."
        )
        return {"changes": [rule]}
    number = int(ITEM.findall(request.user)[-1])
    right = number % 10 != 3 if "# Guidelines" in request.system else number % 2 == 0
    return {"findings": [], "rationale": NASTY, "value": (number % 2 == 0) == right}


def judge() -> Judge:
    return scripted(
        answer,
        name="even",
        instructions="Even? {{ outputs }}",
        embedding_model=HashEmbedding(),
    )[0]


def rows(first: int, last: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(
            id=f"h-{n}",
            outputs=f"item {n}",
            value=n % 2 == 0,
            source="ana",
            rationale=f"Said of {n}.",
            **more,
        )
        for n in range(first, last)
    ]


def page_of(
    one: Judge, labelled: list[Feedback], against: Judge | None = None
) -> Report:
    """The report on the cases that neither judge has met."""
    return report(one, evaluate(one, labelled, against=against), against="zero-shot")


def rows_of(page: Report, title: str) -> dict[str, list[Any]]:
    """The rows of a table by their first cell."""
    return {
        str(row[0]): list(row[1:])
        for part in page.sections
        if part.title == title
        for row in part.rows
    }


AGREEMENT = "How often it agrees with people"
TAUGHT = "What people taught it"


@pytest.fixture(scope="module")
def aligned() -> Judge:
    return judge().align(rows(0, 30)).judge


@pytest.fixture(scope="module")
def page(aligned: Judge) -> Report:
    others = [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % of == 0, source=source)
        for n in range(100, 120)
        for source, of in (("ben", 4), ("eva", 2))
    ]
    return page_of(aligned, [*rows(20, 130), *others], aligned.replace(memory=Memory()))


class TestWhatItSays:
    def test_only_unseen_cases_count(self, page: Report) -> None:
        assert page.headline.startswith(
            "Of the cases that people call true, the judge calls 100 % true (n = 50); of"
        )
        assert "10 that were taught and are left out of every figure" in as_markdown(
            page
        )

    def test_the_judge_stands_beside_others_and_people(self, page: Report) -> None:
        sides = rows_of(page, AGREEMENT)
        people = [f"with {source} alone" for source in ("ana", "ben", "eva")]
        assert list(sides) == ["even", "zero-shot", *people, "people with each other"]
        assert (sides["even"][0].value, sides["zero-shot"][0].value) == pytest.approx(
            (0.9, 0.5)
        )
        assert (
            sides["with ben alone"][0].value,
            sides["with eva alone"][0].value,
        ) == pytest.approx((0.65, 0.9))
        assert sides["people with each other"][0].value == pytest.approx(50 / 60)
        assert "of pairs, on 20 cases" in as_markdown(page)
        assert "It is better than “zero-shot”: +40.0 points \\[+2" in as_markdown(page)

    def test_a_guideline_says_who_taught_it(self, page: Report) -> None:
        assert rows_of(page, TAUGHT)["G1"][:2] == [
            "When the number is even, it passes.",
            "ana (30)",
        ]

    def test_where_it_errs_has_three_cases_of_each_error(self, page: Report) -> None:
        text = as_markdown(page)
        assert "People say false, the judge says true: 10" in text
        assert sum(line.startswith("- h-") for line in text.splitlines()) == 3

    def test_pairs_of_one_case_count_as_one_case(self) -> None:
        """Six people on a case are fifteen pairs, and no fifteen cases."""
        labelled = [
            Feedback(
                id=f"h-{n}",
                outputs=f"item {n}",
                value=n % 3 > 0 or who % 2 == 0,
                source=f"p{who}",
            )
            for n in range(24)
            for who in range(6)
        ]
        same = rows_of(page_of(judge(), labelled), AGREEMENT)["people with each other"][
            0
        ]
        low, high = share_interval([n % 5 > 1 for n in range(360)]) or (0.0, 0.0)
        assert same.high - same.low > 2 * (high - low)

    def test_a_case_without_a_verdict_is_counted(self) -> None:
        def shaky(request: ChatRequest) -> ScriptedAnswer:
            return (
                ModelUnavailable("HTTP 503")
                if "item 31" in request.user
                else answer(request)
            )

        broken = judge().replace(model=ScriptedChatModel(shaky))
        assert "1 without a verdict" in as_markdown(page_of(broken, rows(30, 60)))
        with pytest.raises(
            InputError, match=r"no case has a verdict: ModelUnavailable: HTTP 503"
        ):
            page_of(broken, rows(31, 32))

    @pytest.mark.parametrize(
        ("kind", "words"),
        [
            ("float:0..10", "right in 100 %|CCC"),
            ("int:0..9", "right in 60 %|weighted kappa"),
        ],
    )
    def test_numbers_have_their_figures(self, kind: str, words: str) -> None:
        model = ScriptedChatModel(
            lambda request: {
                "rationale": "",
                "value": int(ITEM.findall(request.user)[-1]) % 10,
            }
        )
        ranks = Judge(
            name="rank",
            instructions="Rank {{ outputs }}",
            feedback_value_type=kind,
            model=model,
        )
        labelled = [
            Feedback(id=f"h-{n}", outputs=f"item {n}", value=min(n % 10 + n % 2, 9))
            for n in range(40)
        ]
        page = page_of(ranks, labelled)
        for text in (
            as_markdown(page),
            unescape(as_html(page)).replace("\N{NO-BREAK SPACE}", " "),
        ):
            assert all(word in text for word in [*words.split("|"), "What it costs"])


class TestPage:
    def test_a_page_is_one_safe_file_that_prints_dark_on_white(
        self, page: Report
    ) -> None:
        text = as_html(page)
        assert {*re.findall(r"<(\w+)", text)}.isdisjoint(
            {"script", "link", "img", "iframe"}
        )
        assert not re.search(r"<[^>]*\b(?:src|href)\s*=|url\(", text)
        assert "&lt;script&gt;" in text
        assert re.findall(r"@media ([^{]*: dark[^{]*)", text) == [
            "screen and (prefers-color-scheme: dark) "
        ]

    def test_html_markdown_and_json_say_the_same(self, page: Report) -> None:
        assert page.headline in as_markdown(page).replace("\\[", "[").replace(
            "\\]", "]"
        )
        assert page.headline in unescape(as_html(page)).replace(
            "\N{NO-BREAK SPACE}", " "
        )
        plain = json.loads(json.dumps(page.to_dict()))
        assert plain["headline"] == page.headline
        sections = {section["title"]: section for section in plain["sections"]}
        assert sections[AGREEMENT]["rows"][0][1]["value"] == pytest.approx(0.9)
        assert plain["evaluation"]["metrics"]["accuracy"]["value"] == pytest.approx(0.9)
        assert len(plain["cases"]) == 100
