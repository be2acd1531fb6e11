"""What is printed and written: bounded screens, labels spelled as in files, no formula in a sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign.errors import InvalidRows, RowError
from memalign.io import read_feedback
from tests.cli.conftest import Run, jsonl

pytestmark = pytest.mark.usefixtures("endpoint")


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
    assert "line 51: id is missing" in text
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
