"""Where judgments go, and how much of a long run stands on a screen."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from memalign import Feedback
from memalign.errors import InvalidRows, RowError
from memalign.io import read_feedback
from tests.cli.conftest import Run, jsonl
from tests.support.endpoint import Endpoint, user_of

pytestmark = pytest.mark.usefixtures("endpoint")


def items(count: int) -> list[dict[str, Any]]:
    return [{"id": f"n-{n}", "inputs": "Where is it?", "outputs": f"Reply {n}."} for n in range(count)]


def test_a_csv_is_a_sheet_that_resumes(memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"rationale": "=HYPERLINK(1)" if "Reply 1." in user_of(body) else "Fine.", "value": True}

    endpoint.answer = answer
    many = jsonl(tmp_path / "many.jsonl", items(3))
    assert "3 judged into out.csv and out.csv.jsonl, " in memalign("judge", tone, many, "-o", "out.csv").out
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["value"], row["error"]) for row in rows] == [(f"n-{n}", "true", "") for n in range(3)]
    assert rows[1]["rationale"] == "'=HYPERLINK(1)"  # no formula
    assert "0 judged into out.csv" in memalign("judge", tone, many, "-o", "out.csv").out
    assert "the verdict of a judge" in memalign("align", tone, "out.csv").err
    calls = len(endpoint.requests)
    assert memalign("explain", tone, "out.csv", "n-1", "--examples", many).code == 0
    assert memalign("next", tone, many, "--judged", "out.csv").code == 0
    assert len(endpoint.requests) == calls, "every command reads the judgments of the sheet it wrote"


@pytest.mark.parametrize(
    "text", ["=1+1", " =1+1", "\n=1+1", "\t=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "\uff20SUM(A1)", " \n -1"]
)
def test_one_rule_says_what_is_a_formula(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint, text: str
) -> None:
    endpoint.answer = {"rationale": text, "value": True}
    new = jsonl(tmp_path / "new.jsonl", [{"id": "n-1", "inputs": text, "outputs": text}])
    assert memalign("judge", tone, new, "-o", "judged.csv").code == 0
    assert memalign("review", tone, "judged.csv", "--examples", new, "--shown", "-o", "review.csv").code == 0
    for name, columns in {"judged.csv": ["rationale"], "review.csv": ["inputs", "outputs"]}.items():
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            (row,) = csv.DictReader(file)
        for column in columns:
            assert row[column].startswith("'"), (name, column, row[column])


def test_a_foreign_csv_is_left_alone(memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("id,inputs,outputs\nn-1,Where?,There.\n", "utf-8")
    wrong = memalign("judge", tone, mine, "-o", mine)
    assert wrong.code == 2
    assert "name another output file" in wrong.err
    assert mine.read_text("utf-8").startswith("id,inputs,outputs")
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("command", "out"), [("judge", "-"), *(("evaluate", out) for out in ("-", "out.csv", "out.xlsx"))]
)
def test_judgments_are_kept_as_json_lines_only(
    memalign: Run, tone: str, held_out: Path, command: str, out: str
) -> None:
    wrong = memalign(command, tone, held_out, "-o", out)
    assert wrong.code == 2
    assert "judgments are kept as JSON lines in a .jsonl file" in wrong.err
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
