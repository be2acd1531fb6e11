"""`memalign evaluate`: agreement with people, another model, a gate and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, jsonl, missing
from tests.support.endpoint import Endpoint, bad_request


def test_a_version_is_compared_with_another_and_with_another_model(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint
) -> None:
    alone = memalign("evaluate", aligned, held_out, "--against", "1", code=0)
    assert not missing(alone.out, "accuracy", "Disagreements", "1 of 3 cases were taught and are left out")
    assert "tone version 2 (the second judge) against version 1 (the first)" in alone.out
    for name, begins in (("r.html", "<!doctype html>"), ("r.md", "# tone: agreement"), ("r.json", "{")):
        page = memalign("evaluate", aligned, held_out, "--report", name, code=0)
        assert not missing(
            page.out + page.err, f"wrote the report to {name}", "1 of 3 cases were taught and are left out"
        )
        assert Path(name).read_text("utf-8").startswith(begins)
    asked = len(endpoint.requests)
    ran = memalign("evaluate", aligned, held_out, "--model", "openai:other", "--against", "2", "--json", code=0)
    assert {request["model"] for request in endpoint.requests[asked:]} == {"test", "other"}
    assert ran.json["evaluation"]["model"] == "openai:other"
    assert ran.json["base"]["model"] == "openai:test"
    assert (ran.json["comparison"]["fixed"], ran.json["comparison"]["broken"]) == ([], [])
    assert "openai:other" not in memalign("show", aligned).out, "the judge keeps its own model"


INSTRUCTIONS = "Is the reply warm?\nReply: {{ outputs }}"


def rows(right: int, wrong: int) -> list[dict[str, Any]]:
    """The model behind the endpoint passes every reply."""
    values = [True] * right + [False] * wrong
    return [{"id": f"h-{n}", "outputs": f"Reply {n}.", "value": value} for n, value in enumerate(values)]


@pytest.fixture
def warm(memalign: Run, endpoint: Endpoint) -> str:
    settings = ("--instructions", INSTRUCTIONS, "--value-type", "bool", "--model", "openai:test")
    memalign("create", "warm", *settings, code=0)
    return "warm"


def test_every_outcome_of_a_gate_has_its_exit_code(memalign: Run, warm: str, tmp_path: Path) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    memalign("evaluate", warm, cases, "--min-accuracy", "0.7", code=0, says="accuracy at least 0.7")
    memalign("evaluate", warm, cases, "--min-accuracy", "0.99", "--junit", tmp_path / "gate.xml", code=1)
    assert b"<failure" in (tmp_path / "gate.xml").read_bytes()
    told = memalign("evaluate", warm, cases, "--min-accuracy", "0.88", "--json", code=3)
    assert told.json["gate"]["outcome"] == "too few cases"
    assert "more cases would settle it" in told.json["gate"]["criteria"][0]["why"]
    memalign("evaluate", warm, cases, code=0)  # no criterion, no gate
    memalign("edit", warm, "--instructions", f"{INSTRUCTIONS} Well?", code=0)
    for model in ((), ("--model", "openai:other")):
        ran = memalign("evaluate", warm, cases, *model, "--against", "1", "--not-worse-than", "20", "--json", code=0)
        assert (ran.json["version"], ran.json["against"], ran.json["gate"]["outcome"]) == (2, "1", "pass")


def test_a_build_reads_judgments_and_needs_no_server(
    memalign: Run, warm: str, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    memalign("judge", warm, cases, "-o", "judged.jsonl", code=0)
    asked = len(endpoint.requests)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    demand = ("evaluate", warm, cases, "--min-accuracy", "0.7", "--judged", "judged.jsonl")
    memalign(*demand, "--report", "page.md", code=0, says="no model was called")
    assert len(endpoint.requests) == asked
    memalign("edit", warm, "--instructions", f"{INSTRUCTIONS} Well?", code=0)
    memalign(*demand, code=2, says="was judged by another judge, or by warm with another model, instructions")


def test_a_server_that_answers_nothing_passes_nobody(
    memalign: Run, warm: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(3, 0))
    endpoint.faults = [bad_request("no such thing")] * 20
    memalign("evaluate", warm, cases, "--min-kappa", "0.6", code=2, says="cases have no verdict")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--not-worse-than", "-3", "--against", "1"), "points from 0"),
        (("--not-worse-than", "5"), "--against N or --against zero-shot"),
        (("--min-kappa", "0.5", "--junit", "nowhere/gate.xml"), "a folder that exists"),
        (("--junit", "gate.xml"), "it needs a criterion"),
        (("--report", "report.pdf"), "the name of a report ends in .html, .md, .json"),
        (("--report", "nowhere/report.html"), "a folder that exists"),
        (("--against", "first"), "use a version's number, or zero-shot"),
        (("--judged", "none.jsonl"), "no such file"),
    ],
)
def test_wrong_use_is_told_before_any_call(
    memalign: Run, warm: str, endpoint: Endpoint, options: tuple[str, ...], message: str
) -> None:
    asked = len(endpoint.requests)
    memalign("evaluate", warm, jsonl(Path("cases.jsonl"), rows(9, 3)), *options, code=2, says=message)
    assert len(endpoint.requests) == asked
