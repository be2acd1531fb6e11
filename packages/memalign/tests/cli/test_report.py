"""`memalign report`: a page for everybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memalign.evaluation.baseline import NEAREST, REGRESSION
from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint, bad_request


@pytest.mark.parametrize(
    ("suffix", "begins"), [("html", "<!doctype html>"), ("md", "# tone: agreement"), ("json", "{")]
)
def test_it_writes_what_the_files_name_asks_for(
    memalign: Run, aligned: str, held_out: Path, suffix: str, begins: str
) -> None:
    ran = memalign("report", aligned, held_out, "-o", f"report.{suffix}")
    assert ran.code == 0, ran.err
    assert f"2 unseen cases: report.{suffix}" in ran.out
    assert Path(f"report.{suffix}").read_text("utf-8").startswith(begins)


def test_kept_judgments_need_no_model(memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint) -> None:
    first = memalign("report", aligned, held_out, "-o", "report.json", "--evidence", "evidence", "--against", "1")
    assert first.code == 0, first.err
    asked = len(endpoint.requests)
    offline = ("--evidence", "evidence", "--offline", "--against", "1")
    assert memalign("report", aligned, held_out, "-o", "again.json", *offline).code == 0
    assert len(endpoint.requests) == asked
    one, other = (json.loads(Path(name).read_text("utf-8")) for name in ("report.json", "again.json"))
    assert one == other
    assert [side["name"] for side in one["sides"]] == ["tone", "version 1", "always true", NEAREST, REGRESSION]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "report.pdf"), "name a file that ends in .html, .md, .json"),
        (("-o", "nowhere/report.html"), "there is no folder"),
        (("-o", "report.html", "--against", "first"), "give a version's number, or zero-shot"),
        (("-o", "report.html", "--offline"), "offline needs a folder of evidence"),
        (("-o", "report.html", "--population", "none.jsonl"), "no such file"),
    ],
)
def test_wrong_use_is_said(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint, *, options: tuple[str, ...], message: str
) -> None:
    asked = len(endpoint.requests)
    ran = memalign("report", aligned, held_out, *options)
    assert len(endpoint.requests) == asked, "nothing is paid for before"
    assert ran.code == 2
    assert message in ran.err
    assert not Path("report.html").exists()


def test_a_case_without_verdict_is_named(memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint) -> None:
    endpoint.faults = [bad_request("no such thing")]
    ran = memalign("report", aligned, held_out, "-o", "report.html")
    assert ran.code == 1
    assert "no such thing" in ran.err
    assert Path("report.html").exists()
