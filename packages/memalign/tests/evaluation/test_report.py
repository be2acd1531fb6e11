"""A report: what it says, on which cases, and that its page is one safe file."""

from __future__ import annotations

import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import Report, as_html, as_markdown, report
from memalign.evaluation.baseline import REGRESSION
from memalign.evaluation.prevalence import prevalence
from memalign.models.base import ChatRequest
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel, checks_asked
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
    asked = checks_asked(request)
    right = number % 10 != 3 if asked else number % 2 == 0
    said: dict[str, Any] = {"rationale": NASTY, "value": (number % 2 == 0) == right}
    return {"checks": dict.fromkeys(asked, "no" if number % 2 else "yes")} | said if asked else said


def judge(**changes: Any) -> Judge:
    settings: dict[str, Any] = {"instructions": "Even? {{ outputs }}", "feedback_value_type": bool} | changes
    return Judge(name="even", model=ScriptedChatModel(answer), embedding_model=HashEmbedding(), **settings)


def rows(first: int, last: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % 2 == 0, source="ana", rationale=f"Said of {n}.", **more)
        for n in range(first, last)
    ]


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
    return report(aligned, [*rows(20, 130), *others])


class TestWhatItSays:
    def test_only_unseen_cases_count(self, found: Report) -> None:
        assert found.taught == 10
        assert found.evaluation.n == 100
        assert found.evaluation.seen == 0
        assert found.evaluation.metrics["exact_match"].value == pytest.approx(0.9)

    def test_the_judge_stands_beside_zero_shot_and_majority(self, found: Report) -> None:
        names = [side.name for side in found.sides]
        assert names[:2] == ["even", "zero-shot"]
        assert names[2].startswith("always ")
        assert names[3] == "label of the nearest taught case"
        assert names[4] == "regression on embeddings of the taught cases"
        zero_shot, constant = found.sides[1:3]
        assert zero_shot.ahead is not None
        assert zero_shot.ahead.value == pytest.approx(0.4, abs=0.05)
        assert zero_shot.verdict == "ahead"
        assert constant.ahead is not None
        assert constant.ahead.value == pytest.approx(0.4)

    def test_a_baseline_uses_taught_cases_without_a_model(self) -> None:
        def always(_: ChatRequest) -> Answer:
            return {"rationale": "", "value": True}

        said = ["The parcel is late and nobody writes back.", "Thank you, the garden lamp shines beautifully."]
        taught = [Feedback(id=f"t-{n}", outputs=f"{said[n % 2]} {n}", value=n % 2 == 1) for n in range(4)]
        found = report(
            judge().replace(model=ScriptedChatModel(always)).align(taught).judge,
            [Feedback(id=f"h-{n}", outputs=f"{said[n % 2]} {n}", value=n % 2 == 1) for n in range(10, 40)],
        )
        for side in found.sides[-2:]:
            assert side.metrics["exact_match"].value == 1.0
            assert side.verdict == "behind"

    @pytest.mark.parametrize("spec", ["float:0..10", "int:0..10", "low|middle|high"])
    def test_the_regression_learns_any_label(self, spec: str) -> None:
        words = ["The parcel is late, nobody writes.", "It came, it works.", "The garden lamp shines beautifully!"]
        by_spec: dict[str, list[Any]] = {"float:0..10": [0.5, 5.0, 9.5], "int:0..10": [1, 5, 9]}
        labels = by_spec.get(spec, ["low", "middle", "high"])

        def made(first: int, last: int) -> list[Feedback]:
            return [
                Feedback(id=f"r-{n}", outputs=f"{words[n % 3]} {n}", value=labels[n % 3]) for n in range(first, last)
            ]

        one = Judge(
            name="one",
            instructions="Rate {{ outputs }}",
            feedback_value_type=spec,
            model=ScriptedChatModel(lambda _: {"changes": [], "rationale": "", "value": labels[1]}),
            embedding_model=HashEmbedding(),
        )
        found = report(one.align(made(0, 12)).judge, made(20, 50))
        side = next(side for side in found.sides if side.name == REGRESSION)
        assert (side.metrics["ccc" if spec.startswith("float") else "exact_match"].value or 0) > 0.95

    def test_people_are_the_ceiling(self, found: Report) -> None:
        assert found.people is not None
        assert (found.people.cases, found.people.pairs) == (20, 60)
        assert found.people.same.value == pytest.approx(50 / 60)

    def test_a_guideline_says_what_it_did(self, found: Report) -> None:
        used = {each.id: each for each in found.guidelines}
        assert sum(each.yes for each in used.values()) == sum(n % 2 == 0 for n in range(30, 130))
        assert all(each.taught_by for each in used.values())
        fixed = {case for each in used.values() for case in each.fixed}
        assert fixed
        assert fixed.isdisjoint({f"h-{n}" for n in range(30, 130, 2)}), "zero-shot had the even ones right"

    def test_a_pull_nearer_to_the_score_is_right(self) -> None:
        def score(request: ChatRequest) -> Answer:
            said = answer(request)
            return said if not isinstance(said, dict) or "changes" in said else said | {"value": 5.0}

        def scored(first: int, last: int) -> list[Feedback]:
            return [
                Feedback(id=f"s-{n}", outputs=f"item {n}", value=8.9 - n % 3 / 10 if n % 2 == 0 else 1.0 + n % 3 / 10)
                for n in range(first, last)
            ]

        one = judge(feedback_value_type="float:0..10").replace(model=ScriptedChatModel(score))
        found = report(one.align(scored(100, 130)).judge, scored(200, 240))
        assert (sum(each.right for each in found.guidelines), sum(each.wrong for each in found.guidelines)) == (40, 0)
        assert sum(len(each.fixed) for each in found.guidelines) == 40
        assert found.curve.points[-1].mean > 0.9

    def test_parts_add_up(self, found: Report) -> None:
        labels = [part for part in found.slices if part.of == "label"]
        assert sum(part.n for part in labels) == 100
        assert {part.name for part in found.slices if part.of == "source"} == {"ana", "ben", "eva"}

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

    def test_scores_are_reported_too(self) -> None:
        ranks = Judge(
            name="rank",
            instructions="Rank {{ outputs }}",
            feedback_value_type="float:0..10",
            model=ScriptedChatModel(
                lambda request: {"rationale": "", "value": int(ITEM.findall(request.user)[-1]) % 10}
            ),
        )
        scored = [Feedback(id=f"h-{n}", outputs=f"item {n}", value=float(min(n % 10 + n % 2, 10))) for n in range(40)]
        found = report(ranks, scored)
        assert found.headline == "ccc"
        page = as_html(found)
        assert "CCC, 1 is perfect" in page
        assert "(CCC)." in page
        assert "Where judge and people differ" in page

    def test_of_whole_numbers_ahead_is_told_on_ccc(self) -> None:
        ranks = Judge(
            name="rank",
            instructions="Rate {{ outputs }}",
            feedback_value_type="int:0..9",
            model=ScriptedChatModel(
                lambda request: {"rationale": "", "value": int(ITEM.findall(request.user)[-1]) % 10}
            ),
        )
        scored = [Feedback(id=f"h-{n}", outputs=f"item {n}", value=min(n % 10 + n % 2, 9)) for n in range(40)]
        found = report(ranks, scored)
        assert (found.headline, found.sides[-1].on) == ("exact_match", "ccc")
        assert "“Ahead” is the judge's CCC less the other's." in as_html(found)


class TestLearningCurve:
    def test_fewer_labels_are_refitted_without_a_model(self, aligned: Judge, tmp_path: Path) -> None:
        first = report(aligned, rows(30, 130), evidence=tmp_path)
        again = report(aligned, rows(30, 130), evidence=tmp_path, offline=True)
        assert again.curve == first.curve
        assert [point.labels for point in first.curve.points] == [5, 10, 20, 24]
        assert [point.draws for point in first.curve.points] == [10, 10, 10, 1]
        assert all(point.least <= point.mean <= point.most for point in first.curve.points)

    def test_its_end_is_the_judges_own_calibrator(self, found: Report) -> None:
        metrics = found.evaluation.metrics
        assert found.curve.points[-1].mean == metrics["exact_match_calibrated"].value
        assert found.curve.own == metrics["exact_match_own"].value

    def test_labels_that_outvote_a_wrong_model_raise_it(self) -> None:
        def wrong(request: ChatRequest) -> Answer:
            """The checks tell the label, and no label is expected of them: that is for the cases to teach."""
            said = answer(request)
            if not isinstance(said, dict) or "checks" not in said:
                return said
            return said | {"value": int(ITEM.findall(request.user)[-1]) % 3 == 0}

        judged = judge().replace(model=ScriptedChatModel(wrong)).align(rows(100, 200)).judge
        curve = report(judged, rows(200, 300)).curve
        figures = {point.labels: point.mean for point in curve.points}
        assert curve.own == pytest.approx(0.5, abs=0.05)
        most = max(figures)
        assert figures[most] == 1.0
        assert figures[10] < figures[most]

    def test_where_it_cannot_be_had_it_says_why(self, aligned: Judge) -> None:
        few = judge().align(rows(0, 6)).judge
        silent = aligned.replace(parameters={"calibrate": False})
        for one, cases, why in (
            (few, rows(30, 60), "kept for 0 labelled cases, and fitting takes 10"),
            (silent, rows(30, 60), "no calibrator weighs its verdicts"),
            (judge(), rows(30, 60), "the judge has learned from nothing"),
        ):
            found = report(one, cases)
            assert why in found.curve.why_not
            assert "There is no learning curve: " in as_html(found)
            assert found.curve.why_not in as_markdown(found)


class TestPopulation:
    def test_shares_come_from_this_judges_judgments(self, aligned: Judge, tmp_path: Path) -> None:
        items = [{"id": f"p-{n}", "outputs": f"item {n}"} for n in range(1000, 1400)]
        aligned.judge_many(items, out=tmp_path / "all.jsonl")
        found = report(aligned, rows(30, 130), population=tmp_path / "all.jsonl")
        share = {each.label: each for each in found.shares}["true"]
        assert share.n == 400
        assert share.people.low is not None
        assert share.people.high is not None
        assert share.people.low <= 0.5 <= share.people.high
        with pytest.raises(InputError, match="was judged with another memory"):
            report(judge(), rows(30, 130), population=tmp_path / "all.jsonl")

    def test_the_interval_is_shorter_than_without_verdicts(self) -> None:
        chance, held, width, alone = random.Random(5), 0, 0.0, 0.0
        for _ in range(300):
            truth = [chance.random() < 0.2 for _ in range(2000)]
            verdicts = [each if chance.random() < 0.9 else not each for each in truth]
            found = prevalence(truth[:150], verdicts[:150], verdicts)
            plain = prevalence(truth[:150], [False] * 150, [False] * 2000)
            assert found.low is not None
            assert found.high is not None
            assert plain.low is not None
            assert plain.high is not None
            held += found.low <= 0.2 <= found.high
            width += found.high - found.low
            alone += plain.high - plain.low
        assert 0.91 <= held / 300 <= 0.985
        assert width < 0.85 * alone

    @pytest.mark.parametrize(("share", "wrong"), [(0.2, 0.02), (0.05, 0.05), (0.2, 0.1)])
    def test_ten_agreeing_labels_do_not_prove_the_verdicts(self, share: float, wrong: float) -> None:
        chance = random.Random(7)
        held = 0
        for _ in range(200):
            truth = [chance.random() < share for _ in range(2000)]
            verdicts = [each != (chance.random() < wrong) for each in truth]
            found = prevalence(truth[:10], verdicts[:10], verdicts)
            assert found.low is not None
            assert found.high is not None
            held += found.low <= share <= found.high
        assert held >= 180

    def test_nor_from_another_judges(self, aligned: Judge, tmp_path: Path) -> None:
        items = [{"id": f"p-{n}", "outputs": f"item {n}"} for n in range(1000, 1020)]
        aligned.replace(name="odd").judge_many(items, out=tmp_path / "all.jsonl")
        with pytest.raises(InputError, match="was judged by 'odd', not by 'even'"):
            report(aligned, rows(30, 130), population=tmp_path / "all.jsonl")


def test_another_versions_taught_cases_are_left_out(aligned: Judge) -> None:
    taught = [row for row in rows(30, 60) if row.id not in {case.id for case in aligned.memory.cases}]
    assert taught
    other = aligned.align(taught[:3]).judge
    found = report(aligned, rows(30, 130), against={"version 3": other})
    assert not {row.id for row in taught[:3]} & {case.id for case in found.evaluation.cases}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href"):
                self.links.append(value or "")
            if name == "id":
                self.anchors.add(value or "")


class TestPage:
    def test_a_page_is_one_file_with_valid_links(self, found: Report) -> None:
        text = as_html(found)
        page = _Page()
        page.feed(text)
        assert page.tags.isdisjoint({"script", "link", "img", "iframe"})
        assert page.links
        assert {link.removeprefix("#") for link in page.links} <= page.anchors
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
        assert plain["evaluation"]["metrics"]["exact_match"]["value"] == pytest.approx(0.9)
        assert len(plain["cases"]) == 100
