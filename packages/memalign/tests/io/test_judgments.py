"""Judgment files: flushed line by line, resumed, and never taken from another judge or
program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign.errors import InputError, InvalidRows
from memalign.io import JudgmentWriter, read_feedback, read_judgments
from memalign.types import Example, Judgment, Usage

EXAMPLES = [Example(id=f"t-{i}", outputs=f"reply {i}") for i in range(4)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def judged(value: bool | float = True, **more: Any) -> Judgment:
    return Judgment(
        value=value,
        rationale="because",
        model="m",
        memory_hash="h",
        usage=Usage(calls=1),
        **more,
    )


def write(path: Path, judgments: dict[str, Judgment]) -> None:
    """What a run leaves that judges these examples."""
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        for example_id, judgment in judgments.items():
            writer.write(example_id, judgment)


def judge(path: Path, *names: str) -> bytes:
    """What is in the file after a run that judges these."""
    write(path, dict.fromkeys(names, judged()))
    return path.read_bytes()


def present(path: Path) -> list[str]:
    """The ids that a resumed run finds judged."""
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        return [example.id for example in EXAMPLES if example.id in writer]


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_judgments_come_back_as_they_were_written(out):
    found = {"confidence": 0.5, "guideline_ids": ("G1",), "notes": ("truncated",)}
    given = {
        "t-0": judged(True, **found),
        "t-1": judged(4.0),
        "t-2": judged(4),
        "t-3": Judgment(error="timed out", usage=Usage(cost=None)),
    }
    with JudgmentWriter(out, judge="j@1", examples=EXAMPLES) as writer:
        for example_id, judgment in given.items():
            writer.write(example_id, judgment)
            assert ids(out)[-1] == example_id, "flushed: a crash now costs nothing"
        with pytest.raises(InputError, match="already"):
            writer.write("t-1", judged())
    file = read_judgments(out)
    assert file.judge == "j@1"
    assert file.judgments == {
        name: msgspec.structs.replace(judgment, id=name)
        for name, judgment in given.items()
    }
    assert json.loads(out.read_text().splitlines()[0])["value"] is True


def test_a_resumed_run_judges_failures_again(out):
    write(out, {"t-0": Judgment(error="timed out"), "t-1": judged()})
    assert present(out) == ["t-1"]
    with pytest.raises(InputError, match="already"):
        judge(out, "t-1")
    judge(out, "t-0", "t-2")
    assert ids(out) == ["t-0", "t-1", "t-2"]
    assert read_judgments(out).judgments["t-0"] == judged(id="t-0")


@pytest.mark.parametrize("zeros", [0, 1, 4096])
@pytest.mark.parametrize("kept", [0, 20, 40])
def test_a_last_line_cut_anywhere_is_judged_again(out, kept, zeros):
    """A power cut may have left zeros behind it."""
    whole = judge(out, "t-0", "t-1")
    first, second, _ = whole.split(b"\n")
    cut = second[:kept] + b"\0" * zeros
    out.write_bytes(first + b"\n" + cut)
    assert list(read_judgments(out).judgments) == present(out) == ["t-0"]
    assert judge(out, "t-1") == whole


def test_a_last_line_without_its_break_is_whole(out):
    whole = judge(out, "t-0", "t-1")
    out.write_bytes(whole.rstrip())
    assert list(read_judgments(out).judgments) == present(out) == ["t-0", "t-1"]
    assert judge(out, "t-2").startswith(whole)
    assert ids(out) == ["t-0", "t-1", "t-2"]


def test_a_whole_last_line_is_not_cut_whatever_it_says(out):
    whole = judge(out, "t-0", "t-1").rstrip()
    out.write_bytes(whole[:-1] + b',"note":"a","note":"b"}')
    with pytest.raises(InputError, match="line 2"):
        read_judgments(out)


def test_two_runs_do_not_write_one_file(out):
    with JudgmentWriter(out, judge="j", examples=EXAMPLES) as writer:
        with pytest.raises(InputError, match="another run is writing"):
            JudgmentWriter(out, judge="j", examples=EXAMPLES)
        writer.write("t-0", judged())
    assert list(out.parent.iterdir()) == [out]
    assert present(out) == ["t-0"]


def test_a_disk_that_fails_while_lines_are_ordered_loses_none(out, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    writer = JudgmentWriter(out, judge="j", examples=EXAMPLES)
    for name in ("t-2", "t-0"):
        writer.write(name, judged())
    monkeypatch.setattr("os.fsync", full)
    message = "No space left on device; the judgments in it are kept"
    with pytest.raises(InputError, match=message):
        writer.close()
    assert ids(out) == ["t-2", "t-0"]


NOT_OURS = "line 1, is not a judgment"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"id": "t-0", "value": true, "judge": "old@1"}\n',
            r"old@1, but this judge is j; name another output file, or delete",
        ),
        ('{"id": "t-1", "value": true}\n', NOT_OURS),
        ('{"id":"t-0","judge":"j"\n', NOT_OURS),
    ],
)
def test_a_foreign_file_is_never_touched(out, text, message):
    out.write_text(text)
    with pytest.raises(InputError, match=message):
        write(out, {})
    assert out.read_text() == text


def test_a_file_that_cannot_be_written_or_has_no_judgment_says_so(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*: No such file"):
        write(tmp_path / "missing" / "out.jsonl", {})
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="no such file"):
        read_judgments(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="has no judgment"):
        read_judgments(tmp_path / "empty.jsonl")


def test_a_judges_verdict_needs_a_source_as_feedback(out):
    write(out, {"t-1": judged()})
    line = json.loads(out.read_text("utf-8"))
    message = r"the verdict of a judge .* write.* the expert's name in source"
    for source in ({}, {"source": None}):
        with pytest.raises(InvalidRows, match=message):
            read_feedback([line | source])
    (row,) = read_feedback([line | {"source": "ana", "outputs": "Hm."}]).rows
    assert row.source == "ana"
    assert row.value is True
