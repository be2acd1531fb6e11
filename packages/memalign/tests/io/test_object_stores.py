"""Rows from object stores, folders and queries, and judgments put there in parts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from memalign import Example, Judge
from memalign.errors import ConfigurationError, InputError
from memalign.io import read_examples
from memalign.testing import ScriptedChatModel

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [{"id": f"c-{n}", "inputs": "Where?", "outputs": f"Reply {n}."} for n in range(12)]
EXAMPLES = [Example(**row) for row in ROWS]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """fsspec's file system in memory, and a cache of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()


def judge(answer: Any = None) -> tuple[Judge, ScriptedChatModel]:
    model = ScriptedChatModel(answer or (lambda _: {"rationale": "Fine.", "value": True}))
    instructions = "Is it warm? {{ inputs }} {{ outputs }}"
    return Judge(name="tone", instructions=instructions, feedback_value_type=bool, model=model), model


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize(("name", "data"), [("rows.jsonl", jsonl(ROWS)), ("rows.parquet", parquet(ROWS))])
def test_a_url_is_read_like_a_file(store: Any, name: str, data: bytes) -> None:
    store.pipe_file(f"/in/{name}", data)
    assert read_examples(f"memory://in/{name}") == EXAMPLES


def test_csv_at_a_url_is_read(store: Any) -> None:
    store.pipe_file("/in/rows.csv", b"id,outputs\na,Yes.\nb,No.\n")
    assert [each.outputs for each in read_examples("memory://in/rows.csv")] == ["Yes.", "No."]


def test_partitioned_parquet_is_one_table(store: Any, tmp_path: Path) -> None:
    for day in (1, 2):
        part = parquet(ROWS[6 * (day - 1) : 6 * day])
        store.pipe_file(f"/lake/day=2026-01-0{day}/part-0.parquet", part)
        (tmp_path / f"day=2026-01-0{day}").mkdir()
        (tmp_path / f"day=2026-01-0{day}/part-0.parquet").write_bytes(part)
    for found in (read_examples("memory://lake"), read_examples(tmp_path)):
        assert [(each.id, each.outputs) for each in found] == [(each.id, each.outputs) for each in EXAMPLES]
        assert [each.meta["day"] for each in found] == ["2026-01-01"] * 6 + ["2026-01-02"] * 6


def test_a_folder_of_lines_is_read_on(store: Any) -> None:
    store.pipe_file("/in/a.jsonl", jsonl(ROWS[:6]))
    store.pipe_file("/in/b.jsonl", jsonl(ROWS[6:]))
    assert read_examples("memory://in") == EXAMPLES


def test_what_cannot_be_read_is_said(store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"memory://in/none.jsonl: no such file"):
        read_examples("memory://in/none.jsonl")
    with pytest.raises(InputError, match="Protocol not known: nowhere"):
        read_examples("nowhere://in/none.jsonl")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigurationError, match=r"none.jsonl cannot be read: Please install gcsfs"):
        read_examples("gs://in/none.jsonl")
    with pytest.raises(InputError, match="without Parquet or JSONL files"):
        read_examples(tmp_path)


@pytest.mark.parametrize("out", ["s3://bucket/judged.jsonl", "memory://out/judged", "judged.parquet"])
def test_judgments_go_to_a_file_of_this_machine(store: Any, out: str, tmp_path: Path) -> None:
    tone, model = judge()
    with pytest.raises(InputError, match=r"judgments are kept as JSON lines, in a \.jsonl file on this machine"):
        tone.judge_many(EXAMPLES, out=out if "://" in out else tmp_path / out)
    assert not model.requests
