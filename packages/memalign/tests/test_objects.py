"""Values at hand: as JSON, in a web application, in a notebook, in an interpreter, in an
editor."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

from memalign import (
    Example,
    Feedback,
    Finding,
    Guideline,
    Judge,
    Judgment,
    Usage,
    errors,
    evaluate,
)
from memalign.io.rows import Line
from memalign.types import CodeTest, FeedbackKey
from tests.support.rows import RawRow
from tests.support.scripted import Teacher, change, scripted

SPITE = '<script>alert("x")</script>'
JUDGMENT = Judgment(
    id="t-1",
    value=True,
    rationale=f"Warm. {SPITE}",
    confidence=0.93,
    findings=(
        Finding(
            guideline="G1",
            test="The reply has 5 words",
            holds=True,
            taught_by=(FeedbackKey("t-1", "ana"),),
        ),
        Finding(guideline="G2", probability=0.25),
    ),
    guideline_ids=("G1",),
    model="openai:m",
    usage=Usage(calls=1, cost=None),
)


def judge(**changes: Any) -> Judge:
    teacher = Teacher([change("ADD", "F1", text="Say sorry before facts.")])
    return scripted(
        teacher, instructions="Is the reply warm?\n{{ outputs }}", **changes
    )[0]


def rows(count: int = 3, name: str = "t") -> list[RawRow]:
    said = {"value": False, "rationale": "Cold.", "source": "ana"}
    found = []
    for n in range(count):
        found.append({"id": f"{name}-{n}", "outputs": f"{name} {n} {SPITE}"} | said)
    return found


def items(count: int) -> list[RawRow]:
    return [{"id": f"{SPITE}{n}", "outputs": f"reply {n}"} for n in range(count)]


# -- as JSON ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        JUDGMENT,
        Example(id="t", inputs={"a": [1, None]}, meta={"group": "g"}),
        Feedback(id="t", outputs="x", value=0.5, source="ana"),
        Guideline(
            id="G1",
            text="Be kind.",
            supported_by=(FeedbackKey("t", "ana"),),
            tests=(CodeTest(kind="word", text="kind"),),
        ),
    ],
)
def test_a_value_becomes_json_and_comes_back(value):
    plain = json.loads(json.dumps(value.to_dict()))
    assert type(value).from_dict(plain) == value


def test_a_judgment_is_a_dictionary_of_its_fields():
    fields = dict(JUDGMENT)
    assert fields == JUDGMENT.to_dict()
    assert fields["value"] is True
    assert fields["findings"][0]["taught_by"] == [["t-1", "ana"]]


def test_pydantic_and_others_can_read_the_types_of_a_judge():
    assert get_type_hints(Judge).keys() == {setting.name for setting in fields(Judge)}


# -- in a notebook ---------------------------------------------------------------------


ERRORS = [
    errors.InvalidRows(
        "f.csv",
        [errors.RowError(line=Line.of(9, 2, "a.jsonl"), reason="no id", id="t")],
        "Fix it.",
    ),
    errors.RateLimited("slow down", usage=Usage(calls=3), denied=True),
    errors.InvalidValue("value 'x' is not allowed"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_whole_out_of_another_process(error: Exception) -> None:
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(made) is type(error)
        assert str(made) == str(error)
        assert made.__dict__ == error.__dict__


JUDGE = (
    "Judge(name='tone', feedback_value_type='bool', model='scripted', "
    "instructions='Is the"
)


def test_a_repr_is_a_few_lines():
    one = judge(parameters={"temperature": 0.5})
    result = one.align(rows(40))
    starts: list[tuple[Any, str]] = [
        (one, JUDGE),
        (result, ""),
        (result.judge, JUDGE),
        (result.judge.memory, "<Memory: "),
        (result.guidelines[0], "<Guideline G1: Say sorry before facts. (t-0@ana"),
        (JUDGMENT, "Judgment(id='t-1', value=True, confidence=0.93, rationale='Warm."),
        (evaluate(one, rows(30)), ""),
    ]
    for value, start in starts:
        assert repr(value).startswith(start)
        assert len(repr(value)) < 1_500, type(value)
    assert "40 cases" in repr(result.judge)
    assert "new G1" in repr(result)
    learned = "G1: Say sorry before facts. (t-0@ana"
    assert learned in repr(result), "what it learned, not only that it did"


def test_a_repr_of_text_without_spaces_is_cut_too():
    unspaced = judge().replace(instructions="回答" * 60 + "{{ outputs }}")
    assert "回答" in repr(unspaced)


@pytest.mark.parametrize("what", ["judgments", "align", "evaluation", "comparison"])
def test_what_a_run_gave_is_readable_in_a_terminal_and_in_a_notebook(what):
    value, words = shown_after_a_run()[what]
    assert words in repr(value)
    assert repr(value) == str(value)
    page = value._repr_html_()
    assert words.split(":")[0] in page
    assert "<script>" not in page


def shown_after_a_run() -> dict[str, tuple[Any, str]]:
    """Return what each step gives, and words that it shows."""
    one = judge()
    result = one.align(rows(3))
    both = evaluate(result.judge, rows(30, "new"), against=one)
    return {
        "judgments": (one.judge_many(items(40)), "40 judgments: 40 true, 40 calls"),
        "align": (result, "G1: Say sorry before facts."),
        "evaluation": (both, "the other judge:"),
        "comparison": (
            both.comparison,
            "no clear difference, n = 30 cases scored by both",
        ),
    }


def test_two_judges_stand_in_one_table():
    both, _ = shown_after_a_run()["evaluation"]
    table = both._repr_html_().partition("<table>")[2]
    assert re.search("the other judge.*this judge.*accuracy", table, re.DOTALL)
    assert str(both).count("accuracy") == 3, "of both judges, and of their difference"


def test_many_judgments_are_summed_up_and_cut():
    one = judge()
    judgments = one.judge_many(items(40))
    assert judgments.usage == sum((each.usage for each in judgments), Usage())
    assert judgments.usage.calls == 40
    assert repr(judgments).endswith("… and 30 more")
    assert repr(one.judge_many([])) == "0 judgments: 0 calls, $0"


def test_a_notebook_shows_progress_without_asking(monkeypatch):
    pictures: list[str] = []
    picture = SimpleNamespace(
        update=lambda data, raw: pictures.append(data["text/plain"])
    )
    shown = SimpleNamespace(display=lambda data, raw, display_id: picture)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    one = judge()
    many = items(500)
    for kernel in (None, "a kernel"):
        assert not pictures, "a terminal's IPython has no kernel"
        shell = SimpleNamespace(kernel=kernel)
        monkeypatch.setitem(
            sys.modules,
            "IPython",
            SimpleNamespace(get_ipython=lambda shell=shell: shell),
        )
        one.judge_many(many)
    assert pictures[-1] == "judge: 500 of 500"
    assert len(pictures) < 250, "it is drawn now and then"
    one.align(rows(2))
    assert "distil" in pictures[-1]
    before = len(pictures)
    one.judge_many(many, progress=lambda *_: None)
    assert len(pictures) == before


# -- as a condition --------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        lambda one: "sent" if one else "held back",
        lambda one: not one,
        lambda one: one and "sent",
        lambda one: list(filter(None, [one])),
        lambda one: all([one, one]),
    ],
)
@pytest.mark.parametrize(
    "judgment", [JUDGMENT, Judgment(value=False), Judgment(error="timed out")]
)
def test_a_judgment_is_no_condition(judgment, condition):
    """Else `assert judge(…)` passes whatever the judge says."""
    with pytest.raises(TypeError, match=r"use \.value"):
        condition(judgment)
