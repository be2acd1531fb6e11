"""`memalign evaluate`: agreement with people, another model, a gate and a report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, creating, jsonl, missing, read_jsonl
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint, bad_request
from tests.support.rows import RawRow


def test_a_version_is_compared_with_another_and_with_another_model(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint
) -> None:
    left_out = "1 of 3 cases were taught and are left out"
    alone = memalign("evaluate tone held_out.jsonl --against 1", code=0)
    assert not missing(
        alone.out,
        "accuracy",
        "Disagreements",
        left_out,
        "tone version 2 (the second judge) against version 1 (the first)",
    )
    for name, begins in (
        ("r.html", "<!doctype html>"),
        ("r.md", "# tone: agreement"),
        ("r.json", "{"),
    ):
        page = memalign("evaluate tone held_out.jsonl --report", name, code=0)
        assert not missing(page.out + page.err, f"wrote the report to {name}", left_out)
        assert Path(name).read_text("utf-8").startswith(begins)
    asked = len(endpoint.requests)
    ran = memalign(
        "evaluate tone held_out.jsonl --model openai:other --against 2 --json", code=0
    ).json
    models = {request["model"] for request in endpoint.requests[asked:]}
    assert models == {"test", "other"}
    assert ran["evaluation"]["model"] == "openai:other"
    assert ran["base"]["model"] == "openai:test"
    assert ran["comparison"]["fixed"] == ran["comparison"]["broken"] == []
    # The judge keeps its own model.
    assert "openai:other" not in memalign("show tone").out


INSTRUCTIONS = "Is the reply warm?\nReply: {{ outputs }}"


def replies(first: int, last: int, **more: Any) -> list[RawRow]:
    return [
        {"id": f"r-{n}", "outputs": f"Reply {n}.", **more} for n in range(first, last)
    ]


def rows(right: int, wrong: int) -> list[RawRow]:
    """The model behind the endpoint passes every reply."""
    last = right + wrong
    return replies(0, right, value=True) + replies(right, last, value=False)


@pytest.fixture
def warm(memalign: Run, endpoint: Endpoint) -> str:
    memalign(*creating("warm", instructions=INSTRUCTIONS), code=0)
    return "warm"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "cases.jsonl", rows(45, 5))


def test_every_outcome_of_a_gate_has_its_exit_code(
    memalign: Run, warm: str, cases: Path, tmp_path: Path
) -> None:
    gate = "evaluate warm cases.jsonl"
    memalign(f"{gate} --min-accuracy 0.7", code=0, says="accuracy at least 0.7")
    memalign(f"{gate} --min-accuracy 0.99 --junit gate.xml", code=1)
    assert b"<failure" in (tmp_path / "gate.xml").read_bytes()
    told = memalign(f"{gate} --min-accuracy 0.88 --json", code=3).json["gate"]
    assert told["outcome"] == "too few cases"
    assert "more cases would settle it" in told["criteria"][0]["why"]
    memalign(gate, code=0)  # no criterion, no gate
    memalign("edit warm --instructions", f"{INSTRUCTIONS} Well?", code=0)
    gate += " --against 1 --not-worse-than 20 --json"
    for command in (gate, f"{gate} --model openai:other"):
        ran = memalign(command, code=0).json
        assert (ran["version"], ran["against"]) == (2, "1")
        assert ran["gate"]["outcome"] == "pass"


def test_a_build_reads_judgments_and_needs_no_server(
    memalign: Run,
    warm: str,
    cases: Path,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memalign("judge warm cases.jsonl -o judged.jsonl", code=0)
    asked = len(endpoint.requests)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    demand = "evaluate warm cases.jsonl --min-accuracy 0.7 --judged judged.jsonl"
    memalign(f"{demand} --report page.md", code=0, says="no model was called")
    assert len(endpoint.requests) == asked
    memalign("edit warm --instructions", f"{INSTRUCTIONS} Well?", code=0)
    other = "was judged by another judge, or by warm with another model, instructions"
    memalign(demand, code=2, says=other)


def test_a_server_that_answers_nothing_passes_nobody(
    memalign: Run, warm: str, cases: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = bad_request("no such thing")
    gate = "evaluate warm cases.jsonl --min-kappa 0.6"
    memalign(gate, code=2, says="cases have no verdict")


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
    memalign: Run,
    warm: str,
    cases: Path,
    endpoint: Endpoint,
    words: str,
    message: str,
) -> None:
    asked = len(endpoint.requests)
    command, options = words.split(" ", 1)
    memalign(f"{command} warm cases.jsonl {options}", code=2, says=message)
    assert len(endpoint.requests) == asked


# -- what the figures are worth; the figures: tests/evaluation/test_traffic.py ---------


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
        memalign(*creating("sure", instructions=INSTRUCTIONS, model=model), code=0)
        yield "sure"


def labelled(last: int, **more: Any) -> list[RawRow]:
    found = replies(0, last, **more)
    for n, row in enumerate(found):
        row["value"] = n % 2 == 0
    return found


def test_what_may_pass_is_named_judged_and_reviewed(
    memalign: Run, sure: str, tmp_path: Path
) -> None:
    jsonl(tmp_path / "cases.jsonl", labelled(200))
    ask = "evaluate sure cases.jsonl --promise 0.95 --plan"
    assert not missing(
        memalign(ask, code=0).out,
        "--ask-below 0.7",
        "What may pass without a person",
        "left for people",
        "more labels:",
    )
    told = memalign(f"{ask} --json", code=0).json
    assert told["evaluation"]["promise"]["kept"]["at"] == 0.7
    assert told["plan"][0].startswith("With 200 cases agreement is known to ±")
    jsonl(tmp_path / "new.jsonl", replies(1_000, 1_040))
    judge = "judge sure new.jsonl -o out.jsonl --ask-below"
    review = "review sure out.jsonl --examples new.jsonl -o"
    memalign(f"{judge} 0.7", code=0, says="4 for people")
    asked = [line["id"] for line in read_jsonl("out.jsonl") if line["ask"]]
    assert asked == ["r-1000", "r-1010", "r-1020", "r-1030"]
    memalign(f"{review} sheet.xlsx", code=0, says="4 cases in sheet.xlsx")
    memalign(f"{judge} 0.5", code=0, says="0 for people")
    memalign(f"{review} none.xlsx", code=2, says="every verdict passed")


def test_traffic_is_corrected_from_the_command_line(
    memalign: Run, sure: str, tmp_path: Path
) -> None:
    jsonl(tmp_path / "traffic.jsonl", replies(0, 600, system="week 1"))
    memalign("judge sure traffic.jsonl -o judged.jsonl", code=0)
    jsonl(tmp_path / "cases.jsonl", labelled(100, system="week 1"))
    command = "evaluate sure cases.jsonl --on judged.jsonl --examples traffic.jsonl"
    ran = memalign(f"{command} --report r.html", code=0, says="no model was called")
    said = "week 1: Of 600 judged rows, 40 % are true as the judge says it, and 50 % ["
    assert said in ran.out
    assert said in Path("r.html").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    (week,) = memalign(f"{command} --json", code=0).json["evaluation"]["traffic"]
    assert week["warnings"] == []


def test_a_judge_is_asked_again(
    memalign: Run, warm: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    jsonl(tmp_path / "cases.jsonl", rows(5, 2))
    same = "changed its verdict on 0 of 7 cases: 0 %"
    memalign("evaluate warm cases.jsonl --repeat 3", code=0, says=same)
    assert len(endpoint.requests) == 21
