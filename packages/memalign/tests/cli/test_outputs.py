"""Where judgments go, and how much of a long run stands on a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign import Feedback
from memalign.errors import InvalidRows, RowError
from memalign.io import read_feedback
from tests.cli.conftest import Run, jsonl

pytestmark = pytest.mark.usefixtures("endpoint")


def items(count: int) -> list[dict[str, Any]]:
    return [{"id": f"n-{n}", "inputs": "Where is it?", "outputs": f"Reply {n}."} for n in range(count)]


@pytest.mark.parametrize(("command", "out"), [("judge", "-"), ("judge", "out.csv"), ("evaluate", "out.xlsx")])
def test_judgments_are_kept_as_json_lines_only(
    memalign: Run, tone: str, held_out: Path, command: str, out: str
) -> None:
    wrong = memalign(command, tone, held_out, "-o", out)
    assert wrong.code == 2
    assert "judgments are kept as JSON lines, so that a run can resume; name a .jsonl file" in wrong.err
    assert not Path(out).exists()


def test_a_bundle_may_go_to_stdout(memalign: Run, aligned: str, tmp_path: Path) -> None:
    printed = memalign("export", aligned, "-o", "-")
    bundle = tmp_path / "bundle.json"
    bundle.write_text(printed.out, "utf-8")
    assert not Path("-").exists()
    assert memalign("import", bundle, "--name", "copy").code == 0
    assert (
        memalign("show", "copy", "--json").json["memory_hash"]
        == memalign("show", aligned, "--json").json["memory_hash"]
    )
    assert memalign("export", aligned, "-o", "-", "--json").code == 2


# -- a bounded screen --------------------------------------------------------------------------------------------------


def test_a_thousand_judgments_fit_a_screen_or_two(memalign: Run, tone: str, tmp_path: Path) -> None:
    judged = memalign("judge", tone, jsonl(tmp_path / "many.jsonl", items(1_000)))
    assert judged.code == 0
    assert "Judgments (40 of 1,000; to keep all: -o OUT.jsonl)" in judged.out
    assert len(judged.out.splitlines()) < 60


def test_a_long_align_fits_a_screen_or_two(memalign: Run, tone: str, tmp_path: Path) -> None:
    rows = [row | {"value": False, "rationale": f"Cold, number {n}.", "source": "ana"}
            for n, row in enumerate(items(120))]  # fmt: skip
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


# -- True and true -----------------------------------------------------------------------------------------------------


def test_true_is_spelled_in_one_way(memalign: Run, tone: str, tmp_path: Path) -> None:
    values: list[Any] = ["True", "TRUE", True, "false"]
    rows = [row | {"value": value, "source": "ana"} for row, value in zip(items(4), values, strict=True)]
    file = jsonl(tmp_path / "spelled.jsonl", rows)
    assert memalign("check", file, "--json").json["labels"] == {"true": 3, "false": 1}
    assert memalign("check", file, "--value-type", "Bool").code == 0
    assert "value true is not allowed" in memalign("check", file, "--value-type", "yes|no").out
    assert "a yes counts for true" in memalign(
        "guideline", tone, "--add", "Say what is so.", "--check", "Is it so? Yes True"
    ).out.replace("A yes", "a yes")
    assert Feedback(id="t", value=True).value is True


def test_a_diff_spells_labels_as_files_do(memalign: Run, aligned: str) -> None:
    told = memalign("diff", aligned, "1", "2").out
    assert "t-1@ana: false · Correct but cold." in told
    assert "True" not in told
