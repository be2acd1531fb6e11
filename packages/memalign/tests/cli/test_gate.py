"""`memalign gate`: what a build sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, jsonl
from tests.support.endpoint import Endpoint, bad_request

INSTRUCTIONS = "Is the reply warm?\nReply: {{ outputs }}"


def rows(right: int, wrong: int) -> list[dict[str, Any]]:
    """The model behind the endpoint passes every reply."""
    values = [True] * right + [False] * wrong
    return [{"id": f"h-{n}", "outputs": f"Reply {n}.", "value": value} for n, value in enumerate(values)]


@pytest.fixture
def tone(memalign: Run, endpoint: Endpoint) -> str:
    del endpoint
    settings = ("--instructions", INSTRUCTIONS, "--value-type", "bool", "--model", "openai:test")
    assert memalign("create", "tone", *settings).code == 0
    return "tone"


def test_each_outcome_has_its_exit_code(memalign: Run, tone: str, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    passed = memalign("gate", tone, cases, "--min", "exact-match=0.7")
    assert passed.code == 0
    assert "exact match at least 0.7" in passed.out
    assert memalign("gate", tone, cases, "--min", "exact_match=0.99").code == 1
    told = memalign("gate", tone, cases, "--min", "exact_match=0.88")
    assert told.code == 3
    assert "cases more would settle it" in told.out
    assert memalign("gate", tone, cases, "--min", "exact_match=0.88", "--inconclusive", "pass").code == 0
    assert memalign("gate", tone, cases, "--min", "exact_match=0.88", "--inconclusive", "fail").code == 1


def test_a_new_version_is_compared_with_the_last(memalign: Run, tone: str, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(90, 10))
    alone = memalign("gate", tone, cases, "--not-worse-than", "5")
    assert alone.code == 2
    assert "tone has no version before 1" in alone.err
    assert memalign("edit", tone, "--instructions", f"{INSTRUCTIONS} Well?").code == 0
    found = memalign("gate", tone, cases, "--not-worse-than", "5", "--json")
    assert found.code == 0, found.err
    assert (found.json["version"], found.json["baseline"], found.json["outcome"]) == (2, 1, "pass")


def test_evidence_is_kept_and_needs_no_server(memalign: Run, tone: str, endpoint: Endpoint, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    demand = ("gate", tone, cases, "--min", "exact_match=0.7", "--evidence", tmp_path / "evidence")
    nothing = memalign(*demand, "--offline")
    assert nothing.code == 2
    assert "has no evidence on tone; measure it again without --offline" in nothing.err
    first = memalign(*demand)
    assert first.code == 0
    assert "50 calls" in first.out
    asked = len(endpoint.requests)
    offline = memalign(*demand, "--offline")
    assert offline.code == 0
    assert "no model was asked" in offline.out
    assert "no model was asked" in memalign(*demand).out
    assert len(endpoint.requests) == asked
    assert memalign("edit", tone, "--instructions", f"{INSTRUCTIONS} Well?").code == 0
    stale = memalign(*demand, "--offline")
    assert stale.code == 2
    assert "is stale: the instructions changed" in stale.err


def test_a_server_that_answers_nothing_is_missing_evidence(
    memalign: Run, tone: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(3, 0))
    endpoint.faults = [bad_request("no such thing")] * 20
    ran = memalign("gate", tone, cases, "--min-kappa", "0.6")
    assert ran.code == 2
    assert "cases have no verdict" in ran.err
    assert "Run it again" in ran.err


def test_the_build_page_and_test_report_are_written(memalign: Run, tone: str, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    page = tmp_path / "page.md"
    page.write_text("# The build\n", "utf-8")
    files = ("--junit", tmp_path / "gate.xml", "--summary", page)
    assert memalign("gate", tone, cases, "--min", "exact_match=0.99", *files).code == 1
    assert b"<failure" in (tmp_path / "gate.xml").read_bytes()
    assert page.read_text("utf-8").startswith("# The build\n### memalign gate: tone: ❌ regression")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file on which every write fails")
def test_a_full_disk_loses_no_paid_result(memalign: Run, tone: str, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    ran = memalign("gate", tone, cases, "--min", "exact_match=0.7", "--junit", "/dev/full")
    assert ran.code == 2
    assert "cannot be written" in ran.err
    assert "exact match at least 0.7" in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing is demanded"),
        (("--min", "exact_match"), "give a metric and a number"),
        (("--min-kappa", "0.5", "--min", "kappa=0.1"), "kappa is demanded twice"),
        (("--min", "f1=0.5"), "bool has no 'f1'"),
        (("--baseline", "1"), "--baseline needs --not-worse-than"),
        (("--min-kappa", "0.5", "--junit", "nowhere/gate.xml"), "cannot be written: there is no folder"),
        (("--min-kappa", "0.5", "--summary", "."), "cannot be written: it is a folder"),
        (("--min-kappa", "0.5", "--offline"), "offline needs a folder of evidence"),
        (("--not-worse-than", "-3", "--baseline", "1"), "points from 0"),
    ],
)
def test_wrong_use_is_told_before_any_call(
    memalign: Run, tone: str, endpoint: Endpoint, options: tuple[str, ...], message: str
) -> None:
    asked = len(endpoint.requests)
    ran = memalign("gate", tone, jsonl(Path("cases.jsonl"), rows(9, 3)), *options)
    assert ran.code == 2
    assert message in ran.err
    assert len(endpoint.requests) == asked
