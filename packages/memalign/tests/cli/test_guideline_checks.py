"""The checks of a guideline on the command line: seen with what a yes counts for, and set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign import Check
from memalign.cli.guidelines import check_words
from tests.cli.conftest import INSTRUCTIONS, Run, answer, jsonl
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint
from tests.support.registry import judge

SORRY = "Does the reply show sympathy?"


def with_checks(body: dict[str, Any]) -> dict[str, Any]:
    said: Any = answer(body)
    for change in said.get("changes", ()):
        change["checks"] = [{"question": SORRY, "answer": "no"}, {"question": "Cold.", "answer": "yes"}]
    return {**said}


@pytest.fixture
def check_model() -> Iterator[str]:
    """The name of a decision model: questions are distilled for judges that have one."""
    with system_one(lambda *_: 0.8) as server:
        yield f"system-one:m@{server.base_url}"


@pytest.fixture
def checked(memalign: Run, check_model: str, endpoint: Endpoint, feedback: Path) -> str:
    """A judge after it learned guidelines with a check: version 2."""
    endpoint.answer = with_checks
    settings = ("--instructions", INSTRUCTIONS, "--value-type", "bool", "--model", "openai:test")
    assert memalign("create", "tone", *settings, "--check-model", check_model).code == 0
    learned = memalign("align", "tone", feedback)
    assert learned.code == 0, learned.err
    assert "Their checks" in learned.out
    return "tone"


def test_a_judge_without_a_decision_model_learns_no_checks(
    memalign: Run, tone: str, endpoint: Endpoint, feedback: Path
) -> None:
    endpoint.answer = with_checks
    learned = memalign("align", tone, feedback)
    assert learned.code == 0, learned.err
    assert SORRY not in learned.out + memalign("guideline", tone, "G1").out
    assert "# Questions" not in endpoint.systems[0]


def test_checks_are_listed_with_the_labels_they_support(memalign: Run, checked: str) -> None:
    # ana said of t-1 (false) and of t-2 (true) that the answer is no.
    assert f"{SORRY} A yes counts for true." in memalign("guideline", checked, "G1").out
    assert f"{SORRY} A yes counts for false." in memalign("guideline", checked, "G2").out
    for listed in (memalign("guideline", checked).out, memalign("show", checked).out):
        lines = [" ".join(line.split()) for line in listed.splitlines() if SORRY in line]
        assert lines == [f"G1 {SORRY} for true", f"G2 {SORRY} for false"]
    given = memalign("show", checked, "--json").json["guidelines"][0]["checks"]
    assert given == [{"question": SORRY, "answer": "no", "value": False, "test": None}]


def test_a_person_sets_checks(memalign: Run, checked: str) -> None:
    one = memalign("guideline", checked, "G1", "--check", "Is it cold? yes false", "--by", "cleo")
    assert one.code == 0
    assert "Is it cold? A yes counts for false." in one.out
    two = memalign(
        *("guideline", checked, "G1", "--check", "Is it cold? no true", "--check", f"{SORRY} yes true", "--json"),
    )
    assert two.json["guidelines"][0]["checks"] == [
        {"question": "Is it cold?", "answer": "no", "value": True, "test": None},
        {"question": SORRY, "answer": "yes", "value": True, "test": None},
    ]
    assert "~ G1 " in memalign("diff", checked, "3", "4").out
    written = memalign("guideline", checked, "--add", "Be brief.", "--check", "Is it brief?")
    assert "Is it brief? A yes counts as the labels show." in written.out
    away = memalign("guideline", checked, "G1", "--check", "")
    assert "check " not in away.out


def test_another_text_reports_the_checks_it_drops(memalign: Run, checked: str) -> None:
    reworded = memalign("guideline", checked, "G1", "--text", "Be kind first.")
    assert "1 check of the old text dropped; to write new ones: --check" in reworded.out
    assert SORRY not in reworded.out
    both = memalign("guideline", checked, "G2", "--text", "Be kind first.", "--check", "Is it kind?")
    assert "of the old text dropped" not in both.out
    assert "of the old text dropped" not in memalign("guideline", checked, "G2", "--pin").out


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("G1", "--check", "Be kind."), "'Be kind.' cannot be a check: it does not end with a question mark"),
        (("G1", "--check", f"{SORRY} yes maybe"), "the label of a check: value 'maybe' is not allowed"),
        (("G1", "--check", f"{SORRY} perhaps"), "after the question comes yes or no"),
        (("--check", SORRY), "name the guideline to change"),
        (("--add", "Be kind.", "--check", "Be kind."), "cannot be a check"),
    ],
)
def test_an_impossible_check_is_refused_without_change(
    memalign: Run, checked: str, options: tuple[str, ...], named: str
) -> None:
    wrong = memalign("guideline", checked, *options)
    assert wrong.code == 2
    assert named in wrong.err
    assert memalign("show", checked, "--json").json["version"] == 2


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (Check(question=SORRY, value=False), "for false"),
        (Check(question=SORRY, answer="no", value=False), "for true"),
        (Check(question=SORRY, value=4), "for 4"),
        (Check(question=SORRY, answer="no", value="good"), "against good"),
        (Check(question=SORRY), "as the labels show"),
    ],
)
def test_what_a_yes_speaks_for_has_words(check: Check, words: str) -> None:
    assert check_words(check, judge()) == words


def test_a_yes_speaks_for_or_against_a_side(
    memalign: Run, check_model: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    def pairs(body: dict[str, Any]) -> dict[str, Any]:
        said = with_checks(body)
        return said if "changes" in said else {"rationale": "Longer.", "value": "A"}

    endpoint.answer = pairs
    settings = ("--instructions", "Better? {{ outputs }}", "--value-type", "A|B", "--model", "openai:test")
    memalign("create", "pairs", *settings, "--check-model", check_model)
    row = {"id": "p-1", "outputs": {"A": "x", "B": "y"}, "value": "B", "rationale": "Warm.", "source": "ana"}
    assert memalign("align", "pairs", jsonl(tmp_path / "pairs.jsonl", [row])).code == 0
    assert f"{SORRY} A yes counts against a side." in memalign("guideline", "pairs", "G1").out
    refused = memalign("guideline", "pairs", "G1", "--check", f"{SORRY} yes B")
    assert refused.code == 2
    assert "give no label" in refused.err
