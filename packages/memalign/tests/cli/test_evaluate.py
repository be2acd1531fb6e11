"""`memalign evaluate`: agreement with people, another model, a gate and a report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, jsonl, missing
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint, bad_request
from tests.support.rows import RawRow


def test_a_version_is_compared_with_another_and_with_another_model(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint
) -> None:
    alone = memalign("evaluate tone held_out.jsonl --against 1", code=0)
    assert not missing(
        alone.out,
        "accuracy",
        "Disagreements",
        "1 of 3 cases were taught and are left out",
    )
    assert (
        "tone version 2 (the second judge) against version 1 (the first)" in alone.out
    )
    for name, begins in (
        ("r.html", "<!doctype html>"),
        ("r.md", "# tone: agreement"),
        ("r.json", "{"),
    ):
        page = memalign("evaluate tone held_out.jsonl --report", name, code=0)
        assert not missing(
            page.out + page.err,
            f"wrote the report to {name}",
            "1 of 3 cases were taught and are left out",
        )
        assert Path(name).read_text("utf-8").startswith(begins)
    asked = len(endpoint.requests)
    ran = memalign(
        "evaluate tone held_out.jsonl --model openai:other --against 2 --json",
        code=0,
    )
    assert {request["model"] for request in endpoint.requests[asked:]} == {
        "test",
        "other",
    }
    assert ran.json["evaluation"]["model"] == "openai:other"
    assert ran.json["base"]["model"] == "openai:test"
    assert (ran.json["comparison"]["fixed"], ran.json["comparison"]["broken"]) == (
        [],
        [],
    )
    assert "openai:other" not in memalign("show tone").out, (
        "the judge keeps its own model"
    )


INSTRUCTIONS = "Is the reply warm?\nReply: {{ outputs }}"


def rows(right: int, wrong: int) -> list[RawRow]:
    """The model behind the endpoint passes every reply."""
    values = [True] * right + [False] * wrong
    return [
        {"id": f"h-{n}", "outputs": f"Reply {n}.", "value": value}
        for n, value in enumerate(values)
    ]


@pytest.fixture
def warm(memalign: Run, endpoint: Endpoint) -> str:
    settings = (
        "--instructions",
        INSTRUCTIONS,
        "--value-type",
        "bool",
        "--model",
        "openai:test",
    )
    memalign("create warm", *settings, code=0)
    return "warm"


def test_every_outcome_of_a_gate_has_its_exit_code(
    memalign: Run, warm: str, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    memalign(
        "evaluate warm",
        cases,
        "--min-accuracy",
        "0.7",
        code=0,
        says="accuracy at least 0.7",
    )
    memalign(
        "evaluate warm",
        cases,
        "--min-accuracy",
        "0.99",
        "--junit",
        tmp_path / "gate.xml",
        code=1,
    )
    assert b"<failure" in (tmp_path / "gate.xml").read_bytes()
    told = memalign("evaluate warm", cases, "--min-accuracy", "0.88", "--json", code=3)
    assert told.json["gate"]["outcome"] == "too few cases"
    assert "more cases would settle it" in told.json["gate"]["criteria"][0]["why"]
    memalign("evaluate warm", cases, code=0)  # no criterion, no gate
    memalign("edit warm --instructions", f"{INSTRUCTIONS} Well?", code=0)
    for model in ((), ("--model", "openai:other")):
        ran = memalign(
            "evaluate warm",
            cases,
            *model,
            "--against",
            "1",
            "--not-worse-than",
            "20",
            "--json",
            code=0,
        )
        assert (
            ran.json["version"],
            ran.json["against"],
            ran.json["gate"]["outcome"],
        ) == (
            2,
            "1",
            "pass",
        )


def test_a_build_reads_judgments_and_needs_no_server(
    memalign: Run,
    warm: str,
    endpoint: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(45, 5))
    memalign("judge warm", cases, "-o", "judged.jsonl", code=0)
    asked = len(endpoint.requests)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    demand = (
        "evaluate",
        warm,
        cases,
        "--min-accuracy",
        "0.7",
        "--judged",
        "judged.jsonl",
    )
    memalign(*demand, "--report", "page.md", code=0, says="no model was called")
    assert len(endpoint.requests) == asked
    memalign("edit warm --instructions", f"{INSTRUCTIONS} Well?", code=0)
    memalign(
        *demand,
        code=2,
        says="was judged by another judge, or by warm with another model, instructions",
    )


def test_a_server_that_answers_nothing_passes_nobody(
    memalign: Run, warm: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(3, 0))
    endpoint.faults = [bad_request("no such thing")] * 20
    memalign(
        "evaluate warm",
        cases,
        "--min-kappa",
        "0.6",
        code=2,
        says="cases have no verdict",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate --not-worse-than -3 --against 1", "points from 0"),
        ("evaluate --not-worse-than 5", "--against N or --against zero-shot"),
        ("evaluate --min-kappa 0.5 --junit nowhere/gate.xml", "a folder that exists"),
        ("evaluate --junit gate.xml", "it needs a criterion"),
        (
            "evaluate --report report.pdf",
            "the name of a report ends in .html, .md, .json",
        ),
        ("evaluate --report nowhere/report.html", "a folder that exists"),
        ("evaluate --against first", "use a version's number, or zero-shot"),
        ("evaluate --judged none.jsonl", "no such file"),
        ("evaluate --promise 95", "a promise is a share above 0 and below 1"),
        ("evaluate --examples cases.jsonl", "it needs --on JUDGED"),
        ("evaluate --on none.jsonl", "no such file"),
        ("judge --ask-below 0.5", "name one: -o OUT.jsonl"),
        ("judge --ask-below 80 -o o.jsonl", "a confidence above 0 and at most 1"),
        ("judge --ask-below 0.8 -o o.jsonl", "this judge's model gives none"),
    ],
)
def test_wrong_use_is_told_before_any_call(
    memalign: Run, warm: str, endpoint: Endpoint, words: str, message: str
) -> None:
    asked = len(endpoint.requests)
    command, *options = words.split()
    cases = jsonl(Path("cases.jsonl"), rows(9, 3))
    memalign(command, warm, cases, *options, code=2, says=message)
    assert len(endpoint.requests) == asked


# -- what the figures are worth; the figures themselves: tests/evaluation/test_traffic.py ---


@pytest.fixture
def sure(memalign: Run) -> Iterator[str]:
    """A judge whose decision model is right, and says so with .95, of all but every
    tenth reply, where it has .6."""

    def decide(state: str, _: str) -> dict[str, float]:
        number = int(re.findall(r"Reply (\d+)", state)[-1])
        passes = number % 2 == 0
        yes = (0.95 if passes else 0.05) if number % 10 else 0.4
        return {"true": yes, "false": 1 - yes}

    with system_one(decide) as server:
        model = f"system-one:m@{server.base_url}"
        settings = (
            "--instructions",
            INSTRUCTIONS,
            "--value-type",
            "bool",
            "--model",
            model,
        )
        memalign("create sure", *settings, code=0)
        yield "sure"


def replies(first: int, last: int, **more: Any) -> list[RawRow]:
    return [
        {"id": f"r-{n}", "outputs": f"Reply {n}.", **more} for n in range(first, last)
    ]


def labelled(last: int) -> list[RawRow]:
    return [row | {"value": n % 2 == 0} for n, row in enumerate(replies(0, last))]


def test_what_may_pass_is_named_judged_and_reviewed(
    memalign: Run, sure: str, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", labelled(200))
    ran = memalign("evaluate sure", cases, "--promise", "0.95", "--plan", code=0)
    assert not missing(
        ran.out,
        "--ask-below 0.7",
        "What may pass without a person",
        "left for people",
        "more labels:",
    )
    told = memalign(
        "evaluate sure", cases, "--promise", "0.95", "--plan", "--json", code=0
    ).json
    assert told["evaluation"]["promise"]["kept"]["at"] == 0.7
    assert told["plan"][0].startswith("With 200 cases agreement is known to ±")
    new = jsonl(tmp_path / "new.jsonl", replies(1_000, 1_040))
    memalign(
        "judge sure",
        new,
        "-o",
        "out.jsonl",
        "--ask-below",
        "0.7",
        code=0,
        says="4 for people",
    )
    lines = [
        json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()
    ]
    assert [line["id"] for line in lines if line["ask"]] == [
        "r-1000",
        "r-1010",
        "r-1020",
        "r-1030",
    ]
    memalign(
        "review sure out.jsonl --examples",
        new,
        "-o",
        "sheet.xlsx",
        code=0,
        says="4 cases in sheet.xlsx",
    )
    memalign(
        "judge sure",
        new,
        "-o",
        "out.jsonl",
        "--ask-below",
        "0.5",
        code=0,
        says="0 for people",
    )
    memalign(
        "review sure out.jsonl --examples",
        new,
        "-o",
        "none.xlsx",
        code=2,
        says="every verdict passed",
    )


def test_traffic_is_corrected_from_the_command_line(
    memalign: Run, sure: str, tmp_path: Path
) -> None:
    traffic = jsonl(tmp_path / "traffic.jsonl", replies(0, 600, system="week 1"))
    memalign("judge sure", traffic, "-o", "judged.jsonl", code=0)
    cases = jsonl(
        tmp_path / "cases.jsonl", [row | {"system": "week 1"} for row in labelled(100)]
    )
    words = (
        "evaluate",
        sure,
        cases,
        "--on",
        "judged.jsonl",
        "--examples",
        traffic,
        "--report",
        "r.html",
    )
    ran = memalign(*words, code=0, says="no model was called")
    said = "week 1: Of 600 judged rows, 40 % are true as the judge says it, and 50 % ["
    assert said in ran.out
    assert said in Path("r.html").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert (
        memalign(*words, "--json", code=0).json["evaluation"]["traffic"][0]["warnings"]
        == []
    )


def test_a_judge_is_asked_again(
    memalign: Run, warm: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    cases = jsonl(tmp_path / "cases.jsonl", rows(5, 2))
    memalign(
        "evaluate warm",
        cases,
        "--repeat",
        "3",
        code=0,
        says="changed its verdict on 0 of 7 cases: 0 %",
    )
    assert len(endpoint.requests) == 21
