"""A gate: what passes, what fails, and what the cases do not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from memalign import Judge
from memalign.errors import InputError
from memalign.evaluation import (
    GateResult,
    as_markdown,
    check_criteria,
    evaluate,
    gate,
    junit_xml,
    report,
)
from memalign.memory import Memory
from memalign.testing import ScriptedChatModel
from memalign.types import Feedback, Guideline, as_json
from tests.support.evens import asked, is_even, judging, labelled, said
from tests.support.lists import table


def judge_that(wrong: Callable[[int], bool], **changes: Any) -> Judge:
    """A judge that says what is so, but for the items that it gets `wrong`."""
    return judging(lambda number: is_even(number) != wrong(number), **changes)


def never(_: int) -> bool:
    return False


def decide(
    judge: Judge,
    rows: list[Feedback],
    against: Judge | None = None,
    judged: Any = (),
    **demands: Any,
) -> GateResult:
    """The gate on the cases that neither judge has met."""
    evaluation = evaluate(judge, rows, against=against, judged=judged)
    return gate(evaluation, **demands)


def tenth(number: int) -> bool:
    return number % 10 == 0


def third(number: int) -> bool:
    return number % 3 == 0


# -- a minimum -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "count", "least", "outcome"),
    [
        (tenth, 200, 0.6, "pass"),
        (tenth, 200, 0.78, "too few cases"),
        (tenth, 200, 0.95, "worse"),
        (never, 60, 0.6, "pass"),
        (never, 4, 0.6, "too few cases"),
        (lambda number: number % 2 == 1, 60, 0.7, "worse"),  # always true
    ],
)
def test_the_whole_interval_must_reach_the_minimum(wrong, count, least, outcome):
    minimum = {"accuracy": least, "kappa": least}
    result = decide(judge_that(wrong), labelled(0, count), minimum=minimum)
    kappa = (f"kappa at least {least}", outcome)
    assert kappa in table(result.criteria, "demand", "outcome")
    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("wrong", "rows", "minimum", "words"),
    [
        (
            tenth,
            labelled(0, 50),
            {"accuracy": 0.85},
            r"about \d+ more cases would settle",
        ),
        (never, labelled(0, 40)[::2], {"kappa": 0.5}, "give no figure"),
    ],
)
def test_too_few_cases_or_labels_are_told(wrong, rows, minimum, words):
    result = decide(judge_that(wrong), rows, minimum=minimum)
    assert result.outcome == "too few cases"
    assert re.search(words, str(result))


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        ({}, "name at least one criterion"),
        ({"minimum": {"f1": 0.5}}, "bool has no 'f1'; it has accuracy"),
        ({"not_worse_than": 5}, "needs a judge to compare with"),
        ({"not_worse_than": 120, "against": True}, "points from 0 to less than 100"),
        ({"minimum": {"kappa": float("nan")}}, "can never reach nan"),
        ({"minimum": {"accuracy": 85}}, "accuracy is at most 1"),
    ],
)
def test_an_impossible_demand_is_wrong_use(demand, message):
    with pytest.raises(InputError, match=message):
        check_criteria(judge_that(never), **{"minimum": {}} | demand)


# -- a baseline ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "count", "outcome"),
    [
        (third, 200, "worse"),
        (lambda number: number % 10 == 1, 600, "pass"),
        (lambda number: number % 10 == 1, 40, "too few cases"),
    ],
)
def test_only_a_worse_judge_is_stopped(wrong, count, outcome):
    base = judge_that(tenth, instructions="Polite, then? {{ outputs }}")
    judge = judge_that(wrong)
    result = decide(judge, labelled(0, count), against=base, not_worse_than=5)
    assert result.outcome == outcome


# -- judgments of a file ---------------------------------------------------------------


SIXTY = labelled(0, 60)
DEMAND: dict[str, Any] = {"minimum": {"kappa": 0.5}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What a judge that is never wrong said of sixty cases."""
    judge_that(never).judge_many(SIXTY, out=tmp_path / "judged.jsonl")
    return tmp_path / "judged.jsonl"


@pytest.mark.parametrize(
    "changes",
    [
        {"instructions": "Kind? {{ outputs }}"},
        {"parameters": {"temperature": 0.5}},
        {"model": ScriptedChatModel(lambda _: {}, name="another")},
        {"memory": Memory(guidelines=(Guideline(id="G1", text="Be kind."),))},
    ],
    ids=list,
)
def test_judgments_of_another_judge_count_for_nothing(file, changes):
    other = judge_that(never).replace(**changes)
    message = "was judged by another judge, or by tone with another model"
    with pytest.raises(InputError, match=message):
        decide(other, SIXTY, judged=file, **DEMAND)


@pytest.mark.parametrize("label", [False, True])
def test_another_name_or_label_asks_no_model(file, label):
    renamed = judge_that(never, name="warmth")
    rows = [said(1, label), *SIXTY[2:]]
    result = decide(renamed, rows, judged=file, **DEMAND)
    assert result.judge == "warmth"
    assert result.outcome == "pass"
    assert asked(renamed) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (labelled(0, 80), "has no judgment for 'h-60' and of 19 others"),
        (
            [Feedback(id="h-3", outputs="item 30", value=True), *SIXTY[4:]],
            "'h-3' has changed since it was",
        ),
    ],
)
def test_a_missing_or_changed_case_is_named(file, rows, message):
    with pytest.raises(InputError, match=message):
        decide(judge_that(never), rows, judged=file, **DEMAND)


def test_each_judge_finds_its_own_file(file, tmp_path):
    judge = judge_that(never)
    base = judge.replace(instructions="Kind? {{ outputs }}")
    base.judge_many(SIXTY, out=tmp_path / "base.jsonl")
    files = [tmp_path / "base.jsonl", file]
    result = decide(judge, SIXTY, base, not_worse_than=50, judged=files)
    assert result.outcome == "pass"
    assert len(asked(judge)) == 60, "which were all for the file"


def test_a_result_is_junit_markdown_and_json():
    base = judge_that(never, instructions="Polite, then? {{ outputs }}")
    judge = judge_that(third)
    odd = Feedback(id="<b>|h-0", outputs="item 0", value=True)
    rows = [odd, *SIXTY[1:]]
    evaluation = evaluate(judge, rows, against=base)
    result = gate(evaluation, minimum={"kappa": 0.3}, not_worse_than=5)
    suite = ET.fromstring(junit_xml(result))[0]
    counts = {"tests": "2", "failures": "1", "skipped": "1"}
    assert counts.items() <= suite.attrib.items()
    assert len(suite.findall("testcase/failure")) == 1
    plain = json.loads(json.dumps(as_json(result)))
    assert plain["outcome"] == "worse"
    assert plain["criteria"][1]["figure"]["high"] < -0.05
    page = as_markdown(report(judge, evaluation))
    assert "- \\<b\\>\\|h-0\n" in page, "nothing from data is markup"
