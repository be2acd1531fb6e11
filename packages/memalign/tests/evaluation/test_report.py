"""A report: what it says, on which cases, and that its page is one safe file."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from msgspec.structs import replace

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import Report, as_html, as_markdown, evaluate, report
from memalign.evaluation.intervals import share_interval
from memalign.memory import Memory
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedAnswer, ScriptedChatModel
from memalign.types import Feedback
from tests.support.evens import is_even, judging, labelled, number_in, said
from tests.support.scripted import change, records_in, scripted

NASTY = "<script>alert(1)</script> | **bold** 'quote' \"double\" </dd>"


def answer(request: ChatRequest) -> ScriptedAnswer:
    """Right about even numbers, and once it has guidelines about all but every tenth."""
    if request.schema_name == "changes":
        rule = change(
            "ADD", *records_in(request), text="When the number is even, it passes."
        )
        return {"changes": [rule]}
    number = number_in(request.user)
    taught = "# Guidelines" in request.system
    right = number % 10 != 3 if taught else is_even(number)
    return {"findings": [], "rationale": NASTY, "value": is_even(number) == right}


def judge() -> Judge:
    return scripted(
        answer,
        name="even",
        instructions="Even? {{ outputs }}",
        embedding_model=HashEmbedding(),
    )[0]


def page_of(one: Judge, rows: list[Feedback], against: Judge | None = None) -> Report:
    """The report on the cases that neither judge has met."""
    return report(one, evaluate(one, rows, against=against), against="zero-shot")


def rows_of(page: Report, title: str) -> dict[str, list[Any]]:
    """The rows of a table by their first cell."""
    (part,) = (part for part in page.sections if part.title == title)
    return {str(row[0]): list(row[1:]) for row in part.rows}


AGREEMENT = "How often it agrees with people"
TAUGHT = "What people taught it"


@pytest.fixture(scope="module")
def aligned() -> Judge:
    commented = []
    for row in labelled(0, 30):
        commented.append(replace(row, rationale=f"Said of {row.id}."))
    return judge().align(commented).judge


@pytest.fixture(scope="module")
def page(aligned: Judge) -> Report:
    rows = labelled(20, 130)
    for n in range(100, 120):
        rows.append(said(n, n % 4 == 0, "ben"))
        rows.append(said(n, is_even(n), "eva"))
    return page_of(aligned, rows, aligned.replace(memory=Memory()))


def plain_text(page: Report) -> str:
    """The text of a page, without its marks."""
    return unescape(as_html(page)).replace("\N{NO-BREAK SPACE}", " ")


class TestWhatItSays:
    def test_only_unseen_cases_count(self, page):
        assert page.headline.startswith(
            "Of the cases that people call true, the judge calls 100 % true (n = 50); of"
        )
        left_out = "10 that were taught and are left out of every figure"
        assert left_out in as_markdown(page)

    def test_the_judge_stands_beside_others_and_people(self, page):
        shares = {}
        for side, cells in rows_of(page, AGREEMENT).items():
            shares[side] = cells[0].value
        assert shares == pytest.approx(
            {
                "even": 0.9,
                "zero-shot": 0.5,
                "with ana alone": 0.9,
                "with ben alone": 0.65,
                "with eva alone": 0.9,
                "people with each other": 50 / 60,
            }
        )
        assert "of pairs, on 20 cases" in as_markdown(page)
        assert "It is better than “zero-shot”: +40.0 points \\[+2" in as_markdown(page)

    def test_a_guideline_says_who_taught_it(self, page):
        text, taught_by, *_ = rows_of(page, TAUGHT)["G1"]
        assert text == "When the number is even, it passes."
        assert taught_by == "ana (30)"

    def test_where_it_errs_has_three_cases_of_each_error(self, page):
        text = as_markdown(page)
        assert "People say false, the judge says true: 10" in text
        assert text.count("\n- h-") == 3

    def test_pairs_of_one_case_count_as_one_case(self):
        """Six people on a case are fifteen pairs, and no fifteen cases."""
        rows = []
        for n in range(24):
            for who in range(6):
                value = n % 3 > 0 or is_even(who)
                rows.append(said(n, value, f"p{who}"))
        sides = rows_of(page_of(judge(), rows), AGREEMENT)
        same = sides["people with each other"][0]
        alone = share_interval([False, False, True, True, True] * 72)
        assert alone is not None
        low, high = alone
        assert same.high - same.low > 2 * (high - low)

    def test_a_case_without_a_verdict_is_counted(self):
        def shaky(request: ChatRequest) -> ScriptedAnswer:
            if "item 31" in request.user:
                return ModelUnavailable("HTTP 503")
            return answer(request)

        broken = judge().replace(model=ScriptedChatModel(shaky))
        assert "1 without a verdict" in as_markdown(page_of(broken, labelled(30, 60)))
        message = r"no case has a verdict: ModelUnavailable: HTTP 503"
        with pytest.raises(InputError, match=message):
            page_of(broken, labelled(31, 32))

    @pytest.mark.parametrize(
        ("kind", "right", "figure"),
        [
            ("float:0..10", "right in 100 %", "CCC"),
            ("int:0..9", "right in 60 %", "weighted kappa"),
        ],
    )
    def test_numbers_have_their_figures(self, kind, right, figure):
        ranks = judging(lambda number: number % 10, feedback_value_type=kind)
        # Odd ones are one too high, but for the highest.
        labels = [0, 2, 2, 4, 4, 6, 6, 8, 8, 9] * 4
        rows = [said(n, label) for n, label in enumerate(labels)]
        page = page_of(ranks, rows)
        for text in (as_markdown(page), plain_text(page)):
            for words in (right, figure, "What it costs"):
                assert words in text


class TestPage:
    def test_a_page_is_one_safe_file_that_prints_dark_on_white(self, page):
        text = as_html(page)
        tags = {*re.findall(r"<(\w+)", text)}
        assert tags.isdisjoint({"script", "link", "img", "iframe"})
        assert not re.search(r"<[^>]*\b(?:src|href)\s*=|url\(", text)
        assert "&lt;script&gt;" in text
        assert re.findall(r"@media ([^{]*: dark[^{]*)", text) == [
            "screen and (prefers-color-scheme: dark) "
        ]

    def test_html_markdown_and_json_say_the_same(self, page):
        assert page.headline in re.sub(r"\\([\[\]])", r"\1", as_markdown(page))
        assert page.headline in plain_text(page)
        plain = json.loads(json.dumps(page.to_dict()))
        assert plain["headline"] == page.headline
        (agreement,) = (p for p in plain["sections"] if p["title"] == AGREEMENT)
        assert agreement["rows"][0][1]["value"] == pytest.approx(0.9)
        assert plain["evaluation"]["metrics"]["accuracy"]["value"] == pytest.approx(0.9)
        assert len(plain["cases"]) == 100
