"""The pytest plugin, in a real pytest of its own, against a server on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from memalign import Judge, Registry
from memalign.integrations.pytest_plugin import RecordedJudge
from memalign.testing import ScriptedChatModel
from tests.support.endpoint import Answer, Endpoint, user_of
from tests.support.patience import PATIENCE

TESTS = """
import pytest

@pytest.mark.memalign(judge="tone", cases="cases.jsonl")
def test_replies_are_warm(memalign_case, assert_judged):
    assert_judged(inputs=memalign_case.inputs, outputs=memalign_case.outputs)

@pytest.mark.memalign("tone")
def test_most_are(assert_judged):
    replies = ["So sorry!", "Thanks a lot!", "See the terms."]
    assert_judged(of=[{"inputs": "Late.", "outputs": each} for each in replies], at_least=0.6)

def test_the_label_is_there(memalign_judge):
    judge = memalign_judge("tone")
    judge.assert_judged({"inputs": "Late.", "outputs": "See the terms."}, expected=False)
    assert judge(inputs="Late.", outputs="So sorry!").value is True
"""

Run = Callable[..., "Ran"]


class Ran:
    def __init__(self, ended: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out = ended.returncode, ended.stdout + ended.stderr


def answer(body: dict[str, Any]) -> Answer:
    said = user_of(body)
    return {"rationale": "Terms are cold.", "value": "the terms" not in said}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.fixture
def suite(tmp_path: Path, endpoint: Endpoint) -> Run:
    """A folder with tests, cases and a registry; calling it runs pytest there."""
    del endpoint
    judge = Judge(
        name="tone",
        instructions="Warm? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model="openai:test",
    )
    Registry(f"sqlite:///{tmp_path / 'memalign.db'}").save(judge)
    rows = [
        {"id": "c-1", "inputs": "Late.", "outputs": "So sorry!", "value": True},
        {"id": "c-2", "inputs": "Late.", "outputs": "See the terms.", "value": False},
    ]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    (tmp_path / "test_replies.py").write_text(TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")

    def run(*options: str) -> Ran:
        command = [sys.executable, "-m", "pytest", "-p", "memalign.integrations.pytest_plugin", *options]
        settings = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "160"}
        settings.pop("MEMALIGN_REGISTRY", None)
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=settings, timeout=PATIENCE
        )
        return Ran(ended)

    return run


def test_an_unchanged_suite_asks_nothing(suite: Run, endpoint: Endpoint) -> None:
    first = suite("--junitxml", "results.xml", "-q")
    assert first.code == 1, first.out
    assert "test_replies_are_warm[c-2]" in first.out
    assert "tone: it did not pass\njudged false: Terms are cold." in first.out
    assert re.search(r"1 failed, 3 passed", first.out)
    asked = len(endpoint.requests)
    assert asked == 3, "the same content is asked about once"
    again = suite("-q")
    assert re.search(r"1 failed, 3 passed", again.out)
    assert len(endpoint.requests) == asked


def test_the_build_report_names_judge_and_share(suite: Run, tmp_path: Path) -> None:
    suite("--junitxml", "results.xml")
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "results.xml").iter("testcase")}
    told = {each.get("name"): each.get("value") for each in cases["test_most_are"].iter("property")}
    assert told == {"memalign_judge": "tone", "memalign_passed": "2 of 3"}


def test_workers_share_the_verdicts(suite: Run, endpoint: Endpoint) -> None:
    assert "1 failed, 3 passed" in suite("-p", "xdist", "-n", "2").out
    asked = len(endpoint.requests)
    assert "1 failed, 3 passed" in suite("-p", "xdist", "-n", "2").out
    assert len(endpoint.requests) == asked


def test_offline_lives_from_recorded_verdicts(suite: Run, endpoint: Endpoint) -> None:
    nothing = suite("--memalign-offline", "--memalign-verdicts", "verdicts", "-q")
    assert "run once without --memalign-offline" in nothing.out
    assert not endpoint.requests
    suite("--memalign-verdicts", "verdicts")
    asked = len(endpoint.requests)
    assert "1 failed, 3 passed" in suite("--memalign-offline", "--memalign-verdicts", "verdicts").out
    assert len(endpoint.requests) == asked


def test_a_bundle_needs_no_registry(suite: Run, tmp_path: Path) -> None:
    Registry(f"sqlite:///{tmp_path / 'memalign.db'}").export("tone", tmp_path / "tone.json")
    (tmp_path / "memalign.db").unlink()
    (tmp_path / "test_replies.py").write_text(TESTS.replace('"tone"', '"tone.json"'), "utf-8")
    ran = suite()
    assert "1 failed, 3 passed" in ran.out, ran.out
    (tmp_path / "tone.json").write_text("{}", "utf-8")
    assert "tone.json is not a judge's bundle" in suite().out


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def test_x(assert_judged): pass", "assert_judged needs @pytest.mark.memalign(judge="),
        ("def test_x(memalign_case): pass", "memalign_case needs @pytest.mark.memalign(cases="),
        ('@pytest.mark.memalign(judge="tone", cases="no.jsonl")\ndef test_x(memalign_case): pass', "no.jsonl"),
        ('@pytest.mark.memalign("nobody")\ndef test_x(assert_judged): assert_judged(outputs="x")', "no judge"),
        ('@pytest.mark.memalign("tone")\ndef test_x(assert_judged): assert_judged(of=[])', "`of` has no item"),
        (
            '@pytest.mark.memalign("tone")\ndef test_x(assert_judged): assert_judged(inputs="a", outputs="b", repeats=2)',
            "odd",
        ),
    ],
)
def test_wrong_use_is_said_in_a_sentence(suite: Run, tmp_path: Path, test: str, message: str) -> None:
    (tmp_path / "test_replies.py").write_text(f"import pytest\n\n{test}\n", "utf-8")
    ran = suite("-q")
    assert ran.code != 0
    assert message in ran.out


class TestRepeats:
    @staticmethod
    def judge(values: list[bool], tmp_path: Path) -> tuple[RecordedJudge, ScriptedChatModel]:
        model = ScriptedChatModel([{"rationale": "", "value": value} for value in values])
        judge = Judge(name="tone", instructions="Warm? {{ outputs }}", feedback_value_type=bool, model=model)
        return RecordedJudge(judge, tmp_path), model

    def test_failures_are_judged_again_and_the_majority_counts(self, tmp_path: Path) -> None:
        judge, model = self.judge([False, True, True], tmp_path)
        judge.assert_judged(outputs="Hm.", repeats=3)
        assert len(model.requests) == 3
        judge.assert_judged(outputs="Hm.", repeats=3)
        assert len(model.requests) == 3

    def test_a_majority_against_it_fails(self, tmp_path: Path) -> None:
        judge, _ = self.judge([False, True, False], tmp_path)
        with pytest.raises(pytest.fail.Exception, match="judged false in 2 of 3 judgments"):
            judge.assert_judged(outputs="Hm.", repeats=3)

    def test_a_verdict_of_another_judge_is_not_taken(self, tmp_path: Path) -> None:
        judge, _ = self.judge([True], tmp_path)
        judge.assert_judged(outputs="Hm.")
        other = RecordedJudge(judge.judge.replace(instructions="Kind? {{ outputs }}"), tmp_path, offline=True)
        with pytest.raises(pytest.fail.Exception, match="no verdict of tone"):
            other.assert_judged(outputs="Hm.")


def test_a_case_without_a_label_is_a_case(suite: Run, tmp_path: Path) -> None:
    rows = [{"id": "a [1]/::", "outputs": "So sorry!"}, {"id": "b", "outputs": "Thanks!", "value": True}]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    (tmp_path / "test_replies.py").write_text(
        """
import pytest

@pytest.mark.memalign("tone", cases="cases.jsonl")
class TestReplies:
    @pytest.mark.parametrize("greeting", ["Hi.", "Hello."])
    def test_warm(self, greeting, memalign_case, assert_judged):
        assert memalign_case.value in (None, True)
        assert_judged(memalign_case, inputs=greeting)
""",
        "utf-8",
    )
    ran = suite()
    assert "4 passed" in ran.out, ran.out


def test_without_pytests_cache_a_folder_is_asked_for(suite: Run) -> None:
    ran = suite("-p", "no:cacheprovider")
    assert "verdicts need a folder: --memalign-verdicts DIR" in ran.out
