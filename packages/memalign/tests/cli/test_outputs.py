"""What is printed and written: bounded screens, labels spelled as in files, no formula in a sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign.errors import InvalidRows, RowError
from memalign.io import read_feedback
from tests.cli.conftest import Run, jsonl
from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.usefixtures("endpoint")


@pytest.mark.parametrize(
    "text", ["=1+1", " =1+1", "\n=1+1", "\t=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "\uff20SUM(A1)", " \n -1"]
)
def test_one_rule_says_what_is_a_formula(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint, text: str
) -> None:
    endpoint.answer = {"rationale": text, "value": True}
    new = jsonl(tmp_path / "new.jsonl", [{"id": "n-1", "inputs": text, "outputs": text}])
    assert memalign("judge", tone, new, "-o", "judged.jsonl").code == 0
    assert memalign("review", tone, "judged.jsonl", "--examples", new, "--shown", "-o", "review.csv").code == 0
    with Path("review.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert [row[column][0] for column in ("inputs", "outputs", "judge's reason")] == ["'"] * 3


def test_a_long_align_fits_a_screen_or_two(memalign: Run, tone: str, tmp_path: Path) -> None:
    rows = [
        {"id": f"n-{n}", "inputs": "Where is it?", "outputs": f"Reply {n}.", "value": False, "source": "ana"}
        | {"rationale": f"Cold, number {n}."}
        for n in range(120)
    ]
    aligned = memalign("align", tone, jsonl(tmp_path / "rows.jsonl", rows))
    assert aligned.code == 0, aligned.err
    assert "(20 of 120; for all: memalign show tone --ledger)" in aligned.out
    assert "(20 of 120; for all: memalign guideline tone)" in aligned.out
    assert len(aligned.out.splitlines()) < 100


def test_one_reason_is_told_once_with_a_count() -> None:
    rows = [{"id": f"t-{n}", "value": "maybe", "source": "ana"} for n in range(50)]
    with pytest.raises(InvalidRows) as caught:
        read_feedback([*rows, {"id": "", "value": True}])
    text = str(caught.value)
    assert "line 1 (t-0): no content" in text
    assert "the same on 49 more rows, the last on line 50" in text
    assert "line 51: id is missing or empty" in text
    assert len(text.splitlines()) < 6
    assert len(caught.value.rows) == 51
    assert str(InvalidRows("x", [RowError(line=1, reason="no")])) == "x: 1 invalid row, nothing was done\n  line 1: no"


def test_labels_are_spelled_as_files_spell_them(memalign: Run, aligned: str, tmp_path: Path) -> None:
    values: list[Any] = ["True", "TRUE", True, "false"]
    rows = [{"id": f"n-{n}", "inputs": "i", "outputs": f"{n}", "value": value} for n, value in enumerate(values)]
    file = jsonl(tmp_path / "spelled.jsonl", rows)
    assert memalign("check", file, aligned, "--json").json["labels"] == {"true": 3, "false": 1}
    told = memalign("diff", aligned, "1", "2").out
    assert "t-1@ana: false · Correct but cold." in told
    assert "True" not in told
